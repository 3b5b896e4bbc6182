"""CPU time, memory and parents of processes, from /proc. Linux only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tests.processes import processes

_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU seconds of a process, and of the children for which it has waited."""

    own: float
    children: float


def cpu(pid: int) -> Cpu | None:
    """Return the CPU time of a process, or None if it does not exist."""
    fields = _stat(pid)
    if fields is None:
        return None
    own, children = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
    return Cpu(own / _TICK, children / _TICK)


def machine_cpu_s() -> float:
    """Return the CPU seconds of all processes of the machine."""
    line = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, line.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / _TICK


def run_ns(pid: int) -> int:
    """Return the nanoseconds that all threads of a process have run. Raise OSError if it has ended."""
    tasks = Path(f"/proc/{pid}/task")
    return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks.iterdir())


def folder(pid: int) -> str | None:
    """Return the working directory of a process, or None."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None


def memory_kib(pid: int, name: str) -> int:
    """Return a value of ``status``, such as VmRSS or VmHWM, in KiB. Raise OSError, KeyError."""
    return _line(Path(f"/proc/{pid}/status"), name)


def pss_kib(pid: int) -> int:
    """Return the proportional share of a process's memory, in KiB. Raise OSError, KeyError."""
    return _line(Path(f"/proc/{pid}/smaps_rollup"), "Pss")


def reset_high_water(pid: int) -> None:
    """Reset the high-water mark VmHWM of a process. Raise OSError."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def _line(path: Path, name: str) -> int:
    for line in path.read_text(encoding="ascii", errors="replace").splitlines():
        key, _, rest = line.partition(":")
        if key == name:
            return int(rest.split()[0])
    raise KeyError(f"{path} has no {name}")


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="latin-1")
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()


def keepers(directory: str) -> tuple[int, int]:
    """Return (keeper, spawner) of the running experiment in this folder. Raise LookupError."""
    found = [process for process in processes() if process.command.endswith(f" {directory}/keeper")]
    pids = {process.pid for process in found}
    keepers = {process.pid for process in found if process.parent not in pids}
    for spawner in found:  # shims have the same name, because they are forks of the spawner
        if spawner.parent in keepers:
            return spawner.parent, spawner.pid
    raise LookupError(f"no keeper serves {directory}")

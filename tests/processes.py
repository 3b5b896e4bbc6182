"""Finding the product's processes in /proc, by what they are and whose home they serve."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    command: str


def processes() -> list[Process]:
    """All processes, zombies left out."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = Path(f"/proc/{entry}/stat").read_text(encoding="latin-1")
            command = Path(f"/proc/{entry}/cmdline").read_bytes()
        except OSError:
            continue
        state, parent = stat[stat.rindex(")") + 2 :].split()[:2]
        if state != "Z":
            text = command.replace(b"\0", b" ").decode("utf-8", "replace").strip()
            found.append(Process(int(entry), int(parent), text))
    return found


def environ(pid: int) -> list[bytes]:
    """The variables with which a process was started; none once it has gone, or where we may not look."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def of_home(home: Path) -> list[Process]:
    """The processes that run with this NNIMGR_HOME in their environment."""
    mark = f"NNIMGR_HOME={home}".encode()
    return [each for each in processes() if each.pid != os.getpid() and mark in environ(each.pid)]


def zygotes(home: Path) -> list[Process]:
    """The processes that dispatcher children are forked from."""
    return _algorithms(home)[0]


def dispatchers(home: Path) -> list[Process]:
    """The dispatcher children: forks of a zygote, and those with an interpreter of their own."""
    return _algorithms(home)[1]


def _algorithms(home: Path) -> tuple[list[Process], list[Process]]:
    """Tell zygotes and children apart: a fork has its parent's command line."""
    found = [process for process in of_home(home) if "nnimgr.dispatcher" in process.command]
    forking = {process.pid for process in found if "nnimgr.dispatcher.zygote" in process.command}
    parents = [process for process in found if process.pid in forking and process.parent not in forking]
    return parents, [process for process in found if process not in parents]


def open_files(pid: int) -> list[str]:
    """What a process has open; nothing once it has gone, or where we may not look."""
    folder = f"/proc/{pid}/fd"
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                found.append(os.readlink(f"{folder}/{name}"))
    return found


def holders(path: Path) -> list[int]:
    """The processes that have this file open."""
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    return [pid for pid in pids if str(path) in open_files(pid)]


def holds_lock(pid: int) -> bool:
    """Whether this process has a keeper's lock open."""
    return any(path.endswith("/keeper/lock") for path in open_files(pid))


def kill(*pids: int, by: signal.Signals = signal.SIGKILL) -> None:
    """Send this signal to those that still live: where one is killed, others may end with it."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, by)

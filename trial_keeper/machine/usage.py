"""Measures the CPU time and the memory that this machine and single trials use."""

from __future__ import annotations

import os

from trial_keeper.lean import TYPE_CHECKING
from trial_keeper.machine import cgroup, procs
from trial_keeper.machine.cgroup import CGROUPS

if TYPE_CHECKING:
    from typing import Iterator

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_IDLE = (3, 4)  # fields idle and iowait in the first line of /proc/stat
MIB = 1 << 20


def of_machine(proc: str = "/proc", cgroups: str = CGROUPS) -> tuple[float, int]:
    """Return the CPU seconds that this machine has used since its boot, and the MiB in use.

    In a container with limits, both values are the container's. The MiB do not include the file cache. Raises
    OSError or ValueError if the kernel does not show a value.
    """
    seconds = _container_seconds(proc, cgroups)
    memory = _container_memory(proc, cgroups)
    return (
        _machine_seconds(proc) if seconds is None else seconds,
        _machine_memory(proc) if memory is None else memory,
    )


def of_trial(shim: int) -> tuple[float, int]:
    """Return the CPU seconds and the MiB of a trial's processes: its shim and all descendants of the shim.

    Memory that processes share is counted for each of them.
    """
    ticks = pages = 0
    for pid in (shim, *procs.descendants(shim)):
        used = procs.used(pid)
        if used is not None:
            ticks += used[0]
            pages += used[1]
    return ticks / _TICKS, pages * _PAGE // MIB


def _container_seconds(proc: str, cgroups: str) -> float | None:
    for folder in cgroup.folders("cpu", proc, cgroups):
        if cgroup.first_line(f"{folder}/cpu.max").partition(" ")[0].isdigit():
            for name, value in _pairs(f"{folder}/cpu.stat"):
                if name == "usage_usec":
                    return value / 1e6
        if cgroup.first_line(f"{folder}/cpu.cfs_quota_us").isdigit():
            used = cgroup.first_line(f"{folder}/cpuacct.usage")
            return int(used) / 1e9 if used.isdigit() else None
    return None


def _container_memory(proc: str, cgroups: str) -> int | None:
    for folder in cgroup.folders("memory", proc, cgroups):
        for limit, current, cache in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            most, used = cgroup.first_line(f"{folder}/{limit}"), cgroup.first_line(f"{folder}/{current}")
            if most.isdigit() and int(most) < cgroup.UNLIMITED and used.isdigit():
                return max(0, int(used) - dict(_pairs(f"{folder}/memory.stat")).get(cache, 0)) // MIB
    return None


def _machine_seconds(proc: str) -> float:
    ticks = [int(field) for field in cgroup.first_line(f"{proc}/stat").split()[1:9]]
    return sum(value for number, value in enumerate(ticks) if number not in _IDLE) / _TICKS


def _machine_memory(proc: str) -> int:
    found = dict(_pairs(f"{proc}/meminfo"))
    return (found.get("MemTotal:", 0) - found.get("MemAvailable:", 0)) // 1024


def _pairs(path: str) -> Iterator[tuple[str, int]]:
    """Yield the name and the number on each line of a file; nothing if the file is missing."""
    try:
        with open(path, encoding="ascii") as file:
            lines = file.readlines()
    except OSError:
        return
    for line in lines:
        fields = line.split()
        if len(fields) >= 2 and fields[1].isdigit():
            yield fields[0], int(fields[1])

"""Measures the CPU time and the memory that this machine and single trials use."""

from __future__ import annotations

import os
import time

from trial_keeper.lean import TYPE_CHECKING
from trial_keeper.machine import cgroup, procs
from trial_keeper.machine.cgroup import CGROUPS

if TYPE_CHECKING:
    from typing import Iterator

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_IDLE = (3, 4)  # fields idle and iowait in the first line of /proc/stat
MIB = 1 << 20


class MachineUsage:
    """Measures the CPU time and memory in use on this machine, or in its container if that has limits.

    Whether there are limits is determined once, because this takes longer than a measurement.
    """

    def __init__(self, proc: str = "/proc", cgroups: str = CGROUPS) -> None:
        self._proc = proc
        self._cpu = _limited(proc, cgroups, "cpu", ("cpu.max", "cpu.cfs_quota_us"))
        self._memory = _limited(proc, cgroups, "memory", ("memory.max", "memory.limit_in_bytes"))

    def read(self) -> tuple[float, int]:
        """Return the CPU seconds used since the start of the machine or container, and the MiB in use.

        The MiB do not include the file cache. Raises OSError or ValueError if the kernel does not show a
        value.
        """
        seconds = None if self._cpu is None else _group_seconds(self._cpu)
        memory = None if self._memory is None else _group_memory(self._memory)
        return (
            _machine_seconds(self._proc) if seconds is None else seconds,
            _machine_memory(self._proc) if memory is None else memory,
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


def age_of(pid: int) -> float:
    """Return the number of seconds for which a process has been running; 0.0 if it does not run."""
    started = procs.start_time(pid)
    return 0.0 if started is None else time.clock_gettime(time.CLOCK_BOOTTIME) - int(started) / _TICKS


def _limited(proc: str, cgroups: str, controller: str, limits: tuple[str, str]) -> str | None:
    """Return the folder of the innermost control group that limits this process; None if no group limits it.

    ``limits``: names of the file that has the limit, in cgroup version 2 and 1.
    """
    for folder in cgroup.folders(controller, proc, cgroups):
        for name in limits:
            limit = cgroup.first_line(f"{folder}/{name}").partition(" ")[0]
            if limit.isdigit() and int(limit) < cgroup.UNLIMITED:
                return folder
    return None


def _group_seconds(folder: str) -> float | None:
    microseconds = dict(_pairs(f"{folder}/cpu.stat")).get("usage_usec")  # version 2
    if microseconds is not None:
        return microseconds / 1e6
    used = cgroup.first_line(f"{folder}/cpuacct.usage")
    return int(used) / 1e9 if used.isdigit() else None


def _group_memory(folder: str) -> int | None:
    for current, cache in (
        ("memory.current", "inactive_file"),
        ("memory.usage_in_bytes", "total_inactive_file"),
    ):
        used = cgroup.first_line(f"{folder}/{current}")
        if used.isdigit():
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

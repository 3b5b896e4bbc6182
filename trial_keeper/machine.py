"""What this machine has for trials: the CPUs and the memory that processes here may use, and free disk."""

from __future__ import annotations

import os
from typing import Any, Iterator

MIB = 1 << 20
CGROUPS = "/sys/fs/cgroup"


def capacity(directory: str, proc: str = "/proc", cgroups: str = CGROUPS) -> dict[str, Any]:
    """The ``host`` of ``trial_keeper.wire``. ``disk`` is that of the directory's file system."""
    cpus = float(len(os.sched_getaffinity(0)))
    memory = _total(proc)
    for group in _groups(proc, cgroups):
        quota, _, period = _line(f"{group}/cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit() and int(quota) and int(period):
            cpus = min(cpus, int(quota) / int(period))
        limit = _line(f"{group}/memory.max")
        if limit.isdigit():
            memory = min(memory, int(limit) // MIB)
    disk = os.statvfs(directory)
    return {"cpus": round(cpus, 2), "memory": memory, "disk": disk.f_bavail * disk.f_frsize // MIB}


def _total(proc: str) -> int:
    with open(f"{proc}/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) // 1024
    return 0


def _groups(proc: str, cgroups: str) -> Iterator[str]:
    """The control groups that this process is in, each within the next (version 2 only)."""
    path = ""
    try:
        with open(f"{proc}/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                if line.startswith("0::"):
                    path = line[3:].strip().rstrip("/")
    except OSError:
        return
    while path:
        yield cgroups + path
        path = path.rpartition("/")[0]
    yield cgroups  # the outermost one, if this is a container


def _line(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.readline().strip()
    except (OSError, ValueError):
        return ""

"""Capacity of this machine for trials: CPUs and memory that processes here may use, and free disk space."""

from __future__ import annotations

import os

from trial_keeper.machine import cgroup
from trial_keeper.machine.cgroup import CGROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trial_keeper.wire import Capacity

MIB = 1 << 20


def capacity(directory: str, proc: str = "/proc", cgroups: str = CGROUPS) -> Capacity:
    """Return the CPUs, the memory in MiB and the free disk space in MiB that trials may use here.

    The disk space is that of the file system of ``directory``. The result is sent to the server as the field
    ``host`` of ``trial_keeper.wire``.
    """
    cpus = float(len(os.sched_getaffinity(0)))
    for folder in cgroup.folders("cpu", proc, cgroups):
        quota, _, period = cgroup.first_line(f"{folder}/cpu.max").partition(" ")
        if not quota:
            quota = cgroup.first_line(f"{folder}/cpu.cfs_quota_us")
            period = cgroup.first_line(f"{folder}/cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(quota) and int(period):
            cpus = min(cpus, int(quota) / int(period))
    memory = _total(proc)
    limit = cgroup.memory_limit(proc, cgroups)
    if limit is not None:
        memory = min(memory, limit // MIB)
    # What a batch system has given to its job. It may not limit the job's processes to that, and it may count
    # more CPUs than the machine has.
    cpus = float(os.environ.get("NNIMGR_HOST_CPUS") or cpus)
    memory = min(memory, int(os.environ.get("NNIMGR_HOST_MEMORY") or memory))
    disk = os.statvfs(directory)
    return {"cpus": round(cpus, 2), "memory": memory, "disk": disk.f_bavail * disk.f_frsize // MIB}


def _total(proc: str) -> int:
    with open(f"{proc}/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) // 1024
    return 0

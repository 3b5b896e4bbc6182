"""Reads limits and counters from the control groups of this process (cgroup version 1 or 2).

This module imports little, because every shim uses it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

CGROUPS = "/sys/fs/cgroup"
UNLIMITED = 1 << 60  # bytes: the value that version 1 shows for "no limit"

_events: list[str] = []  # path of the file with the kernel's counters, once it has been found


def folders(controller: str, proc: str = "/proc", cgroups: str = CGROUPS) -> Iterator[str]:
    """Yield the folders in which ``controller`` may have files for this process, the innermost group first.

    Some of these folders may not exist.
    """
    try:
        with open(f"{proc}/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        _, names, path = line.split(":", 2)
        if names and controller not in names.split(","):
            continue
        root = f"{cgroups}/{controller}" if names else cgroups
        path = path.rstrip("/")
        while path:
            yield root + path
            path = path.rpartition("/")[0]
        yield root  # in a container, the root is the container's own group


def first_line(path: str) -> str:
    """Return the first line of a file without its line end; "" if the file cannot be read."""
    try:
        with open(path, encoding="ascii") as file:
            return file.readline().strip()
    except (OSError, ValueError):
        return ""


def memory_limit(proc: str = "/proc", cgroups: str = CGROUPS) -> int | None:
    """Return the number of bytes that all processes here may use together; None: no limit."""
    found = []
    for folder in folders("memory", proc, cgroups):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = first_line(f"{folder}/{name}")
            if limit.isdigit() and int(limit) < UNLIMITED:
                found.append(int(limit))
    return min(found) if found else None


def oom_kills() -> int:
    """Return the number of processes of this group that the kernel has killed for lack of memory; 0 if
    unknown.
    """
    if not _events:
        _events.append(_find_events())
    try:
        fd = os.open(_events[0], os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        return _killed(os.read(fd, 4096))
    except OSError:
        return 0
    finally:
        os.close(fd)


def out_of_memory() -> str:
    """Return the sentence which reports that a command was killed for lack of memory."""
    limit = memory_limit()
    if limit is None:
        return "killed for lack of memory"
    return f"killed for lack of memory: the limit is {limit >> 20} MiB"


def _find_events() -> str:
    for folder in folders("memory"):
        for name in ("memory.events", "memory.oom_control"):
            if os.path.exists(f"{folder}/{name}"):
                return f"{folder}/{name}"
    return ""


def _killed(text: bytes) -> int:
    for line in text.splitlines():
        name, _, number = line.partition(b" ")
        if name == b"oom_kill":
            return int(number)
    return 0

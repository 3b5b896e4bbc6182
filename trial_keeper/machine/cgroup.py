"""The control groups that this process is in, of either version. Lean: the shim imports it."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

CGROUPS = "/sys/fs/cgroup"
UNLIMITED = 1 << 60  # bytes: version 1 says so much where there is no limit

_events: list[str] = []  # the file that counts, once it has been looked for


def folders(controller: str, proc: str = "/proc", cgroups: str = CGROUPS) -> Iterator[str]:
    """Where the files of ``controller`` may lie, the innermost group first; not all of these need exist."""
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
        yield root  # in a container: its own


def first_line(path: str) -> str:
    """The first line of a file, without its end; nothing if it cannot be read."""
    try:
        with open(path, encoding="ascii") as file:
            return file.readline().strip()
    except (OSError, ValueError):
        return ""


def memory_limit(proc: str = "/proc", cgroups: str = CGROUPS) -> int | None:
    """Bytes that the processes here may have together; None: as much as there is."""
    found = []
    for folder in folders("memory", proc, cgroups):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = first_line(f"{folder}/{name}")
            if limit.isdigit() and int(limit) < UNLIMITED:
                found.append(int(limit))
    return min(found) if found else None


def oom_kills() -> int:
    """How many processes of this group the kernel has killed for want of memory; 0 where it does not say."""
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
    """What to say of a command that was killed for that."""
    limit = memory_limit()
    if limit is None:
        return "killed for want of memory"
    return f"killed for want of memory: the limit is {limit >> 20} MiB"


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

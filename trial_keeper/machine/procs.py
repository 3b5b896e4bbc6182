"""Reads processes from /proc: identity, descendants, environment.

Has few imports, because the shim uses it.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def start_time(pid: int) -> str | None:
    """Return field 22 of the process's stat (clock ticks since boot), which identifies a process with the
    boot id.

    None: there is no such process, or it is a zombie, which no longer runs.
    """
    found = _stat(pid)
    return None if found is None else found[1]


def descendants(root: int) -> list[int]:
    """Return all living descendants of ``root``, in any process group and session."""
    if os.path.exists(f"/proc/{root}/task/{root}/children"):
        return _walk(root, _listed_children)
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            found = _stat(int(name))
            if found is not None:
                below.setdefault(found[0], []).append(int(name))
    return _walk(root, lambda pid: below.get(pid, []))


def marked(variable: str, value: str) -> list[int]:
    """Return all living processes of this user that were started with ``variable=value`` in their
    environment.
    """
    mark = f"{variable}={value}"
    return [pid for pid in all_pids() if mark in strings(pid, "environ") and _stat(pid) is not None]


def all_pids() -> list[int]:
    """Return the pids of all visible processes."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def strings(pid: int, name: str) -> list[str]:
    """Return the strings of a process's ``cmdline`` or ``environ``; none if it has ended or is another
    user's.
    """
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return [os.fsdecode(text) for text in file.read().split(b"\0") if text]
    except OSError:
        return []


def program(arguments: list[str]) -> str:
    """Return the file to execute for a command line of a process like this one.

    If the process was started through a loader that names the Python, return the loader.
    """
    return arguments[0] if "/" in arguments[0] else sys.executable


def ancestors(pid: int) -> list[int]:
    """Return the parent, its parent, and so on."""
    found: list[int] = []
    while (stat := _stat(pid)) is not None and stat[0] > 0:
        pid = stat[0]
        found.append(pid)
    return found


def signal_all(pids: list[int], number: int) -> None:
    """Signal each process. Processes that have ended or belong to other users are skipped."""
    for pid in pids:
        _signal(pid, number)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:  # the process has ended or changed its user; survivors are reported by pid
        return


def used(pid: int) -> tuple[int, int] | None:
    """Return the CPU time in clock ticks of a process and its ended children, and its pages in memory.

    None: there is no such process, or it is a zombie.
    """
    fields = _fields(pid)
    return None if fields is None else (sum(map(int, fields[11:15])), int(fields[21]))


def _stat(pid: int) -> tuple[int, str] | None:
    """Return parent and start time of a running process."""
    fields = _fields(pid)
    return None if fields is None else (int(fields[1]), fields[19].decode())


def _fields(pid: int) -> list[bytes] | None:
    """Return the fields of a running process's stat, from the third on."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(fd, 4096)
    except OSError:
        return None
    finally:
        os.close(fd)
    # The process name before this may contain blanks and brackets.
    fields = text[text.rfind(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else fields


def _listed_children(pid: int) -> list[int]:
    """Return the kernel's own list of children, or an empty list if the kernel has none."""
    children: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            fd = os.open(f"/proc/{pid}/task/{task}/children", os.O_RDONLY | os.O_CLOEXEC)
            try:
                text = b""
                while chunk := os.read(fd, 65536):
                    text += chunk
            finally:
                os.close(fd)
            children += [int(child) for child in text.split()]
    except OSError:  # the process ended while it was read
        return children
    return children


def _walk(root: int, children: Callable[[int], list[int]]) -> list[int]:
    found: list[int] = []
    front = [root]
    while front:
        front = [child for pid in front for child in children(pid)]
        found += front
    return found

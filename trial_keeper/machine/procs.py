"""Reads facts about processes from /proc: start time, descendants, environment, resource use.

This module imports little, because every shim uses it.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def start_time(pid: int) -> str | None:
    """Return the start time of a process, in clock ticks since the machine's boot.

    A pid may be used again, but pid, start time and boot id together identify a process. Return None if there
    is no such process, or if it has ended as a zombie.
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
    """Return the strings in the file ``name`` of a process in /proc, which is ``cmdline`` or ``environ``.

    The list is empty if the process has ended or belongs to another user.
    """
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return [os.fsdecode(text) for text in file.read().split(b"\0") if text]
    except OSError:
        return []


def program(arguments: list[str]) -> str:
    """Return the file to execute in order to start this process again with the command line ``arguments``.

    If the process was started through a dynamic loader, this is the loader: its arguments name the Python.
    """
    return arguments[0] if "/" in arguments[0] else sys.executable


def ancestors(pid: int) -> list[int]:
    """Return the pids of the parent of a process, the parent's parent, and so on."""
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
    """Return the parent's pid and the start time of a process; None if it does not run."""
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
    # Split after the last ")", because the process name in brackets may itself contain blanks and brackets.
    fields = text[text.rfind(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else fields


def _listed_children(pid: int) -> list[int]:
    """Return the children that the kernel lists for a process; an empty list without this kernel feature."""
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

"""Helpers for the server's child processes."""

from __future__ import annotations

import ctypes
import os
import signal

__all__ = ["die_with_parent", "how_it_ended", "is_stopped", "name_process"]

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Make the kernel kill this process when its parent process ends."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def name_process(name: str) -> None:
    """Set the name of this process in process lists. The kernel keeps only the first 15 bytes."""
    with open("/proc/self/comm", "w", encoding="ascii") as file:
        file.write(name)


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped by SIGSTOP or by a debugger."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
    except (OSError, IndexError):  # the process has ended in the meantime
        return False


def how_it_ended(returncode: int | None) -> str:
    """Return how a process ended, as a phrase without a subject: "exited with status 1".

    ``returncode``: exit status, or the negative number of a signal, as in ``subprocess``.
    """
    if returncode is None or returncode >= 0:
        return f"exited with status {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = "unknown"
    return f"was killed by signal {-returncode} ({name})"

"""What the server's child processes have in common."""

from __future__ import annotations

import ctypes
import os
import signal

__all__ = ["die_with_parent", "how_it_ended"]

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def how_it_ended(returncode: int | None) -> str:
    """The end of a sentence that begins with the process, by its return code as subprocess gives it."""
    if returncode is None or returncode >= 0:
        return f"exited with status {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = "unknown"
    return f"was killed by signal {-returncode} ({name})"

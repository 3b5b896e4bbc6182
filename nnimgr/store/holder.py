"""Name of the process that holds the lock of an experiment's database. It is written into the lock file."""

from __future__ import annotations

import contextlib
import os

__all__ = ["holder", "write_holder"]

_LONGEST = 200


def write_holder(descriptor: int) -> None:
    """Write the name of this process into the lock file, which this process has locked."""
    with contextlib.suppress(OSError):  # a full disk does not prevent the use of the lock
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {os.uname().nodename}".encode(), 0)


def holder(descriptor: int) -> str:
    """Return who holds the lock: ", process 4711 on gpu7". Return "" if the lock file does not say it."""
    try:
        name = os.pread(descriptor, _LONGEST, 0).decode("utf-8", "replace")
    except OSError:
        return ""
    return f", {name}" if name.startswith("process ") and name.isprintable() else ""

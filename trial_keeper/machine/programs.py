"""Removes old versions of the keeper's program file, which other server versions have put on this machine."""

from __future__ import annotations

import contextlib
import os
import time

from trial_keeper.machine import procs

KEPT = 3  # number of recently used programs that are kept, even if they do not run
# Seconds without use. The time is long, because another machine with the same home may still run a version.
UNUSED_S = 30 * 86400.0
_PREFIX = "trial-keeper-"


def tidy(program: str) -> None:
    """Mark the file ``program`` as used now, and remove old versions of it from its folder.

    A version stays if a process runs it, if it was used within UNUSED_S, or if it is among the last KEPT
    used.
    """
    with contextlib.suppress(OSError):
        os.utime(program)
    folder = os.path.dirname(program)
    try:
        used = [
            (entry.stat(follow_symlinks=False).st_mtime, entry.name)
            for entry in os.scandir(folder)
            if entry.name.startswith(_PREFIX) and entry.is_file(follow_symlinks=False)
        ]
    except OSError:  # problems of the disk are reported by other code
        return
    used.sort(reverse=True)
    old = [name for at, name in used[KEPT:] if at < time.time() - UNUSED_S]
    running = _running() if old else set()
    for name in old:
        if name not in running:
            with contextlib.suppress(OSError):
                os.unlink(f"{folder}/{name}")


def _running() -> set[str]:
    """Return the file names of the program versions that processes on this machine run."""
    words = (word for pid in procs.all_pids() for word in procs.strings(pid, "cmdline"))
    return {name for name in map(os.path.basename, words) if name.startswith(_PREFIX)}

"""Removes programs that servers of other versions have put on this machine and that no process runs any
more.
"""

from __future__ import annotations

import contextlib
import os
import time

from trial_keeper.machine import procs

KEPT = 3  # number of recently used programs that are kept, even if they do not run
# seconds; another machine with the same home may run a program that was started long ago
UNUSED_S = 30 * 86400.0
_PREFIX = "trial-keeper-"


def tidy(program: str) -> None:
    """Record that ``program`` is used now. Remove other programs that have not been used for UNUSED_S."""
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
    """Return the names of the programs that processes on this machine were started with."""
    words = (word for pid in procs.all_pids() for word in procs.strings(pid, "cmdline"))
    return {name for name in map(os.path.basename, words) if name.startswith(_PREFIX)}

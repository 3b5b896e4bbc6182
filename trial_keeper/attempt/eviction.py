"""Ends all processes that an earlier keeper of this experiment has left running."""

from __future__ import annotations

import os
import signal
import time

from trial_keeper.lean import NamedTuple
from trial_keeper.machine import procs

DEADLINE_S = 10.0  # seconds; a process that survives SIGKILL for this time hangs in the kernel
_PAUSE_S = 0.02
_PROGRAMS = ("trial_keeper", "trial-keeper")


class Cleared(NamedTuple):
    """Pids that were killed, and pids that did not end."""

    killed: list[int]
    left: list[int]


def clear(directory: str, mark: str, *, spawner: int) -> Cleared:
    """Kill the keepers, spawners and shims of the keeper's ``directory``, and the trials of its experiment.

    A process belongs to a trial if its environment contains the variable ``mark`` and a NNI_SYS_DIR in the
    experiment's folder, or if it descends from a shim. This process, its ancestors and its ``spawner`` are
    spared. Returns when no such process is left, or after DEADLINE_S.
    """
    spared = {spawner, os.getpid(), *procs.ancestors(os.getpid())}
    killed: dict[int, None] = {}
    end = time.monotonic() + DEADLINE_S
    while True:
        found = _found(directory, mark, spared)
        if not found or time.monotonic() > end:
            return Cleared(list(killed), found)
        procs.signal_all(found, signal.SIGKILL)
        killed.update(dict.fromkeys(found))
        # the killed processes are children of other processes, so they cannot be waited for
        time.sleep(_PAUSE_S)


def _found(directory: str, mark: str, spared: set[int]) -> list[int]:
    roots = [pid for pid in procs.all_pids() if pid not in spared and _keeps(pid, directory)]
    below = [child for pid in roots for child in procs.descendants(pid)]
    trials = [pid for pid in procs.all_pids() if _is_trial(pid, os.path.dirname(directory), mark)]
    return [pid for pid in dict.fromkeys(roots + below + trials) if pid not in spared]


def _keeps(pid: int, directory: str) -> bool:
    """Return whether the process was started as a keeper of this directory, or is a fork of such a keeper."""
    words = procs.strings(pid, "cmdline")
    names = (os.path.basename(word.rstrip("/")) for word in words[:-1])
    return (
        len(words) > 1
        and _same(words[-1], directory)
        and any(name.startswith(_PROGRAMS) for name in names)
        and procs.start_time(pid) is not None
    )


def _is_trial(pid: int, experiment: str, mark: str) -> bool:
    environ = dict(text.partition("=")[::2] for text in procs.strings(pid, "environ"))
    place = environ.get("NNI_SYS_DIR")
    return (
        mark in environ
        and place is not None
        and os.path.realpath(place).startswith(f"{os.path.realpath(experiment)}/")
        and procs.start_time(pid) is not None
    )


def _same(path: str, directory: str) -> bool:
    return os.path.isabs(path) and os.path.realpath(path) == os.path.realpath(directory)

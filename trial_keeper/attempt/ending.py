"""The file ``ending`` in a keeper's directory, which tells the keeper that its container is about to end.

It is a separate module, because most keepers run in no container and do not need the module ``wrap``. At its
start, process 1 of the container writes the file under other names, one for each kind of order. When the
container is ordered to end, process 1 renames one of them. The file's modification time is the time of the
order, in whole seconds since the machine's boot, which every file system stores exactly.

A batch system, such as Slurm, is like a container here: it runs a process like process 1.
"""

from __future__ import annotations

import contextlib
import os
import time

from trial_keeper.lean import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Mapping

ENDING = "ending"  # name of the file; its content is the durations of Ending, and zero for no time to save
NEW = f"{ENDING}.new"  # name of the file before the order
EARLY = f"{ENDING}.early"  # the same, for an order that comes early enough for trials to save their state
DEFAULT_GRACE_S = 10.0
DEFAULT_WHOLE_S = 20.0


class Ending(NamedTuple):
    """Order to end that a container got. ``grace``: seconds that trials get to end.

    ``until``: time at which what is left in the container is killed, in seconds since the machine's boot.
    ``save``: seconds that trials get before that to save their state; None: no time.
    """

    grace: float
    until: float
    save: float | None = None


def prepare(directory: str, environ: Mapping[str, str]) -> None:
    """Write the files under their first names, with the durations from the environment. Raises OSError."""
    grace = environ.get("NNIMGR_POD_GRACE_S") or str(DEFAULT_GRACE_S)
    whole = environ.get("NNIMGR_POD_WHOLE_GRACE_S") or str(DEFAULT_WHOLE_S)
    early = environ.get("NNIMGR_POD_EARLY_S") or whole
    save = environ.get("NNIMGR_POD_SAVE_S") or "0"
    for name, durations in ((NEW, f"{grace} {whole} 0"), (EARLY, f"{grace} {early} {save}")):
        with open(f"{directory}/{name}", "w", encoding="ascii") as file:
            file.write(durations)


def is_prepared(directory: str) -> bool:
    """Return whether the directory is in a container, or in a job of a batch system, which can be ended."""
    return any(os.path.exists(f"{directory}/{name}") for name in (NEW, ENDING))


def order(directory: str, name: str = NEW) -> bool:
    """Give a file its final name and the present time, which also works on a full disk. Raises OSError.

    ``name``: NEW, or EARLY if trials have time to save their state. A second order changes nothing. Return
    False if the directory is in no container, so that nothing was prepared.
    """
    if not os.path.exists(f"{directory}/{ENDING}"):
        at = int(time.clock_gettime(time.CLOCK_BOOTTIME))
        with contextlib.suppress(FileNotFoundError):
            os.utime(f"{directory}/{name}", (at, at))
            os.rename(f"{directory}/{name}", f"{directory}/{ENDING}")
    return os.path.exists(f"{directory}/{ENDING}")


def read(directory: str) -> Ending | None:
    """Return the order to end that the container got; None if it got none.

    If the file cannot be read, the order is assumed to come at this moment, with the default durations.
    """
    try:
        with open(f"{directory}/{ENDING}", encoding="ascii") as file:
            grace, whole, save = map(float, file.read().split())
            return Ending(grace, os.fstat(file.fileno()).st_mtime + whole, save or None)
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return Ending(DEFAULT_GRACE_S, time.clock_gettime(time.CLOCK_BOOTTIME) + DEFAULT_WHOLE_S)

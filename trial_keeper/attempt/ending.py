"""The file ``ending`` in a keeper's directory, which tells the keeper that its container is about to end.

It is a separate module, because most keepers run in no container and do not need the module ``wrap``. At its
start, process 1 of the container writes the file under another name. When the container is ordered to end,
process 1 renames it. The file's modification time is the time of the order, in whole seconds since the
machine's boot, which every file system stores exactly.
"""

from __future__ import annotations

import os
import time

from trial_keeper.lean import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Mapping

ENDING = "ending"  # name of the file; its content is the two durations of Ending
NEW = f"{ENDING}.new"  # name of the file before the order
DEFAULT_GRACE_S = 10.0
DEFAULT_WHOLE_S = 20.0


class Ending(NamedTuple):
    """Order to end that a container got. ``grace``: seconds that trials get to end.

    ``until``: time at which what is left in the container is killed, in seconds since the machine's boot.
    """

    grace: float
    until: float


def prepare(directory: str, environ: Mapping[str, str]) -> None:
    """Write the file under its first name, with the durations from the environment. Raises OSError."""
    grace = environ.get("NNIMGR_POD_GRACE_S") or str(DEFAULT_GRACE_S)
    whole = environ.get("NNIMGR_POD_WHOLE_GRACE_S") or str(DEFAULT_WHOLE_S)
    with open(f"{directory}/{NEW}", "w", encoding="ascii") as file:
        file.write(f"{grace} {whole}")


def order(directory: str) -> None:
    """Give the file its final name and the present time, which also works on a full disk. Raises OSError."""
    at = int(time.clock_gettime(time.CLOCK_BOOTTIME))
    os.utime(f"{directory}/{NEW}", (at, at))
    os.rename(f"{directory}/{NEW}", f"{directory}/{ENDING}")


def read(directory: str) -> Ending | None:
    """Return the order to end that the container got; None if it got none.

    If the file cannot be read, the order is assumed to come at this moment, with the default durations.
    """
    try:
        with open(f"{directory}/{ENDING}", encoding="ascii") as file:
            grace, whole = map(float, file.read().split())
            return Ending(grace, os.fstat(file.fileno()).st_mtime + whole)
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return Ending(DEFAULT_GRACE_S, time.clock_gettime(time.CLOCK_BOOTTIME) + DEFAULT_WHOLE_S)

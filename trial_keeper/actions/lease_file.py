"""The file that contains the end of the lease. The keeper writes the file, and the shims read it.

The end is stored as the modification time of a small file, in tenths of a second since the machine's boot.
These are whole numbers, because every file system stores whole seconds exactly. To extend the lease, the
keeper changes only this time, which works on a full disk too.
"""

from __future__ import annotations

import contextlib
import os

from trial_keeper.attempt.deadline import TICKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trial_keeper.core.effects import Extend

_NAME = "lease-"


def path(directory: str, number: int) -> str:
    """Return the path of the lease's file in the keeper's directory."""
    return f"{directory}/{_NAME}{number}"


def find(directory: str, boot_id: str) -> tuple[int, float]:
    """Return the number of the newest lease in the keeper's directory, and its end in seconds since the boot.

    The end is 0.0, which is in the past, if there is no lease or the lease is from an earlier boot.
    """
    found = [name[len(_NAME) :] for name in os.listdir(directory) if name.startswith(_NAME)]
    number = max((int(text) for text in found if text.isdecimal()), default=0)
    try:
        with open(path(directory, number), encoding="ascii") as file:
            if file.read() == boot_id:
                return number, os.fstat(file.fileno()).st_mtime / TICKS
    except OSError:
        pass
    return number, 0.0


def write(directory: str, order: Extend, boot_id: str) -> None:
    """Write the new end of a lease into its file, and delete the files of earlier leases. Raises OSError."""
    own = path(directory, order.number)
    ticks = round(order.until * TICKS)
    try:
        os.utime(own, (ticks, ticks))
        return
    except FileNotFoundError:
        pass
    new = f"{directory}/new-{_NAME}{order.number}"
    with open(new, "w", encoding="ascii") as file:
        file.write(boot_id)
    os.utime(new, (ticks, ticks))
    os.rename(new, own)
    for name in os.listdir(directory):
        if name.startswith(_NAME) and name != os.path.basename(own):
            with contextlib.suppress(OSError):
                os.unlink(f"{directory}/{name}")

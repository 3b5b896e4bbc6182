"""The lease: how long attempts may run without a word from the server. Each shim holds it by itself.

It runs from the moment a request was sent, on the clock that counts from the machine's boot, also while it is
suspended; the answer to that request extends it. The end of a lease is the modification time of a small file,
in tenths of a second of that clock (whole numbers: every file system keeps them, and no reader sees half of
one): set in place, so that no full disk can end what runs. A lease that was over never comes back: the next
one is another file, and what was started under the old one ends, or does not begin. An answer that comes
after the end counts only if the request was sent after it too and named all that is held: only then does the
server say which of it is still wanted.
"""

from __future__ import annotations

import contextlib
import os
import time

from trial_keeper.deadline import TICKS
from trial_keeper.effects import Extend

_NAME = "lease-"
STEP = 20  # the file is written when its end moves by this part of the lease: what an answer costs


def now() -> float:
    """Seconds since the machine's boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """The lease as the keeper knows it. ``number`` 0: there was none yet; ``until`` is as in the file."""

    def __init__(self, number: int, until: float) -> None:
        self.number = number
        self._until = until
        self.trouble: str | None = None

    def refuses(self, at: float, *, sent_at: float, whole: bool) -> bool:
        """Whether an answer that comes at ``at`` comes too late to be obeyed."""
        return at >= self._until and not (whole and sent_at >= self._until)

    def extend(self, at: float, *, sent_at: float, seconds: float) -> Extend | None:
        """The server has answered a request of ``sent_at``: what is to be written, if anything."""
        until = int((sent_at + seconds) * TICKS) / TICKS
        fresh = at >= self._until
        if until <= (at if fresh else self._until + seconds / STEP):
            return None
        self.number += fresh
        order = Extend(self.number, until, self._until)
        self._until = until
        return order

    def written(self, order: Extend, trouble: str | None) -> bool:
        """``order`` was carried out, or why not. True: that is news."""
        if trouble is not None and order.until == self._until:
            self._until = order.before
        news = trouble != self.trouble
        self.trouble = trouble
        return news


# ---- the files --------------------------------------------------------------------------------------------


def path(directory: str, number: int) -> str:
    """The file of this lease, in the keeper's directory."""
    return f"{directory}/{_NAME}{number}"


def find(directory: str, boot_id: str) -> tuple[int, float]:
    """Number and end of the lease of this boot; an end in the past where there is none."""
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
    """Make the lease end then. Raises OSError."""
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

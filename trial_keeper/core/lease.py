"""The lease: the time until which attempts may run without an answer of the server. Shims check the lease.

An answer extends the lease. The extension counts from the moment when the request was sent, on a clock that
counts from the boot and continues during suspension. An expired lease is never extended: the next lease is
another file (``trial_keeper.actions.lease_file``), and attempts under the expired lease end or never begin.
After the end of a lease, the keeper ignores an answer unless the request was sent after that end and named
all attempts of the keeper: only such an answer shows which attempts the server still wants.
"""

from __future__ import annotations

from trial_keeper.attempt.deadline import TICKS
from trial_keeper.core.effects import Extend

STEP = 20  # the end must move by 1/STEP of the lease before the file is rewritten


class Lease:
    """Current lease of the keeper. ``number`` is 0 before the first lease.

    ``until``: end of the lease, as stored in the lease's file.
    """

    def __init__(self, number: int, until: float) -> None:
        self.number = number
        self._until = until
        self.trouble: str | None = None

    def refuses(self, at: float, *, sent_at: float, whole: bool) -> bool:
        """Return whether an answer that arrives at ``at`` must be ignored, because the lease has expired.

        After the end of the lease, an answer counts only if its request named all attempts (``whole``) and
        was sent after the end.
        """
        return at >= self._until and not (whole and sent_at >= self._until)

    def extend(self, at: float, *, sent_at: float, seconds: float) -> Extend | None:
        """Extend the lease, or begin a new lease, after an answer of the server that allows ``seconds``.

        The time counts from ``sent_at``, when the request was sent. Return the order to write the new end to
        the lease's file; None if the end changes too little.
        """
        until = int((sent_at + seconds) * TICKS) / TICKS
        fresh = at >= self._until
        if until <= (at if fresh else self._until + seconds / STEP):
            return None
        self.number += fresh
        order = Extend(self.number, until, self._until)
        self._until = until
        return order

    def written(self, order: Extend, trouble: str | None) -> bool:
        """Record whether the new end of the lease could be written (``trouble`` None) or why not.

        Return whether this error differs from the previous one.
        """
        if trouble is not None and order.until == self._until:
            self._until = order.before
        news = trouble != self.trouble
        self.trouble = trouble
        return news

"""The lease: how long attempts may run without an answer of the server. Each shim checks the lease itself.

An answer extends the lease, counted from the moment its request was sent, on a clock that counts from the
boot and continues during suspension. An expired lease never returns: the next lease is another file
(``trial_keeper.actions.lease_file``), and attempts under the old lease end, or never begin. After the end of
a lease an answer counts only if its request was also sent after the end and named all attempts held: only
then does the server name the attempts that it still wants.
"""

from __future__ import annotations

from trial_keeper.attempt.deadline import TICKS
from trial_keeper.core.effects import Extend

STEP = 20  # the end must move by 1/STEP of the lease before the file is rewritten


class Lease:
    """The lease as the keeper knows it. ``number`` 0: no lease so far; ``until``: its end, as in the file."""

    def __init__(self, number: int, until: float) -> None:
        self.number = number
        self._until = until
        self.trouble: str | None = None

    def refuses(self, at: float, *, sent_at: float, whole: bool) -> bool:
        """Check whether an answer that arrives at ``at`` is too late to be obeyed."""
        return at >= self._until and not (whole and sent_at >= self._until)

    def extend(self, at: float, *, sent_at: float, seconds: float) -> Extend | None:
        """Extend the lease after the answer to a request of ``sent_at``; return the order, if any."""
        until = int((sent_at + seconds) * TICKS) / TICKS
        fresh = at >= self._until
        if until <= (at if fresh else self._until + seconds / STEP):
            return None
        self.number += fresh
        order = Extend(self.number, until, self._until)
        self._until = until
        return order

    def written(self, order: Extend, trouble: str | None) -> bool:
        """Note that ``order`` succeeded, or its error; return whether the error has changed."""
        if trouble is not None and order.until == self._until:
            self._until = order.before
        news = trouble != self.trouble
        self.trouble = trouble
        return news

"""Journal records in progress: each record is written, then flushed to disk, then confirmed to the server."""

from __future__ import annotations

import collections

from trial_keeper.core import effects as fx

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from trial_keeper.core.records import Record

    Act = Callable[[float], None]
else:
    Act = object

PAUSE_S = 1.0


def nothing(now: float) -> None:
    """Do nothing. Pass this function if nothing needs to be done after a record is written or has failed."""


class Ledger:
    """Numbers the journal's new records, and keeps the action to take when a record is written or has failed.

    ``out`` collects the effects, which are orders to the keeper's host. All commands up to ``acked_cmd`` are
    on disk. ``trouble`` is the present error of the journal; None without an error.
    """

    def __init__(self, out: list[fx.Effect], acked_cmd: int) -> None:
        self._out = out
        self._number = 0
        self._unwritten: collections.deque[tuple[int, int | None, Act, Act]] = collections.deque()
        self._unflushed: collections.deque[tuple[int, int]] = collections.deque()
        self.acked_cmd = acked_cmd
        self.trouble: str | None = None
        self.retry_at = 0.0

    def append(
        self, record: Record, *, flush: bool = True, written: Act = nothing, failed: Act = nothing
    ) -> None:
        """Order a record to be written to the journal.

        Then ``written`` is called, or ``failed`` after an error. Without ``flush``, a crash of the host may
        lose the record. If the record has a ``seq``, its flush confirms the server's command with this
        number.
        """
        self._number += 1
        self._unwritten.append((self._number, record.get("seq"), written, failed))
        self._out.append(fx.Append(self._number, record, flush))

    def written(self, now: float) -> None:
        """Take the action that waited for the oldest record in progress, because the record is written now.

        The record is in the page cache, so it survives the end of the keeper's process.
        """
        number, seq, written, _ = self._unwritten.popleft()
        if seq is not None:
            self._unflushed.append((number, seq))
        written(now)

    def write_failed(self, now: float) -> None:
        """Take the action ``failed`` of the oldest record in progress, which could not be written.

        No further command is applied for PAUSE_S.
        """
        _, _, _, failed = self._unwritten.popleft()
        self.retry_at = now + PAUSE_S
        failed(now)

    def flushed(self, number: int) -> None:
        """Count the commands of all records up to ``number`` as durable: these records are on disk now."""
        while self._unflushed and self._unflushed[0][0] <= number:
            self.acked_cmd = self._unflushed.popleft()[1]

    def say(self, sentence: str | None) -> bool:
        """Set and log the error of the journal (None: no error); return whether the error has changed."""
        if sentence == self.trouble:
            return False
        self.trouble = sentence
        if sentence is not None:
            self._out.append(fx.Say(sentence))
        return True

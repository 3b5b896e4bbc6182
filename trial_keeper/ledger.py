"""The records on their way to the journal: written, then flushed, then acknowledged."""

from __future__ import annotations

import collections

from trial_keeper import effects as fx

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    Act = Callable[[float], None]
else:
    Act = object

PAUSE_S = 1.0


def nothing(now: float) -> None:
    """Nothing follows."""


class Ledger:
    """Numbers the records, and remembers what follows once each is written or is not.

    ``out`` takes the effects; all commands up to ``acked_cmd`` are durable; ``trouble`` is one sentence.
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
        self, record: fx.Record, *, flush: bool = True, written: Act = nothing, failed: Act = nothing
    ) -> None:
        """Ask for the record to be written. Not flushed: it may be lost with the host, not with the keeper.

        A record with a ``seq`` acknowledges that command once it is flushed.
        """
        self._number += 1
        self._unwritten.append((self._number, record.get("seq"), written, failed))
        self._out.append(fx.Append(self._number, record, flush))

    def written(self, now: float) -> None:
        """The oldest record is in the page cache: it survives the keeper's death."""
        number, seq, written, _ = self._unwritten.popleft()
        if seq is not None:
            self._unflushed.append((number, seq))
        written(now)

    def write_failed(self, now: float) -> None:
        """The oldest record is not written: nothing follows from it."""
        _, _, _, failed = self._unwritten.popleft()
        self.retry_at = now + PAUSE_S
        failed(now)

    def flushed(self, number: int) -> None:
        """All records up to this one survive power loss."""
        while self._unflushed and self._unflushed[0][0] <= number:
            self.acked_cmd = self._unflushed.popleft()[1]

    def say(self, sentence: str | None) -> bool:
        """What is wrong with the journal now. True: that is new."""
        if sentence == self.trouble:
            return False
        self.trouble = sentence
        if sentence is not None:
            self._out.append(fx.Say(sentence))
        return True

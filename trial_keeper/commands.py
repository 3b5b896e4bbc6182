"""The numbered commands: applied in order, once, one at a time, each when its record is written."""

from __future__ import annotations

import collections

from trial_keeper.attempt import Attempt
from trial_keeper.effects import Record
from trial_keeper.ledger import Act, Ledger
from trial_keeper.memory import Memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Tuple

    Decision = Tuple[Record, Act]
else:
    Decision = tuple


class Commands:
    """``decide`` (time, number, kind, job, body) says what to record, and what follows once it is written."""

    def __init__(
        self, ledger: Ledger, memory: Memory, decide: Callable[[float, int, str, str, Any], Decision]
    ) -> None:
        self._ledger = ledger
        self._memory = memory
        self._decide = decide
        self._waiting: collections.deque[list[Any]] = collections.deque()
        self.writing = False  # the record of one is on its way

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self, now: float, commands: list[list[Any]]) -> None:
        """What the server has sent: all that it does not know to have arrived."""
        if commands and (not self._waiting or commands[-1][0] > self._waiting[-1][0]):
            self._waiting = collections.deque(commands)
            self.go_on(now)

    def drop(self) -> None:
        """None of them is obeyed any more."""
        self._waiting.clear()

    def go_on(self, now: float) -> None:
        """Apply what can be applied now."""
        while self._waiting and not self.writing and now >= self._ledger.retry_at:
            command = self._waiting.popleft()
            seq, kind, job, body = command
            if seq <= self._memory.applied:
                continue
            if seq != self._memory.applied + 1:
                self._waiting.clear()
                return
            attempt = self._memory.attempts.get(job)
            record, act = self._decide(now, seq, kind, job, body)
            self.writing = True
            self._ledger.append(
                record, written=self._applier(seq, attempt, act), failed=self._deferrer(command)
            )

    def _applier(self, seq: int, attempt: Attempt | None, act: Act) -> Act:
        def apply(now: float) -> None:
            self.writing = False
            self._memory.applied = seq
            if attempt is not None:
                attempt.seq = seq
            act(now)
            self.go_on(now)

        return apply

    def _deferrer(self, command: list[Any]) -> Act:
        def put_back(now: float) -> None:
            self.writing = False
            self._waiting.appendleft(command)

        return put_back

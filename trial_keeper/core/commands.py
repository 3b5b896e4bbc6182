"""Queue of the server's numbered commands.

Each is applied once, in order, after its journal record is written.
"""

from __future__ import annotations

import collections

from trial_keeper.core.attempt import Attempt
from trial_keeper.core.ledger import Act, Ledger
from trial_keeper.core.records import Record
from trial_keeper.core.recovery import DurableState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Tuple

    Command = Tuple[int, str, str, Any]  # number, kind, job and body, as in an answer of the server
    Decision = Tuple[Record, Act]
else:
    Decision = tuple


class Commands:
    """Queue of the server's commands to start, stop or update attempts.

    ``decide`` takes the time and a command's number, kind, job and body. It returns the journal record of the
    command and the action to take after the record is written.
    """

    def __init__(
        self, ledger: Ledger, durable: DurableState, decide: Callable[[float, int, str, str, Any], Decision]
    ) -> None:
        self._ledger = ledger
        self._durable = durable
        self._decide = decide
        self._waiting: collections.deque[Command] = collections.deque()
        self.writing = False  # True while the record of a command is being written

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self, now: float, commands: list[Command]) -> None:
        """Queue the commands in an answer of the server, and apply as many as possible.

        The server repeats each command in its answers until the keeper reports that the command has arrived.
        """
        if commands and (not self._waiting or commands[-1][0] > self._waiting[-1][0]):
            self._waiting = collections.deque(commands)
            self.go_on(now)

    def drop(self) -> None:
        """Discard all commands that are not applied yet."""
        self._waiting.clear()

    def go_on(self, now: float) -> None:
        """Apply the queued commands in order, until a journal record must be written first."""
        while self._waiting and not self.writing and now >= self._ledger.retry_at:
            command = self._waiting.popleft()
            seq, kind, job, body = command
            if seq <= self._durable.applied:
                continue
            if seq != self._durable.applied + 1:
                self._waiting.clear()
                return
            attempt = self._durable.attempts.get(job)
            record, act = self._decide(now, seq, kind, job, body)
            self.writing = True
            self._ledger.append(
                record, written=self._applier(seq, attempt, act), failed=self._deferrer(command)
            )

    def _applier(self, seq: int, attempt: Attempt | None, act: Act) -> Act:
        def apply(now: float) -> None:
            self.writing = False
            self._durable.applied = seq
            if attempt is not None:
                attempt.seq = seq
            act(now)
            self.go_on(now)

        return apply

    def _deferrer(self, command: Command) -> Act:
        def put_back(now: float) -> None:
            self.writing = False
            self._waiting.appendleft(command)

        return put_back

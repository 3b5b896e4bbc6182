"""The numbered commands for one instance of a keeper's directory: given in order, leaving in order.

A command is kept after it was acknowledged, until its job is forgotten: a keeper that has lost the end of its
journal acknowledges less than before, and is sent the commands again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Command", "Orders"]


@dataclass(slots=True)
class Command:
    kind: str
    job_id: str
    body: Mapping[str, Any]
    committed: bool
    withdrawn: bool = False  # it is sent as a nop


@dataclass(slots=True)
class Orders:
    """``last`` is the highest number given; all up to ``committed`` may leave.

    ``stored`` is the highest number in the experiment's stored facts when this runner began.
    """

    last: int = 0
    committed: int = 0
    stored: int = 0
    _commands: dict[int, Command] = field(default_factory=dict)
    _renumbered: dict[int, int] = field(default_factory=dict)  # old number to new number

    def put(self, seq: int, command: Command) -> None:
        """A committed one comes from an earlier runner, which has given all numbers before it, too."""
        self._commands[seq] = command
        self.last = max(self.last, seq)
        if command.committed:
            self.committed = max(self.committed, seq)
            self.stored = max(self.stored, seq)

    def find(self, seq: int) -> Command | None:
        return self._commands.get(seq)

    def commit(self, seq: int) -> None:
        """The command may leave, once all before it may."""
        command = self._commands.get(self._renumbered.get(seq, seq))
        if command is None:
            return
        command.committed = True
        reach = at = self.committed
        while (following := self._commands.get(at + 1)) is not None:
            at += 1
            if following.committed:
                reach = at
            elif not following.withdrawn:
                break
        self.committed = reach

    def reach(self, seq: int) -> None:
        """All numbers up to this one have been given and may leave."""
        self.last = max(self.last, seq)
        self.committed = max(self.committed, seq)

    def renumber(self, seq: int) -> int:
        """Move a command behind all others and return its new number.

        If its fact is not committed yet, the commit still comes under the old number.
        """
        number = self._renumbered[seq] = self.last + 1
        command = self._commands[number] = self._commands.pop(seq)
        self.last = number
        if command.committed:
            self.commit(number)
        return number

    def forget(self, numbers: Iterable[int]) -> None:
        """Nobody will need these commands again."""
        for seq in numbers:
            self._commands.pop(seq, None)
            self._renumbered.pop(seq, None)

"""Numbered commands for one directory (instance) of a keeper, which are sent in the order of their numbers.

A command is kept until its job is forgotten, even after the keeper has acknowledged it. A keeper that has
lost the end of its journal acknowledges less than before, and needs the commands again.
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
    withdrawn: bool = False  # True: send the command as a nop


@dataclass(slots=True)
class Orders:
    """Numbered commands for a keeper. ``last``: highest number in use.

    Commands with numbers up to ``committed`` may be sent. ``stored``: highest number in the experiment's
    database when the server opened the experiment.
    """

    last: int = 0
    committed: int = 0
    stored: int = 0
    _commands: dict[int, Command] = field(default_factory=dict)
    _renumbered: dict[int, int] = field(default_factory=dict)  # old number to new number

    def put(self, seq: int, command: Command) -> None:
        """Add a command with the number ``seq``.

        ``command.committed`` True: an earlier server has committed this command and all commands before it.
        """
        self._commands[seq] = command
        self.last = max(self.last, seq)
        if command.committed:
            self.committed = max(self.committed, seq)
            self.stored = max(self.stored, seq)

    def find(self, seq: int) -> Command | None:
        return self._commands.get(seq)

    def commit(self, seq: int) -> None:
        """Mark the command as committed. It may be sent when all commands with lower numbers may be sent."""
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
        """Record that all numbers up to ``seq`` are in use, and that commands with these numbers may be
        sent.
        """
        self.last = max(self.last, seq)
        self.committed = max(self.committed, seq)

    def renumber(self, seq: int) -> int:
        """Give the command with the number ``seq`` the next free number, and return this number.

        If the command's fact is not committed yet, ``commit`` will be called with the old number.
        """
        number = self._renumbered[seq] = self.last + 1
        command = self._commands[number] = self._commands.pop(seq)
        self.last = number
        if command.committed:
            self.commit(number)
        return number

    def forget(self, numbers: Iterable[int]) -> None:
        """Delete the commands with these numbers, because their job is forgotten."""
        for seq in numbers:
            self._commands.pop(seq, None)
            self._renumbered.pop(seq, None)

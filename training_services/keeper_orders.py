"""The numbered commands for one instance of a keeper's directory: given in order, leaving in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Command", "Orders"]


@dataclass(slots=True)
class Command:
    kind: str
    job_id: str
    body: Mapping[str, Any]
    committed: bool
    withdrawn: bool = False


@dataclass(slots=True)
class Orders:
    """``last`` is the highest number given; all up to ``committed`` may leave."""

    last: int = 0
    committed: int = 0
    _commands: dict[int, Command] = field(default_factory=dict)

    def put(self, seq: int, command: Command) -> None:
        """A committed one comes from an earlier runner, which has given all numbers before it, too."""
        self._commands[seq] = command
        self.last = max(self.last, seq)
        if command.committed:
            self.committed = max(self.committed, seq)

    def find(self, seq: int) -> Command | None:
        return self._commands.get(seq)

    def commit(self, seq: int) -> None:
        """The command may leave, once all before it may."""
        command = self._commands.get(seq)
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

    def pop(self, seq: int) -> Command | None:
        """The command has been applied."""
        return self._commands.pop(seq, None)

    def drop(self, up_to: int) -> None:
        """All up to this number were applied before."""
        for seq in [seq for seq in self._commands if seq <= up_to]:
            del self._commands[seq]

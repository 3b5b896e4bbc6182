"""Interface of channels for commands. A command is any JSON value."""

from __future__ import annotations

from typing import Any

__all__ = ["Command", "CommandChannel"]

Command = Any


class CommandChannel:
    """Channel for commands in both directions."""

    def send(self, command: Command) -> None:
        """Send a command."""
        raise NotImplementedError("send is missing")

    def receive(self) -> Command | None:
        """Wait for the next command and return it, or None if the channel is closed."""
        raise NotImplementedError("receive is missing")

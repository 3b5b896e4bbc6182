"""Interface of a connection over which commands are sent and received."""

from __future__ import annotations

from typing import Any

__all__ = ["Command", "CommandChannel"]

Command = Any


class CommandChannel:
    """Connection that carries commands in both directions. A command is any JSON value."""

    def send(self, command: Command) -> None:
        """Send a command to the other side."""
        raise NotImplementedError("send is missing")

    def receive(self) -> Command | None:
        """Wait for the next command and return it, or None if the channel is closed."""
        raise NotImplementedError("receive is missing")

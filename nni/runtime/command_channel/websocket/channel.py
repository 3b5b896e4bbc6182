"""Connection for commands over a WebSocket, on the client's side."""

from __future__ import annotations

from nni.runtime.command_channel.base import Command, CommandChannel
from nni.runtime.command_channel.websocket.connection import WsConnection

__all__ = ["WsChannelClient"]


class WsChannelClient(CommandChannel):
    """Client that sends and receives commands over the WebSocket at ``url``.

    It connects with ``connect``, or else when the first command is sent or awaited.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._closing = False
        self._conn: WsConnection | None = None

    def connect(self) -> None:
        """Connect to the server. Raise OSError if this fails."""
        self._connected()

    def disconnect(self) -> None:
        """Send a goodbye message to the server, and close the connection."""
        self._closing = True
        if self._conn is not None:
            self._conn.send({"type": "_bye_"})
            self._conn.disconnect("client intentionally close")
            self._conn = None

    def send(self, command: Command) -> None:
        """Send a command. Do nothing if the channel is closed."""
        if not self._closing:
            self._connected().send(command)

    def receive(self) -> Command | None:
        """Wait for the next command and return it, or None if the channel is closed."""
        while not self._closing:
            command = self._connected().receive()
            if command is None or command["type"] == "_bye_":
                self._closing = True
            elif command["type"] != "_nop_":
                return command
        return None

    def _connected(self) -> WsConnection:
        if self._conn is None:
            self._conn = WsConnection(self._url)
            self._conn.connect()
        return self._conn

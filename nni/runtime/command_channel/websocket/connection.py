"""WebSocket connection whose methods block until they are done."""

from __future__ import annotations

import importlib
from typing import Any

from nni._trace import dump, load
from nni.runtime.command_channel.base import Command

__all__ = ["WsConnection"]


class WsConnection:
    """WebSocket connection to ``url``. It needs the package websockets, which is not a dependency of
    nnimgr.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._ws: Any = None

    def connect(self) -> None:
        """Connect to the server.

        Raise RuntimeError if the URL is empty, ModuleNotFoundError if websockets is not installed, and
        OSError if the connection fails.
        """
        if not self._url:
            raise RuntimeError(
                "There is no channel to a manager: an advisor can send only inside an experiment, "
                'or with the URL of a server, such as MsgDispatcherBase("ws://localhost:8080/tuner").'
            )
        try:
            client = importlib.import_module("websockets.sync.client")
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"cannot connect to {self._url}: {error}. Install the package: pip install websockets"
            ) from error
        self._ws = client.connect(self._url, max_size=None)

    def disconnect(self, reason: str | None = None, code: int | None = None) -> None:
        """Close the connection, if there is one."""
        if self._ws is not None:
            self._ws.close(code or 4000, reason or "")
            self._ws = None

    def terminate(self, reason: str | None = None) -> None:
        """Close the connection with the code that reports an error to the server."""
        self.disconnect(reason, 4001)

    def send(self, message: Command) -> None:
        """Send a message. Do nothing if the server has closed the connection."""
        closed = importlib.import_module("websockets.exceptions").ConnectionClosed
        try:
            self._ws.send(dump(message))
        except closed:
            return

    def receive(self) -> Command | None:
        """Wait for the next message and return it, or None if the server has closed the connection."""
        closed = importlib.import_module("websockets.exceptions").ConnectionClosed
        try:
            message = self._ws.recv()
        except closed:
            return None
        return load(message.decode() if isinstance(message, bytes) else message)

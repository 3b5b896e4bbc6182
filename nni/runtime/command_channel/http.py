"""Connection that sends each command with an HTTP PUT, and receives commands with GET."""

from __future__ import annotations

import httpx

from nni.runtime.command_channel.base import Command, CommandChannel

__all__ = ["HttpChannel"]

_NOTHING_YET, _CLOSED = 408, 410


class HttpChannel(CommandChannel):
    """Connection for commands to the HTTP server at ``url``."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = httpx.Client(timeout=None, trust_env=False)

    def send(self, command: Command) -> None:
        """Send a command. As in NNI, ignore the status of the response.

        Raise httpx.HTTPError if there is no response.
        """
        self._client.put(self._url, json=command)

    def receive(self) -> Command | None:
        """Wait for the next command and return it, or None if the channel is closed.

        Raise OSError if the server fails.
        """
        answer = self._client.get(self._url)
        while answer.status_code == _NOTHING_YET:
            answer = self._client.get(self._url)
        if answer.status_code == _CLOSED:
            return None
        if answer.status_code != 200:
            raise OSError(f"{self._url} answered with status {answer.status_code}: {answer.text:.200}")
        return answer.json()

"""Client that keeps its connection to the server open, for programs that call very often."""

from __future__ import annotations

import json
from typing import Any

from nnimgr.client.calls import Client
from trial_keeper.calls.local_http import LocalAnswer, LocalConnection

__all__ = ["Session"]

_CONNECT_S = 20.0
_ANSWER_S = 60.0  # longer than the server holds a call


class Session(Client):
    """Client with one connection, for one thread. All of its calls must be such that they can be repeated."""

    _kept: LocalConnection | None = None

    @classmethod
    def of(cls, client: Client) -> Session:
        """Return a session with the server of a client."""
        found = cls.__new__(cls)
        found.__dict__.update(client.__dict__)
        return found

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. The next call opens another one."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def exchange(self, *path: str, body: Any) -> Any:
        """Send a POST request and return the JSON answer. Raise ApiError or ServerGone.

        The server closes a connection that is idle for long. The request is then sent again, at a new one.
        """
        text = json.dumps(body, allow_nan=False).encode()
        try:
            try:
                answer = self._request(path, text)
            except ConnectionError:
                if self._kept is None:  # the connection was new
                    raise
                self.close()
                answer = self._request(path, text)
            found = answer.read()
        except OSError as error:
            self.close()
            raise self._gone(error) from error
        if answer.status >= 300:
            raise self._refusal(answer.status, found)
        return json.loads(found)

    def _request(self, path: tuple[str, ...], text: bytes) -> LocalAnswer:
        connection = self._kept
        if connection is None:
            connection = LocalConnection(self._path, connect_s=_CONNECT_S, timeout_s=_ANSWER_S)
        fields = {**self._headers, "Content-Type": "application/json", "Content-Length": str(len(text))}
        try:
            answer = connection.request("POST", self._root + "/".join(path), fields, [text])
        except BaseException:
            connection.close()
            raise
        self._kept = connection
        return answer

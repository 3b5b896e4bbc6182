"""The calls themselves: a thread per channel, each with a kept-alive connection of its own."""

from __future__ import annotations

import http.client
import json
import threading
from queue import SimpleQueue
from typing import Callable, NamedTuple, Union
from urllib.parse import urlsplit

from trial_keeper import wire
from trial_keeper.effects import Send

CONNECT_S = 5.0
READ_S = wire.WAIT_S + 10.0
REFUSED = 409
_ERROR_TEXT = 300


class Failed(NamedTuple):
    """The call came to nothing; one sentence, and the reason that a refusal (409) gives."""

    sentence: str
    reason: str | None = None


Outcome = Union[dict, Failed]  # type: ignore[type-arg]


class CallFailed(Exception):
    """The server cannot be asked, or did not answer as it should. ``reason``: of a refusal."""

    def __init__(self, sentence: str, reason: str | None = None) -> None:
        super().__init__(sentence)
        self.reason = reason


class Caller:
    """Makes one call at a time. ``manager``: path of manager.json; ``done`` is called from the thread."""

    def __init__(self, name: str, manager: str, done: Callable[[Send, Outcome], None]) -> None:
        self._manager = manager
        self._done = done
        self._orders: SimpleQueue[Send] = SimpleQueue()
        self._connection: http.client.HTTPConnection | None = None
        self._path = ""
        self._headers: dict[str, str] = {}
        self._turn = 0
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def call(self, order: Send) -> None:
        """Make this call; its outcome goes to ``done``."""
        self._orders.put(order)

    def _run(self) -> None:
        while True:
            order = self._orders.get()
            try:
                outcome: Outcome = self._exchange(wire.encode_request(order.header, order.payloads))
            except (OSError, ValueError, KeyError, http.client.HTTPException, CallFailed) as error:
                self._drop()
                reason = error.reason if isinstance(error, CallFailed) else None
                outcome = Failed(str(error) or type(error).__name__, reason)
            self._done(order, outcome)

    def _exchange(self, body: bytes) -> dict:  # type: ignore[type-arg]
        if self._connection is not None:
            try:
                return self._post(self._connection, body)
            except (ConnectionError, http.client.BadStatusLine):
                self._drop()  # the server has closed an idle connection: the call is idempotent
        return self._post(self._connect(), body)

    def _post(self, connection: http.client.HTTPConnection, body: bytes) -> dict:  # type: ignore[type-arg]
        connection.request("POST", self._path, body, self._headers)
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            text = content[:_ERROR_TEXT].decode(errors="replace")
            sentence = f"the server answers {response.status} {response.reason}: {text}"
            raise CallFailed(sentence, _reason(content) if response.status == REFUSED else None)
        return wire.decode_answer(content)

    def _connect(self) -> http.client.HTTPConnection:
        with open(self._manager, "rb") as file:  # the server's address may have changed
            manager = json.load(file)
        urls = manager["urls"]
        if not urls:
            raise CallFailed(f"{self._manager} names no server")
        url = urlsplit(urls[self._turn % len(urls)])
        if url.scheme != "http" or url.hostname is None:
            raise CallFailed(f"{self._manager} names an address that is not http://host:port/...")
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=CONNECT_S)
        try:
            connection.connect()
        except OSError:
            self._turn += 1
            raise
        connection.sock.settimeout(READ_S)
        self._connection = connection
        self._path = url.path
        self._headers = {
            "Authorization": f"Bearer {manager['token']}",
            "Content-Type": "application/octet-stream",
        }
        return connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _reason(content: bytes) -> str | None:
    """Why the server refuses this keeper, if its answer says so."""
    try:
        reason = json.loads(content)["reason"]
    except (ValueError, KeyError, TypeError):
        return None
    return reason if isinstance(reason, str) else None

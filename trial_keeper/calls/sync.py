"""Sync calls to the server. Each kind of call (``Channel``) has its own thread and persistent connection."""

from __future__ import annotations

import threading
from _queue import SimpleQueue  # the C module alone: ``queue`` adds nothing needed here

from trial_keeper import wire
from trial_keeper.calls import connection as connections
from trial_keeper.calls.connection import CallFailed, Server
from trial_keeper.core.effects import Send
from trial_keeper.lean import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Callable, Union

READ_S = wire.WAIT_S + 10.0


class Failed(NamedTuple):
    """Error of a failed call. ``reason``: the server's reason if the answer is a refusal (409)."""

    sentence: str
    reason: str | None = None


if TYPE_CHECKING:
    Outcome = Union[wire.Answer, Failed]
else:
    Outcome = object


class Caller:
    """Thread that makes sync calls one after another, and passes the outcome of each to ``done``.

    ``manager``: path of manager.json, the file with the server's address.
    """

    def __init__(self, name: str, manager: str, done: Callable[[Send, Outcome], None]) -> None:
        self._manager = manager
        self._done = done
        self._orders: SimpleQueue[Send] = SimpleQueue()
        self._server: Server | None = None
        self._turn = 0
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def call(self, order: Send) -> None:
        """Queue this call. The thread passes the outcome to ``done``."""
        self._orders.put(order)

    def _run(self) -> None:
        while True:
            order = self._orders.get()
            try:
                outcome: Outcome = self._exchange(wire.encode_request(order.header, order.payloads))
            except connections.FAILURES as error:
                self._drop()
                reason = error.reason if isinstance(error, CallFailed) else None
                outcome = Failed(str(error) or type(error).__name__, reason)
            self._done(order, outcome)

    def _exchange(self, body: bytes) -> wire.Answer:
        if self._server is not None:
            try:
                return self._post(self._server, body)
            except ConnectionError:
                self._drop()  # the server closed an idle connection; a repeated call is harmless
        return self._post(self._connect(), body)

    def _post(self, server: Server, body: bytes) -> wire.Answer:
        headers = {
            **server.headers,
            "Content-Type": "application/octet-stream",
            "Content-Length": str(len(body)),
        }
        answer = server.connection.request("POST", server.path, headers, connections.pieces(body))
        if answer.status != 200:
            raise connections.refusal(answer)
        return wire.decode_answer(answer.read())

    def _connect(self) -> Server:
        try:
            self._server = connections.connect(self._manager, turn=self._turn, timeout_s=READ_S)
        except (OSError, CallFailed):
            self._turn += 1
            raise
        return self._server

    def _drop(self) -> None:
        if self._server is not None:
            self._server.connection.close()
            self._server = None

"""``POST /keepers/v1/{experiment_id}/{keeper_id}/sync``, a bare ASGI application in front of FastAPI.

Every metric and every end of a trial comes through here, so no framework is in the way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any

from training_services.keeper_hub import Answer, Call, KeeperHub, encode_answer
from trial_keeper.wire import MAX_BODY, PATH

__all__ = ["KeeperDoor"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_PREFIX, _, _TAIL = PATH.partition("{experiment_id}/{keeper_id}")


def _no(status: HTTPStatus, sentence: str) -> Answer:
    return Answer(status, {"error": sentence})


_TOO_LARGE = _no(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A sync is at most {MAX_BODY} bytes.")


class _Gone(Exception):
    """The caller has closed the connection."""


class KeeperDoor:
    """ASGI: answers keepers' calls from the hub; 404 for every other path, 405 for every other method."""

    def __init__(self, hub: KeeperHub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"a keeper's door takes no {scope['type']}")
        try:
            answer = await self._answer(scope, receive)
        except _Gone:
            return
        body = encode_answer(answer)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": int(answer.status), "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        path: str = scope["path"]
        names = path[len(_PREFIX) : -len(_TAIL)].split("/")
        if not (path.startswith(_PREFIX) and path.endswith(_TAIL) and len(names) == 2):
            return _no(HTTPStatus.NOT_FOUND, "There is nothing here.")
        if scope["method"] != "POST":
            return _no(HTTPStatus.METHOD_NOT_ALLOWED, "A sync is a POST.")
        token, length = _credentials(scope)
        desk = self._hub.find(names[0], names[1], token=token)
        if isinstance(desk, Answer):
            return desk
        if length > MAX_BODY:
            return _TOO_LARGE
        body = await _read(receive)
        if body is None:
            return _TOO_LARGE
        taken = desk.receive(body)
        if isinstance(taken, Answer):
            # What it brought goes first: a verdict is urgent, an answer to a mere report is not.
            await asyncio.sleep(0)
            return taken
        try:
            return await _held(taken, receive)
        finally:
            desk.release(taken)


def _credentials(scope: Scope) -> tuple[str, int]:
    """The bearer token, and the announced length of the body (0 if there is none)."""
    token, length = "", 0
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, text = value.partition(b" ")
            if scheme.lower() == b"bearer":
                token = text.strip().decode("ascii", errors="replace")
        elif name == b"content-length" and value.isdigit():
            length = int(value[:20])
    return token, length


async def _read(receive: Receive) -> bytes | None:
    """The body; None if it is too large."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY:
            return None
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


async def _held(call: Call, receive: Receive) -> Answer:
    """The call's answer, when it comes. Raises _Gone if the caller does not wait for it."""
    gone = asyncio.ensure_future(receive())
    try:
        either: set[asyncio.Future[Any]] = {gone, call.answer}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if call.answer.done():
            return call.answer.result()
        raise _Gone
    finally:
        if not gone.done():
            gone.cancel()

"""ASGI application without a framework for the keepers' HTTP routes, which are below
``/keepers/v1/{experiment_id}/{keeper_id}/``.

``POST sync`` delivers metrics and ends of trials. It is called so often that a web framework would cost too
much time. ``GET code/{sha256}`` returns the packed code of the trials, and ``GET
checkpoints/{job}/{number}/manifest`` and ``.../content`` return a copy of a checkpoint. ``POST
reads/{read_no}`` delivers the content of a requested file. ``POST enrol`` exchanges a ticket for the keeper's
token (``trial_keeper.enrol``).
"""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from http import HTTPStatus
from typing import Any, Protocol

from training_services.keepers.hub import Answer, Call, KeeperDesk, KeeperHub, encode_answer
from training_services.keepers.reads import receive_read
from trial_keeper.wire import MAX_BODY, PATH

__all__ = ["KeeperDoor"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_PREFIX = PATH.partition("{experiment_id}")[0]
_METHODS = {
    ("sync", 3): "POST",
    ("enrol", 3): "POST",
    ("code", 4): "GET",
    ("reads", 4): "POST",
    ("checkpoints", 6): "GET",
}  # key: the third path segment, and the number of segments
_HASH = re.compile("[0-9a-f]{64}")
_JOB = re.compile("[A-Za-z0-9_-]+-[a-z0-9]+-[0-9]{1,9}")
_NUMBER = re.compile("[0-9]{1,9}")
_FROM = re.compile(rb"bytes=([0-9]{1,18})-")
_LAUNCH = re.compile(rb'\{"launch": "([0-9a-f]{32})"\}')
_LAUNCH_BYTES = 100
_PIECE = 1 << 20


def _no(status: HTTPStatus, sentence: str) -> Answer:
    return Answer(status, {"error": sentence})


_NOBODY = _no(HTTPStatus.GONE, "No one waits for this file now.")
_TOO_LARGE = _no(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A sync may have at most {MAX_BODY} bytes.")


class _Gone(Exception):
    """Error: the caller has closed the connection before it got an answer."""


class KeeperDoor:
    """ASGI application that answers keepers' calls; 404 for other paths, 405 for other methods."""

    def __init__(self, hub: KeeperHub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"the keepers' address accepts only HTTP, not {scope['type']}")
        try:
            answer = await self._answer(scope, receive, send)
        except _Gone:
            return
        if answer is None:
            return
        body = encode_answer(answer)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        if answer.status is HTTPStatus.GONE:
            # Close the connection: the rest of this request is not read, so no other request can follow.
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": int(answer.status), "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> Answer | None:
        """Answer a keeper's request. Return the answer, or None if it was sent already."""
        path: str = scope["path"]
        names = path[len(_PREFIX) :].split("/")
        kind = names[2] if path.startswith(_PREFIX) and len(names) > 2 else ""
        method = _METHODS.get((kind, len(names)))
        if method is None:
            return _no(HTTPStatus.NOT_FOUND, "No such address.")
        if scope["method"] != method:
            return _no(HTTPStatus.METHOD_NOT_ALLOWED, f"This address does not accept {method}.")
        token, length = _credentials(scope)
        if kind == "enrol":
            return await _enrol(self._hub, names[0], names[1], token, receive)
        desk = self._hub.find(names[0], names[1], token=token)
        if isinstance(desk, Answer):
            return desk
        if kind == "code":
            return await _send_code(desk, names[3], scope, receive, send)
        if kind == "checkpoints":
            return await _send_checkpoint(desk, names[3:], scope, receive, send)
        if kind == "reads":
            return await _take_read(desk, names[3], receive)
        if length > MAX_BODY:
            return _TOO_LARGE
        body = await _read(receive)
        if body is None:
            return _TOO_LARGE
        taken = desk.receive(body, token=token)
        if isinstance(taken, Answer):
            # Let the core handle the call's events before the answer is sent: stopping trials is more urgent.
            await asyncio.sleep(0)
            return taken
        try:
            return await _held(taken, receive)
        finally:
            desk.release(taken)


def _credentials(scope: Scope) -> tuple[str, int]:
    """Return the bearer token of a request, and its Content-Length (0 if this header is missing)."""
    token, length = "", 0
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, text = value.partition(b" ")
            if scheme.lower() == b"bearer":
                token = text.strip().decode("ascii", errors="replace")
        elif name == b"content-length" and value.isdigit():
            length = int(value[:20])
    return token, length


async def _enrol(hub: KeeperHub, experiment_id: str, keeper_id: str, ticket: str, receive: Receive) -> Answer:
    body = await _read(receive, limit=_LAUNCH_BYTES)
    found = None if body is None else _LAUNCH.fullmatch(body)
    if found is None:
        return _no(HTTPStatus.BAD_REQUEST, "This is not the call of a keeper that enrols.")
    return await hub.enrol(experiment_id, keeper_id, ticket=ticket, launch=found[1].decode())


async def _read(receive: Receive, *, limit: int | None = None) -> bytes | None:
    """Return the body of a request, or None if it has more bytes than ``limit`` or MAX_BODY. Raises _Gone."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > (limit or MAX_BODY):
            return None
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


class _Content(Protocol):
    """Content to send, in small pieces."""

    def seek(self, offset: int, /) -> object: ...

    def read(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


async def _send_code(
    desk: KeeperDesk, sha256: str, scope: Scope, receive: Receive, send: Send
) -> Answer | None:
    """Send the archive with the trial code to a keeper."""
    await _read(receive)
    try:
        if not _HASH.fullmatch(sha256):
            raise FileNotFoundError
        file = await asyncio.to_thread(desk.archive(sha256).open, "rb")
    except OSError as error:
        sentence = "The server does not have this version of the trial code."
        if not isinstance(error, FileNotFoundError):
            sentence = f"The server cannot read this trial code: {error.strerror}."
        return _no(HTTPStatus.NOT_FOUND, sentence)
    await _send_from(file, os.fstat(file.fileno()).st_size, scope, receive, send)
    return None


async def _send_checkpoint(
    desk: KeeperDesk, names: Sequence[str], scope: Scope, receive: Receive, send: Send
) -> Answer | None:
    """Send the manifest or the content of the server's copy of a checkpoint to a keeper."""
    await _read(receive)
    job_id, number, what = names
    if not (_JOB.fullmatch(job_id) and _NUMBER.fullmatch(number) and what in ("manifest", "content")):
        return _no(HTTPStatus.NOT_FOUND, "No such address.")
    try:
        if what == "manifest":
            waits = None if desk.provide is None else await desk.provide(job_id, int(number))
            if waits is not None:
                return _no(HTTPStatus.SERVICE_UNAVAILABLE, f"{waits}.")
            manifest = await asyncio.to_thread(desk.copies.manifest, job_id, int(number))
            await _send_from(io.BytesIO(manifest), len(manifest), scope, receive, send)
            return None
        content = await asyncio.to_thread(desk.copies.content, job_id, int(number))
    except (OSError, ValueError) as error:
        if not isinstance(error, FileNotFoundError | ValueError):  # the disk may be readable again later
            return _no(HTTPStatus.SERVICE_UNAVAILABLE, f"The server cannot read its copy now: {error}.")
        return _no(HTTPStatus.NOT_FOUND, f"The server's copy is missing or damaged: {error}.")
    await _send_from(content, content.size, scope, receive, send)
    return None


async def _send_from(content: _Content, size: int, scope: Scope, receive: Receive, send: Send) -> None:
    """Send content in small pieces. If the request asks for a range, send only the rest from there on."""
    gone = asyncio.ensure_future(receive())
    try:
        asked = next((_FROM.fullmatch(value) for name, value in scope["headers"] if name == b"range"), None)
        first = min(int(asked[1]), size) if asked else 0
        await asyncio.to_thread(content.seek, first)
        status = HTTPStatus.PARTIAL_CONTENT if first else HTTPStatus.OK
        headers = [
            (b"content-type", b"application/octet-stream"),
            (b"content-length", b"%d" % (size - first)),
            *([(b"content-range", b"bytes %d-%d/%d" % (first, size - 1, size))] if first else []),
        ]
        await send({"type": "http.response.start", "status": int(status), "headers": headers})
        left = size - first
        while left > 0 and not gone.done():
            piece = await asyncio.to_thread(content.read, min(_PIECE, left))
            if not piece:
                raise OSError(f"{scope['path']} has become shorter while it was sent")
            left -= len(piece)
            await send({"type": "http.response.body", "body": piece, "more_body": left > 0})
        if size == first:
            await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()
        content.close()


async def _take_read(desk: KeeperDesk, number: str, receive: Receive) -> Answer:
    stream = desk.take_read(int(number)) if number.isascii() and number.isdigit() else None
    if stream is None:
        return _NOBODY
    try:
        return Answer(HTTPStatus.OK, {}) if await receive_read(stream, receive) else _NOBODY
    finally:
        # This has no effect if the read is complete.
        stream.lose(f"keeper {stream.keeper_id} was cut off while it read the file")


async def _held(call: Call, receive: Receive) -> Answer:
    """Wait until the keeper's call can be answered, and return the answer.

    Raises _Gone if the keeper closes the connection.
    """
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

"""Limits on a request: size of its body, number of values in the body, and time for sending the body."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException

from nnimgr.api.asgi import ASGIApp, Message, Receive, Scope, Send, header, refuse

__all__ = ["MOST_BODY", "MOST_VALUES", "BodyLimit", "ReadableAnswers"]

MOST_BODY = 8 << 20
MOST_VALUES = 120_000  # largest number of values in a JSON text; parsing more would delay other requests
_MOST_RECORDS = 600_000  # the same for an import, which has up to 100,000 records
_IMPORT = "/import"
_BODY_S = 30.0
_MOST_DRAINED = 64 << 20
_DRAIN_S = 10.0


class BodyLimit:
    """ASGI layer that refuses a request's body if it has too many bytes (``most``) or values, or arrives too
    slowly.

    The body has to arrive within ``seconds``. Values are counted by the commas and brackets of the text,
    before the text is parsed. Commas in strings count too.
    """

    def __init__(self, app: ASGIApp, *, most: int = MOST_BODY, seconds: float = _BODY_S) -> None:
        self._app = app
        self._most = most
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = header(scope, b"content-length") or "0"
        if len(length) > 20 or not length.isascii() or not length.isdigit() or int(length) > self._most:
            await refuse(send, 413, sentence=self._too_large)
        else:
            most = _MOST_RECORDS if str(scope.get("path")).endswith(_IMPORT) else MOST_VALUES
            await self._app(scope, self._counting(receive, most), send)

    def _counting(self, receive: Receive, most_values: int) -> Receive:
        taken = values = 0
        complete = False
        deadline = asyncio.get_running_loop().time() + self._seconds

        async def counting() -> Message:
            nonlocal taken, values, complete
            if complete:
                return await receive()  # returns when the client disconnects
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, "The request's body did not arrive in time.") from None
            body: bytes = message.get("body", b"")
            taken += len(body)
            if taken > self._most:
                raise HTTPException(413, self._too_large)
            values += body.count(b",") + body.count(b"[") + body.count(b"{")
            if values > most_values:
                raise HTTPException(413, f"The request's body has more than {most_values} values.")
            complete = not message.get("more_body", False)
            return message

        return counting

    @property
    def _too_large(self) -> str:
        return f"The request's body has more than {self._most} bytes."


class ReadableAnswers:
    """ASGI layer that lets a client read an answer that was sent before the whole request was read.

    If the server closes a connection while the client still sends, the connection is reset, and the client
    never sees the answer. So if the client wants the connection closed, this layer first reads and discards
    the rest of the request's body, up to a limit. On a connection that stays open, the server itself
    continues to read.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _closes(scope) or header(scope, b"expect") is not None:
            await self._app(scope, receive, send)
            return
        taken = False

        async def watched() -> Message:
            nonlocal taken
            message = await receive()
            taken = taken or not message.get("more_body", False)
            return message

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and not taken:
                await _drain(watched)
            await send(message)

        await self._app(scope, watched, sending)


async def _drain(receive: Receive) -> None:
    """Read and discard the rest of a request's body, up to a limit of bytes and of time."""
    drained = 0
    try:
        async with asyncio.timeout(_DRAIN_S):
            while drained <= _MOST_DRAINED:
                message = await receive()
                drained += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
    except TimeoutError:
        return


def _closes(scope: Scope) -> bool:
    """Return True if the client wants its connection closed after the answer."""
    wanted = (header(scope, b"connection") or "").lower()
    return scope.get("http_version") == "1.0" or "close" in [part.strip() for part in wanted.split(",")]

"""Bounds on what one request may take: an ASGI layer that refuses bodies that are too large or too slow."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException

from nnimgr.api.asgi import ASGIApp, Message, Receive, Scope, Send, header, refuse

__all__ = ["MOST_BODY", "BodyLimit"]

MOST_BODY = 8 << 20
_BODY_S = 30.0


class BodyLimit:
    """Passes requests on whose body has at most ``most`` bytes and arrives within ``seconds``."""

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
            await self._app(scope, self._counting(receive), send)

    def _counting(self, receive: Receive) -> Receive:
        taken = 0
        complete = False
        deadline = asyncio.get_running_loop().time() + self._seconds

        async def counting() -> Message:
            nonlocal taken, complete
            if complete:
                return await receive()  # waits for the client to go
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, "The request's body did not arrive in time.") from None
            taken += len(message.get("body", b""))
            if taken > self._most:
                raise HTTPException(413, self._too_large)
            complete = not message.get("more_body", False)
            return message

        return counting

    @property
    def _too_large(self) -> str:
        return f"The request's body has more than {self._most} bytes."

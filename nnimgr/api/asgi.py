"""ASGI types and functions that send simple responses, for the layers in front of FastAPI."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

__all__ = ["ASGIApp", "Message", "Receive", "Scope", "Send", "answer", "header", "refuse"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

_Headers = Sequence[tuple[bytes, bytes]]


def header(scope: Scope, name: bytes) -> str | None:
    """Return the value of a request's header, None if the request does not have it. ``name`` is in lower
    case.

    If there are several headers of this name, their values are joined with commas, as HTTP defines.
    """
    values = [value.decode("latin-1") for key, value in scope["headers"] if key == name]
    return ", ".join(values) if values else None


async def answer(
    send: Send, status: int, *, body: bytes, content_type: bytes, headers: _Headers = ()
) -> None:
    """Send one complete response."""
    length = str(len(body)).encode()
    fields = [(b"content-type", content_type), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})


async def refuse(send: Send, status: int, *, sentence: str, headers: _Headers = ()) -> None:
    """Send an error response in the JSON format of the REST API."""
    body = json.dumps({"error": {"message": sentence}}).encode()
    await answer(send, status, body=body, content_type=b"application/json", headers=headers)

"""Proxy that passes a browser's requests on to a TensorBoard at its Unix socket, and the answers back.

Only a list of known headers is passed on. So TensorBoard never gets the client's credentials.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import cast
from urllib.parse import urlsplit

import httpx
from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from nnimgr.api.streams import whole
from training_services.base import ServiceError, ServiceUnavailable

__all__ = ["forward"]

logger = logging.getLogger(__name__)

# Requests wait while TensorBoard starts, which takes some seconds, or longer if it imports TensorFlow.
_TIMEOUT = httpx.Timeout(10.0, read=120.0)
_TO_TENSORBOARD = (
    *("accept", "accept-encoding", "accept-language", "content-type", "if-modified-since", "if-none-match"),
    *("range", "user-agent", "x-requested-with", "x-tensorboard-feature-flags", "x-xsrf-protected"),
)
_TO_CLIENT = (
    *("accept-ranges", "cache-control", "content-disposition", "content-encoding", "content-language"),
    *("content-length", "content-range", "content-security-policy", "content-type", "etag", "expires"),
    *("last-modified", "location", "retry-after", "vary"),
)


async def forward(request: Request, address: str, *, closing: asyncio.Event) -> Response:
    """Send a request to the TensorBoard at the Unix socket ``address``. Return its answer as a stream.

    Raise ServiceUnavailable if TensorBoard does not answer.
    """
    body = await request.body()
    sent = httpx.Request(
        request.method,
        httpx.URL("http://localhost", raw_path=_target(request)),
        headers=[(name, value) for name, value in request.headers.items() if name in _TO_TENSORBOARD],
        content=body or None,
        extensions={"timeout": _TIMEOUT.as_dict()},
    )
    # A client of httpx would write each request into the server's log, so only the transport is used.
    transport = httpx.AsyncHTTPTransport(uds=address)
    try:
        answer = await transport.handle_async_request(sent)
    except httpx.HTTPError as error:
        await transport.aclose()
        raise ServiceUnavailable(
            f"TensorBoard does not answer: {str(error) or type(error).__name__}"
        ) from error
    except BaseException:
        await transport.aclose()
        raise
    return _Passed(transport, answer, closing=closing)


class _Passed(StreamingResponse):
    """Answer of a TensorBoard, passed on as a stream. If TensorBoard ends in the middle, the client's
    connection is cut off.
    """

    def __init__(
        self, transport: httpx.AsyncHTTPTransport, answer: httpx.Response, *, closing: asyncio.Event
    ) -> None:
        self._transport, self._answer = transport, answer
        chunks = cast("AsyncGenerator[bytes, None]", answer.aiter_raw())
        super().__init__(whole(closing, chunks), status_code=answer.status_code, headers=_headers(answer))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._answer.aclose()
            await self._transport.aclose()

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except (httpx.HTTPError, ServiceError) as error:
            logger.warning("an answer of TensorBoard was only sent in part: %s", error)


def _target(request: Request) -> bytes:
    """Return the path and the query of a request exactly as the client sent them."""
    path: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    query: bytes = request.scope["query_string"]
    return path + b"?" + query if query else path


def _headers(answer: httpx.Response) -> dict[str, str]:
    headers = {name: value for name, value in answer.headers.items() if name in _TO_CLIENT}
    if "location" in headers:  # TensorBoard does not know the address of this server
        place = urlsplit(headers["location"])
        headers["location"] = f"{place.path}?{place.query}" if place.query else place.path
    if "content-security-policy" in headers:
        policy = headers["content-security-policy"]
        headers["content-security-policy"] = policy.replace("frame-ancestors *", "frame-ancestors 'self'")
    # Frames of the same origin are allowed, because TensorBoard shows some of its plugins in frames.
    return {**headers, "x-frame-options": "SAMEORIGIN"}

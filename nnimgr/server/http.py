"""HTTP protocol and settings that all listening sockets of the server share."""

from __future__ import annotations

from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from nnimgr.api.asgi import ASGIApp

__all__ = ["BoundedHTTP", "http_config"]

_KEEP_ALIVE_S = 75  # seconds for which an idle connection stays open, because keepers reuse it
_CONNECTIONS = 8_000
_MOST_HEAD = 256 << 10  # most bytes of a request outside of its body
_LINGER_S = 2.0
_FRAMING = 16  # most framing bytes per byte of content in a chunked body
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s"
)
_SENTENCE = (
    b'{"error":{"message":"The request\'s address and headers have more than %d bytes."}}' % _MOST_HEAD
)


class BoundedHTTP(HttpToolsProtocol):
    """HTTP protocol of uvicorn with a limit on the size of a request's URL, headers and trailers.

    Without the limit, uvicorn would keep all of them in memory, even from callers without a token.
    """

    _beside = 0  # number of bytes of this request outside of its body
    _refused = False

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._beside += len(data)
        super().data_received(data)
        if self._beside > _MOST_HEAD and not self.transport.is_closing():
            self._refuse()

    def on_body(self, body: bytes) -> None:
        self._beside = max(0, self._beside - (_FRAMING + 1) * len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._beside = 0
        super().on_message_complete()

    def _refuse(self) -> None:
        """Answer with status 431. Discard further input for a while, so that the client reads the answer."""
        self._refused = True
        self.logger.warning("Rejected a request with more than %d bytes outside its body.", _MOST_HEAD)
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.close()
            return
        self.transport.write(_TOO_LARGE % (len(_SENTENCE), _SENTENCE))
        self.loop.call_later(_LINGER_S, self.transport.close)


def http_config(app: ASGIApp, **more: Any) -> uvicorn.Config:
    """Return uvicorn's settings for an application. ``more``: settings for one listening socket only."""
    return uvicorn.Config(
        app,
        http=BoundedHTTP,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE_S,
        **more,
    )

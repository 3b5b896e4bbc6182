"""How this server speaks HTTP, at each of its listeners."""

from __future__ import annotations

from typing import Any

import uvicorn

from nnimgr.api.asgi import ASGIApp

__all__ = ["http_config"]

_KEEP_ALIVE_S = 75  # keepers come back on the same connection
_CONNECTIONS = 8_000


def http_config(app: ASGIApp, **more: Any) -> uvicorn.Config:
    """uvicorn's configuration for an application; ``more``: what is said of one listener only."""
    return uvicorn.Config(
        app,
        http="httptools",
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

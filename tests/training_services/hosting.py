"""A real server for keepers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import uvicorn

from training_services.keeper_door import KeeperDoor
from training_services.keeper_hub import KeeperHub


@contextlib.asynccontextmanager
async def serve(hub: KeeperHub) -> AsyncIterator[str]:
    """A keeper's door on a free port; its address."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        KeeperDoor(hub),
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        hub.close()
        server.should_exit = True
        await task
        listener.close()

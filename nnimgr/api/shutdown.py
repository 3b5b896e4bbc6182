"""State of a server's shutdown, for its requests and streams."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Shutdown"]


class Shutdown:
    """State of the server's shutdown. When ``closing`` is set, streams end and new requests are rejected.

    A server that exits when it is idle (``until_idle``) first waits for all requests that may create work.
    """

    def __init__(self, *, until_idle: bool = False) -> None:
        self.until_idle = until_idle
        self.closing = asyncio.Event()
        self._changes = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    @contextmanager
    def change(self) -> Iterator[None]:
        """Context of a request that may change something. ``quiet`` waits until no such context is open."""
        self._changes += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._changes -= 1
            if not self._changes:
                self._quiet.set()

    async def quiet(self) -> None:
        """Wait until no request is in progress that may change something."""
        await self._quiet.wait()

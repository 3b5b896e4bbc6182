"""The end of a server's life as its requests see it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ServerLife"]


class ServerLife:
    """``closing`` ends all streams and turns new requests away.

    A server that leaves because it is idle (``until_idle``) waits until no request that may change that is
    under way.
    """

    def __init__(self, *, until_idle: bool = False) -> None:
        self.until_idle = until_idle
        self.closing = asyncio.Event()
        self._changes = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    @contextmanager
    def change(self) -> Iterator[None]:
        """For as long as a request that may change something is under way."""
        self._changes += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._changes -= 1
            if not self._changes:
                self._quiet.set()

    async def quiet(self) -> None:
        """Return when no such request is under way."""
        await self._quiet.wait()

"""Changes of the Secret with the keepers' ``manager.json``. Changes at the same time need one request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

__all__ = ["Entries"]


class Entries:
    """Entries of the Secret that are not written yet.

    ``write`` writes changes to the cluster: keeper id -> ``manager.json``, or None to remove the entry.
    """

    def __init__(self, write: Callable[[Mapping[str, str | None]], Awaitable[None]]) -> None:
        self._write = write
        self._waiting: dict[str, str | None] = {}
        self._writing: asyncio.Task[None] | None = None

    async def put(self, keeper_id: str, text: str) -> None:
        """Write an entry, with all other changes that wait. Raises what ``write`` raises."""
        self._waiting[keeper_id] = text
        while keeper_id in self._waiting:
            if self._writing is None:
                self._writing = asyncio.ensure_future(self._write_all())
            await asyncio.shield(self._writing)

    def drop(self, keeper_id: str) -> None:
        """Mark an entry, so that the next write removes it."""
        self._waiting[keeper_id] = None

    async def close(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _write_all(self) -> None:
        changes, self._waiting = self._waiting, {}
        try:
            await self._write(changes)
        except BaseException:
            self._waiting = {**changes, **self._waiting}
            raise
        finally:
            self._writing = None

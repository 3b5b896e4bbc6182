"""Queue of the events that a training service reports. The core, its only consumer, takes them in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from training_services.base import JobEvent

__all__ = ["Outbox"]


class Outbox:
    """Unbounded queue of events for the core.

    It stays small, because the server answers keepers' reports only while the core keeps up.
    """

    def __init__(self) -> None:
        self._events: list[JobEvent] = []
        self._filled = asyncio.Event()
        self._closed = False

    def put(self, events: Iterable[JobEvent]) -> None:
        self._events += events
        if self._events:
            self._filled.set()

    async def take(self) -> list[JobEvent] | None:
        """Wait for events and return all that are in the queue; None if the queue is closed and empty."""
        await self._filled.wait()
        events, self._events = self._events, []
        if not self._closed:
            self._filled.clear()
        elif not events:
            return None
        return events

    def close(self) -> None:
        self._closed = True
        self._filled.set()

"""A real server for keepers, and the core's part in few lines: what is told is committed at once."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import uvicorn
from training_services.base import JobEvent, TrainingService
from training_services.keeper_door import KeeperDoor
from training_services.keeper_hub import KeeperHub

DEADLINE_S = 20.0

Event = TypeVar("Event")


@contextlib.asynccontextmanager
async def serve(hub: KeeperHub) -> AsyncIterator[str]:
    """A keeper's door on a free port; its address."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        KeeperDoor(hub),  # type: ignore[arg-type]
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


class Core:
    """Takes a service's events, commits them, and remembers everything."""

    def __init__(self, service: TrainingService) -> None:
        self.service = service
        self.facts: list[JobEvent] = []
        self.commits = True
        self._news = asyncio.Event()
        self._pump = asyncio.create_task(self._take())

    async def _take(self) -> None:
        async for batch in self.service.events():
            self.note(*batch)

    def note(self, *facts: JobEvent | None) -> None:
        """Commit these facts (None: there is none)."""
        found = [fact for fact in facts if fact is not None]
        self.facts += found
        if self.commits:
            self.service.committed(found)
        self._news.set()

    def of(self, job_id: str) -> list[JobEvent]:
        return [fact for fact in self.facts if getattr(fact, "job_id", None) == job_id]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the facts so far satisfy the condition."""
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def seen(self, kind: type[Event], job_id: str | None = None) -> Event:
        """The first fact of this kind (of the job), as soon as there is one."""

        def found() -> list[JobEvent]:
            facts = self.facts if job_id is None else self.of(job_id)
            return [fact for fact in facts if isinstance(fact, kind)]

        await self.until(lambda: bool(found()))
        return found()[0]  # type: ignore[return-value]

    async def close(self) -> None:
        self._pump.cancel()
        await asyncio.gather(self._pump, return_exceptions=True)

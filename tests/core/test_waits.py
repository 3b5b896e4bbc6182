"""Waits of the server: each has an end, or a sentence that says what is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.core.lab import LIMIT_S, Lab
from tests.core.test_manager import Server
from tests.dispatcher.hosting import eventually
from training_services.fake import FakeService, hold, started


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


@dataclass(slots=True)
class SlowService(FakeService):
    """Service whose ``close`` waits until ``may_close`` is set."""

    may_close: asyncio.Event = field(default_factory=asyncio.Event)

    async def close(self, *, detach: bool) -> Sequence[str]:
        await self.may_close.wait()
        return await FakeService.close(self, detach=detach)


def slow_service(server: Server, experiment_id: str) -> SlowService:
    service = SlowService(default=[started(), hold()])
    server.assembly.labs[experiment_id] = Lab(server.home.path / experiment_id, service=service)
    return service


async def test_a_create_waits_for_no_other_experiment(server: Server) -> None:
    service = slow_service(server, "slow")
    async with server.manager() as manager:
        await manager.create(server.new("slow"))
        stopping = asyncio.create_task(manager.stop("slow", detach=False))
        await eventually(lambda: manager.get("slow").session.closing is not None)
        resuming = asyncio.create_task(manager.resume("slow"))
        await asyncio.wait_for(manager.create(server.new("other")), LIMIT_S)
        assert not resuming.done() and not stopping.done()
        service.may_close.set()
        await asyncio.gather(resuming, stopping, return_exceptions=True)
        assert manager.latest == "slow"

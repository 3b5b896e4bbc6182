"""The API on a stored, scripted life of one experiment: real database and application, no processes."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import httpx

from nnimgr.analysis.process import Analyst
from nnimgr.analysis.questions import Answers
from nnimgr.api.app import create_app
from nnimgr.api.asgi import ASGIApp
from nnimgr.api.auth import AllowedHosts, Credentials
from nnimgr.api.dependencies import ApiParts
from nnimgr.api.sessions import Sessions
from nnimgr.core.managing.manager import NNIManager
from nnimgr.store.writer import ExperimentWriter
from tests.api.fakes import FakeManager, FakeRunner, FakeService
from tests.api.stored_life import StoredLife, full_config

TOKEN = "a-token-for-tests"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
PORT = 8080
BASE = f"http://localhost:{PORT}"
EXPERIMENT = "/api/v1/experiments/exp"


class NearAnalyst(Analyst):
    """Answers like the analysis process, but in a thread of this process."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = Answers()
        self.asked: list[str] = []
        self.dropped: list[str] = []
        self.hold: asyncio.Event | None = None  # no answer is given before this is set
        self.failure: Exception | None = None

    async def ask(
        self, database: Path, experiment_id: str, question: str, arguments: Mapping[str, Any]
    ) -> bytes:
        self.asked.append(question)
        if self.hold is not None:
            try:
                await self.hold.wait()
            except asyncio.CancelledError:
                self.dropped.append(question)
                raise
        if self.failure is not None:
            raise self.failure
        plain = json.loads(json.dumps(arguments))
        return await asyncio.to_thread(self.answers.answer, str(database), experiment_id, question, plain)


@dataclasses.dataclass(slots=True, kw_only=True)
class Lab:
    """All objects of one test."""

    life: StoredLife
    runner: FakeRunner
    manager: FakeManager
    parts: ApiParts
    analyst: NearAnalyst
    app: ASGIApp
    client: httpx.AsyncClient  # client with the token
    stranger: httpx.AsyncClient  # client without the token

    @property
    def service(self) -> FakeService:
        assert self.runner.session.service is not None
        return self.runner.session.service


@asynccontextmanager
async def open_lab(directory: Path) -> AsyncGenerator[Lab, None]:
    writer = ExperimentWriter(directory)
    await writer.open()
    life = StoredLife(full_config(directory))
    runner = FakeRunner(life, writer)
    await runner.commit()
    manager = FakeManager(runner, directory, port=PORT)
    sessions = Sessions()
    analyst = NearAnalyst()
    parts = ApiParts(
        analyst=analyst,
        manager=cast(NNIManager, manager),
        credentials=Credentials(lambda: TOKEN, sessions=sessions, port=PORT),
        url=BASE,
        port=PORT,
        version="0.0.test",
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    app = create_app(parts, hosts=AllowedHosts("127.0.0.1"))
    async with (
        httpx.AsyncClient(transport=_transport(app), base_url=BASE, headers=BEARER) as client,
        httpx.AsyncClient(transport=_transport(app), base_url=BASE) as stranger,
    ):
        yield Lab(
            life=life,
            runner=runner,
            manager=manager,
            parts=parts,
            analyst=analyst,
            app=app,
            client=client,
            stranger=stranger,
        )
    manager.reading.close()
    await writer.close()


def _transport(app: ASGIApp) -> httpx.ASGITransport:
    return httpx.ASGITransport(app=cast(Any, app), raise_app_exceptions=False)

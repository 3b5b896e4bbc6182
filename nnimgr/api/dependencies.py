"""What every route gets: the parts of the server, and an experiment's runner and reader by its id."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Path, Request
from fastapi.responses import Response
from pydantic import BaseModel

from nnimgr.api.auth import Credentials
from nnimgr.api.life import ServerLife
from nnimgr.api.logs import folder_log
from nnimgr.api.models import ErrorAnswer
from nnimgr.core.manager import NNIManager
from nnimgr.core.runner import ExperimentRunner
from nnimgr.store.reader import ExperimentReader, JobRow

__all__ = [
    "ApiParts",
    "ExperimentId",
    "Live",
    "NotFound",
    "Parts",
    "Reader",
    "TrialId",
    "streams",
    "refusals",
    "reply",
]


Responses = dict[int | str, dict[str, Any]]


class NotFound(Exception):
    """There is no such thing; the message is one sentence for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiParts:
    """What the routes stand on. ``url`` is the server's own address."""

    manager: NNIManager
    credentials: Credentials
    url: str
    port: int
    version: str
    started_at: datetime
    url_prefix: str = ""  # of NNI's routes
    life: ServerLife = field(default_factory=ServerLife)

    def read_log(self, job: JobRow, name: str, *, experiment_id: str, follow: bool) -> AsyncIterator[bytes]:
        """A file of a job: from its service while there is one, else from the experiment's folder.

        Raises FileNotFoundError, at the latest with the first chunk.
        """
        runner = self.manager.find(experiment_id)
        if runner is not None and runner.service is not None:
            return runner.service.read_log(job.job_id, name, follow=follow)
        attempt = [f"attempt-{job.attempt}"] if job.attempt > 1 else []
        parts = ["trials", job.trial_id, *attempt]
        return folder_log(self.manager.directory(experiment_id), parts=parts, name=name)


async def _parts(request: Request) -> ApiParts:
    parts: ApiParts = request.app.state.parts
    return parts


Parts = Annotated[ApiParts, Depends(_parts)]
ExperimentId = Annotated[str, Path(alias="id", max_length=32)]
TrialId = Annotated[str, Path(alias="trialId", max_length=16)]


async def _reader(parts: Parts, experiment_id: ExperimentId) -> ExperimentReader:
    return parts.manager.reader(experiment_id)


async def _live(parts: Parts, experiment_id: ExperimentId) -> ExperimentRunner:
    return parts.manager.get(experiment_id)


Reader = Annotated[ExperimentReader, Depends(_reader)]
Live = Annotated[ExperimentRunner, Depends(_live)]


async def reply(build: Callable[[], BaseModel]) -> Response:
    """The answer that ``build`` makes: read, built and serialised in a thread, so that it stalls nobody."""

    def text() -> bytes:
        return build().model_dump_json().encode()

    return Response(await asyncio.to_thread(text), media_type="application/json")


def refusals(*statuses: int) -> Responses:
    """The error answers of a route, for its description."""
    return {status: {"model": ErrorAnswer} for status in statuses}


def streams(media_type: str) -> Responses:
    """The description of a route that answers with a stream of this kind."""
    return {200: {"content": {media_type: {}}}}

"""What every route gets: the parts of the server, and an experiment's runner and reader by its id."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Path, Request
from fastapi.responses import Response
from pydantic import BaseModel

from nnimgr.api.auth import Credentials
from nnimgr.api.models import ErrorAnswer
from nnimgr.core.manager import NNIManager, UnknownExperiment
from nnimgr.core.runner import ExperimentRunner
from nnimgr.store.reader import ExperimentReader

__all__ = ["ApiParts", "ExperimentId", "Live", "NotFound", "Parts", "Reader", "TrialId", "refusals", "reply"]


class NotFound(Exception):
    """There is no such thing; the message is one sentence for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiParts:
    """What the routes stand on. ``url`` is the server's own address; ``closing`` ends all streams."""

    manager: NNIManager
    credentials: Credentials
    url: str
    port: int
    version: str
    started_at: datetime
    closing: asyncio.Event = field(default_factory=asyncio.Event)

    def live(self, experiment_id: str) -> ExperimentRunner | None:
        """The experiment's runner, if it has one."""
        try:
            return self.manager.get(experiment_id)
        except UnknownExperiment:
            return None


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


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error answers of a route, for its description."""
    return {status: {"model": ErrorAnswer} for status in statuses}

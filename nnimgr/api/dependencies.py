"""FastAPI dependencies of the routes: the server's parts, and the runner and database reader of an
experiment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Path, Request
from fastapi.responses import Response
from pydantic import BaseModel

from nnimgr.analysis.process import Analyst
from nnimgr.api.auth import Credentials
from nnimgr.api.models import ErrorAnswer
from nnimgr.api.shutdown import Shutdown
from nnimgr.api.trial_paths import TrialPaths
from nnimgr.core.managing.manager import NNIManager
from nnimgr.core.running.runner import ExperimentRunner
from nnimgr.store.jobs import JobRow
from nnimgr.store.reader import ExperimentReader
from nnimgr.tensorboard.tasks import TensorBoards
from training_services.base import FileListing, TrainingService, job_of_member
from training_services.keepers.host import KeeperFiles, attempt_folder
from training_services.keepers.names import why_no_files

__all__ = [
    "ApiParts",
    "ExperimentId",
    "Live",
    "NotFound",
    "Parts",
    "Reader",
    "TrialId",
    "parts_for",
    "streams",
    "refusals",
    "reply",
]


Responses = dict[int | str, dict[str, Any]]


class NotFound(Exception):
    """Error: the requested object does not exist. The message is one sentence for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiParts:
    """Parts of the server that the routes use. ``url``: the server's own address."""

    manager: NNIManager
    credentials: Credentials
    url: str
    port: int
    version: str
    started_at: datetime
    url_prefix: str = ""  # prefix of NNI's routes
    shutdown: Shutdown = field(default_factory=Shutdown)
    analyst: Analyst = field(default_factory=Analyst)
    tensorboards: TensorBoards = field(default_factory=TensorBoards)

    def read_log(
        self, job: JobRow, name: str, *, experiment_id: str, follow: bool, tail: int | None = None
    ) -> AsyncIterator[bytes]:
        """Return the chunks of a log of an attempt (``job``).

        The log is read by the experiment's training service. If that is closed, it is read directly from the
        machine where the attempt ran. Raise FileNotFoundError or ServiceUnavailable, at the latest with the
        first chunk.
        """
        service = self._service(experiment_id, job)
        if service is not None:
            return service.read_log(job.job_id, name, follow=follow, tail=tail, keeper_id=job.keeper_id)
        return self._read_at_rest(job, name, experiment_id, tail=tail)

    def read_file(self, job: JobRow, path: str, *, experiment_id: str) -> AsyncIterator[bytes]:
        """Return the chunks of any file of an attempt (``job``).

        The file is read by the experiment's training service. If that is closed, it is read directly from the
        machine where the attempt ran. Raise FileNotFoundError or ServiceUnavailable, at the latest with the
        first chunk, or ValueError if the path is not possible.
        """
        service = self._service(experiment_id, job)
        if service is not None:
            return service.read_file(job.job_id, path, keeper_id=job.keeper_id)
        return self._read_at_rest(job, path, experiment_id)

    async def list_files(self, job: JobRow, *, experiment_id: str) -> FileListing:
        """Return a list of the files of an attempt (``job``).

        The list comes from the experiment's training service. If that is closed, it comes directly from the
        machine where the attempt ran. Raise FileNotFoundError or ServiceUnavailable.
        """
        service = self._service(experiment_id, job)
        if service is not None:
            return await service.list_files(job.job_id, keeper_id=job.keeper_id)
        async with self._at_rest(job, experiment_id) as (files, folder):
            return await files.listing(folder)

    def trial_paths(self, experiment_id: str) -> TrialPaths:
        """Return the object that knows the paths of the experiment's trials. Raise UnknownExperiment."""
        summary = self.manager.summary(experiment_id)
        return TrialPaths(experiment_id=experiment_id, directory=summary.directory, platform=summary.platform)

    def _service(self, experiment_id: str, job: JobRow) -> TrainingService | None:
        """Return the open training service that may have files of an attempt (``job``)."""
        runner = self.manager.find(experiment_id)
        if runner is None or why_no_files(job.keeper_id) is not None:
            return None
        machine = runner.state.machines.get(job.keeper_id or "")
        if machine is not None and machine.gone:
            return None  # a user has removed the machine from the experiment, whose files stay there
        closing = runner.session.closing
        return closing if closing is not None and closing.capabilities.keeps_files else runner.session.service

    @asynccontextmanager
    async def _at_rest(
        self, job: JobRow, experiment_id: str
    ) -> AsyncGenerator[tuple[KeeperFiles, Sequence[str]], None]:
        directory = self.manager.directory(experiment_id)
        async with self.manager.remains.files(directory, job.keeper_id) as files:
            yield files, attempt_folder(job.trial_id, job.attempt, job_of_member(job.job_id)[1])

    async def _read_at_rest(
        self, job: JobRow, path: str, experiment_id: str, *, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        async with (
            self._at_rest(job, experiment_id) as (files, folder),
            aclosing(files.read(folder, path, tail=tail)) as chunks,
        ):
            async for chunk in chunks:
                yield chunk


async def parts_for(request: Request) -> ApiParts:
    """Return the server's parts. For a request about an experiment, first read what is new in the index."""
    parts: ApiParts = request.app.state.parts
    if (experiment_id := request.path_params.get("id")) is not None:
        await parts.manager.look_for(experiment_id)
    return parts


Parts = Annotated[ApiParts, Depends(parts_for)]
ExperimentId = Annotated[str, Path(alias="id", max_length=32)]
TrialId = Annotated[str, Path(alias="trialId", max_length=16)]


async def _reader(parts: Parts, experiment_id: ExperimentId) -> ExperimentReader:
    await parts.manager.convert(experiment_id)
    await parts.manager.locks.created(experiment_id)
    return parts.manager.reader(experiment_id)


async def _live(parts: Parts, experiment_id: ExperimentId) -> ExperimentRunner:
    return parts.manager.get(experiment_id)


Reader = Annotated[ExperimentReader, Depends(_reader)]
Live = Annotated[ExperimentRunner, Depends(_live)]


async def reply(build: Callable[[], BaseModel]) -> Response:
    """Call ``build`` in a thread, and return the model that it returns as a JSON response.

    Reading the database and serialising happen in the thread, so that other requests do not wait.
    """

    def text() -> bytes:
        return build().model_dump_json().encode()

    return Response(await asyncio.to_thread(text), media_type="application/json")


# The names of these HTTP statuses differ between versions of Python.
_RENAMED = {413: {"description": "Content Too Large"}, 422: {"description": "Unprocessable Content"}}


def refusals(*statuses: int) -> Responses:
    """Return the OpenAPI description of a route's error answers with these HTTP statuses."""
    return {status: {"model": ErrorAnswer} | _RENAMED.get(status, {}) for status in statuses}


def streams(*media_types: str) -> Responses:
    """Return the OpenAPI description of a route whose answer is a stream of one of these media types."""
    return {200: {"content": {media_type: {} for media_type in media_types}}}

"""Routes for an experiment's logs: of its server, of its tuner and assessor, and of its keepers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import Path, Query
from fastapi.responses import Response, StreamingResponse

from nnimgr.api import models
from nnimgr.api.dependencies import ApiParts, ExperimentId, NotFound, Parts, Reader, refusals, reply, streams
from nnimgr.api.logs import log_stream, plain_log
from nnimgr.api.routing import Router
from nnimgr.api.streams import PartedResponse, until
from nnimgr.core.running.requests import RequestRefused
from nnimgr.store.reader import ExperimentReader
from training_services.keepers.names import LOCAL, host_of

router = Router(prefix="/api/v1/experiments/{id}", tags=["experiments"])

_KEEPER = "keeper-"
_KEEPER_LOG = (("keeper",), "keeper.log")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    """Log file of an experiment.

    The file is either at ``path`` on this machine, or on the machine of the keeper ``keeper_id``.
    """

    name: str
    about: str
    path: FilePath | None = None
    keeper_id: str | None = None


@router.get("/logs", response_model=models.Logs, responses=refusals(404))
async def list_logs(parts: Parts, experiment_id: ExperimentId, reader: Reader) -> Response:
    """Return a list of the experiment's logs, without those of its trials."""
    server = _server(parts, experiment_id)
    return await reply(lambda: models.Logs(logs=_entries(reader, parts, experiment_id, server)))


@router.get(
    "/logs/{name}",
    response_class=StreamingResponse,
    responses=streams("text/plain") | refusals(404, 409, 422, 503),
)
async def read_experiment_log(
    parts: Parts,
    experiment_id: ExperimentId,
    reader: Reader,
    name: Annotated[str, Path(max_length=100)],
    follow: Annotated[bool, Query(description="continue until the client disconnects")] = False,
    tail: Annotated[int | None, Query(ge=0, le=100_000, description="number of last lines to return")] = None,
) -> StreamingResponse:
    """Return the content of one of the experiment's logs. If a keeper on another machine wrote it, it is read
    there.
    """
    server = _server(parts, experiment_id)
    found = await asyncio.to_thread(_logs, reader, parts, experiment_id, server)
    log = next((log for log in found if log.name == name), None)
    if log is None:
        names = ", ".join(each.name for each in found)
        raise NotFound(f"There is no log {name}; the experiment's logs are: {names}.")
    if follow and log.path is None:
        raise RequestRefused(f"The log {name} is on another machine, where it cannot be followed.")
    try:
        chunks = await log_stream(
            lambda following, lines: _read(parts, experiment_id, log, following, lines),
            follow=follow,
            tail=tail,
        )
    except FileNotFoundError:
        raise NotFound(f"Nothing has been written to the log {name}.") from None
    return PartedResponse(until(parts.shutdown.closing, chunks), media_type="text/plain; charset=utf-8")


def _server(parts: ApiParts, experiment_id: str) -> _Log:
    """Return the log of the server that runs the experiment, or ran it last."""
    summary = parts.manager.summary(experiment_id)
    port = parts.port if summary.served or summary.port is None else summary.port
    about = f"Log of the server on port {port}, about all its experiments."
    return _Log(name="server", about=about, path=parts.manager.home.server_log_path(port))


def _logs(reader: ExperimentReader, parts: ApiParts, experiment_id: str, server: _Log) -> list[_Log]:
    """Return all logs that the experiment may have. This reads the database, so it must run in a thread."""
    directory = parts.manager.directory(experiment_id)
    dispatcher = _Log(
        name="dispatcher",
        about="Output of the tuner and the assessor.",
        path=directory / "log" / "dispatcher.log",
    )
    return [server, dispatcher, *(_keeper_log(directory, name) for name in reader.keeper_ids())]


def _keeper_log(directory: FilePath, keeper_id: str) -> _Log:
    if keeper_id == LOCAL:
        parts, name = _KEEPER_LOG
        about = "Problems of the keeper on the server's machine."
        return _Log(name=f"{_KEEPER}{keeper_id}", about=about, path=directory.joinpath(*parts, name))
    about = f"Problems of the keeper on {host_of(keeper_id) or keeper_id}, read from that machine."
    return _Log(name=f"{_KEEPER}{keeper_id}", about=about, keeper_id=keeper_id)


def _entries(
    reader: ExperimentReader, parts: ApiParts, experiment_id: str, server: _Log
) -> list[models.LogEntry]:
    entries = []
    for log in _logs(reader, parts, experiment_id, server):
        size, modified_at = None, None
        if log.path is not None:
            try:
                status = log.path.lstat()
            except OSError:
                continue
            size, modified_at = status.st_size, datetime.fromtimestamp(status.st_mtime, UTC)
        entries.append(
            models.LogEntry(
                name=log.name,
                about=log.about,
                size=size,
                modified_at=modified_at,
                follows=log.path is not None,
            )
        )
    return entries


def _read(
    parts: ApiParts, experiment_id: str, log: _Log, follow: bool, tail: int | None
) -> AsyncIterator[bytes]:
    if log.path is not None:
        return plain_log(log.path.parent, (), log.path.name, follow=follow, tail=tail)
    return _read_there(parts, experiment_id, log, tail=tail)


async def _read_there(
    parts: ApiParts, experiment_id: str, log: _Log, *, tail: int | None
) -> AsyncGenerator[bytes, None]:
    directory = parts.manager.directory(experiment_id)
    async with (
        parts.manager.remains.files(directory, log.keeper_id) as files,
        aclosing(files.read(*_KEEPER_LOG, tail=tail)) as chunks,
    ):
        async for chunk in chunks:
            yield chunk

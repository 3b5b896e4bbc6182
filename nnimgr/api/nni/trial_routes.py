"""NNI's routes about trials, their metrics and their files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from itertools import islice
from typing import cast

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from nnimgr.api.dependencies import NotFound
from nnimgr.api.logs import LogName
from nnimgr.api.nni.asking import HEADERS, Target, answer, body_of, listing, sober, target
from nnimgr.api.nni.javascript import number, stringify
from nnimgr.api.nni.metrics import main_objective, metric_text
from nnimgr.api.nni.trials import ShownTrials, stored_statuses
from nnimgr.core.running.requests import UnknownTrial
from nnimgr.store.counted_metrics import MetricLine
from nnimgr.store.reader import ExperimentReader, TrialRow

__all__ = ["ROUTES"]

_PAGE = 1000


async def list_trials(request: Request) -> Response:
    """Return all trials of the experiment, or only those with the status in the query."""
    about = target(request)
    return await listing(_trials(about.reader, await about.trials(), request.query_params.get("status")))


async def show_trial(request: Request) -> Response:
    """Return the trial that the path names."""
    about, trial_id = target(request), request.path_params["trial"]
    shown = await about.trials()

    def text() -> str:
        row = _trial(about.reader, trial_id)
        return shown.texts(about.reader, [row])[0]

    return answer(await asyncio.to_thread(text))


async def add_trial(request: Request) -> Response:
    """Add a trial with the parameter set in the request's body."""
    runner = target(request).changeable("add customized trial job")
    added = await runner.add_trial(sober(await body_of(request)))
    return answer(stringify({"sequenceId": added.sequence}))


async def cancel_trial(request: Request) -> Response:
    """Stop a trial. Do nothing if it has ended."""
    about, trial_id = target(request), request.path_params["trial"]
    runner = about.changeable("cancel trial job")
    try:
        await runner.stop_trial(trial_id)
    except UnknownTrial:
        await asyncio.to_thread(_trial, about.reader, trial_id)
    return answer()


async def metrics(request: Request) -> Response:
    """Return all metrics of the experiment, in the order in which they were recorded."""
    reader, kind = target(request).reader, request.query_params.get("type")
    return await listing(_texts(reader, reader.lines(kind=kind)))


async def trial_metrics(request: Request) -> Response:
    """Return the metrics of one trial."""
    reader, trial_id = target(request).reader, request.path_params["trial"]
    kind = request.query_params.get("type")

    def pages() -> Iterator[list[MetricLine]]:
        lines = reader.trial_lines(trial_id, kind=kind)
        while page := list(islice(lines, _PAGE)):
            yield page

    return await listing(_texts(reader, pages()))


async def metrics_of_range(request: Request) -> Response:
    """Return the metrics of the trials between two sequence ids, both included."""
    first, last = number(request.path_params["first"]), number(request.path_params["last"])
    reader = target(request).reader
    if first is None or last is None:
        return answer("[]")
    return await listing(_texts(reader, reader.lines(trials=(first, last))))


async def latest_metrics(request: Request) -> Response:
    """Return the final metrics of all trials, followed by the latest intermediate metric of each trial."""
    reader = target(request).reader

    def pages() -> Iterator[list[MetricLine]]:
        yield from reader.lines(kind="FINAL")
        yield reader.latest_lines()

    return await listing(_texts(reader, pages()))


async def trial_file(request: Request) -> Response:
    """Return a file that the trial has written: one of its logs, or any other file by its name."""
    about, trial_id = target(request), request.path_params["trial"]
    name = request.path_params["name"]
    shown = await about.trials()
    is_log = name in (log.value for log in LogName)
    row = await asyncio.to_thread(_trial, about.reader, trial_id)
    try:
        chunks = _file(about, row, name)
        first = await anext(chunks, b"")
    except (FileNotFoundError, ValueError):
        path = f"{shown.trial_paths.log_path_of_trial(row.trial_id, None)}/{name}"
        raise HTTPException(500, f"ENOENT: no such file or directory, open '{path}'") from None
    if is_log and not first:
        return answer(f"{name} is empty.", media_type="text/plain; charset=utf-8")
    media_type = "text/plain; charset=utf-8" if is_log else "application/octet-stream"
    if request.method == "HEAD":  # a HEAD request needs no content
        await chunks.aclose()
        return Response(headers={**HEADERS, "content-type": media_type})
    return StreamingResponse(_all(first, chunks), headers={**HEADERS, "content-type": media_type})


async def _file(about: Target, row: TrialRow, name: str) -> AsyncGenerator[bytes, None]:
    jobs = await asyncio.to_thread(about.reader.jobs, row.trial_id)
    if not jobs:
        raise FileNotFoundError(name)
    source = about.parts.read_file(jobs[-1], name, experiment_id=about.id)
    async with aclosing(cast("AsyncGenerator[bytes, None]", source)) as chunks:
        async for chunk in chunks:
            yield chunk


async def _all(first: bytes, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(chunks):
        yield first
        async for chunk in chunks:
            yield chunk


def _trials(reader: ExperimentReader, shown: ShownTrials, status: str | None) -> Iterator[list[str]]:
    statuses = () if status is None else stored_statuses(status, condemned=shown.condemned)
    if status is not None and not statuses:
        return
    sequence, more = 0, True
    while more:
        rows = reader.trials_from(sequence, statuses=statuses, limit=_PAGE)
        yield shown.texts(reader, [row for row in rows if status is None or shown.status(row) == status])
        more = len(rows) == _PAGE
        sequence = rows[-1].sequence + 1 if rows else sequence


def _texts(reader: ExperimentReader, pages: Iterator[list[MetricLine]]) -> Iterator[Iterator[str]]:
    main = main_objective(reader)
    for page in pages:
        yield (metric_text(line, main) for line in page)


def _trial(reader: ExperimentReader, trial_id: str) -> TrialRow:
    row = reader.trial(trial_id)
    if row is None:
        raise NotFound("Trial job not found")
    return row


ROUTES = (
    Route("/trial-jobs", list_trials, methods=["GET"]),
    Route("/trial-jobs", add_trial, methods=["POST"]),
    Route("/trial-jobs/{trial}", show_trial, methods=["GET"]),
    Route("/trial-jobs/{trial}", cancel_trial, methods=["DELETE"]),
    Route("/metric-data", metrics),
    Route("/metric-data/{trial}", trial_metrics),
    Route("/metric-data-range/{first}/{last}", metrics_of_range),
    Route("/metric-data-latest", latest_metrics),
    Route("/trial-file/{trial}/{name}", trial_file),
)

"""Routes for the trials of an experiment: list, show and add them; their metrics, logs and files."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Header, Query
from fastapi.responses import Response, StreamingResponse
from pydantic import AfterValidator

from nnimgr.api import models
from nnimgr.api.analysis import Analysis, Filter
from nnimgr.api.convert import checkpoint_of, job_of, leg_of, metric_of, trials_fields
from nnimgr.api.dependencies import (
    ExperimentId,
    Live,
    NotFound,
    Parts,
    Reader,
    TrialId,
    refusals,
    reply,
    streams,
)
from nnimgr.api.logs import LogName, begun, log_stream
from nnimgr.api.models import Order
from nnimgr.api.routing import Router
from nnimgr.api.streams import PartedResponse, until, whole
from nnimgr.config.parameter_sets import misfits_of_each
from nnimgr.core.running.new_trials import FailedTrial, check_changes
from nnimgr.core.running.requests import RequestRefused
from nnimgr.rules.facts import SuggestionSource, TrialStatus
from nnimgr.store.jobs import JobRow
from nnimgr.store.reader import TRIAL_SORTS, ExperimentReader, TrialRow
from training_services.base import member_id_of
from training_services.keepers.names import why_no_files

router = Router(prefix="/api/v1/experiments/{id}", tags=["trials"])


class MetricType(StrEnum):
    PERIODICAL = "PERIODICAL"
    FINAL = "FINAL"


_SORTS = (*TRIAL_SORTS, "latest", "attempt", "source")
_SORTS_OF_VALUES = ("parameters.", "metrics.")  # followed by a name
_SORT_NAMES = f"{', '.join(_SORTS)}, parameters.NAME or metrics.KEY"


def _checked_sort(column: str) -> str:
    if column in _SORTS or (column.startswith(_SORTS_OF_VALUES) and column not in _SORTS_OF_VALUES):
        return column
    raise ValueError(f"must be one of {_SORT_NAMES}")


Sort = Annotated[
    str,
    AfterValidator(_checked_sort),
    Query(max_length=500, description=f"column by which trials are sorted: {_SORT_NAMES}"),
]
Statuses = Annotated[
    list[TrialStatus] | None, Query(description="only trials with this status; may be repeated")
]
Search = Annotated[
    str,
    Query(
        max_length=200,
        description="text to search in ids, parameters, users' notes and tags, or the number of a trial",
    ),
]
WithoutResult = Annotated[
    bool, Query(alias="withoutResult", description="only trials that SUCCEEDED without a usable result")
]
Attempt = Annotated[
    int | None, Query(ge=1, lt=2**31, description="number of the attempt; default: the latest")
]
MemberNumber = Annotated[
    int | None,
    Query(
        ge=0, lt=2**16, description="number of the member of an attempt on several hosts; default: the leader"
    ),
]
After = Annotated[int, Query(ge=0, lt=2**63, description="number of a fact: return only newer metrics")]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=100,
        pattern=r"^[!-~]+$",
        description="a text that the client has not used before, such as a random UUID",
    ),
]
MetricLimit = Annotated[int, Query(ge=1, le=10_000)]


@router.get("/trials", response_model=models.Trials, responses=refusals(404, 422, 503))
async def list_trials(
    parts: Parts,
    experiment_id: ExperimentId,
    reader: Reader,
    analysis: Analysis,
    offset: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    status: Statuses = None,
    sort: Sort = "sequence",
    order: Order = Order.ASCENDING,
    search: Search = "",
    filter: Filter = "",
    without_result: WithoutResult = False,
) -> Response:
    """Return a page of the experiment's trials that match the filter, the statuses and the search."""
    trial_paths = parts.trial_paths(experiment_id)
    wanted: dict[str, Any] = {
        "offset": offset,
        "limit": limit,
        "statuses": status or [],
        "sort": sort,
        "descending": order is Order.DESCENDING,
        "search": search,
    }
    # The database selects and sorts the trials if it has the columns for it, else the analysis process does.
    found = None
    if filter or without_result or sort not in TRIAL_SORTS:
        found = await analysis.ask_json("page", filter=filter, without_result=without_result, **wanted)

    def build() -> models.Trials:
        if found is None:
            total, rows = reader.trials(**wanted)
        else:
            total, rows = found["total"], reader.trials_at(found["sequences"])
        trials = [models.Trial(**fields) for fields in trials_fields(reader, rows, trial_paths)]
        return models.Trials(total=total, trials=trials)

    return await reply(build)


@router.get("/trials/{trialId}", response_model=models.TrialDetail, responses=refusals(404))
async def show_trial(
    parts: Parts, experiment_id: ExperimentId, reader: Reader, trial_id: TrialId
) -> Response:
    """Return a trial with all its attempts."""
    trial_paths = parts.trial_paths(experiment_id)

    def build() -> models.TrialDetail:
        row = trial_row(reader, trial_id)
        (fields,) = trials_fields(reader, [row], trial_paths)
        legs = reader.legs(trial_id)
        first = json.loads(reader.first_parameters(trial_id)) if legs else fields["parameters"]
        return models.TrialDetail(
            **fields,
            jobs=[job_of(job, trial_paths) for job in reader.jobs(trial_id)],
            checkpoints=[checkpoint_of(each) for each in reader.checkpoints(trial_id)],
            first_parameters=first,
            legs=[leg_of(each) for each in legs],
            retried_as=reader.retried_as(trial_id),
        )

    return await reply(build)


@router.post("/trials", status_code=201, responses=refusals(404, 409, 422))
async def add_trial(
    runner: Live, reader: Reader, wanted: models.AddTrial, key: IdempotencyKey = None
) -> models.AddedTrial:
    """Add a trial with this parameter set (a customised trial), or with that of another trial (`like`).

    With `like`, a value that differs from that trial and is outside of the search space is used, and named in
    `warnings`. A value that is not a number where the search space has numbers is refused. Without `like`,
    nothing is refused, and `warnings` has all that does not fit the search space.
    A client that got no answer repeats the request with the same `Idempotency-Key`. It gets the trial that
    the first request has added, or 409 if the parameters differ. The newest 1000 keys are kept.
    """
    parameters: Any = wanted.parameters
    if wanted.like is None:
        warnings = [each for found in misfits_of_each(runner.config, [parameters]) for each in found]
    else:
        row = await asyncio.to_thread(trial_row, reader, wanted.like)
        before = json.loads(row.parameters)
        if parameters is None:
            parameters, warnings = before, []
        else:
            warnings = check_changes(runner.state.id, runner.config, before, parameters)
    added = await runner.add_trial(parameters, key=key, raise_limit=wanted.raise_limit)
    return models.AddedTrial(id=added.trial_id, sequence=added.sequence, warnings=warnings)


@router.post("/rerun", status_code=201, responses=refusals(404, 409, 422))
async def rerun_trials(
    runner: Live, reader: Reader, wanted: models.RerunTrials | None = None
) -> models.RerunStarted:
    """Run failed trials again. Each becomes a new trial, which counts instead of the failed trial."""
    ids = None if wanted is None else wanted.trial_ids
    started = await runner.rerun(lambda: _failed(reader, ids))
    return models.RerunStarted(
        trials=[
            models.RerunTrial(id=trial.trial_id, sequence=trial.sequence, retry_of=str(trial.retry_of))
            for trial in started
        ]
    )


@router.post("/trials/stop", status_code=202, responses=refusals(404, 409, 422))
async def stop_trials(runner: Live, reader: Reader, wanted: models.StopTrials) -> models.StopAnswer:
    """Stop several trials at once. Trials that cannot be stopped are listed with the reason."""
    ids = list(dict.fromkeys(wanted.trial_ids))
    stopped = await runner.stop_trials(ids)
    others = [trial_id for trial_id in ids if trial_id not in stopped]
    known = await asyncio.to_thread(reader.trials_of, others) if others else {}
    return models.StopAnswer(
        stopped=[trial_id for trial_id in ids if trial_id in stopped],
        refused=[
            models.NotStopped(
                trial_id=trial_id,
                reason=has_ended(known[trial_id]) if trial_id in known else f"There is no trial {trial_id}.",
            )
            for trial_id in others
        ],
    )


@router.get("/metrics", response_model=models.Metrics, responses=refusals(404, 422))
async def list_metrics(
    reader: Reader,
    trial_id: Annotated[str | None, Query(alias="trialId", max_length=16)] = None,
    type: MetricType | None = None,
    after: After = 0,
    limit: MetricLimit = 1000,
) -> Response:
    """Return a page of the experiment's metrics, in the order in which they were recorded."""
    return await reply(lambda: _metrics(reader, trial_id, type, after=after, limit=limit))


@router.get("/trials/{trialId}/metrics", response_model=models.Metrics, responses=refusals(404, 422))
async def list_trial_metrics(
    reader: Reader,
    trial_id: TrialId,
    type: MetricType | None = None,
    after: After = 0,
    limit: MetricLimit = 1000,
) -> Response:
    """Return a page of the metrics of all attempts of a trial."""

    def build() -> models.Metrics:
        trial_row(reader, trial_id)
        return _metrics(reader, trial_id, type, after=after, limit=limit)

    return await reply(build)


@router.get("/trials/{trialId}/curve", response_model=models.TrialCurve, responses=refusals(404, 422))
async def show_trial_curve(
    reader: Reader,
    trial_id: TrialId,
    points: Annotated[int, Query(ge=4, le=10_000, description="largest number of metrics")] = 1000,
) -> Response:
    """Return intermediate metrics of one trial for a chart.

    If there are more than `points` metrics, the answer has the first metric, the last metric, and two of each
    group of neighbours: those with the lowest and the highest `value`. All groups have the same size. A
    metric that is an object is returned with all its numbers.
    """

    def build() -> models.TrialCurve:
        trial_row(reader, trial_id)
        found = reader.curve(trial_id, points=points)
        return models.TrialCurve(
            attempt=found.attempt,
            total=found.total,
            after=found.after,
            metrics=[metric_of(row) for row in found.metrics],
        )

    return await reply(build)


@router.get(
    "/trials/{trialId}/logs/{name}",
    response_class=StreamingResponse,
    responses=streams("text/plain") | refusals(404, 422, 503),
)
async def read_log(
    parts: Parts,
    experiment_id: ExperimentId,
    reader: Reader,
    trial_id: TrialId,
    name: LogName,
    follow: Annotated[bool, Query(description="continue until the attempt has ended")] = False,
    tail: Annotated[int | None, Query(ge=0, le=100_000, description="number of last lines to return")] = None,
    attempt: Attempt = None,
    member: MemberNumber = None,
) -> StreamingResponse:
    """Return a log of the trial: its standard output, its standard error, or the file trial.log."""
    job = await asyncio.to_thread(find_job, reader, trial_id, attempt, member)
    try:
        chunks = await log_stream(
            lambda following, lines: parts.read_log(
                job, name.value, experiment_id=experiment_id, follow=following, tail=lines
            ),
            follow=follow,
            tail=tail,
        )
    except FileNotFoundError:
        raise await _no_file(reader, job, f"has not written {name}") from None
    return PartedResponse(until(parts.shutdown.closing, chunks), media_type="text/plain; charset=utf-8")


@router.get("/trials/{trialId}/files", response_model=models.TrialFiles, responses=refusals(404, 503))
async def list_files(
    parts: Parts,
    experiment_id: ExperimentId,
    reader: Reader,
    trial_id: TrialId,
    attempt: Attempt = None,
    member: MemberNumber = None,
) -> models.TrialFiles:
    """Return a list of the files that an attempt has written, from the machine where it ran."""
    job = await asyncio.to_thread(find_job, reader, trial_id, attempt, member)
    try:
        listing = await parts.list_files(job, experiment_id=experiment_id)
    except FileNotFoundError:
        raise await _no_file(reader, job, f"has no folder for attempt {job.attempt}") from None
    return models.TrialFiles(
        attempt=job.attempt,
        files=[models.TrialFile(**file._asdict()) for file in listing.files],
        complete=listing.complete,
    )


@router.get(
    "/trials/{trialId}/files/{path:path}",
    response_class=StreamingResponse,
    responses=streams("application/octet-stream") | refusals(404, 422, 503),
)
async def read_file(
    parts: Parts,
    experiment_id: ExperimentId,
    reader: Reader,
    trial_id: TrialId,
    path: str,
    attempt: Attempt = None,
    member: MemberNumber = None,
) -> StreamingResponse:
    """Return a file of an attempt, up to its current size. A stream that breaks off is incomplete."""
    job = await asyncio.to_thread(find_job, reader, trial_id, attempt, member)
    try:
        chunks = await begun(parts.read_file(job, path, experiment_id=experiment_id))
    except (FileNotFoundError, ValueError):
        raise await _no_file(reader, job, f"has no file {path} in attempt {job.attempt}") from None
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(path.rpartition('/')[2])}"}
    sent = whole(parts.shutdown.closing, chunks)
    return PartedResponse(sent, media_type="application/octet-stream", headers=headers)


async def _no_file(reader: ExperimentReader, job: JobRow, missing: str) -> NotFound:
    """Build the error for a file that an attempt does not have. ``missing``: the end of the sentence."""
    if (why := why_no_files(job.keeper_id)) is not None:
        missing = f"{why}, so nnimgr has no output and no files of it"
    row = await asyncio.to_thread(trial_row, reader, job.trial_id)
    return NotFound(f"Trial {row.title} {missing}.")


def find_job(
    reader: ExperimentReader, trial_id: str, attempt: int | None, member: int | None = None
) -> JobRow:
    """Return this attempt of a trial. Raise NotFound.

    Without ``attempt``, return the latest attempt that has got a place, because only such an attempt has
    files; or the first attempt if it waits for a place.

    ``member``: return the part of the attempt that is this member, with the member's id and keeper.
    """
    row = trial_row(reader, trial_id)
    jobs = reader.jobs(trial_id)
    found = [job for job in jobs if attempt in (None, job.attempt)]
    if not found:
        missing = f"has no attempt {attempt}" if jobs else "has not been started"
        raise NotFound(f"Trial {row.title} {missing}.")
    job = next((job for job in reversed(found) if job.keeper_id is not None), found[-1])
    if not member:
        return job
    if member >= len(job.members):
        has = f"has {len(job.members)} members, from 0 on" if job.members else "runs on one host"
        raise NotFound(f"Attempt {job.attempt} of trial {row.title} has no member {member}: it {has}.")
    return replace(
        job, job_id=member_id_of(job.job_id, member), keeper_id=job.members[member].keeper_id, members=()
    )


def _failed(reader: ExperimentReader, ids: list[str] | None) -> list[FailedTrial]:
    """Return the failed trials with these ids, or all failed trials that were not run again yet.

    Raise NotFound for an unknown trial, and RequestRefused for one that cannot be run again.
    """
    found = {row.trial_id: row for row in reader.failed()}
    for trial_id in ids or ():
        if trial_id not in found:
            row = trial_row(reader, trial_id)
            if row.source is SuggestionSource.CONFIRMATION:
                original = row.retry_of and trial_row(reader, row.retry_of).title
                why = f"only confirms trial {original}, and is not retried by hand"
            elif (again := reader.retried_as(trial_id)) is not None:
                why = f"was retried already, as trial {trial_row(reader, again).title}"
            else:
                why = f"has not failed: it is {row.status}"
            raise RequestRefused(f"Trial {row.title} {why}.")
    chosen = found.values() if ids is None else [found[trial_id] for trial_id in dict.fromkeys(ids)]
    origins = reader.origins([row.trial_id for row in chosen])
    return [
        FailedTrial(
            id=row.trial_id,
            parameter_id=row.parameter_id,
            parameters=row.parameters,
            origin=origins.get(row.trial_id),
        )
        for row in chosen
    ]


def has_ended(row: TrialRow) -> str:
    return f"Trial {row.title} has ended already: it is {row.status}."


def trial_row(reader: ExperimentReader, trial_id: str) -> TrialRow:
    row = reader.trial(trial_id)
    if row is None:
        raise NotFound(f"There is no trial {trial_id}.")
    return row


def _metrics(
    reader: ExperimentReader, trial_id: str | None, kind: MetricType | None, *, after: int, limit: int
) -> models.Metrics:
    rows = reader.metrics(
        trial_id=trial_id, kind=None if kind is None else kind.value, after=after, limit=limit
    )
    following = rows[-1].number if len(rows) == limit else None
    return models.Metrics(metrics=[metric_of(row) for row in rows], next_after=following)

"""Routes for experiments: create, list, show, change, stop, resume, view, delete, import, export."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from typing import Annotated, Any

import yaml
from fastapi import Body, Query, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from pydantic import ValidationError

from nnimgr.api import models
from nnimgr.api.convert import confirmations_model, parameters_of, plain_json
from nnimgr.api.dependencies import ApiParts, ExperimentId, Live, Parts, Reader, refusals, reply
from nnimgr.api.pace import CREATIONS, forecast, trials_per_s
from nnimgr.api.routing import Router
from nnimgr.api.streams import PartedResponse
from nnimgr.config import feasible_share, read_canonical
from nnimgr.config.model import platform_of
from nnimgr.core.managing.manager import ExperimentSummary, NewExperiment
from nnimgr.core.running.notices import UNSAVED, Notice, unsaved_notice
from nnimgr.core.running.runner import LIVE
from nnimgr.goal import is_stated, optimize_mode
from nnimgr.objectives import objectives_of
from nnimgr.rules.activity import sentence_of
from nnimgr.rules.facts import DrainReason, ExperimentStatus, Limits, TrialStatus
from nnimgr.rules.phrases import best_so_far
from nnimgr.spelling import capital
from nnimgr.store.reader import ExperimentReader, ExperimentRow, TrialRow, TrialSet

_AT_ONCE = 200  # records of an import that are checked before other tasks may run

router = Router(prefix="/api/v1/experiments", tags=["experiments"])


@router.post("", status_code=201, responses=refusals(400, 409, 422))
async def create_experiment(
    parts: Parts, wanted: models.CreateExperiment, response: Response
) -> models.Created:
    """Create and start an experiment.

    Status 200: an experiment with this id and configuration exists already, so nothing was created.
    """
    new = NewExperiment(
        config=wanted.config,
        search_space=wanted.search_space,
        id=wanted.id,
        environ=wanted.environ,
        cwd=wanted.cwd,
        python=wanted.python,
    )
    experiment_id, created = await parts.manager.create(new)
    response.status_code = 201 if created else 200
    return models.Created(id=experiment_id)


@router.get("", response_model=models.Experiments)
async def list_experiments(parts: Parts) -> Response:
    """Return all experiments that the server knows, oldest first, including experiments of other servers."""
    await parts.manager.look_again()
    summaries, fill = parts.manager.summaries(), parts.manager.stored.fill
    return await reply(lambda: models.Experiments(experiments=[_summary(fill(item)) for item in summaries]))


@router.get("/{id}", response_model=models.Experiment, responses=refusals(404))
async def show_experiment(parts: Parts, experiment_id: ExperimentId, reader: Reader) -> Response:
    """Return an experiment, with its configuration, status, progress and best trial."""
    known = _known(parts, experiment_id)
    return await reply(lambda: _profile(reader, known))


@router.patch("/{id}", response_model=models.Experiment, responses=refusals(400, 404, 409, 422))
async def change_experiment(
    parts: Parts,
    experiment_id: ExperimentId,
    runner: Live,
    reader: Reader,
    changes: Annotated[models.JsonObject, Body()],
) -> Response:
    """Change fields of a running experiment's configuration, for example {"trialConcurrency": 4}."""
    await runner.change_config(changes)
    known = _known(parts, experiment_id)
    return await reply(lambda: _profile(reader, known))


@router.post("/{id}/stop", responses=refusals(404, 409))
async def stop_experiment(
    parts: Parts, experiment_id: ExperimentId, how: models.StopExperiment | None = None
) -> models.Stopped:
    """Stop the experiment and its trials. With ``detach``, its trials continue, and the answer lists them."""
    detach, save = (False, False) if how is None else (how.detach, how.save)
    still_running = await parts.manager.stop(experiment_id, detach=detach, save=save)
    idle = parts.shutdown.until_idle and parts.manager.idle
    shown = parts.tensorboards.shown if idle else []
    runner = parts.manager.find(experiment_id)
    return models.Stopped(
        still_running=still_running,
        unsaved=[] if runner is None else runner.unsaved,
        left=[] if runner is None else list(runner.session.left),
        server_leaves=idle and not shown,
        tensorboards=shown,
    )


@router.post("/{id}/resume", responses=refusals(404, 409))
async def resume_experiment(
    parts: Parts, experiment_id: ExperimentId, how: models.ResumeExperiment | None = None
) -> models.Created:
    """Resume a stopped or finished experiment."""
    surroundings = None
    if how is not None and how.environ is not None:
        surroundings = NewExperiment(
            config={}, search_space={}, environ=how.environ, cwd=how.cwd, python=how.python
        )
    await parts.manager.resume(experiment_id, surroundings)
    return models.Created(id=experiment_id)


@router.post("/{id}/view", responses=refusals(404, 409))
async def view_experiment(parts: Parts, experiment_id: ExperimentId) -> models.Created:
    """Open a stopped experiment as VIEWED: it does not run and cannot be changed. A stop ends the view."""
    await parts.manager.view(experiment_id)
    return models.Created(id=experiment_id)


@router.delete("/{id}", responses=refusals(404, 409))
async def delete_experiment(
    parts: Parts,
    experiment_id: ExperimentId,
    leave_unreachable: Annotated[
        bool,
        Query(
            alias="leaveUnreachable",
            description="delete even if files on unreachable machines cannot be removed",
        ),
    ] = False,
) -> models.Deleted:
    """Delete a stopped experiment: its files on machines, its folder and its entry in the list of
    experiments.
    """
    left = await parts.manager.delete(experiment_id, leave=leave_unreachable)
    await parts.tensorboards.stop_all(experiment_id)
    return models.Deleted(left=left)


@router.patch("/{id}/labels", responses=refusals(404, 409, 422))
async def change_labels(
    parts: Parts, experiment_id: ExperimentId, wanted: models.ChangeLabels
) -> models.Labels:
    """Change the labels of an experiment (tags, archived), whether it is open on this server or not."""
    await parts.manager.label(experiment_id, tags=wanted.tags, archived=wanted.archived)
    summary = parts.manager.summary(experiment_id)
    return models.Labels(tags=list(summary.tags), archived=summary.archived)


@router.post("/{id}/import", responses=refusals(404, 409, 422))
async def import_data(runner: Live, wanted: models.ImportData) -> models.Imported:
    """Pass results from outside the experiment to the tuner.

    A result that the tuner cannot use is left out, and named in `warnings`. A result whose parameters do not
    fit the search space is given to the tuner, and named, too.
    """
    found = await runner.import_data(await asyncio.to_thread(_checked, wanted.records))
    return models.Imported(given=found.given, warnings=found.warnings)


@router.get("/{id}/export", response_model=models.Export, responses=refusals(404))
async def export_results(
    reader: Reader,
    intermediate: Annotated[bool, Query(description="include all intermediate results")] = False,
) -> StreamingResponse:
    """Return all trials that have a final result, in the order of their creation."""
    results = _export(reader, intermediate=intermediate)
    first = await asyncio.to_thread(next, results)  # an error here gets an answer of its own
    return PartedResponse(chain([first], results), media_type="application/json")


def _checked(records: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the records of an import as plain values. Raise RequestValidationError if a record is not valid.

    This runs in a thread, in small steps, so that other requests do not wait.
    """
    found: list[dict[str, Any]] = []
    for begin in range(0, len(records), _AT_ONCE):
        try:
            part = models.ImportedRecords(records=list(records[begin : begin + _AT_ONCE]))
        except ValidationError as error:
            faults = error.errors(include_url=False)
            for fault in faults:
                _, number, *rest = fault["loc"]
                fault["loc"] = ("body", "records", begin + int(number), *rest)
            raise RequestValidationError(faults) from error
        found += ({"parameter": record.parameter, "value": record.value} for record in part.records)
    return found


def _summary(summary: ExperimentSummary) -> models.ExperimentSummary:
    return models.ExperimentSummary(
        id=summary.id,
        name=summary.name,
        status=str(summary.status),
        drain=None if summary.drain is None else DrainReason(summary.drain),
        reason=summary.reason,
        platform=summary.platform,
        port=summary.port,
        served=summary.served,
        created_at=summary.created_at,
        ended_at=summary.ended_at,
        duration_s=summary.active_s,
        counts=_counts(summary.counts),
        best_trial_id=summary.best_trial_id,
        best_value=summary.best_value,
        owner=summary.owner,
        tags=list(summary.tags),
        archived=summary.archived,
        max_trial_number=summary.max_trial_number,
        trial_concurrency=summary.trial_concurrency,
        optimize_mode=summary.optimize_mode,
        objectives=dict(summary.objectives),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """Properties of an experiment that only the server's memory has. They must be read on the event loop."""

    summary: ExperimentSummary
    active: timedelta | None  # None if the experiment has no runner
    retried: int | None  # None if the experiment has no runner
    now: str | None
    viewed: bool
    trouble: str | None
    notices: list[models.Notice]


def _known(parts: ApiParts, experiment_id: str) -> _Known:
    manager = parts.manager
    runner = manager.find(experiment_id)
    return _Known(
        summary=manager.summary(experiment_id),
        active=runner.active() if runner is not None else None,
        retried=runner.state.reruns if runner is not None else None,
        now=runner.now() if runner is not None else None,
        viewed=manager.viewed(experiment_id),
        trouble=manager.trouble(experiment_id),
        notices=[_notice(*item) for item in manager.notices(experiment_id).items()],
    )


def _notice(about: str, notice: Notice) -> models.Notice:
    return models.Notice(
        about=about,
        sentence=notice.sentence,
        subject=notice.subject,
        seconds=notice.seconds,
        detail=notice.detail,
    )


def _notices(reader: ExperimentReader, row: ExperimentRow, known: _Known) -> list[models.Notice]:
    """Return the experiment's notices. Those of its algorithms end with their processes, but users of an
    ended experiment still have to see that its scheduler could do nothing.
    """
    scheduler = row.config.get("scheduler")
    if row.status in LIVE or not scheduler or any(notice.about == UNSAVED for notice in known.notices):
        return known.notices
    if not reader.refused_for_nothing_saved():
        return known.notices
    name = scheduler.get("name") or scheduler.get("className") or ""
    return [*known.notices, _notice(UNSAVED, unsaved_notice(name))]


def _profile(reader: ExperimentReader, known: _Known) -> models.Experiment:
    row = reader.experiment()
    config = row.config
    best = reader.trial(row.best_trial_id) if row.best_trial_id else None
    read = read_canonical({**config, "searchSpace": row.search_space})
    limits = read.limits()
    retried = reader.count_retried() if known.retried is None else known.retried
    confirmed = reader.confirmations(config)
    return models.Experiment(
        id=row.experiment_id,
        name=config.get("experimentName") or "",
        status=ExperimentStatus.VIEWED if known.viewed else row.status,
        drain=row.drain,
        reason=_viewed(row) if known.viewed else known.trouble or row.reason,
        platform=platform_of(config),
        created_at=row.created_at,
        ended_at=row.ended_at,
        served=known.summary.served,
        duration_s=row.active_us / 1e6 if known.active is None else known.active.total_seconds(),
        counts=_counts(row.counts),
        without_result=reader.count_without_result(config),
        retried=retried,
        best_trial=_best(reader, row, best),
        confirmations=confirmations_model(confirmed),
        optimize_mode=optimize_mode(config),
        goal_stated=is_stated(config),
        objectives=objectives_of(config),
        limits=models.LimitsModel(
            trial_concurrency=limits.trial_concurrency,
            max_trial_number=limits.max_trial_number,
            max_experiment_duration_s=_seconds(limits.max_experiment_duration),
            max_trial_duration_s=_seconds(limits.max_trial_duration),
        ),
        pace=_pace(reader, row, known, limits, made=0 if confirmed is None else confirmed.made),
        now=_now(row, known, best),
        config=config,
        search_space=row.search_space,
        feasible_share=feasible_share(read),
        config_text=_yaml(json.dumps({**config, "searchSpace": row.search_space})),
        port=known.summary.port,
        errors=[
            models.ExperimentError(
                at=failure.at,
                role=failure.fact.role,
                call=failure.fact.call,
                sentence=failure.fact.sentence,
                traceback=failure.fact.traceback,
                trial_id=failure.fact.trial_id,
            )
            for failure in reader.failures(limit=20)
        ],
        notices=_notices(reader, row, known),
        directory=str(known.summary.directory),
        last_number=row.last_number,
    )


def _pace(
    reader: ExperimentReader, row: ExperimentRow, known: _Known, limits: Limits, *, made: int
) -> models.Pace | None:
    """Return the rate of new trials, and the expected end. ``made``: number of confirmations, which are not
    trials of the search.
    """
    if known.active is None or row.status is not ExperimentStatus.RUNNING:
        return None
    created = sum(row.counts.values())
    counted = created - row.counts.get(TrialStatus.SYS_CANCELED, 0) - (known.retried or 0) - made
    live = sum(row.counts.get(status, 0) for status in TrialStatus if not status.terminal)
    pace = trials_per_s(
        reader.latest_creations(CREATIONS),
        created=created,
        ended=created - live,
        slots=limits.trial_concurrency,
        now=datetime.now(UTC),
    )
    most, longest = limits.max_trial_number, limits.max_experiment_duration
    end = forecast(
        pace,
        unfinished=None if most is None else max(0, most - counted) + live,
        time_left=None if longest is None else longest - known.active,
    )
    return models.Pace(
        trials_per_minute=None if pace is None else pace * 60,
        remaining_s=None if end is None else end.remaining.total_seconds(),
        limit=None if end is None else end.limit,
    )


def _viewed(row: ExperimentRow) -> str:
    last = sentence_of(row.status, row.reason)
    return f"the experiment does not run and cannot be changed; its last state: {last}"


def _now(row: ExperimentRow, known: _Known, best: TrialRow | None) -> str:
    if known.viewed:
        told = f"open for viewing only: {_viewed(row)}"
    elif known.trouble is not None:
        told = f"the experiment is not running: {known.trouble}"
    elif known.now is not None:
        told = known.now
    elif known.summary.served or row.status not in (ExperimentStatus.RUNNING, ExperimentStatus.DRAINING):
        told = sentence_of(row.status, row.reason)
    else:
        told = f"the experiment is not open on this server; its stored status is {row.status}: {row.reason}"
    if best is not None and row.best_value is not None:
        shown = best_so_far(row.best_value, best.sequence)
        told += "" if shown in told else f"; {shown}"
    return f"{capital(told.rstrip('.'))}."


@lru_cache(maxsize=32)
def _yaml(text: str) -> str:
    """Return the YAML text of a JSON text. The result is cached, because converting a large text is slow."""
    return yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=True)


def _best(reader: ExperimentReader, row: ExperimentRow, trial: TrialRow | None) -> models.BestTrial | None:
    if trial is None or row.best_value is None:
        return None
    sets = reader.sets([trial])[trial.trial_id] if row.config.get("multiPhase") else []
    return models.BestTrial(
        trial_id=trial.trial_id,
        sequence=trial.sequence,
        value=row.best_value,
        ended_at=trial.ended_at,
        parameters=plain_json(parameters_of(trial, sets)),
    )


def _counts(counts: Mapping[str, int]) -> dict[TrialStatus, int]:
    return {TrialStatus(status): number for status, number in counts.items()}


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()


def _export(reader: ExperimentReader, *, intermediate: bool) -> Iterator[str]:
    """Yield the JSON text of a ``models.Export``, one result at a time. It reads the database, so it runs in
    threads.
    """
    separator = '{"trials":['
    for page in reader.results():
        for row, held, final in page:
            values = _intermediates(reader, row, held) if intermediate else None
            exported = {
                "trialId": row.trial_id,
                "sequence": row.sequence,
                "parameterId": held.parameter_id,
                "parameters": plain_json(held.parameters),
                "value": final.value,
                "text": final.line.text,
                "intermediates": values,
            }
            yield separator + json.dumps(exported, allow_nan=False)
            separator = ","
    yield "]}" if separator == "," else '{"trials":[]}'


def _intermediates(reader: ExperimentReader, row: TrialRow, held: TrialSet) -> list[float | None]:
    """Return the values that the trial reported before its result.

    For a trial with several parameter sets, return only the values of this set.
    """
    metrics = reader.metrics(trial_id=row.trial_id, attempt=row.attempt, kind="PERIODICAL")
    if not reader.further_sets([row.trial_id]):
        return [metric.value for metric in metrics]
    own = None if held.parameter_id is None else str(held.parameter_id)
    return [metric.value for metric in metrics if metric.parameter_id == own]

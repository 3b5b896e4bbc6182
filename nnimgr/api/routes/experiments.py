"""Experiments: create, list, show, change, stop, resume, view, delete, import, export."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Response
from fastapi.responses import StreamingResponse

from nnimgr.api import models
from nnimgr.api.convert import plain_json
from nnimgr.api.dependencies import ApiParts, ExperimentId, Live, Parts, Reader, refusals, reply
from nnimgr.config import read_canonical
from nnimgr.core.facts import DrainReason, ExperimentStatus, TrialStatus
from nnimgr.core.manager import ExperimentSummary, NewExperiment
from nnimgr.store.reader import ExperimentReader, ExperimentRow, TrialRow

router = APIRouter(prefix="/api/v1/experiments", tags=["experiments"])


@router.post("", status_code=201, responses=refusals(400, 409, 422))
async def create_experiment(
    parts: Parts, wanted: models.CreateExperiment, response: Response
) -> models.Created:
    """Create and start an experiment; 200 if it exists already with this id and configuration."""
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


@router.get("")
async def list_experiments(parts: Parts) -> models.Experiments:
    """All experiments of the index, as this server knows them."""
    return models.Experiments(experiments=[_summary(item) for item in parts.manager.summaries()])


@router.get("/{id}", response_model=models.Experiment, responses=refusals(404))
async def show_experiment(parts: Parts, experiment_id: ExperimentId, reader: Reader) -> Response:
    """The profile of an experiment."""
    return await reply(lambda: _profile(reader, parts, experiment_id))


@router.patch("/{id}", response_model=models.Experiment, responses=refusals(400, 404, 409, 422))
async def change_experiment(
    parts: Parts,
    experiment_id: ExperimentId,
    runner: Live,
    reader: Reader,
    changes: Annotated[models.JsonObject, Body()],
) -> Response:
    """Change fields of the configuration while it runs, such as {"trialConcurrency": 4}."""
    await runner.change_config(changes)
    return await reply(lambda: _profile(reader, parts, experiment_id))


@router.post("/{id}/stop", responses=refusals(404, 409))
async def stop_experiment(
    parts: Parts, experiment_id: ExperimentId, how: models.StopExperiment | None = None
) -> models.Stopped:
    """Stop the experiment and its trials; with ``detach`` the trials run on and are listed."""
    still_running = await parts.manager.stop(experiment_id, detach=how is not None and how.detach)
    leaves = parts.life.until_idle and parts.manager.idle
    return models.Stopped(still_running=still_running, server_leaves=leaves)


@router.post("/{id}/resume", responses=refusals(404, 409))
async def resume_experiment(
    parts: Parts, experiment_id: ExperimentId, how: models.ResumeExperiment | None = None
) -> models.Created:
    """Go on with a stopped or finished experiment."""
    surroundings = None
    if how is not None and how.environ is not None:
        surroundings = NewExperiment(
            config={}, search_space={}, environ=how.environ, cwd=how.cwd, python=how.python
        )
    await parts.manager.resume(experiment_id, surroundings)
    return models.Created(id=experiment_id)


@router.post("/{id}/view", responses=refusals(404, 409))
async def view_experiment(parts: Parts, experiment_id: ExperimentId) -> models.Created:
    """Show a stopped experiment here as VIEWED: nothing of it runs or changes; a stop ends that."""
    await parts.manager.view(experiment_id)
    return models.Created(id=experiment_id)


@router.delete("/{id}", responses=refusals(404, 409))
async def delete_experiment(parts: Parts, experiment_id: ExperimentId) -> models.Done:
    """Remove a stopped experiment for good: its folder with all that is in it, and its entry in the index."""
    await parts.manager.delete(experiment_id)
    return models.Done()


@router.post("/{id}/import", responses=refusals(404, 409, 422))
async def import_data(runner: Live, wanted: models.ImportData) -> models.Done:
    """Tell the tuner of results that were found elsewhere."""
    await runner.import_data([record.model_dump() for record in wanted.records])
    return models.Done()


@router.get("/{id}/export", response_model=models.Export, responses=refusals(404))
async def export_results(
    reader: Reader, intermediate: Annotated[bool, Query(description="with all intermediate results")] = False
) -> StreamingResponse:
    """All trials that have a final result, in the order of their creation."""
    return StreamingResponse(_export(reader, intermediate=intermediate), media_type="application/json")


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
    )


def _profile(reader: ExperimentReader, parts: ApiParts, experiment_id: str) -> models.Experiment:
    row = reader.experiment()
    runner = parts.manager.find(experiment_id)
    summary = parts.manager.summary(experiment_id)
    config = row.config
    best = reader.trial(row.best_trial_id) if row.best_trial_id else None
    tuner_arguments = (config.get("tuner") or {}).get("classArgs") or {}
    limits = read_canonical({**config, "searchSpace": row.search_space}).limits()
    viewed = parts.manager.viewed(experiment_id)
    return models.Experiment(
        id=row.experiment_id,
        name=config.get("experimentName") or "",
        status=ExperimentStatus.VIEWED if viewed else row.status,
        drain=row.drain,
        reason=f"viewed: nothing of it runs or changes; before, {row.reason}"
        if viewed
        else parts.manager.trouble(experiment_id) or row.reason,
        platform=config["trainingService"]["platform"],
        created_at=row.created_at,
        ended_at=row.ended_at,
        served=summary.served,
        duration_s=runner.active().total_seconds() if runner is not None else row.active_us / 1e6,
        counts=_counts(row.counts),
        best_trial=_best(row, best),
        optimize_mode=str(tuner_arguments.get("optimize_mode") or "maximize"),
        limits=models.LimitsModel(
            trial_concurrency=limits.trial_concurrency,
            max_trial_number=limits.max_trial_number,
            max_experiment_duration_s=_seconds(limits.max_experiment_duration),
            max_trial_duration_s=_seconds(limits.max_trial_duration),
        ),
        config=config,
        search_space=row.search_space,
        port=summary.port,
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
        notices=[
            models.Notice(about=about, sentence=notice.sentence, detail=notice.detail)
            for about, notice in (runner.notices.items() if runner is not None else ())
        ],
        directory=str(summary.directory),
        last_number=row.last_number,
    )


def _best(row: ExperimentRow, trial: TrialRow | None) -> models.BestTrial | None:
    if trial is None or row.best_value is None:
        return None
    return models.BestTrial(
        trial_id=trial.trial_id,
        sequence=trial.sequence,
        value=row.best_value,
        parameters=plain_json(trial.parameters),
    )


def _counts(counts: Mapping[str, int]) -> dict[TrialStatus, int]:
    return {TrialStatus(status): number for status, number in counts.items()}


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()


def _export(reader: ExperimentReader, *, intermediate: bool) -> Iterator[str]:
    """The JSON text of a ``models.Export``, a trial at a time. Runs in threads."""
    separator = '{"trials":['
    for row in reader.finished():
        yield separator + json.dumps(_exported(reader, row, intermediate=intermediate), allow_nan=False)
        separator = ","
    yield "]}" if separator == "," else '{"trials":[]}'


def _exported(reader: ExperimentReader, row: TrialRow, *, intermediate: bool) -> dict[str, Any]:
    values = None
    if intermediate:
        metrics = reader.metrics(trial_id=row.trial_id, attempt=row.attempt, kind="PERIODICAL")
        values = [metric.value for metric in metrics]
    return {
        "trialId": row.trial_id,
        "sequence": row.sequence,
        "parameters": plain_json(row.parameters),
        "value": row.final_value,
        "text": row.final_text,
        "intermediates": values,
    }

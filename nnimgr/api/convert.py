"""Conversion of facts and of database rows to answers of the API."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, cast

from pydantic.alias_generators import to_camel

from nnimgr.api import models
from nnimgr.api.trial_paths import TrialPaths
from nnimgr.confirmed import Confirmations
from nnimgr.rules.facts import MetricReported, Recorded, TrialStatus
from nnimgr.rules.state import trial_of_job
from nnimgr.store.annotations import NO_ANNOTATION
from nnimgr.store.checkpoints import CheckpointRow
from nnimgr.store.jobs import JobRow
from nnimgr.store.legs import ForkRow, LegRow, RelatedRow
from nnimgr.store.reader import ExperimentReader, TrialRow, TrialSet
from nnimgr.store.trial_metrics import MetricRow
from nnimgr.store.without_result import is_without_result

__all__ = [
    "checkpoint_of",
    "confirmations_model",
    "event_of",
    "job_of",
    "metric_of",
    "plain_json",
    "trials_fields",
]

# Fields of facts that clients must not see: a hash of a secret, a large state, and another client's key.
_HIDDEN = frozenset({"token_sha256", "tuner_state", "request_key"})
_JSON_TEXTS = frozenset({"parameters", "records"})


def plain_json(text: str) -> Any:
    """Parse a JSON text and return its value. NaN and infinite numbers become None."""
    return json.loads(text, parse_constant=lambda _: None, parse_float=_finite)


def confirmations_model(found: Confirmations | None) -> models.Confirmations | None:
    if found is None:
        return None
    trials = [
        models.ConfirmedTrial(**{**dataclasses.asdict(each), "parameters": plain_json(each.parameters)})
        for each in found.trials
    ]
    return models.Confirmations(
        top=found.top, runs=found.runs, made=found.made, open=found.open, trials=trials
    )


def trials_fields(
    reader: ExperimentReader, rows: Sequence[TrialRow], trial_paths: TrialPaths
) -> Iterator[dict[str, Any]]:
    """Yield the fields of a ``models.Trial`` for each of these rows of the database."""
    config = reader.experiment().config
    sets, places = reader.sets(rows), trial_paths.places(reader, rows)
    annotations = reader.annotations([row.trial_id for row in rows])
    causes = reader.causes({row.trial_id: row.attempt for row in rows if row.status is TrialStatus.FAILED})
    for row in rows:
        annotation = annotations.get(row.trial_id, NO_ANNOTATION)
        yield _trial_fields(row, sets[row.trial_id], config) | {
            "log_path": trial_paths.log_path_of_trial(row.trial_id, places.get(row.trial_id)),
            "user_note": annotation.note,
            "tags": list(annotation.tags),
            "cause": causes.get(row.trial_id),
        }


def _trial_fields(row: TrialRow, sets: Sequence[TrialSet], config: Mapping[str, Any]) -> dict[str, Any]:
    derived = ("id", "sets", "log_path", "no_result", "user_note", "tags", "cause")
    fields = {name: getattr(row, name) for name in models.Trial.model_fields if name not in derived}
    several = [_set_of(held) for held in sets] if len(sets) > 1 else None
    without = is_without_result(
        config, status=row.status, final_value=row.final_value, final_text=row.final_text
    )
    return fields | {
        "id": row.trial_id,
        "parameters": plain_json(parameters_of(row, sets)),
        "sets": several,
        "no_result": row.reason if without else None,
    }


def parameters_of(row: TrialRow, sets: Sequence[TrialSet]) -> str:
    """Return the parameters of a trial as JSON text. Of several sets (multiPhase), they are those that have
    given the trial's result; without a result, the first.
    """
    if row.final_value is None:
        return row.parameters
    found = (held for held in sets if held.final is not None and held.final.value == row.final_value)
    return next((held.parameters for held in found), row.parameters)


def _set_of(held: TrialSet) -> models.ParameterSet:
    return models.ParameterSet(
        parameter_id=held.parameter_id,
        parameters=plain_json(held.parameters),
        final_value=None if held.final is None else held.final.value,
        final_text=None if held.final is None else held.final.line.text,
    )


def job_of(row: JobRow, trial_paths: TrialPaths) -> models.Job:
    derived = ("id", "log_path", "members")
    fields = {name: getattr(row, name) for name in models.Job.model_fields if name not in derived}
    log_path = trial_paths.log_path(row, row.keeper_id)
    members = [_member(row, number, trial_paths) for number in range(len(row.members))]
    found = {"id": row.job_id, "gpus": row.gpus or [], "log_path": log_path, "members": members}
    return models.Job(**fields | found)


def _member(row: JobRow, number: int, trial_paths: TrialPaths) -> models.Member:
    member = row.members[number]
    derived = ("member", "state", "log_path")
    fields = {name: getattr(member, name) for name in models.Member.model_fields if name not in derived}
    state = "running" if member.started_at is not None else "placed"
    if member.end_reason is None and row.ended_at is not None:  # lost with the whole attempt
        fields |= {"end_reason": "lost", "ended_at": row.ended_at}
    return models.Member(
        member=number,
        state=state if fields["end_reason"] is None else "ended",
        log_path=trial_paths.log_path(row, member.keeper_id, member=number),
        **fields,
    )


def checkpoint_of(row: CheckpointRow) -> models.Checkpoint:
    return models.Checkpoint(**{name: getattr(row, name) for name in models.Checkpoint.model_fields})


def leg_of(row: LegRow) -> models.Leg:
    fields = {name: getattr(row, name) for name in models.Leg.model_fields}
    return models.Leg(**{**fields, "parameters": json.loads(row.parameters)})


def fork_of(row: ForkRow) -> models.Fork:
    return models.Fork(**{name: getattr(row, name) for name in models.Fork.model_fields})


def related_of(row: RelatedRow) -> models.RelatedTrial:
    fields = {name: getattr(row, name) for name in models.RelatedTrial.model_fields}
    return models.RelatedTrial(**{**fields, "parameters": json.loads(row.parameters)})


def metric_of(row: MetricRow) -> models.Metric:
    return models.Metric(**{name: getattr(row, name) for name in models.Metric.model_fields})


def event_of(recorded: Recorded) -> dict[str, Any]:
    """Return a fact as a JSON object for the event stream.

    It has the fact's number, time, trial, attempt, and its own fields with names in camelCase.
    """
    fact = recorded.fact
    event: dict[str, Any] = {"number": recorded.number, "at": recorded.at.isoformat()}
    job_id = getattr(fact, "job_id", None)
    if job_id is not None:
        event["trialId"], event["attempt"] = trial_of_job(job_id)
    if isinstance(fact, MetricReported):  # by hand for speed, because metrics are the most frequent facts
        event.update(
            jobId=fact.job_id,
            position=fact.position,
            type=fact.type,
            sequence=fact.sequence,
            value=fact.value,
            text=fact.text,
        )
        return event
    event.update(_fields(fact))
    return event


def _fields(record: Any) -> dict[str, Any]:
    return {key: _plain(getattr(record, name), name) for name, key in _names(cast(Hashable, type(record)))}


@cache
def _names(kind: Hashable) -> tuple[tuple[str, str], ...]:
    fields = dataclasses.fields(cast(Any, kind))
    return tuple((field.name, to_camel(field.name)) for field in fields if field.name not in _HIDDEN)


def _plain(value: Any, name: str = "") -> Any:
    if isinstance(value, str):
        if name in _JSON_TEXTS:
            return plain_json(value)
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if dataclasses.is_dataclass(value):
        return _fields(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None

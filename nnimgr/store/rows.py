"""Converts facts and state to rows of the database's tables, and rows back to facts and state. Pure
functions.

Only this module knows the order of the columns.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from nnimgr import codec
from nnimgr.rules import facts as f
from nnimgr.rules.indexes import rebuild
from nnimgr.rules.state import (
    SNAPSHOT_VERSION,
    ExperimentState,
    JobState,
    KeeperState,
    Touched,
    TrialState,
    job_id_of,
    trial_of_job,
)
from nnimgr.store.members import stored_members
from nnimgr.store.older import completed

FACT_VERSION = 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

KINDS: dict[str, Any] = {kind.__name__: kind for kind in f.Fact.__args__ if kind is not f.MetricReported}

_DEFINING = (f.ExperimentCreated, f.ConfigChanged)

Row = tuple[Any, ...]


def to_us(instant: datetime | None) -> int | None:
    """Return a datetime with a time zone as microseconds since 1970; None for None."""
    return None if instant is None else (instant - EPOCH) // MICROSECOND


def from_us(us: int | None) -> datetime | None:
    return None if us is None else EPOCH + us * MICROSECOND


@dataclass(slots=True)
class Batch:
    """Rows of all tables that one transaction writes. Each row has the order of its table's columns."""

    facts: list[Row]
    metrics: list[Row]
    trials: list[Row]
    jobs: list[Row]
    keepers: list[Row]
    gone: list[Row]  # keepers that have left
    notes: list[Row]  # (note, experiment_id, trial_id)
    checkpoints: list[Row]
    pruned: list[Row]  # (experiment_id, trial_id, attempt, up_to, JSON list of numbers to keep)
    copied: list[Row]
    uncopied: list[Row]  # as ``pruned``: copies that the server no longer has
    lost: list[Row]  # (experiment_id, trial_id, attempt, number): checkpoints whose host lacks the files
    continued: list[Row]  # metrics that a new attempt takes over: see ``_continued_row``
    legs: list[Row]
    experiment: Row  # the columns that change, then the experiment's id
    definition: Row | None  # new config and search space, then the experiment's id
    snapshot: Row | None = None


def trial_of(fact: f.Fact) -> str | None:
    """Return the id of the trial that a fact is about; None if the fact is about no trial."""
    job_id = getattr(fact, "job_id", None)
    if job_id is not None:
        return trial_of_job(job_id)[0]
    return getattr(fact, "trial_id", None)


def batch(state: ExperimentState, turn: Sequence[f.Recorded], touched: Touched) -> Batch:
    """Build the rows that a turn (one pass of the runner's loop) writes. Its facts are already applied to
    ``state``.
    """
    metrics: list[Row] = []
    facts: list[Row] = []
    checkpoints, continued = list[Row](), list[Row]()
    pruned, copied, uncopied, lost = list[Row](), list[Row](), list[Row](), list[Row]()
    key, attempts, defined = state.id, _Attempts(), False
    legs: list[Row] = []
    last_at, at_us = None, None
    for number, at, fact in turn:
        if type(fact) is f.MetricReported:
            if at is not last_at:  # the facts of a turn share one time
                last_at, at_us = at, to_us(at)
            metrics.append(_metric_row(key, number, at_us, fact, *attempts[fact.job_id]))
            continue
        defined = defined or type(fact) in _DEFINING
        facts.append(fact_row(key, number, at, fact))
        if type(fact) is f.AttemptDue and fact.leg is not None:
            legs.append(_leg_row(key, number, at, fact))
        match fact:
            case f.ResultReused():
                metrics.append(_reused_row(key, number, at, fact))
            case f.CheckpointReported():
                checkpoints.append(_checkpoint_row(key, at, fact))
            case f.CheckpointsPruned():
                row = (key, *trial_of_job(fact.job_id), fact.up_to, json.dumps(fact.keep))
                uncopied.append(row)
                if fact.keeper_id is not None:
                    pruned.append(row)
            case f.CheckpointKept():
                copied.append((key, *trial_of_job(fact.job_id), fact.number, fact.digest, fact.size))
            case f.CheckpointLost(keeper_id=None):
                keep = json.dumps(list(range(fact.number)))
                uncopied.append((key, *trial_of_job(fact.job_id), fact.number, keep))
            case f.CheckpointLost():
                lost.append((key, *trial_of_job(fact.job_id), fact.number))
            case f.AttemptDue(origin=f.Origin() as origin):
                continued.append(_continued_row(key, fact, origin))
    return Batch(
        facts=facts,
        metrics=metrics,
        trials=[_trial_row(state, trial) for trial in touched.trials.values()],
        jobs=[_job_row(key, job) for job in touched.jobs.values()],
        keepers=[
            _keeper_row(key, name, keeper)
            for name in touched.keepers
            if (keeper := state.keepers.get(name)) is not None
        ],
        gone=[(key, name) for name in touched.keepers if name not in state.keepers],
        notes=[(note, key, trial_id) for trial_id, note in touched.notes.items()],
        checkpoints=checkpoints,
        pruned=pruned,
        copied=copied,
        uncopied=uncopied,
        lost=lost,
        continued=continued,
        legs=legs,
        experiment=experiment_row(state),
        definition=definition_row(state) if defined else None,
    )


class _Attempts(dict[str, tuple[str, int]]):
    """Cache: job id -> (trial id, number of the attempt)."""

    def __missing__(self, job_id: str) -> tuple[str, int]:
        self[job_id] = pair = trial_of_job(job_id)
        return pair


def _metric_row(
    key: str, number: int, at_us: int | None, fact: f.MetricReported, trial_id: str, attempt: int
) -> Row:
    _, position, kind, sequence, parameter_id, value, text = fact
    return (
        key,
        number,
        trial_id,
        attempt,
        position,
        parameter_id,
        kind,
        sequence,
        at_us,
        value,
        text,
        None,
    )


def _checkpoint_row(key: str, at: datetime, fact: f.CheckpointReported) -> Row:
    state = "saved" if fact.usable else "unusable"
    trial_id, attempt = trial_of_job(fact.job_id)
    place = (key, trial_id, attempt, fact.number, fact.position)
    return (*place, fact.step, fact.size, fact.files, to_us(at), state, fact.reports)


def _continued_row(key: str, fact: f.AttemptDue, origin: f.Origin) -> Row:
    """Build the values of an UPDATE by which the new attempt takes over the metrics up to its checkpoint.

    The previous attempt has taken over all results that still count. If the origin is a checkpoint of another
    trial, the new attempt takes over the results of the earlier legs, except those whose numbers it reports
    itself.
    """
    own = origin.trial_id is None
    return (fact.attempt, key, fact.trial_id, fact.previous, origin.position, own, origin.reports)


def _leg_row(key: str, number: int, at: datetime, fact: f.AttemptDue) -> Row:
    origin = fact.origin
    assert origin is not None
    begin = (key, fact.trial_id, fact.leg, number, fact.attempt, to_us(at), fact.parameters, origin.reports)
    donor = origin.trial_id or fact.trial_id
    return (*begin, donor, origin.attempt, origin.number, origin.step, fact.reason)


def _reused_row(key: str, number: int, at: datetime, fact: f.ResultReused) -> Row:
    """Build a row for the table of metrics that shows a reused result as a FINAL metric of the trial.

    Its number is that of the fact ResultReused.
    """
    parameter_id = None if fact.parameter_id is None else str(fact.parameter_id)
    kind = f.MetricType.FINAL.value
    place = (key, number, fact.trial_id, 1, 0)
    return (*place, parameter_id, kind, 0, to_us(at), fact.value, fact.text, None)


def fact_row(key: str, number: int, at: datetime, fact: f.Fact) -> Row:
    payload = codec.dumps(codec.encode(fact))
    return (key, number, to_us(at), type(fact).__name__, FACT_VERSION, trial_of(fact), payload)


def read_fact(kind: str, payload: str) -> f.Fact:
    fact: f.Fact = codec.decode(KINDS[kind], completed(kind, codec.loads(payload)))
    return fact


def read_metric(
    experiment_id: str, row: tuple[int, str, int, int, str | None, str, int, int, float | None, str]
) -> f.Recorded:
    """Return the recorded fact from a row of the table of metrics (without the column experiment_id)."""
    number, trial_id, attempt, position, parameter_id, kind, sequence, at, value, text = row
    instant = from_us(at)
    assert instant is not None
    fact = f.MetricReported(
        job_id_of(experiment_id, trial_id, attempt), position, kind, sequence, parameter_id, value, text
    )
    return f.Recorded(number, instant, fact)


def definition_row(state: ExperimentState) -> Row:
    return (codec.dumps(state.config), codec.dumps(state.search_space), state.id)


def experiment_row(state: ExperimentState) -> Row:
    best = state.best
    return (
        state.m_epoch,
        str(state.status),
        str(state.drain) if state.drain else None,
        state.reason,
        to_us(state.ended_at),
        state.active // MICROSECOND,
        to_us(state.active_since),
        state.next_sequence,
        codec.dumps(state.counts),
        best.trial_id if best else None,
        best.value if best else None,
        state.number,
        state.id,
    )


def _trial_row(state: ExperimentState, trial: TrialState) -> Row:
    detail = None
    if trial.status is f.TrialStatus.WAITING:
        job = state.jobs.get(trial.job_id or "")
        detail = "placed" if job is not None and job.placed is not None else "queued"
    if trial.target is not None and not trial.status.terminal and trial.status is not f.TrialStatus.PAUSED:
        detail = "stopping"
    return (
        state.id,
        trial.id,
        trial.sequence,
        str(trial.status),
        detail,
        str(trial.source),
        trial.parameter_id,
        trial.parameters,
        trial.retry_of,
        trial.attempt,
        to_us(trial.created_at),
        to_us(trial.started_at),
        to_us(trial.ended_at),
        trial.reason,
        trial.note,
        trial.final_value,
        trial.final_text,
        trial.latest_value,
        trial.latest_text,
        trial.intermediates,
    )


def _job_row(key: str, job: JobState) -> Row:
    end, place = job.ended, job.placed.place if job.placed else None
    return (
        key,
        job.id,
        job.trial_id,
        job.attempt,
        place.keeper_id if place else None,
        json.dumps(place.gpus) if place else None,
        to_us(job.placed_at),
        to_us(job.started_at),
        job.pid,
        to_us(job.ended_at),
        str(end.reason) if end else ("lost" if job.lost else None),
        end.exit_code if end else None,
        end.signal if end else None,
        job.recorded - job.base,
        end.message if end else job.lost or job.waiting,
        str(job.cause) if job.cause else None,
        stored_members(job),
        job.placed.reason if job.placed else None,
    )


def _keeper_row(key: str, keeper_id: str, keeper: KeeperState) -> Row:
    return (key, keeper_id, keeper.token_sha256, keeper.instance, keeper.boot_id)


def snapshot_row(state: ExperimentState) -> Row:
    body = zlib.compress(codec.dumps(codec.encode(state)).encode(), 1)
    return (state.id, state.number, SNAPSHOT_VERSION, body)


def read_snapshot(bodies: Iterable[tuple[int, int, bytes]]) -> ExperimentState | None:
    """Return the state from the newest snapshot that has the current version and can be parsed, or None.

    ``bodies``: (number, version, body) of each snapshot, newest first.
    """
    for _, version, body in bodies:
        if version != SNAPSHOT_VERSION:
            continue
        try:
            state = codec.decode(ExperimentState, codec.loads(zlib.decompress(body)))
        except (ValueError, TypeError, KeyError, zlib.error):
            continue
        rebuild(state)
        return state
    return None

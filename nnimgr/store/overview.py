"""Reads the summary of an experiment from its database, without an ExperimentReader.

It uses plain sqlite3, because nnictl imports this module and must start quickly.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from nnimgr.rules.terms import NO_COMMAND
from nnimgr.store.errors import StoreError
from nnimgr.store.location import database_path
from nnimgr.store.reasons import reason_of

__all__ = [
    "StoredEnd",
    "StoredExperiment",
    "imported_results",
    "lacks_command",
    "stored_end",
    "stored_experiment",
    "stored_live_trials",
    "stored_status",
    "stored_titles",
]

_EXPERIMENT = """
SELECT experiment_id, config, search_space, created_at, ended_at, drain, status, reason, counts,
best_trial_id, best_value, active_us FROM experiments
"""
_STATUS = "SELECT status FROM experiments"
_LIVE = "SELECT count(*) FROM trials WHERE status IN ('WAITING', 'RUNNING', 'UNKNOWN')"
_END = """
SELECT facts.kind, facts.payload FROM experiments JOIN facts USING (experiment_id)
WHERE facts.kind IN ('ExperimentMoved', 'ExperimentStopRequested')
AND facts.number > experiments.last_number - 20000 ORDER BY facts.number DESC LIMIT 5
"""
_LAST_STOP = """
SELECT facts.payload FROM experiments JOIN facts USING (experiment_id)
WHERE facts.kind = 'ExperimentStopRequested' AND facts.number > experiments.last_number - 20000
ORDER BY facts.number DESC LIMIT 1
"""
_IMPORTED = """
SELECT total(json_array_length(json_extract(payload, '$.records'))) FROM facts WHERE kind = 'DataImported'
"""
_TITLES = "SELECT trial_id, sequence FROM trials WHERE trial_id IN (SELECT value FROM json_each(?))"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredExperiment:
    """Summary of an experiment, as stored in its database."""

    experiment_id: str
    config: dict[str, Any]  # without the search space
    search_space: dict[str, Any]
    created_at: datetime
    ended_at: datetime | None
    drain: str | None
    reason: str
    counts: dict[str, int]
    best_trial_id: str | None
    best_value: float | None
    active_s: float


@dataclass(frozen=True, slots=True)
class StoredEnd:
    """How an experiment has ended. ``status``: DONE or ERROR also if the experiment was stopped afterwards.

    ``by_user``: a user has stopped its trials, or has imported them.
    """

    status: str
    reason: str
    by_user: bool


def stored_experiment(directory: Path) -> StoredExperiment | None:
    """Return the summary of the experiment in this folder; None if the database holds no experiment.

    Raise FileNotFoundError if there is no database, and StoreError if it cannot be read.
    """
    path = database_path(directory)
    if not path.is_file():  # opening a pipe would block for ever
        raise FileNotFoundError(f"there is no database {path}")
    try:
        row = _first_row(directory, _EXPERIMENT)
    except sqlite3.Error as error:
        raise StoreError(f"the database {path} cannot be read: {error}") from error
    if row is None:
        return None
    experiment_id, config, space, created_at, ended_at, drain, *rest = row
    status, reason, counts, best_id, best, active_us = rest
    return StoredExperiment(
        experiment_id=experiment_id,
        config=json.loads(config),
        search_space=json.loads(space),
        created_at=_instant(created_at),
        ended_at=None if ended_at is None else _instant(ended_at),
        drain=drain,
        reason=reason_of(status, reason),
        counts=json.loads(counts),
        best_trial_id=best_id,
        best_value=best,
        active_s=active_us / 1e6,
    )


def lacks_command(directory: Path) -> bool:
    """Return whether the experiment in this folder was imported without a trial command.

    Return False if its database cannot be read.
    """
    with suppress(FileNotFoundError, StoreError, ValueError):
        stored = stored_experiment(directory)
        return stored is not None and stored.config.get("trialCommand") == NO_COMMAND
    return False


def stored_status(directory: Path) -> str | None:
    """Return the stored status of the experiment in this folder; None if no status can be read."""
    try:
        row = _first_row(directory, _STATUS)
    except sqlite3.Error:
        return None
    return None if row is None else str(row[0])


def stored_end(directory: Path) -> StoredEnd | None:
    """Return how the experiment in this folder has ended; None if this cannot be read.

    Only the end of the log is read.
    """
    try:
        rows = _rows(directory, _END)
    except sqlite3.Error:
        return None
    last: StoredEnd | None = None
    asked = ran = False
    for kind, payload in rows:  # the latest one first
        fields = json.loads(payload)
        if kind == "ExperimentStopRequested":
            asked = asked or (last is not None and not fields.get("detach"))
        elif last is None:
            status = fields["status"]
            last = StoredEnd(status, reason_of(status, fields["reason"]), by_user=False)
            if status != "STOPPED":
                return last
        elif fields["status"] == "DRAINING":  # by the stop itself, or already before it
            ran = ran or fields.get("drain") != "user"
        elif fields["status"] in ("DONE", "ERROR") and not ran:  # else it was DONE earlier, and ran again
            return StoredEnd(fields["status"], reason_of(fields["status"], fields["reason"]), by_user=False)
        else:
            break
    return None if last is None else replace(last, by_user=asked)


def stored_live_trials(directory: Path) -> int:
    """Return the number of trials in this folder's database that have not ended and are not paused; 0 if it
    cannot be read.
    """
    try:
        row = _first_row(directory, _LIVE)
    except sqlite3.Error:
        return 0
    return 0 if row is None else int(row[0])


def imported_results(directory: Path) -> int:
    """Return the number of results from outside the experiment that its tuner has got; 0 if unknown."""
    with suppress(sqlite3.Error):
        row = _first_row(directory, _IMPORTED)
        return 0 if row is None else int(row[0])
    return 0


def is_detached(directory: Path) -> bool:
    """Return whether the experiment in this folder was stopped with ``--detach`` while trials ran."""
    if not stored_live_trials(directory):
        return False
    with suppress(sqlite3.Error):
        row = _first_row(directory, _LAST_STOP)
        return row is not None and bool(json.loads(row[0]).get("detach"))
    return False


def stored_titles(directory: Path, trial_ids: Sequence[str]) -> list[str]:
    """Return number and id of each of these trials: "12 (k3x9z)"; only the id if the number is not known."""
    numbers: dict[str, int] = {}
    with suppress(sqlite3.Error):
        numbers.update(_rows(directory, _TITLES, json.dumps(list(trial_ids))))
    return [f"{numbers[each]} ({each})" if each in numbers else each for each in trial_ids]


def _first_row(directory: Path, query: str) -> tuple[Any, ...] | None:
    return next(iter(_rows(directory, query)), None)


def _rows(directory: Path, query: str, *values: str) -> list[tuple[Any, ...]]:
    address = f"{database_path(directory).as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as connection:
        return connection.execute(query, values).fetchall()


def _instant(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)

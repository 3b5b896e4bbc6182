"""Bulk queries about the attempts of trials, with their metrics and the assessor's verdicts."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

__all__ = ["Attempt", "MetricPoint", "Opinion", "RunQueries", "StoppedAt"]

_PAGE = 5000

_CONFIG = "SELECT config FROM experiments WHERE experiment_id = ?"
_LAST_AT = (
    "SELECT max((SELECT at FROM facts WHERE experiment_id = :id ORDER BY number DESC LIMIT 1), "
    "coalesce((SELECT at FROM metrics WHERE experiment_id = :id ORDER BY number DESC LIMIT 1), 0))"
)
_POINTS = (
    "SELECT trial_id, attempt, sequence, value FROM metrics "
    "WHERE experiment_id = ? AND number > ? AND type = 'PERIODICAL'"
)
_OBJECTS = (
    "SELECT trial_id, attempt, sequence, text FROM metrics "
    "WHERE experiment_id = ? AND number > ? AND type = 'PERIODICAL' AND substr(ltrim(text), 1, 1) = '{'"
)
_LATEST_OBJECTS = (
    "SELECT latest_text FROM (SELECT latest_text FROM trials INDEXED BY sqlite_autoindex_trials_2 "
    "WHERE experiment_id = ? ORDER BY sequence DESC LIMIT ?) WHERE substr(ltrim(latest_text), 1, 1) = '{'"
)
_ATTEMPTS = (
    "SELECT trial_id, attempt, keeper_id, gpus, placed_at, started_at, ended_at, end_reason FROM jobs "
    "WHERE experiment_id = ?"
)
_ATTEMPTS_OF = " ".join((_ATTEMPTS, "AND trial_id IN (SELECT value FROM json_each(?))"))
_VERDICTS = (
    "SELECT number, trial_id, json_extract(payload, '$.attempt'), json_extract(payload, '$.position'), "
    "json_extract(payload, '$.rung'), coalesce(json_extract(payload, '$.by'), 'assessor') "
    "FROM facts WHERE experiment_id = ? AND number > ? AND kind = 'Verdict'"
)
_OPINIONS = (
    "SELECT number, json_extract(payload, '$.reason'), json_extract(payload, '$.better') FROM facts "
    "WHERE experiment_id = ? AND number IN (SELECT value FROM json_each(?))"
)
_METRIC_AT = (
    "SELECT sequence, value, text FROM metrics INDEXED BY sqlite_autoindex_metrics_2 "
    "WHERE experiment_id = ? AND trial_id = ? AND attempt = ? AND position = ?"
)
_REASONS = (
    "SELECT trial_id, reason FROM trials WHERE experiment_id = ? "
    "AND trial_id IN (SELECT value FROM json_each(?))"
)


class MetricPoint(NamedTuple):
    """Intermediate metric of a trial.

    ``value``: the metric's number, None without a finite number. In an object, this is the number of the main
    objective or of "default".
    """

    trial_id: str
    attempt: int
    sequence: int
    value: float | None


class Attempt(NamedTuple):
    """Row about an attempt in the table ``jobs``. Times are microseconds since 1970. ``gpus``: JSON text
    of a list.
    """

    trial_id: str
    attempt: int
    keeper_id: str | None
    gpus: str | None
    placed_at: int | None
    started_at: int | None
    ended_at: int | None
    end_reason: str | None


class StoppedAt(NamedTuple):
    """Verdict of an algorithm (``by``: its role) that a trial is bad, at the metric with this position in the
    attempt.
    """

    number: int
    trial_id: str
    attempt: int
    position: int
    rung: int | None = None
    by: str = "assessor"


class Opinion(NamedTuple):
    """Explanation of a verdict: the assessor's sentence, or "", and the ids of some trials that were
    better.
    """

    reason: str
    better: tuple[str, ...]


class RunQueries:
    """Base class of ``Snapshot`` with the queries about metrics, attempts and verdicts."""

    def __init__(self, connection: sqlite3.Connection, experiment_id: str) -> None:
        self._connection, self._id = connection, experiment_id

    def config(self) -> dict[str, Any]:
        """Return the experiment's canonical configuration."""
        row = self._connection.execute(_CONFIG, (self._id,)).fetchone()
        return {} if row is None else dict(json.loads(row[0]))

    def last_at(self) -> int:
        """Return the time of the last recorded fact, in microseconds since 1970."""
        (at,) = self._connection.execute(_LAST_AT, {"id": self._id}).fetchone()
        return int(at or 0)

    def metric_points(self, *, after: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield pages of intermediate metrics with numbers above ``after``, in order. Each row has
        the fields of MetricPoint.
        """
        return self._pages(_POINTS, (self._id, after))

    def metric_objects(self, *, after: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield pages of intermediate metrics that are objects. Each row has the fields of MetricPoint,
        with the value as JSON text.
        """
        return self._pages(_OBJECTS, (self._id, after))

    def latest_objects(self, *, limit: int) -> list[str]:
        """Return the latest metrics of the ``limit`` newest trials as JSON text, but only metrics that are
        objects.
        """
        return [text for (text,) in self._connection.execute(_LATEST_OBJECTS, (self._id, limit))]

    def attempts(self, trial_ids: Iterable[str] | None = None) -> Iterator[list[tuple[Any, ...]]]:
        """Yield pages of attempts, in no particular order. Each row has the fields of Attempt.

        ``trial_ids``: only attempts of these trials; None: all attempts.
        """
        if trial_ids is None:
            return self._pages(_ATTEMPTS, (self._id,))
        return self._pages(_ATTEMPTS_OF, (self._id, json.dumps(list(trial_ids))))

    def verdicts(self, *, after: int) -> list[StoppedAt]:
        """Return the assessor's verdicts with fact numbers above ``after``."""
        rows = self._connection.execute(_VERDICTS, (self._id, after))
        return [StoppedAt._make(row) for row in rows]

    def opinions(self, numbers: Iterable[int]) -> dict[int, Opinion]:
        """Return the explanations of the verdicts with these fact numbers, by fact number."""
        rows = self._connection.execute(_OPINIONS, (self._id, json.dumps(list(numbers))))
        return {
            number: Opinion(reason or "", tuple(json.loads(better or "[]")))
            for number, reason, better in rows
        }

    def metric_at(self, trial_id: str, attempt: int, position: int) -> tuple[int, float | None, str] | None:
        """Return the sequence, the value and the JSON text of one metric; None if the metric does not
        exist.
        """
        row = self._connection.execute(_METRIC_AT, (self._id, trial_id, attempt, position)).fetchone()
        return None if row is None else tuple(row)

    def reasons(self, trial_ids: Iterable[str]) -> dict[str, str]:
        """Return a sentence for each of these trials that explains the trial's status, by trial id."""
        rows = self._connection.execute(_REASONS, (self._id, json.dumps(list(trial_ids))))
        return {trial_id: reason or "" for trial_id, reason in rows}

    def _pages(self, query: str, values: tuple[Any, ...]) -> Iterator[list[tuple[Any, ...]]]:
        with closing(self._connection.execute(query, values)) as cursor:
            while page := cursor.fetchmany(_PAGE):
                yield page

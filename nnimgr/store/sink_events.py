"""Queries for the processes of sinks: what has happened in an experiment after a fact, in the order of facts.

They use plain sqlite3: importing the store's libraries takes longer than such a process needs to start.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

__all__ = ["CurveRow", "EventReader", "EventRow", "ExperimentRow", "TrialRow"]

_EVENTS = """
SELECT * FROM (
    SELECT number, at, kind, trial_id, payload AS text, NULL AS step, NULL AS value FROM facts
    WHERE experiment_id = :id AND number > :after AND number <= :up_to
    AND kind IN ('ExperimentMoved', 'Suggested', 'JobStarted', 'AttemptDue', 'TrialEnded')
    ORDER BY number LIMIT :most
)
UNION ALL
SELECT * FROM (
    SELECT number, at, 'Metric', trial_id, text, sequence, value FROM metrics
    WHERE experiment_id = :id AND number > :after AND number <= :up_to AND type = 'PERIODICAL'
    ORDER BY number LIMIT :most
)
ORDER BY number LIMIT :most
"""
_TRIALS = """
SELECT trial_id, sequence, final_value, final_text FROM trials
WHERE experiment_id = ? AND trial_id IN (SELECT value FROM json_each(?))
"""
_CURVE = """
SELECT sequence, at, value, text FROM metrics
WHERE experiment_id = :id AND trial_id = :trial AND type = 'PERIODICAL'
AND attempt = (SELECT attempt FROM trials WHERE experiment_id = :id AND trial_id = :trial)
ORDER BY position
"""
_EXPERIMENT = "SELECT config, search_space, created_at, last_number FROM experiments WHERE experiment_id = ?"
# The best of the results that the sets of a multi-phase trial have is that of the trial.
_SET_OF_RESULT = """
SELECT json_extract(payload, '$.parameters') FROM facts
WHERE experiment_id = :id AND kind = 'FurtherSuggested' AND trial_id = :trial
AND json_extract(payload, '$.parameter_id') = (
    SELECT CAST(metrics.parameter_id AS INTEGER) FROM metrics
    JOIN trials USING (experiment_id, trial_id, attempt)
    WHERE experiment_id = :id AND trial_id = :trial AND type = 'FINAL' AND text = final_text
    ORDER BY number LIMIT 1
)
"""


class EventRow(NamedTuple):
    """Fact or intermediate metric. ``kind``: class name of the fact, or "Metric". ``at``: microseconds since
    1970. ``text``: JSON text of the fact's fields, or of the metric's value.
    """

    number: int
    at: int
    kind: str
    trial_id: str | None
    text: str
    step: int | None
    value: float | None


class TrialRow(NamedTuple):
    trial_id: str
    sequence: int
    final_value: float | None
    final_text: str | None


class CurveRow(NamedTuple):
    step: int
    at: int
    value: float | None
    text: str


class ExperimentRow(NamedTuple):
    """``config``, ``search_space``: JSON texts. ``created_at``: microseconds since 1970.

    ``last_number``: number of the last fact.
    """

    config: str
    search_space: str
    created_at: int
    last_number: int


class EventReader:
    """Read-only connection to an experiment's database. The methods raise sqlite3.Error."""

    def __init__(self, database: str, experiment_id: str) -> None:
        self._connection = sqlite3.connect(f"file:{quote(database)}?mode=ro", uri=True)
        self._id = experiment_id

    def close(self) -> None:
        self._connection.close()

    def experiment(self) -> ExperimentRow:
        return ExperimentRow._make(self._connection.execute(_EXPERIMENT, (self._id,)).fetchone())

    def set_of_result(self, trial_id: str) -> str | None:
        """Return the JSON text of the parameter set that has the trial's result; None if it is the first."""
        found = self._connection.execute(_SET_OF_RESULT, {"id": self._id, "trial": trial_id}).fetchone()
        return None if found is None else str(found[0])

    def events(self, *, after: int, up_to: int, most: int) -> list[EventRow]:
        """Return at most ``most`` events after fact ``after``, up to fact ``up_to``, in order."""
        values = {"id": self._id, "after": after, "up_to": up_to, "most": most}
        return [EventRow._make(row) for row in self._connection.execute(_EVENTS, values)]

    def trials(self, trial_ids: Sequence[str]) -> dict[str, TrialRow]:
        """Return these trials by their ids."""
        rows = self._connection.execute(_TRIALS, (self._id, json.dumps(trial_ids)))
        return {row[0]: TrialRow._make(row) for row in rows}

    def curve(self, trial_id: str) -> list[CurveRow]:
        """Return the intermediate metrics of the trial's latest attempt, with those it has taken over."""
        rows = self._connection.execute(_CURVE, {"id": self._id, "trial": trial_id})
        return [CurveRow._make(row) for row in rows]

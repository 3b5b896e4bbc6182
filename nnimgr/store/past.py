"""Queries about an experiment's past, for the processes of its tuner and assessor.

They use plain sqlite3: importing the store's libraries takes longer than such a process needs to start.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

__all__ = ["Metric", "PastEnd", "PastFact", "PastReader"]

Metric = tuple[str, int, int, int, str]  # trial_id, attempt, position, sequence, text

_CREATED = (
    "SELECT payload FROM facts WHERE experiment_id = ? AND kind = 'ExperimentCreated' ORDER BY number LIMIT 1"
)
_LAST = "SELECT coalesce(max(number), 0) FROM %s WHERE experiment_id = ? AND number <= ?"
_FACTS = """
SELECT number, kind, trial_id, payload FROM facts
WHERE experiment_id = ? AND number > ? AND number <= ? AND kind IN (%s) {search}
ORDER BY number
"""
_OPEN = """
SELECT number, kind, trial_id, payload FROM facts
WHERE experiment_id = ? AND number > ? AND number <= ? AND kind IN ('Suggested', 'FurtherSuggested')
AND trial_id NOT IN
(SELECT trial_id FROM facts WHERE experiment_id = ? AND kind = 'TrialEnded' AND number <= ?)
ORDER BY number
"""
_ENDS = """
SELECT number, trial_id, json_extract(payload, '$.status'), json_extract(payload, '$.stand_in'),
coalesce(json_extract(payload, '$.untried'), 0) AS untried FROM facts
WHERE experiment_id = ? AND number > ? AND number <= ? AND kind = 'TrialEnded' %s {search}
ORDER BY number
"""
_TRIALS = """
SELECT trial_id, parameter_id, parameters, final_text, source, final_value FROM trials
WHERE experiment_id = ?
"""
_OF_THESE = "AND trial_id IN (SELECT value FROM json_each(?))"
_METRICS = """
SELECT trial_id, attempt, position, sequence, text FROM metrics
WHERE experiment_id = ? AND number > ? AND number <= ? AND type = 'PERIODICAL' {search} ORDER BY number
"""
# The attempt is the one that has reported the metric, even if a later attempt has taken over the metric.
_NUMBERED_METRICS = """
SELECT number, trial_id, coalesce(ran_in, attempt), position, sequence, text FROM metrics
WHERE experiment_id = ? AND number > ? AND number <= ? AND type = 'PERIODICAL' {search} ORDER BY number
"""
_TRIALS_AT_ONCE = 1_000
# The sign before "number" makes SQLite use the index on trials. Without the sign, it would read all metrics.
_METRICS_OF = """
SELECT trial_id, attempt, position, sequence, text FROM metrics
WHERE experiment_id = ? AND trial_id IN (SELECT value FROM json_each(?)) AND +number <= ?
AND type = 'PERIODICAL' ORDER BY trial_id, attempt, position
"""
_METRICS_AND_ENDS = """
SELECT number, trial_id, attempt, position, sequence, text FROM metrics
WHERE experiment_id = ? AND number <= ? AND type = 'PERIODICAL' {search}
UNION ALL
SELECT number, trial_id, NULL, NULL, NULL, payload FROM facts
WHERE experiment_id = ? AND number <= ? AND kind = 'TrialEnded' {search}
ORDER BY 1
"""
_SET = (
    "SELECT CASE source WHEN 'customized' THEN NULL ELSE parameter_id END, parameters FROM trials "
    "WHERE experiment_id = ? AND trial_id = ?"
)
_NAMED_SET = (
    "SELECT parameter_id FROM metrics "
    "WHERE experiment_id = ? AND trial_id = ? AND attempt = ? AND position = ?"
)
_OTHERS = """
SELECT trial_id FROM trials
WHERE experiment_id = ? AND trial_id NOT IN (SELECT value FROM json_each(?)) {search}
"""
# Put in place of {search}: only facts of the search itself. Algorithms never hear of confirmations.
_OF_THE_SEARCH = (
    "AND coalesce(trial_id, '') NOT IN (SELECT trial_id FROM trials WHERE source = 'confirmation')"
)
_CONFIRMS = "SELECT json_extract(?, '$.config.confirmBest') IS NOT NULL"


class PastFact(NamedTuple):
    """Fact from the experiment's log. ``payload``: JSON text of its fields."""

    number: int
    kind: str
    trial_id: str
    payload: str


class PastEnd(NamedTuple):
    """End of a trial, with values from the trial's row in the table of trials.

    ``untried``: 1 if the trial was canceled before it was tried. ``parameters`` and ``final_text`` are JSON
    text.
    """

    number: int
    trial_id: str
    status: str
    stand_in: str | None
    untried: int
    parameter_id: int | None
    parameters: str
    final_text: str | None
    source: str
    final_value: float | None


class PastReader:
    """Read-only connection to an experiment's database. The methods raise sqlite3.Error.

    Queries about several trials leave out confirmations.
    """

    def __init__(self, database: str, experiment_id: str) -> None:
        self._connection = sqlite3.connect(f"file:{quote(database)}?mode=ro", uri=True)
        self._id = experiment_id
        self._search: str | None = None  # the condition for facts of the search itself

    def close(self) -> None:
        """Close the connection to the database."""
        self._connection.close()

    def created(self) -> str | None:
        """Return the payload of the fact that created the experiment; None if there is no experiment."""
        row = self._connection.execute(_CREATED, (self._id,)).fetchone()
        return None if row is None else str(row[0])

    def _execute(self, query: str, arguments: Sequence[Any]) -> sqlite3.Cursor:
        """Execute a query that leaves out confirmations, if the experiment may have some."""
        if self._search is None:
            created = self.created() or "{}"
            confirms = self._connection.execute(_CONFIRMS, (created,)).fetchone()[0]
            self._search = _OF_THE_SEARCH if confirms else ""
        return self._connection.execute(query.replace("{search}", self._search), arguments)

    def last_number(self, *, up_to: int, metrics: bool) -> int:
        """Return the number of the last fact that is not after fact ``up_to``; 0 without such a fact.

        ``metrics``: metrics are facts, too.
        """
        tables = ("facts", "metrics") if metrics else ("facts",)
        return max(
            int(self._connection.execute(_LAST % table, (self._id, up_to)).fetchone()[0]) for table in tables
        )

    def facts(self, kinds: Sequence[str], *, after: int, up_to: int) -> Iterator[PastFact]:
        """Yield the facts of these kinds after fact ``after``, up to fact ``up_to``, in order of their
        numbers.
        """
        query = _FACTS % ", ".join("?" * len(kinds))
        rows = self._execute(query, (self._id, after, up_to, *kinds))
        return map(PastFact._make, rows)

    def open_suggestions(self, *, after: int, up_to: int) -> Iterator[PastFact]:
        """Yield the suggestions whose trials have not ended by fact ``up_to``, in order of their numbers."""
        rows = self._connection.execute(_OPEN, (self._id, after, up_to, self._id, up_to))
        return map(PastFact._make, rows)

    def ends(self, *, after: int, up_to: int, untried: bool = False) -> Iterator[PastEnd]:
        """Yield the ends of trials in order of their numbers. ``untried``: only trials that were canceled
        before they ran.
        """
        query = _ENDS % ("AND untried" if untried else "")
        ends = self._execute(query, (self._id, after, up_to)).fetchall()
        if len(ends) <= _TRIALS_AT_ONCE:
            ids = json.dumps([trial_id for _, trial_id, *_ in ends])
            trials = self._connection.execute(_TRIALS + _OF_THESE, (self._id, ids))
        else:  # this many trials are read faster in the order of the table
            trials = self._connection.execute(_TRIALS, (self._id,))
        trial_of = {row[0]: row[1:] for row in trials}
        for end in ends:
            yield PastEnd._make(end + trial_of[end[1]])

    def metrics(self, *, after: int, up_to: int) -> Iterator[Metric]:
        """Yield the intermediate results of all trials after fact ``after``, up to fact ``up_to``, in
        order.
        """
        yield from self._execute(_METRICS, (self._id, after, up_to))

    def metrics_of(self, trial_ids: Sequence[str], *, up_to: int) -> Iterator[tuple[str, list[Metric]]]:
        """Yield the id of each of these trials, in the given order, with the trial's intermediate results.

        The results are read in parts, since there may be very many.
        """
        for first in range(0, len(trial_ids), _TRIALS_AT_ONCE):
            part = trial_ids[first : first + _TRIALS_AT_ONCE]
            found: dict[str, list[Metric]] = {trial_id: [] for trial_id in part}
            for row in self._connection.execute(_METRICS_OF, (self._id, json.dumps(part), up_to)):
                found[row[0]].append(row)
            yield from found.items()

    def numbered_metrics(self, after: int, up_to: int) -> Iterator[tuple[int, Metric]]:
        """Yield the intermediate results of all trials after fact ``after``, up to fact ``up_to``, with
        their numbers.
        """
        for number, *metric in self._execute(_NUMBERED_METRICS, (self._id, after, up_to)):
            yield number, tuple(metric)

    def set_of(self, trial_id: str) -> tuple[int | None, str] | None:
        """Return the parameter id and the parameters of a trial; None without such a trial.

        The id is None for a customised trial.
        """
        found: tuple[int | None, str] | None = self._connection.execute(_SET, (self._id, trial_id)).fetchone()
        return found

    def set_named_by(self, trial_id: str, attempt: int, position: int) -> str | None:
        """Return the parameter id that the trial has reported with a metric, as JSON text."""
        key = self._id, trial_id, attempt, position
        row = self._connection.execute(_NAMED_SET, key).fetchone()
        return None if row is None else row[0]

    def metrics_and_ends(self, *, up_to: int) -> Iterator[Metric | tuple[str, str]]:
        """Yield intermediate results, and ends of trials as (trial_id, payload), in order of their
        numbers.
        """
        for row in self._execute(_METRICS_AND_ENDS, (self._id, up_to, self._id, up_to)):
            trial_id, attempt, position, sequence, text = row[1:]
            yield (trial_id, text) if attempt is None else (trial_id, attempt, position, sequence, text)

    def other_trials(self, trial_ids: set[str]) -> list[str]:
        """Return the ids of all trials that are not in ``trial_ids``."""
        rows = self._execute(_OTHERS, (self._id, json.dumps(sorted(trial_ids))))
        return [trial_id for (trial_id,) in rows]

"""The experiment's past, read from its database by a child that is built anew. Read-only.

Only what algorithms need is read, straight from the tables of ``nnimgr.store.schema``: a child must not load
the store's libraries, whose import takes longer than its own start.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from nnimgr.algorithm import Past
from nnimgr.dispatcher.messages import (
    Imported,
    ResultReported,
    SetDiscarded,
    SetTried,
    SpaceChanged,
    TrialFinished,
    runs_again,
)

__all__ = ["CONSTRAINTS", "Event", "History", "PastSuggestion", "constraints_of"]

SUCCEEDED = "SUCCEEDED"
CUSTOMIZED = "customized"
CONSTRAINTS = "searchSpaceConstraints"

Metric = tuple[str, int, int, int, str]  # trial_id, attempt, position, sequence, text


@dataclass(frozen=True, slots=True, kw_only=True)
class PastSuggestion:
    """A parameter set that the tuner gave, ``parameters`` and ``state`` as JSON text.

    ``further``: for a multi-phase trial that ran already.
    """

    number: int
    trial_id: str
    parameter_id: int
    parameters: str
    fed_to: int
    state: str | None
    further: bool = False


Told = TrialFinished | ResultReported | SetDiscarded | SetTried | Imported | SpaceChanged
Event = PastSuggestion | Told

_FACTS = """
SELECT number, kind, trial_id, payload FROM facts
WHERE experiment_id = ? AND number > ? AND number <= ? AND kind IN (%s)
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
WHERE experiment_id = ? AND number > ? AND number <= ? AND kind = 'TrialEnded' %s
ORDER BY number
"""
_TRIALS = """
SELECT trial_id, parameter_id, parameters, final_text, source, final_value FROM trials
WHERE experiment_id = ?
"""
_OF_THESE = "AND trial_id IN (SELECT value FROM json_each(?))"
_LAST = "SELECT coalesce(max(number), 0) FROM facts WHERE experiment_id = ? AND number <= ?"
_SPACE = (
    "SELECT payload FROM facts WHERE experiment_id = ? AND kind = 'ExperimentCreated' ORDER BY number LIMIT 1"
)
_METRICS = """
SELECT trial_id, attempt, position, sequence, text FROM metrics
WHERE experiment_id = ? AND number > ? AND number <= ? AND type = 'PERIODICAL' ORDER BY number
"""
_TRIALS_AT_ONCE = 1_000
# The sign keeps the index on trials in use: by numbers, each of them would be looked for in all metrics.
_METRICS_OF = """
SELECT trial_id, attempt, position, sequence, text FROM metrics
WHERE experiment_id = ? AND trial_id IN (SELECT value FROM json_each(?)) AND +number <= ?
AND type = 'PERIODICAL' ORDER BY trial_id, attempt, position
"""
_REPORTS_AND_ENDS = """
SELECT number, trial_id, attempt, position, sequence, text FROM metrics
WHERE experiment_id = ? AND number <= ? AND type = 'PERIODICAL'
UNION ALL
SELECT number, trial_id, NULL, NULL, NULL, payload FROM facts
WHERE experiment_id = ? AND number <= ? AND kind = 'TrialEnded'
ORDER BY 1
"""
_OF_KIND = """
SELECT trial_id, payload FROM facts WHERE experiment_id = ? AND kind = ? AND number <= ? ORDER BY number
"""
_LIVE = (
    "SELECT trial_id FROM trials WHERE experiment_id = ? AND trial_id NOT IN (SELECT value FROM json_each(?))"
)


_KINDS = {
    Past.SUGGESTIONS: ("Suggested", "FurtherSuggested"),
    Past.RESULTS: ("ResultTaken",),
    Past.IMPORTS: ("DataImported",),
}


class History:
    """One connection to the database. Raises sqlite3.Error."""

    def __init__(self, database: str, experiment_id: str) -> None:
        self._connection = sqlite3.connect(f"file:{quote(database)}?mode=ro", uri=True)
        self._id = experiment_id

    def close(self) -> None:
        self._connection.close()

    def first(self) -> tuple[dict[str, Any], tuple[str, ...]] | None:
        """The search space and the constraints that the experiment was created with."""
        row = self._connection.execute(_SPACE, (self._id,)).fetchone()
        if row is None:
            return None
        created = json.loads(row[0])
        return created["search_space"], constraints_of(created.get("config", {})) or ()

    def spaces(self, *, up_to: int, since: int = 0) -> list[dict[str, Any]]:
        """The search space that held at fact ``since``, and all that have come after it, in order."""
        first = self.first()
        found = [] if first is None else [first[0]]
        for event in self.events(after=0, up_to=up_to, past=Past.NOTHING):
            if isinstance(event, SpaceChanged):
                found = [*([] if event.number <= since else found), dict(event.search_space)]
        return found

    def last(self, *, up_to: int) -> int:
        """The number of the last fact up to this one that is in the database, as are all before it."""
        return int(self._connection.execute(_LAST, (self._id, up_to)).fetchone()[0])

    def events(self, *, after: int, up_to: int, past: Past = Past.ALL) -> list[Event]:
        """What a tuner was told and asked, in the order of the calls; only the part ``past`` of it is read.

        A suggestion stands where it was asked for, behind the facts that the tuner had been fed by then. With
        the suggestions come the ends of those trials that were never tried.
        """
        kinds = ["ConfigChanged", *(kind for part in _KINDS if part in past for kind in _KINDS[part])]
        since = self._id, after, up_to
        rows = self._connection.execute(_FACTS % ", ".join("?" * len(kinds)), (*since, *kinds)).fetchall()
        if Past.OPEN in past and Past.SUGGESTIONS not in past:
            rows += self._connection.execute(_OPEN, (*since, self._id, up_to))
        events = [event for row in rows for event in _events(*row)]
        if Past.RESULTS in past or Past.SUGGESTIONS in past:
            events += self._ends(*since, untried=Past.RESULTS not in past)
        events.sort(key=_place)
        return events

    def _ends(self, experiment_id: str, after: int, up_to: int, *, untried: bool) -> Iterator[TrialFinished]:
        """Ends of trials. ``untried``: only of those that were never tried."""
        run = self._connection.execute
        ends = run(_ENDS % ("AND untried" if untried else ""), (experiment_id, after, up_to)).fetchall()
        if len(ends) <= _TRIALS_AT_ONCE:
            rows = run(_TRIALS + _OF_THESE, (experiment_id, json.dumps([row[1] for row in ends])))
        else:  # so many are read faster as they lie than one by one
            rows = run(_TRIALS, (experiment_id,))
        trials = {row[0]: row[1:] for row in rows}
        for number, trial_id, status, stand_in, called_off in ends:
            parameter_id, parameters, text, source, value = trials[trial_id]
            customised = source == CUSTOMIZED
            yield TrialFinished(
                number=number,
                trial_id=trial_id,
                parameter_id=None if customised else parameter_id,
                parameters=parameters,
                text=text,
                value=value,
                success=status == SUCCEEDED,
                stand_in=stand_in,
                untried=bool(called_off),
                again=runs_again(status, untried=bool(called_off), customised=customised),
            )

    def metrics(self, *, after: int, up_to: int) -> Iterator[Metric]:
        """Intermediate results of all trials, in the order of their arrival."""
        yield from self._connection.execute(_METRICS, (self._id, after, up_to))

    def reports_and_ends(self, *, up_to: int) -> Iterator[Metric | tuple[str, bool]]:
        """Intermediate results of all trials, and (trial_id, success) at their ends, as it all happened."""
        for row in self._connection.execute(_REPORTS_AND_ENDS, (self._id, up_to, self._id, up_to)):
            trial_id, attempt, position, sequence, text = row[1:]
            if attempt is None:
                yield trial_id, json.loads(text)["status"] == SUCCEEDED
            else:
                yield trial_id, attempt, position, sequence, text

    def metrics_of(self, trial_ids: Sequence[str], *, up_to: int) -> Iterator[tuple[str, list[Metric]]]:
        """Each of these trials, in their order, with its intermediate results. Read in parts: there may be
        very many.
        """
        for first in range(0, len(trial_ids), _TRIALS_AT_ONCE):
            part = trial_ids[first : first + _TRIALS_AT_ONCE]
            found: dict[str, list[Metric]] = {trial_id: [] for trial_id in part}
            for row in self._connection.execute(_METRICS_OF, (self._id, json.dumps(part), up_to)):
                found[row[0]].append(row)
            yield from found.items()

    def ended(self, *, up_to: int) -> list[tuple[str, bool]]:
        """(trial_id, success) of the trials that have ended, in that order."""
        rows = self._connection.execute(_OF_KIND, (self._id, "TrialEnded", up_to))
        return [(trial_id, json.loads(payload)["status"] == SUCCEEDED) for trial_id, payload in rows]

    def judged(self, *, up_to: int) -> set[str]:
        """The trials that the assessor has called Bad."""
        return {row[0] for row in self._connection.execute(_OF_KIND, (self._id, "Verdict", up_to))}

    def others(self, trial_ids: set[str]) -> list[str]:
        """All trials that are not among these."""
        return [row[0] for row in self._connection.execute(_LIVE, (self._id, json.dumps(sorted(trial_ids))))]


def _place(event: Event) -> tuple[int, int, int]:
    """Where it stands among all of them."""
    if isinstance(event, PastSuggestion):
        return event.fed_to, 1, event.parameter_id
    return event.number, 0, 0


def _events(number: int, kind: str, trial_id: str, payload_text: str) -> Iterator[Event]:
    payload = json.loads(payload_text)
    match kind:
        case "Suggested" if payload["source"] == CUSTOMIZED:
            yield SetTried(number=number, parameters=payload["parameters"])
        case "Suggested" | "FurtherSuggested":
            if payload.get("parameter_id") is None or payload.get("source", "algorithm") != "algorithm":
                return
            yield PastSuggestion(
                number=number,
                trial_id=trial_id,
                parameter_id=payload["parameter_id"],
                parameters=payload["parameters"],
                fed_to=payload.get("fed_to") or 0,
                state=payload.get("tuner_state"),
                further=kind == "FurtherSuggested",
            )
            if payload.get("late"):
                yield SetDiscarded(
                    number=number,
                    trial_id=trial_id,
                    parameter_id=payload["parameter_id"],
                    parameters=payload["parameters"],
                )
        case "ResultTaken":
            yield ResultReported(
                number=number,
                trial_id=trial_id,
                parameter_id=payload["parameter_id"],
                parameters=payload["parameters"],
                text=payload["text"],
            )
        case "DataImported":
            yield Imported(number=number, records=payload["records"])
        case _ if (space := payload.get("search_space")) is not None:
            constraints = constraints_of(payload["changes"])
            yield SpaceChanged(number=number, search_space=space, constraints=constraints)


def constraints_of(config: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The constraints that a configuration, or a change of one, has; None if it says nothing of them."""
    return tuple(config[CONSTRAINTS] or ()) if CONSTRAINTS in config else None

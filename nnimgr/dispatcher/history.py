"""Past of an experiment as its tuner or assessor has seen it. A restarted child reads it from the
database.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import chain
from typing import Any, NamedTuple

from nnimgr.algorithm import Past
from nnimgr.dispatcher.messages import (
    Imported,
    ResultReported,
    RolledBack,
    SetDiscarded,
    SetTried,
    SpaceChanged,
    TrialFinished,
    runs_again,
)
from nnimgr.store.past import Metric, PastReader

__all__ = [
    "CONSTRAINTS",
    "Event",
    "History",
    "Metric",
    "PastSuggestion",
    "Reported",
    "Told",
    "constraints_of",
]

SUCCEEDED = "SUCCEEDED"
CUSTOMIZED = "customized"
CONSTRAINTS = "searchSpaceConstraints"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastSuggestion:
    """Parameter set that the tuner suggested in the past. ``parameters`` and ``state``: JSON text.

    ``fed_to``: number of the last fact that the tuner knew then. ``further``: the set was a further set for a
    multi-phase trial that was running already.
    """

    number: int
    trial_id: str
    parameter_id: int
    parameters: str
    fed_to: int
    state: str | None
    further: bool = False


class Reported(NamedTuple):
    """Intermediate result of a trial, with its number in the log."""

    number: int
    metric: Metric


Told = (
    TrialFinished | ResultReported | SetDiscarded | SetTried | Imported | SpaceChanged | RolledBack | Reported
)
Event = PastSuggestion | Told

_KINDS = {
    Past.SUGGESTIONS: ("Suggested", "FurtherSuggested"),
    Past.RESULTS: ("ResultTaken",),
    Past.IMPORTS: ("DataImported",),
    Past.INTERMEDIATES: ("AttemptDue",),
}


class History:
    """Past of one experiment, read from its database. The methods raise sqlite3.Error."""

    def __init__(self, database: str, experiment_id: str) -> None:
        self._reader = PastReader(database, experiment_id)

    def close(self) -> None:
        self._reader.close()

    def first(self) -> tuple[dict[str, Any], tuple[str, ...]] | None:
        """Return the search space and the constraints with which the experiment was created; None without
        an experiment.
        """
        payload = self._reader.created()
        if payload is None:
            return None
        created = json.loads(payload)
        return created["search_space"], constraints_of(created.get("config", {})) or ()

    def spaces(self, *, up_to: int, since: int = 0) -> list[dict[str, Any]]:
        """Return the search space that was valid at fact ``since``, and all later search spaces, in order."""
        first = self.first()
        found = [] if first is None else [first[0]]
        for event in self.events(after=0, up_to=up_to, past=Past.NOTHING):
            if isinstance(event, SpaceChanged):
                found = [*([] if event.number <= since else found), dict(event.search_space)]
        return found

    def last(self, *, up_to: int, metrics: bool = False) -> int:
        """Return the number of the last fact in the database that is not above ``up_to``.

        All facts with lower numbers are in the database. ``metrics``: metrics are facts, too.
        """
        return self._reader.last_number(up_to=up_to, metrics=metrics)

    def events(self, *, after: int, up_to: int, past: Past = Past.ALL) -> list[Event]:
        """Return the past events and suggestions of the tuner, in the order of its calls.

        ``past``: the kinds of events to read. Changes of the search space are always read. With suggestions
        but without results, only ends of trials that were canceled before they ran are read. A suggestion is
        placed after the facts that the tuner knew when it suggested the set. Intermediate results are not
        among the events, but what is rolled back is: see ``with_metrics``.
        """
        kinds = ["ConfigChanged", *(kind for part in _KINDS if part in past for kind in _KINDS[part])]
        facts = self._reader.facts(kinds, after=after, up_to=up_to)
        if Past.OPEN in past and Past.SUGGESTIONS not in past:
            facts = chain(facts, self._reader.open_suggestions(after=after, up_to=up_to))
        events = [event for fact in facts for event in _events(*fact)]
        if Past.RESULTS in past or Past.SUGGESTIONS in past:
            events += self._ends(after, up_to, untried=Past.RESULTS not in past)
        events.sort(key=_place)
        return events

    def with_metrics(self, events: Iterable[Event], *, after: int, up_to: int) -> Iterator[Event]:
        """Yield the events, and between them the intermediate results of all trials after fact ``after``.

        The results are read one by one, since there may be very many.
        """
        return merge(events, map(Reported._make, self._reader.numbered_metrics(after, up_to)), key=_place)

    def _ends(self, after: int, up_to: int, *, untried: bool) -> Iterator[TrialFinished]:
        """Yield the ends of trials. ``untried``: only of trials that were canceled before they ran."""
        for end in self._reader.ends(after=after, up_to=up_to, untried=untried):
            customised, called_off = end.source == CUSTOMIZED, bool(end.untried)
            yield TrialFinished(
                number=end.number,
                trial_id=end.trial_id,
                parameter_id=None if customised else end.parameter_id,
                parameters=end.parameters,
                text=end.final_text,
                value=end.final_value,
                success=end.status == SUCCEEDED,
                stand_in=end.stand_in,
                untried=called_off,
                again=runs_again(end.status, untried=called_off, customised=customised),
                status=end.status,
            )

    def metrics(self, *, after: int, up_to: int) -> Iterator[Metric]:
        """Yield the intermediate results of all trials, in the order of their arrival."""
        return self._reader.metrics(after=after, up_to=up_to)

    def set_of(self, trial_id: str) -> tuple[int | None, str] | None:
        """Return the id and the JSON text of the trial's first parameter set; None without such a trial.

        The id is None for a customised trial.
        """
        return self._reader.set_of(trial_id)

    def set_named_by(self, metric: Metric) -> str | None:
        """Return the id of the parameter set to which the trial has assigned this metric, as JSON text."""
        trial_id, attempt, position, _, _ = metric
        return self._reader.set_named_by(trial_id, attempt, position)

    def reports_and_ends(self, *, up_to: int) -> Iterator[Metric | tuple[str, bool]]:
        """Yield all intermediate results and all ends of trials, in order. An end is (trial_id, success)."""
        for row in self._reader.metrics_and_ends(up_to=up_to):
            yield row if len(row) > 2 else (row[0], _succeeded(row[1]))

    def metrics_of(self, trial_ids: Sequence[str], *, up_to: int) -> Iterator[tuple[str, list[Metric]]]:
        """Yield the id of each of these trials, in the given order, with the trial's intermediate results."""
        return self._reader.metrics_of(trial_ids, up_to=up_to)

    def ended(self, *, up_to: int) -> list[tuple[str, bool]]:
        """Return (trial_id, success) for each trial that has ended, in the order of the ends."""
        ends = self._reader.facts(["TrialEnded"], after=0, up_to=up_to)
        return [(end.trial_id, _succeeded(end.payload)) for end in ends]

    def continued(self, *, up_to: int) -> list[RolledBack]:
        """Return the last continuation of each trial that has continued from a checkpoint. A fork continues
        from a checkpoint of another trial.
        """
        facts = self._reader.facts(["Suggested", "AttemptDue"], after=0, up_to=up_to)
        found = (
            _rolled_back(fact.number, fact.trial_id, json.loads(fact.payload))
            for fact in facts
            if '"origin"' in fact.payload
        )
        return list({message.trial_id: message for each in found for message in each}.values())

    def waiting(self, *, up_to: int) -> dict[str, float]:
        """Return the trials that are paused, or have begun another attempt, each with its latest attempt. A
        paused trial has infinity: only reports after its pause matter.
        """
        facts = self._reader.facts(["AttemptDue", "TrialPaused"], after=0, up_to=up_to)
        return {
            fact.trial_id: math.inf if fact.kind == "TrialPaused" else json.loads(fact.payload)["attempt"]
            for fact in facts
        }

    def judged(self, *, up_to: int) -> set[str]:
        """Return the ids of the trials that the assessor has judged bad."""
        return {verdict.trial_id for verdict in self._reader.facts(["Verdict"], after=0, up_to=up_to)}

    def others(self, trial_ids: set[str]) -> list[str]:
        """Return the ids of all trials that are not in ``trial_ids``."""
        return self._reader.other_trials(trial_ids)


def _succeeded(end: str) -> bool:
    """Return whether a trial has succeeded. ``end``: JSON text of its TrialEnded fact."""
    return bool(json.loads(end)["status"] == SUCCEEDED)


def _place(event: Event) -> tuple[int, int, int]:
    """Return the key by which events are sorted into the order of the tuner's calls."""
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
        case "AttemptDue":
            yield from _rolled_back(number, trial_id, payload)
        case "DataImported":
            yield Imported(number=number, records=payload["records"])
        case _ if (space := payload.get("search_space")) is not None:
            constraints = constraints_of(payload["changes"])
            yield SpaceChanged(number=number, search_space=space, constraints=constraints)


def _rolled_back(number: int, trial_id: str, payload: Mapping[str, Any]) -> Iterator[RolledBack]:
    """Yield a message if the fact says that an attempt continues from a checkpoint, or that its trial starts
    again. ``payload``: fields of an AttemptDue, or of a fork's Suggested, whose attempt is the first.
    """
    origin = payload.get("origin") or {}
    if origin or payload.get("rolled_back"):
        yield RolledBack(
            number=number,
            trial_id=trial_id,
            attempt=payload.get("attempt", 1),
            position=origin.get("position", 0),
            reports=origin.get("reports", 0),
        )


def constraints_of(config: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the constraints in a configuration or in changes of it; None if the field is absent."""
    return tuple(config[CONSTRAINTS] or ()) if CONSTRAINTS in config else None

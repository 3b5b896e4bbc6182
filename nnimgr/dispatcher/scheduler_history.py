"""Past of an experiment as the messages to its scheduler. A restarted child reads it from the database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher.history import History, Reported, constraints_of
from nnimgr.dispatcher.members import Event
from nnimgr.scheduler import Experiment
from nnimgr.store.past import PastFact

__all__ = ["SchedulerHistory"]

_KINDS = (
    "Suggested",
    "CheckpointReported",
    "AttemptDue",
    "TrialPaused",
    "ResumeRequested",
    "SlotLent",
    "Decided",
    "DecisionRefused",
    "ExperimentMoved",
    "ConfigChanged",
    "TrialEnded",
)
_DECISIONS = ("Decided", "DecisionRefused", "Verdict")
_NO_NUMBER = 2**63 - 1  # larger than the number of every fact


class SchedulerHistory(History):
    """Past of one experiment, read from its database. The methods raise sqlite3.Error."""

    def decisions(self) -> set[tuple[int, str]]:
        """Return the cause and the trial of each decision that is recorded, or recorded as refused."""
        facts = self._reader.facts(_DECISIONS, after=0, up_to=_NO_NUMBER)
        found = ((json.loads(fact.payload).get("cause"), fact.trial_id) for fact in facts)
        return {(cause, trial_id) for cause, trial_id in found if cause is not None}

    def messages(self, experiment: Experiment, *, after: int, up_to: int) -> Iterator[Event]:
        """Yield all events after fact ``after``, up to fact ``up_to``, in the order of the log.

        ``experiment`` has to be up to date with the events before each event that is yielded.
        """
        ends = {end.number: end for end in self._ends(after, up_to, untried=False)}
        reports = self._reader.numbered_metrics(after, up_to)
        report = next(reports, None)
        for fact in self._reader.facts(_KINDS, after=after, up_to=up_to):
            while report is not None and report[0] < fact.number:
                yield Reported._make(report)
                report = next(reports, None)
            event = ends[fact.number] if fact.kind == "TrialEnded" else _event(fact, experiment)
            if event is not None:
                yield event
        while report is not None:
            yield Reported._make(report)
            report = next(reports, None)


def _event(fact: PastFact, experiment: Experiment) -> Event | None:
    """Return the message about a fact that the server has sent; None if it has sent none."""
    number, kind, trial_id, text = fact
    payload = json.loads(text)
    match kind:
        case "Suggested" if payload.get("reuse") is None:
            origin = payload.get("origin") or {}
            return m.TrialCreated(
                number=number,
                trial_id=trial_id,
                parameters=payload["parameters"],
                reports=origin.get("reports", 0),
            )
        case "CheckpointReported" if payload.get("usable", True) and payload.get("reports") is not None:
            return m.CheckpointSaved(
                number=number,
                trial_id=trial_id,
                attempt=int(payload["job_id"].rpartition("-")[2]),
                checkpoint=payload["number"],
                reports=payload["reports"],
                step=payload.get("step"),
            )
        case "AttemptDue":
            return _attempt(number, trial_id, payload)
        case "TrialPaused" if not payload.get("parked"):
            return m.TrialPaused(number=number, trial_id=trial_id, by=payload.get("by") or "user")
        case "ResumeRequested":
            return m.TrialContinued(number=number, trial_id=trial_id)
        case "Decided" if payload["kind"] == "continue":
            return m.TrialContinued(number=number, trial_id=trial_id)
        case "SlotLent":
            return m.SlotLent(number=number, trial_id=trial_id)
        case "DecisionRefused":
            return m.DecisionRefused(
                number=number,
                trial_id=trial_id,
                cause=payload["cause"],
                kind=payload["kind"],
                reason=payload["reason"],
            )
        case "ExperimentMoved" if payload["status"] == "DRAINING" and experiment.more_trials:
            return m.NoMoreTrials(number=number)
        case "ExperimentMoved" if payload["status"] == "RUNNING" and not experiment.more_trials:
            return m.TrialsAgain(number=number)
        case "ConfigChanged" if (space := payload.get("search_space")) is not None:
            constraints = constraints_of(payload["changes"])
            return m.SpaceChanged(number=number, search_space=space, constraints=constraints)
    return None


def _attempt(number: int, trial_id: str, payload: Any) -> Event | None:
    """Return the message about a further attempt; None if the trial has nothing to forget."""
    origin = payload.get("origin") or {}
    attempt, position, reports = payload["attempt"], origin.get("position", 0), origin.get("reports", 0)
    resources = payload.get("resources")
    if payload.get("parameters") is not None:
        return m.LegBegan(
            number=number,
            trial_id=trial_id,
            attempt=attempt,
            leg=payload["leg"],
            parameters=payload["parameters"],
            position=position,
            reports=reports,
            resources=resources,
        )
    if not origin and not payload.get("rolled_back") and resources is None:
        return None
    return m.RolledBack(
        number=number,
        trial_id=trial_id,
        attempt=attempt,
        position=position,
        reports=reports,
        resources=resources,
    )

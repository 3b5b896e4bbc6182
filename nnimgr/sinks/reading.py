"""Events of an experiment, read from its database for a sink."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from nnimgr.sink import (
    Event,
    Experiment,
    ExperimentMoved,
    Reported,
    TrialCreated,
    TrialEnded,
    TrialRestarted,
    TrialStarted,
)
from nnimgr.store.sink_events import EventReader, EventRow, TrialRow
from training_services.base import trial_of_job

__all__ = ["EventSource"]

_EPOCH = datetime.fromtimestamp(0, UTC)
_AT_ONCE = 1000  # events of a batch


class EventSource:
    """Reader of the events of one experiment. The methods raise sqlite3.Error."""

    def __init__(self, database: str, experiment_id: str) -> None:
        self._reader = EventReader(database, experiment_id)
        self._id = experiment_id
        self._is_multi_phase = False

    def close(self) -> None:
        self._reader.close()

    @property
    def last_number(self) -> int:
        """Number of the last fact in the database."""
        return self._reader.experiment().last_number

    def experiment(self, directory: Path) -> Experiment:
        """Return what the sink may know of the experiment. ``directory``: folder for the sink."""
        found = self._reader.experiment()
        config = json.loads(found.config)
        self._is_multi_phase = bool(config.get("multiPhase"))
        return Experiment(
            id=self._id,
            created_at=_time(found.created_at),
            name=str(config.get("experimentName") or ""),
            directory=directory,
            search_space=json.loads(found.search_space),
            curve=self._curve,
        )

    def batches(self, *, after: int, up_to: int) -> Iterator[list[Event]]:
        """Yield the events after fact ``after``, up to fact ``up_to``, in batches."""
        while rows := self._reader.events(after=after, up_to=up_to, most=_AT_ONCE):
            after = rows[-1].number
            trials = self._reader.trials(list({trial_id for row in rows if (trial_id := _trial_of(row))}))
            if events := [event for row in rows if (event := _event(row, trials)) is not None]:
                yield list(map(self._with_parameters, events)) if self._is_multi_phase else events

    def _with_parameters(self, event: Event) -> Event:
        """Return the end of a trial with the parameter set that has its result; other events as they are."""
        if not isinstance(event, TrialEnded):
            return event
        text = self._reader.set_of_result(event.trial_id)
        return event if text is None else replace(event, parameters=json.loads(text))

    def _curve(self, trial_id: str) -> Sequence[tuple[int, datetime, float | None, Any]]:
        rows = self._reader.curve(trial_id)
        return [(row.step, _time(row.at), row.value, _plain(row.text)) for row in rows]


def _trial_of(row: EventRow) -> str | None:
    """Return the id of the event's trial. The fact JobStarted has it in the id of its job."""
    if row.kind == "JobStarted":
        return trial_of_job(json.loads(row.text)["job_id"])[0]
    return row.trial_id


def _event(row: EventRow, trials: dict[str, TrialRow]) -> Event | None:
    number, at, trial_id = row.number, _time(row.at), _trial_of(row)
    fact: Any = None if row.kind == "Metric" else json.loads(row.text)
    if row.kind == "ExperimentMoved":
        return ExperimentMoved(number=number, at=at, status=fact["status"], reason=fact["reason"])
    if trial_id is None or trial_id not in trials:
        return None
    trial = trials[trial_id]
    own: dict[str, Any] = {"number": number, "at": at, "trial": trial.sequence, "trial_id": trial_id}
    match row.kind:
        case "Suggested":
            parameters = json.loads(fact["parameters"])
            return TrialCreated(**own, parameters=parameters, source=fact.get("source") or "algorithm")
        case "JobStarted":
            return TrialStarted(**own, attempt=trial_of_job(fact["job_id"])[1])
        case "Metric":
            return Reported(**own, step=row.step or 0, value=row.value, result=_plain(row.text))
        case "AttemptDue":
            origin, parameters = fact.get("origin") or {}, fact.get("parameters")
            return TrialRestarted(
                **own,
                step=origin.get("reports", 0),
                attempt=fact["attempt"],
                reason=fact["reason"],
                parameters=None if parameters is None else json.loads(parameters),
            )
        case _:
            final = None if trial.final_text is None else _plain(trial.final_text)
            status, reason = fact["status"], fact["reason"]
            return TrialEnded(**own, status=status, reason=reason, value=trial.final_value, result=final)


def _plain(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _time(us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=us)

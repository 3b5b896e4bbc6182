"""Database of an experiment that is only a test. A restarted algorithm restores its state from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nnimgr.rules import facts as f
from nnimgr.store.record import RecordDatabase

__all__ = ["EXPERIMENT", "Record"]

EXPERIMENT = "conformance"

_LIMITS = f.Limits(trial_concurrency=4)


class Record:
    """Writer of an experiment's facts to a database, in the format of real experiments.

    ``number``: number of the last fact.
    """

    def __init__(
        self, path: Path, space: Mapping[str, Any], *, config: Mapping[str, Any] | None = None
    ) -> None:
        self.path = path
        self.number = 0
        self._db = RecordDatabase(path, EXPERIMENT)
        self._trials = 0
        created = f.ExperimentCreated(
            experiment_id=EXPERIMENT,
            config=config or {},
            search_space=space,
            limits=_LIMITS,
            traits=f.TunerTraits(),
        )
        self.add(created)

    def close(self) -> None:
        self._db.close()

    def suggested(
        self,
        parameter_id: int | None,
        parameters: str,
        *,
        fed_to: int = 0,
        state: str | None = None,
        origin: f.Origin | None = None,
    ) -> str:
        """Record a suggested parameter set and its trial. Return the trial's id.

        ``parameters``: JSON text of the set. ``parameter_id``: None if a user has submitted the set.
        ``origin``: checkpoint with which a fork begins.
        """
        trial_id = f"t{self._trials}"
        source = f.SuggestionSource.CUSTOMIZED if parameter_id is None else f.SuggestionSource.ALGORITHM
        suggested = f.Suggested(
            trial_id=trial_id,
            sequence=self._trials,
            source=source,
            parameter_id=parameter_id,
            parameters=parameters,
            fed_to=fed_to,
            tuner_state=state,
            origin=origin,
        )
        self.add(suggested)
        self._db.add_trial(suggested)
        self._trials += 1
        return trial_id

    def reported(
        self,
        trial_id: str,
        position: int,
        text: str,
        *,
        attempt: int = 1,
        parameter_id: int | None = None,
    ) -> int:
        """Record an intermediate result of a trial. Return its number.

        ``parameter_id``: the set of a multi-phase trial to which the result belongs.
        """
        self.number += 1
        self._db.add_metric(self.number, trial_id, attempt, position, text, parameter_id=parameter_id)
        return self.number

    def continued(self, trial_id: str, attempt: int, reports: int) -> int:
        """Record that attempt ``attempt`` of a trial continues after the first ``reports`` intermediate
        results, or starts again if there are none. Return the number of this fact.
        """
        origin = f.Origin(attempt=attempt - 1, number=1, keeper_id="host", position=reports, reports=reports)
        due = f.AttemptDue(
            trial_id=trial_id,
            attempt=attempt,
            due_at=datetime(2024, 1, 1, tzinfo=UTC),
            reason="its machine was lost",
            origin=origin if reports else None,
            rolled_back=1,
        )
        self._db.continue_trial(trial_id, attempt, reports)
        return self.add(due)

    def judged(self, trial_id: str, position: int = 0) -> None:
        self.add(f.Verdict(trial_id=trial_id, attempt=1, position=position))

    def ended(self, trial_id: str, text: str | None, *, success: bool, untried: bool = False) -> int:
        """Record that a trial has ended. Return the number of this fact.

        ``text``: JSON text of the final result, if any.
        """
        status = f.TrialStatus.SUCCEEDED if success else f.TrialStatus.FAILED
        status = f.TrialStatus.SYS_CANCELED if untried else status
        return self.over(
            f.TrialEnded(trial_id=trial_id, status=status, reason="it has ended", untried=untried), text
        )

    def over(self, end: f.TrialEnded, text: str | None) -> int:
        """Record the end of a trial, given as a fact with all its fields. Return the number of this fact."""
        value = None if text is None else _number(json.loads(text))
        self._db.end_trial(end, text, value)
        return self.add(end)

    def imported(self, records: str) -> int:
        return self.add(f.DataImported(records=records))

    def space_changed(
        self, space: Mapping[str, Any] | None, *, changes: Mapping[str, Any] | None = None
    ) -> int:
        """Record a change of the search space. Return the number of this fact.

        ``changes``: changes of other fields of the configuration.
        """
        return self.add(f.ConfigChanged(changes=changes or {}, limits=_LIMITS, search_space=space))

    def tuner_changed(self) -> int:
        """Record that the tuner was replaced by another tuner. Return the number of this fact."""
        return self.space_changed(None, changes={"tuner": {"className": "next.Tuner"}})

    def named(self, kind: str, trial_id: str, /, **fields: Any) -> int:
        """Record a fact of this kind with these fields, as a scheduler reads it. Return its number."""
        self.number += 1
        self._db.add_named(self.number, kind, trial_id, json.dumps({"trial_id": trial_id, **fields}))
        return self.number

    def copy(self, path: Path, *, up_to: int) -> None:
        """Write a copy of the database that has only the facts up to number ``up_to``."""
        self._db.copy(path, up_to=up_to)

    def add(self, fact: f.Fact) -> int:
        """Record any fact. Return its number."""
        self.number += 1
        self._db.add_fact(self.number, fact)
        return self.number


def _number(value: Any) -> float | None:
    number = value.get("default") if isinstance(value, dict) else value
    return float(number) if isinstance(number, int | float) else None

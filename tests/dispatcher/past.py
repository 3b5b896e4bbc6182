"""Record of an experiment's past for the dispatcher's tests, written with values instead of JSON text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nnimgr.dispatcher import messages as m
from nnimgr.rules import facts as f
from nnimgr.testing.record import EXPERIMENT, Record

__all__ = ["EXPERIMENT", "Past"]


class Past:
    """Database of an experiment's past. ``number`` is the number of the last fact."""

    def __init__(self, path: Path, space: Mapping[str, Any], *, constraints: Sequence[str] = ()) -> None:
        self.path = path
        self._record = Record(path, space, config={"searchSpaceConstraints": list(constraints)})

    @property
    def number(self) -> int:
        return self._record.number

    def close(self) -> None:
        self._record.close()

    def suggested(
        self, parameter_id: int | None, parameters: Any, *, fed_to: int | None = None, state: Any = None
    ) -> str:
        """Add a trial with these parameters and return its id.

        ``parameter_id`` is None for a customised trial.
        """
        return self._record.suggested(
            parameter_id,
            parameters if isinstance(parameters, str) else json.dumps(parameters),
            fed_to=self.number if fed_to is None else fed_to,
            state=None if state is None else json.dumps(state),
        )

    def forked(self, *, reports: int) -> str:
        """Add a fork and return its id. ``reports``: results of the other trial before the checkpoint."""
        origin = f.Origin(
            trial_id="other", attempt=1, number=1, keeper_id="host", position=0, reports=reports
        )
        return self._record.suggested(None, "{}", origin=origin)

    def suggested_further(
        self,
        trial_id: str,
        index: int,
        parameter_id: int,
        parameters: Any,
        *,
        state: Any = None,
        late: bool = False,
    ) -> None:
        """Add a further set of a multi-phase trial."""
        self._record.add(
            f.FurtherSuggested(
                trial_id=trial_id,
                index=index,
                parameter_id=parameter_id,
                parameters=json.dumps(parameters),
                fed_to=self.number,
                tuner_state=None if state is None else json.dumps(state),
                late=late,
            )
        )

    def result_taken(
        self, trial_id: str, index: int, parameter_id: int | None, parameters: Any, value: Any
    ) -> None:
        """Add the result of one set of a multi-phase trial."""
        self._record.add(
            f.ResultTaken(
                trial_id=trial_id,
                index=index,
                parameter_id=parameter_id,
                parameters=json.dumps(parameters),
                text=json.dumps(value),
            )
        )

    def reported(
        self,
        trial_id: str,
        *values: Any,
        attempt: int = 1,
        first: int = 0,
        parameter_id: int | None = None,
    ) -> m.Metrics:
        """Add intermediate results, and return the message with them. ``first``: the first one's position."""
        items, numbers = [], []
        for sequence, value in enumerate(values, first):
            text = json.dumps(value)
            numbers.append(
                self._record.reported(trial_id, sequence, text, attempt=attempt, parameter_id=parameter_id)
            )
            items.append((trial_id, attempt, sequence, sequence, text))
        return m.Metrics(items=tuple(items), numbers=tuple(numbers))

    def continued(self, trial_id: str, attempt: int, reports: int) -> m.RolledBack:
        """Let another attempt continue the trial after some of its reports. Return the message about it."""
        number = self._record.continued(trial_id, attempt, reports)
        return m.RolledBack(
            number=number, trial_id=trial_id, attempt=attempt, position=reports, reports=reports
        )

    def ended(
        self,
        trial_id: str,
        value: Any = None,
        *,
        success: bool = True,
        stand_in: float | None = None,
        untried: bool = False,
        cut: bool = False,
    ) -> int:
        """End a trial and return the fact's number.

        ``value``: the final result, or None. ``cut``: a stop of the experiment has ended the trial.
        """
        status = f.TrialStatus.SUCCEEDED if success else f.TrialStatus.FAILED
        end = f.TrialEnded(
            trial_id=trial_id,
            status=f.TrialStatus.SYS_CANCELED if cut else status,
            reason="it ended",
            stand_in=None if stand_in is None else json.dumps(stand_in),
            untried=untried,
        )
        return self._record.over(end, None if value is None else json.dumps(value))

    def imported(self, *records: Any) -> int:
        return self._record.imported(json.dumps(records))

    def space_changed(self, space: Mapping[str, Any], *, constraints: Sequence[str] | None = None) -> int:
        changes = {} if constraints is None else {"searchSpaceConstraints": list(constraints)}
        return self._record.space_changed(space, changes=changes)

    def tuner_changed(self, space: Mapping[str, Any] | None = None) -> int:
        """Replace the tuner, perhaps with another search space. Return the fact's number."""
        return self._record.space_changed(space, changes={"tuner": {"name": "Another"}})

    def named(self, kind: str, trial_id: str, /, **fields: Any) -> int:
        """Add a fact by the name of its kind, and return its number."""
        return self._record.named(kind, trial_id, **fields)

    def paused(self, trial_id: str) -> None:
        self._record.add(f.TrialPaused(trial_id=trial_id, reason="a user paused it"))

    def judged(self, trial_id: str) -> None:
        self._record.judged(trial_id)

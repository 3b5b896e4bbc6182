"""Writes an experiment's database as the store does, fact by fact, for children that are built anew."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine

from nnimgr.core import facts as f
from nnimgr.store.rows import fact_row
from nnimgr.store.schema import metadata

EXPERIMENT = "exp"
NOW = datetime(2024, 1, 1, tzinfo=UTC)

_TRIAL = """
INSERT INTO trials (experiment_id, trial_id, sequence, status, source, parameter_id, parameters, attempt,
created_at, intermediates) VALUES (?, ?, ?, 'RUNNING', ?, ?, ?, 1, 0, 0)
"""
_METRIC = """
INSERT INTO metrics (experiment_id, number, trial_id, attempt, position, type, sequence, at, value, text)
VALUES (?, ?, ?, ?, ?, 'PERIODICAL', ?, 0, NULL, ?)
"""


class Past:
    """``number`` is that of the last fact."""

    def __init__(self, path: Path, space: Mapping[str, Any], *, constraints: Sequence[str] = ()) -> None:
        self.path = path
        self.number = 0
        engine = create_engine(f"sqlite:///{path}")
        metadata.create_all(engine)
        engine.dispose()
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._trials = 0
        self._fact(
            f.ExperimentCreated(
                experiment_id=EXPERIMENT,
                config={"searchSpaceConstraints": list(constraints)},
                search_space=space,
                limits=f.Limits(trial_concurrency=2),
            )
        )

    def close(self) -> None:
        self._db.close()

    def suggested(
        self, parameter_id: int | None, parameters: Any, *, fed_to: int | None = None, state: Any = None
    ) -> str:
        """A trial with these parameters; its id is returned. ``parameter_id`` None: a customised one."""
        trial_id = f"t{self._trials}"
        source = f.SuggestionSource.CUSTOMIZED if parameter_id is None else f.SuggestionSource.ALGORITHM
        text = parameters if isinstance(parameters, str) else json.dumps(parameters)
        asked_at = self.number if fed_to is None else fed_to
        self._fact(
            f.Suggested(
                trial_id=trial_id,
                sequence=self._trials,
                source=source,
                parameter_id=parameter_id,
                parameters=text,
                fed_to=asked_at,
                tuner_state=None if state is None else json.dumps(state),
            )
        )
        self._db.execute(_TRIAL, (EXPERIMENT, trial_id, self._trials, source, parameter_id, text))
        self._trials += 1
        return trial_id

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
        """A further set for a multi-phase trial."""
        self._fact(
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
        """A set of a multi-phase trial has its result."""
        self._fact(
            f.ResultTaken(
                trial_id=trial_id,
                index=index,
                parameter_id=parameter_id,
                parameters=json.dumps(parameters),
                text=json.dumps(value),
            )
        )

    def reported(self, trial_id: str, *values: Any, attempt: int = 1) -> None:
        for sequence, value in enumerate(values):
            self.number += 1
            row = (EXPERIMENT, self.number, trial_id, attempt, sequence, sequence, json.dumps(value))
            self._db.execute(_METRIC, row)

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
        """The number of the fact. ``value``: the final result, None for none. ``cut``: by a stop."""
        text = None if value is None else json.dumps(value)
        status = f.TrialStatus.SUCCEEDED if success else f.TrialStatus.FAILED
        status = f.TrialStatus.SYS_CANCELED if cut else status
        self._db.execute(
            "UPDATE trials SET final_text = ?, final_value = ?, status = ? WHERE trial_id = ?",
            (text, _number(value), status, trial_id),
        )
        told = None if stand_in is None else json.dumps(stand_in)
        return self._fact(
            f.TrialEnded(trial_id=trial_id, status=status, reason="it ended", stand_in=told, untried=untried)
        )

    def imported(self, *records: Any) -> int:
        return self._fact(f.DataImported(records=json.dumps(records)))

    def space_changed(self, space: Mapping[str, Any], *, constraints: Sequence[str] | None = None) -> int:
        changes = {} if constraints is None else {"searchSpaceConstraints": list(constraints)}
        return self._fact(
            f.ConfigChanged(changes=changes, limits=f.Limits(trial_concurrency=2), search_space=space)
        )

    def tuner_changed(self, space: Mapping[str, Any] | None = None) -> int:
        """Another tuner takes the place of the one there is, perhaps with a search space of its own."""
        changes = {"tuner": {"name": "Another"}}
        return self._fact(
            f.ConfigChanged(changes=changes, limits=f.Limits(trial_concurrency=2), search_space=space)
        )

    def judged(self, trial_id: str) -> None:
        self._fact(f.Verdict(trial_id=trial_id, attempt=1, position=0))

    def _fact(self, fact: f.Fact) -> int:
        self.number += 1
        self._db.execute(
            "INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?, ?)", fact_row(EXPERIMENT, self.number, NOW, fact)
        )
        return self.number


def _number(value: Any) -> float | None:
    number = value.get("default") if isinstance(value, dict) else value
    return float(number) if isinstance(number, int | float) else None

"""The database of an experiment that nobody runs, for algorithms that are built anew from it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine

from nnimgr.rules import facts as f
from nnimgr.store.rows import fact_row
from nnimgr.store.schema import metadata

__all__ = ["EXPERIMENT", "Record"]

EXPERIMENT = "conformance"

_NOW = datetime(2024, 1, 1, tzinfo=UTC)
_LIMITS = f.Limits(trial_concurrency=4)
_TRIAL = """
INSERT INTO trials (experiment_id, trial_id, sequence, status, source, parameter_id, parameters, attempt,
created_at, intermediates) VALUES (?, ?, ?, 'RUNNING', ?, ?, ?, 1, 0, 0)
"""
_END = """
UPDATE trials SET final_text = ?, final_value = ?, status = ? WHERE experiment_id = ? AND trial_id = ?
"""
_METRIC = """
INSERT INTO metrics (experiment_id, number, trial_id, attempt, position, type, sequence, at, value, text)
VALUES (?, ?, ?, ?, ?, 'PERIODICAL', ?, 0, NULL, ?)
"""


class Record:
    """Facts, as the store writes them. ``number`` is that of the last one."""

    def __init__(
        self, path: Path, space: Mapping[str, Any], *, config: Mapping[str, Any] | None = None
    ) -> None:
        self.path = path
        self.number = 0
        engine = create_engine(f"sqlite:///{path}")
        metadata.create_all(engine)
        engine.dispose()
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = OFF")
        self._trials = 0
        created = f.ExperimentCreated(
            experiment_id=EXPERIMENT, config=config or {}, search_space=space, limits=_LIMITS
        )
        self.add(created)

    def close(self) -> None:
        self._db.close()

    def suggested(
        self, parameter_id: int | None, parameters: str, *, fed_to: int = 0, state: str | None = None
    ) -> str:
        """The id of a new trial; ``parameter_id`` None: a user has submitted its set, JSON text, by hand."""
        trial_id = f"t{self._trials}"
        source = f.SuggestionSource.CUSTOMIZED if parameter_id is None else f.SuggestionSource.ALGORITHM
        self.add(
            f.Suggested(
                trial_id=trial_id,
                sequence=self._trials,
                source=source,
                parameter_id=parameter_id,
                parameters=parameters,
                fed_to=fed_to,
                tuner_state=state,
            )
        )
        row = (EXPERIMENT, trial_id, self._trials, source, parameter_id, parameters)
        self._db.execute(_TRIAL, row)
        self._trials += 1
        return trial_id

    def reported(self, trial_id: str, position: int, text: str, *, attempt: int = 1) -> None:
        """An intermediate result."""
        self.number += 1
        self._db.execute(_METRIC, (EXPERIMENT, self.number, trial_id, attempt, position, position, text))

    def judged(self, trial_id: str, position: int = 0) -> None:
        self.add(f.Verdict(trial_id=trial_id, attempt=1, position=position))

    def ended(self, trial_id: str, text: str | None, *, success: bool, untried: bool = False) -> int:
        """``text``: JSON text of the final result, if there is one. The number of the fact."""
        status = f.TrialStatus.SUCCEEDED if success else f.TrialStatus.FAILED
        status = f.TrialStatus.SYS_CANCELED if untried else status
        return self.over(
            f.TrialEnded(trial_id=trial_id, status=status, reason="it has ended", untried=untried), text
        )

    def over(self, end: f.TrialEnded, text: str | None) -> int:
        """The same of an end in full."""
        value = None if text is None else _number(json.loads(text))
        self._db.execute(_END, (text, value, end.status, EXPERIMENT, end.trial_id))
        return self.add(end)

    def imported(self, records: str) -> int:
        return self.add(f.DataImported(records=records))

    def space_changed(
        self, space: Mapping[str, Any] | None, *, changes: Mapping[str, Any] | None = None
    ) -> int:
        """``changes``: of the configuration's further fields."""
        return self.add(f.ConfigChanged(changes=changes or {}, limits=_LIMITS, search_space=space))

    def tuner_changed(self) -> int:
        """Another tuner takes the place of the one there was."""
        return self.space_changed(None, changes={"tuner": {"className": "next.Tuner"}})

    def add(self, fact: f.Fact) -> int:
        """Any fact; its number."""
        self.number += 1
        row = fact_row(EXPERIMENT, self.number, _NOW, fact)
        self._db.execute("INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return self.number


def _number(value: Any) -> float | None:
    number = value.get("default") if isinstance(value, dict) else value
    return float(number) if isinstance(number, int | float) else None

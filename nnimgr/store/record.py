"""Database of an experiment that tests of algorithms write row by row, without a runner."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import create_engine

from nnimgr.rules import facts as f
from nnimgr.store.rows import FACT_VERSION, fact_row, to_us
from nnimgr.store.schema import metadata
from nnimgr.store.writer import CONTINUED

__all__ = ["RecordDatabase"]

_NOW = datetime(2024, 1, 1, tzinfo=UTC)
_TRIAL = """
INSERT INTO trials (experiment_id, trial_id, sequence, status, source, parameter_id, parameters, attempt,
created_at, intermediates) VALUES (?, ?, ?, 'RUNNING', ?, ?, ?, 1, 0, 0)
"""
_END = """
UPDATE trials SET final_text = ?, final_value = ?, status = ? WHERE experiment_id = ? AND trial_id = ?
"""
_METRIC = """
INSERT INTO metrics (experiment_id, number, trial_id, attempt, position, type, sequence, at, value, text,
parameter_id) VALUES (?, ?, ?, ?, ?, 'PERIODICAL', ?, 0, NULL, ?, ?)
"""


class RecordDatabase:
    """New database for one experiment, written by tests. Readers see every row at once."""

    def __init__(self, path: Path, experiment_id: str) -> None:
        engine = create_engine(f"sqlite:///{path}")
        metadata.create_all(engine)
        engine.dispose()
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = OFF")
        self._id = experiment_id

    def close(self) -> None:
        """Close the connection to the database."""
        self._connection.close()

    def add_fact(self, number: int, fact: f.Fact) -> None:
        """Write a fact to the database."""
        row = fact_row(self._id, number, _NOW, fact)
        self._connection.execute("INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def add_named(self, number: int, kind: str, trial_id: str, payload: str) -> None:
        """Write a fact that is given by the name of its kind and its fields as JSON text."""
        row = (self._id, number, to_us(_NOW), kind, FACT_VERSION, trial_id, payload)
        self._connection.execute("INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def copy(self, path: Path, *, up_to: int) -> None:
        """Write a copy of the database that has only the facts up to number ``up_to``."""
        with closing(sqlite3.connect(path, isolation_level=None)) as copy:
            self._connection.backup(copy)
            copy.execute("DELETE FROM facts WHERE number > ?", (up_to,))
            copy.execute("DELETE FROM metrics WHERE number > ?", (up_to,))

    def add_trial(self, suggested: f.Suggested) -> None:
        """Write a running trial to the database, for a suggestion of the tuner."""
        row = (
            self._id,
            suggested.trial_id,
            suggested.sequence,
            suggested.source,
            suggested.parameter_id,
            suggested.parameters,
        )
        self._connection.execute(_TRIAL, row)

    def add_metric(
        self,
        number: int,
        trial_id: str,
        attempt: int,
        position: int,
        text: str,
        *,
        parameter_id: int | None = None,
    ) -> None:
        """Write an intermediate result of a trial to the database. ``text``: JSON text."""
        named = None if parameter_id is None else str(parameter_id)
        row = (self._id, number, trial_id, attempt, position, position, text, named)
        self._connection.execute(_METRIC, row)

    def continue_trial(self, trial_id: str, attempt: int, position: int) -> None:
        """Let attempt ``attempt`` take over the previous attempt's metrics before the frame ``position``."""
        values = (attempt, self._id, trial_id, attempt - 1, position, True, 0)
        self._connection.execute(CONTINUED, values)

    def end_trial(self, end: f.TrialEnded, text: str | None, value: float | None) -> None:
        """Write the end of a trial to the database. ``text`` and ``value``: its final result, if any."""
        self._connection.execute(_END, (text, value, end.status, self._id, end.trial_id))

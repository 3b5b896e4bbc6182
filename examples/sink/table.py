"""Sink that writes results to a table of SQLite. In exp.yml::

sinks:
  - className: table:TableSink
    codeDirectory: examples/sink
    classArgs: {path: results.db}
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from nnimgr.sink import Event, Experiment, Reported, Sink, SinkError, TrialEnded, TrialRestarted

TABLES = """
CREATE TABLE IF NOT EXISTS reports (experiment TEXT, trial INTEGER, step INTEGER, value REAL);
CREATE TABLE IF NOT EXISTS trials (experiment TEXT, trial INTEGER, status TEXT, value REAL);
CREATE TABLE IF NOT EXISTS cursor (experiment TEXT PRIMARY KEY, number INTEGER);
"""
DELETE = "DELETE FROM reports WHERE experiment = ? AND trial = ? AND step >= ?"


class TableSink(Sink):
    """Sink that writes to an SQLite database at ``path``."""

    def __init__(self, path: str) -> None:
        self.path = path

    def open(self, experiment: Experiment) -> int:
        self.key = experiment.key  # differs from that of a deleted experiment with the same id
        try:
            self.database = sqlite3.connect(self.path)
            self.database.executescript(TABLES)
        except sqlite3.Error as error:
            raise SinkError(f"{self.path} cannot be used: {error}") from error
        row = self.database.execute("SELECT number FROM cursor WHERE experiment = ?", [self.key]).fetchone()
        return 0 if row is None else int(row[0])

    def write(self, events: Sequence[Event]) -> None:
        with self.database as table:  # one transaction: the events and the number of the last one
            for event in events:
                match event:
                    case Reported():
                        report = (self.key, event.trial, event.step, event.value)
                        table.execute("INSERT INTO reports VALUES (?, ?, ?, ?)", report)
                    case TrialRestarted():
                        undone = (self.key, event.trial, event.step)
                        table.execute(DELETE, undone)
                    case TrialEnded():
                        end = (self.key, event.trial, event.status, event.value)
                        table.execute("INSERT INTO trials VALUES (?, ?, ?, ?)", end)
            table.execute("INSERT OR REPLACE INTO cursor VALUES (?, ?)", (self.key, events[-1].number))

    def close(self) -> None:
        self.database.close()

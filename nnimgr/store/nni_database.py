"""Reads the database that NNI 2 or 3 has written in an experiment's folder, ``db/nni.sqlite``."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from nnimgr.store.errors import StoreError
from nnimgr.store.location import nni_database_path

__all__ = ["NniDatabase", "NniEvent", "NniMetric", "NniProfile"]

_PROFILE = "SELECT params, id, startTime, endTime FROM ExperimentProfile ORDER BY revision DESC LIMIT 1"
_EVENTS = (
    "SELECT timestamp, trialJobId, event, data, sequenceId, message FROM TrialJobEvent "
    "ORDER BY timestamp, rowid"
)
_METRICS = (
    "SELECT timestamp, trialJobId, parameterId, type, sequence, data FROM MetricData "
    "ORDER BY timestamp, rowid"
)
_COUNTS = "SELECT trialJobId, count(*) FROM MetricData GROUP BY trialJobId"


class NniEvent(NamedTuple):
    """Row of the table of trials' events in NNI's database. Times are milliseconds since 1970.

    ``event``: a status of the trial, or another word of NNI, such as IMPORT_DATA. ``data``: JSON text, for
    example the record with the trial's parameters.
    """

    at: int
    trial_id: str
    event: str
    data: str | None
    sequence: int | None
    message: str | None


class NniMetric(NamedTuple):
    """Row of the table of metrics in NNI's database. ``at``: milliseconds since 1970.

    ``data``: a JSON string that contains the JSON text of the value.
    """

    at: int
    trial_id: str
    parameter_id: str | None
    type: str
    sequence: int
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NniProfile:
    """Last version of the experiment's profile (its configuration) in NNI's database.

    Times are milliseconds since 1970.
    """

    experiment_id: str
    params: dict[str, Any]
    started: int
    ended: int | None


class NniDatabase:
    """Queries of NNI's database. Create an instance with ``opened``."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @classmethod
    @contextmanager
    def opened(cls, directory: Path) -> Iterator[NniDatabase]:
        """Open NNI's database in this folder for reading. Raise StoreError if it cannot be read."""
        path = nni_database_path(directory)
        try:
            connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
            try:
                yield cls(connection)
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise StoreError(f"NNI's database {path} cannot be read: {error}") from error

    def profile(self) -> NniProfile | None:
        """Return the experiment's profile; None if NNI has created no experiment. Raise ValueError if it
        is damaged.
        """
        row = self._connection.execute(_PROFILE).fetchone()
        if row is None:
            return None
        params, experiment_id, started, ended = row
        found = json.loads(params)
        if not isinstance(found, dict) or not isinstance(experiment_id, str):
            raise ValueError("the experiment's profile in NNI's database is not an object")
        return NniProfile(experiment_id=experiment_id, params=found, started=int(started), ended=ended)

    def events(self) -> list[NniEvent]:
        """Return all events of trials in NNI's database, in the order of time."""
        return [NniEvent(*row) for row in self._connection.execute(_EVENTS)]

    def metrics(self) -> Iterator[NniMetric]:
        """Yield all metrics in NNI's database, in the order of time."""
        yield from map(NniMetric._make, self._connection.execute(_METRICS))

    def metric_counts(self) -> dict[str, int]:
        """Return trial id -> number of metrics, for each trial that has metrics."""
        return dict(self._connection.execute(_COUNTS).fetchall())

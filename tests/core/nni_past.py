"""Writes databases as NNI 2 and 3 write them, for tests of their conversion."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

BEGIN = 1_700_000_000_000  # milliseconds since 1970
_SCHEMA = """
CREATE TABLE TrialJobEvent (timestamp integer, trialJobId text, event text, data text, logPath text,
    sequenceId integer, message text{environment});
CREATE TABLE MetricData (timestamp integer, trialJobId text, parameterId text, type text, sequence integer,
    data text);
CREATE TABLE ExperimentProfile (params text, id text, execDuration integer, startTime integer,
    endTime integer, logDir text, nextSequenceId integer, revision integer);
"""


def params(directory: Path, **changes: Any) -> dict[str, Any]:
    """Return a configuration as NNI 3 stores it."""
    own = {"trialCommand": "true", "trialCodeDirectory": str(directory)}
    return {
        "experimentName": "old",
        "experimentType": "hpo",
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
        **own,
        "trialConcurrency": 2,
        "maxTrialNumber": 9,
        "useAnnotation": False,
        "debug": False,
        "logLevel": "info",
        "experimentWorkingDirectory": str(directory),
        "tuner": {"name": "Random"},
        "trainingService": {"platform": "local", **own, "debug": False, "maxTrialNumberPerGpu": 1},
        **changes,
    }


def record(number: int, x: Any = 0.5, source: str = "algorithm") -> str:
    """Return the data of a trial's first event."""
    return json.dumps(
        {"parameter_id": number, "parameter_source": source, "parameters": {"x": x}, "parameter_index": 0}
    )


def write_nni(
    folder: Path,
    *,
    events: Iterable[tuple[int, str, str, str | None, int | None]] = (),
    metrics: Iterable[tuple[int, str, str, int, Any]] = (),
    profile: Mapping[str, Any] | None = None,
    ended: int | None = None,
    version: int = 3,
) -> None:
    """Write the folder of an experiment.

    ``events``: (milliseconds since the beginning, trial, event, data, number of the trial). ``metrics``:
    (milliseconds, trial, type, sequence, value).
    """
    (folder / "db").mkdir(parents=True)
    connection = sqlite3.connect(folder / "db" / "nni.sqlite")
    connection.executescript(_SCHEMA.format(environment=", environmentId text" if version == 3 else ""))
    config = json.dumps(params(folder.parent) if profile is None else profile)
    row = (config, folder.name, 5, BEGIN, None if ended is None else BEGIN + ended, str(folder), 9)
    connection.executemany(
        "INSERT INTO ExperimentProfile VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [(*row, 2), ("{}", *row[1:], 1)]
    )
    for at, trial, event, data, number in events:
        rest = ("local-env",) if version == 3 else ()
        connection.execute(
            f"INSERT INTO TrialJobEvent VALUES ({','.join('?' * (7 + len(rest)))})",
            (BEGIN + at, trial, event, data, f"{folder}/trials/{trial}", number, None, *rest),
        )
    for at, trial, kind, sequence, value in metrics:
        connection.execute(
            "INSERT INTO MetricData VALUES (?, ?, ?, ?, ?, ?)",
            (BEGIN + at, trial, "0", kind, sequence, json.dumps(json.dumps(value))),
        )
    connection.commit()
    connection.close()

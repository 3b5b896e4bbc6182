"""NNI's view of our trials in its own database, and the error if NNI does not start."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks import nni_past, past
from benchmarks.ground import Ground
from nnimgr.home import Home
from nnimgr.store.reader import ExperimentReader

TRIALS = 150
TABLES = """
CREATE TABLE TrialJobEvent (timestamp, trialJobId, event, data, logPath, sequenceId, message, environmentId);
CREATE TABLE MetricData (timestamp, trialJobId, parameterId, type, sequence, data);
INSERT INTO TrialJobEvent VALUES (1, 'first', 'RUNNING', '{}', '/logs/first', 0, NULL, 'local-env'),
    (2, 'other', 'RUNNING', '{}', '/logs/other', 1, NULL, 'local-env');
"""


@pytest.fixture
async def copied(tmp_path: Path) -> Path:
    """Return NNI's database with our trials."""
    await past.write(Home(tmp_path), "past", trials=TRIALS, metrics=10, seed=1, machines=())
    theirs = tmp_path / "nni.sqlite"
    with closing(sqlite3.connect(theirs)) as connection:
        connection.executescript(TABLES)
    ours = tmp_path / "past" / "db" / "nnimgr.sqlite"
    assert nni_past.copy(ours, theirs, "/logs") == TRIALS
    return theirs


@pytest.fixture
def reader(copied: Path) -> Iterator[ExperimentReader]:
    made = ExperimentReader(copied.parent / "past")
    yield made
    made.close()


def rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(query).fetchall()


async def test_every_trial_is_there_as_it_ended(copied: Path, reader: ExperimentReader) -> None:
    events = defaultdict(list)
    query = "SELECT trialJobId, event, data, sequenceId, logPath FROM TrialJobEvent ORDER BY timestamp"
    for trial_id, *event in rows(copied, query):
        events[trial_id].append(event)
    trials = reader.trials_from(limit=TRIALS)
    assert set(events) == {"first", "other", *(trial.trial_id for trial in trials)}
    for trial in trials:
        first, last = events[trial.trial_id][0], events[trial.trial_id][-1]
        given = json.loads(first[1])
        assert (given["parameter_id"], given["parameters"]) == (
            trial.parameter_id,
            json.loads(trial.parameters),
        )
        assert last[0] == str(trial.status)
        assert [event[2:] for event in events[trial.trial_id]] == [
            [trial.sequence, f"/logs/{trial.trial_id}"]
        ] * len(events[trial.trial_id])


async def test_the_trials_of_nni_come_after_ours(copied: Path) -> None:
    query = "SELECT trialJobId, sequenceId FROM TrialJobEvent WHERE trialJobId IN ('first', 'other')"
    assert rows(copied, query) == [("first", TRIALS), ("other", TRIALS + 1)]


async def test_the_metrics_are_those_of_the_last_attempts(copied: Path, reader: ExperimentReader) -> None:
    given = defaultdict(list)
    for trial_id, kind, data in rows(copied, "SELECT trialJobId, type, data FROM MetricData"):
        given[trial_id].append((kind, json.loads(data)))
    for trial in reader.trials_from(limit=TRIALS):
        finals = [text for kind, text in given[trial.trial_id] if kind == "FINAL"]
        assert finals == ([] if trial.final_text is None else [trial.final_text])
        assert len(given[trial.trial_id]) == trial.intermediates + len(finals)


def test_nni_that_does_not_start_says_why(tmp_path: Path) -> None:
    nnictl = tmp_path / "nnictl"
    nnictl.write_text("#!/bin/sh\necho no room for $1\nexit 3\n")
    nnictl.chmod(0o755)
    with (
        Ground(tmp_path) as ground,
        pytest.raises(RuntimeError, match="nnictl create ended with 3: no room for create"),
        nni_past.on_nni(ground, tmp_path / "python3", tmp_path / "ours"),
    ):
        raise AssertionError("it cannot run")

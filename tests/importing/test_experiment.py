"""An import as a new experiment: all trials one to one, and whole or not at all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nnimgr.config import ExperimentConfig, read_canonical
from nnimgr.dispatcher.history import History
from nnimgr.dispatcher.messages import TrialFinished
from nnimgr.home import Home
from nnimgr.importing.experiment import create_imported, shown_config
from nnimgr.importing.trials import Foreigners, ForeignTrial, SourceError
from nnimgr.index import Index
from nnimgr.rules import facts as f
from nnimgr.rules.validate import validate
from nnimgr.store.location import database_path
from nnimgr.store.reader import ExperimentReader

S = f.TrialStatus


def at(second: float) -> datetime:
    return datetime.fromtimestamp(1_700_000_000 + second, UTC)


TRIALS = [
    ForeignTrial(
        name="a",
        parameters={"x": 0.5},
        status=S.SUCCEEDED,
        reason="done",
        final=0.9,
        reports=[(0.1, at(3)), (0.9, at(8))],
        created=at(1),
        started=at(2),
        ended=at(9),
    ),
    ForeignTrial(
        name="b", parameters={"x": 0.1}, status=S.FAILED, reason="failed", started=at(0), ended=at(4)
    ),
    ForeignTrial(
        name="c", parameters={"x": 0.2}, status=S.EARLY_STOPPED, reason="bad", reports=[(0.2, None)]
    ),
    ForeignTrial(name="d", parameters={"x": 0.3}, status=S.SYS_CANCELED, reason="open", rerun=True),
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("NNIMGR_HOME", str(tmp_path / "home"))
    return Home.find()


def configured(home: Home, **changes: Any) -> ExperimentConfig:
    return read_canonical(
        {
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
            "trialCommand": "true",
            "trialCodeDirectory": str(home.path.parent),
            "trialConcurrency": 1,
            "maxTrialNumber": 8,
            "experimentWorkingDirectory": str(home.path),
            "tuner": {"name": "TPE"},
            "trainingService": {"platform": "local"},
            **changes,
        }
    )


def test_all_trials_are_shown_one_to_one(home: Home) -> None:
    entry = create_imported(home, configured(home), Foreigners(title="a test", trials=TRIALS))
    assert Index(home).entries()[entry.id].status == "STOPPED"
    reader = ExperimentReader(entry.directory)
    state = reader.state()
    validate(state)
    assert state.status is f.ExperimentStatus.STOPPED
    assert state.reason == "its 4 trials were imported from a test"
    assert state.best is not None and state.best.value == 0.9
    assert not state.trials and not state.jobs and not state.active
    assert [each.sequence for each in state.interrupted] == [3]
    rows = reader.trials()[1]
    assert [row.status for row in rows] == [trial.status for trial in TRIALS]
    assert [json.loads(row.parameters) for row in rows] == [trial.parameters for trial in TRIALS]
    assert [row.final_value for row in rows] == [0.9, None, None, None]
    assert [row.intermediates for row in rows] == [2, 0, 1, 0]
    assert [row.reason for row in rows] == [trial.reason for trial in TRIALS]
    assert [(row.started_at, row.ended_at) for row in rows[:2]] == [(at(2), at(9)), (at(0), at(4))]
    past = History(str(database_path(entry.directory)), entry.id)
    told = [each for each in past.events(after=0, up_to=state.number) if isinstance(each, TrialFinished)]
    assert [(each.parameters, each.value) for each in told if each.success] == [('{"x": 0.5}', 0.9)]
    past.close()
    recorded = reader.facts()
    assert [each.at for each in recorded] == sorted(each.at for each in recorded)
    reader.close()


def test_a_single_trial_is_counted_in_the_singular(home: Home) -> None:
    entry = create_imported(home, configured(home), Foreigners(title="a test", trials=TRIALS[:1]))
    reader = ExperimentReader(entry.directory)
    assert reader.state().reason == "its 1 trial was imported from a test"
    reader.close()


def test_without_a_configuration_trials_are_only_shown(home: Home) -> None:
    found = Foreigners(title="a test", trials=TRIALS)
    config = shown_config(home, found, {"": "minimize"})
    assert (config.max_trial_number, config.optimize_mode) == (4, "minimize")
    assert config.search_space == {"x": {"_type": "uniform", "_value": [0.1, 0.5]}}
    several = shown_config(home, found, {"accuracy": "maximize", "ms": "minimize"})
    assert several.objectives == {"accuracy": "maximize", "ms": "minimize"}


def test_multi_phase_is_refused_before_anything_is_written(home: Home) -> None:
    with pytest.raises(SourceError, match="multiPhase"):
        create_imported(home, configured(home, multiPhase=True), Foreigners(title="a test", trials=TRIALS))
    assert not home.path.exists() or not list(home.path.glob("*/db"))


_KILLED = """
import os, sys
from nnimgr.home import Home
from nnimgr.index import Index
from nnimgr.store.writer import ExperimentWriter
from nnimgr.importing.experiment import create_imported
from nnimgr.importing.trials import Foreigners
from tests.importing.test_experiment import TRIALS, configured
async def append(*args):
    os.kill(os.getpid(), 9)
def add(*args):
    os.kill(os.getpid(), 9)
if sys.argv[1] == "append":
    ExperimentWriter.append = append
else:
    Index.add = add
home = Home.find()
create_imported(home, configured(home), Foreigners(title="a test", trials=TRIALS))
"""


@pytest.mark.parametrize("where", ["append", "add"])
def test_an_import_that_is_killed_leaves_nothing(home: Home, where: str) -> None:
    """It is killed while it writes the database, or after the folder is complete."""
    ended = subprocess.run([sys.executable, "-c", _KILLED, where], env={**os.environ}, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert Index(home).entries() == {}
    assert len(list(home.path.glob(".import-*"))) == 1
    entry = create_imported(home, configured(home), Foreigners(title="a test", trials=TRIALS))
    assert list(Index(home).entries()) == [entry.id]
    assert not list(home.path.glob(".import-*"))
    assert [path.parent.name for path in home.path.glob("*/db")] == [entry.id]


def test_a_result_that_is_too_large_for_a_float_is_not_usable(home: Home) -> None:
    trial = ForeignTrial(name="a", parameters={"x": 0.5}, status=S.SUCCEEDED, reason="done", final=10**400)
    entry = create_imported(home, configured(home), Foreigners(title="a test", trials=[trial]))
    reader = ExperimentReader(entry.directory)
    (row,) = reader.trials()[1]
    assert (row.final_value, row.final_text) == (None, str(10**400))
    reader.close()


def test_a_number_that_json_lacks_becomes_text(home: Home) -> None:
    trial = ForeignTrial(
        name="a", parameters={"x": 0.5, "clip": [float("inf")]}, status=S.SUCCEEDED, reason="done", final=1
    )
    entry = create_imported(home, configured(home), Foreigners(title="a test", trials=[trial]))
    reader = ExperimentReader(entry.directory)
    (row,) = reader.trials()[1]
    assert (json.loads(row.parameters), row.note) == ({"x": 0.5, "clip": ["Infinity"]}, "imported as a")
    reader.close()


def test_initial_parameters_that_were_not_imported_run_at_the_resume(home: Home) -> None:
    config = configured(home, initialParameters=[{"x": 0.5}, {"x": 0.25}])
    entry = create_imported(home, config, Foreigners(title="a test", trials=TRIALS))
    state = ExperimentReader(entry.directory).state()
    assert [json.loads(each.parameters) for each in state.interrupted] == [{"x": 0.3}, {"x": 0.25}]
    assert state.reason == "its 4 trials were imported from a test"

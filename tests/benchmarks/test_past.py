"""The finished experiment that the dashboard is measured with."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import past
from nnimgr.home import Home
from nnimgr.index import Index
from nnimgr.rules.facts import TrialStatus
from nnimgr.rules.validate import validate
from nnimgr.store.reader import ExperimentReader

TRIALS = 150


async def make(path: Path, *, seed: int = 1) -> ExperimentReader:
    state = await past.write(Home(path), "past", trials=TRIALS, metrics=10, seed=seed)
    validate(state)
    return ExperimentReader(path / "past")


async def test_it_is_an_experiment_that_was_stopped(tmp_path: Path) -> None:
    reader = await make(tmp_path)
    assert reader.experiment().status == "STOPPED"
    entry = Index(Home(tmp_path)).get("past")
    assert entry is not None and (entry.status, entry.platform) == ("STOPPED", "hybrid")
    rows = reader.trials_from(limit=1000)
    assert [row.sequence for row in rows] == list(range(TRIALS))
    assert all(row.status.terminal for row in rows)
    assert {row.status for row in rows} > {TrialStatus.SUCCEEDED, TrialStatus.EARLY_STOPPED}
    assert all(row.intermediates == 10 for row in rows if row.status is TrialStatus.SUCCEEDED)
    assert {job.keeper_id for row in rows for job in reader.jobs(row.trial_id)} == {
        "local",
        "train_gpu-a_22",
        "train_gpu-b_22",
        "train_gpu-c_22",
    }
    reader.close()


async def test_a_seed_is_one_experiment(tmp_path: Path) -> None:
    readers = [await make(tmp_path / str(number), seed=seed) for number, seed in enumerate((1, 1, 2))]
    first, again, other = (
        [(row.parameters, row.final_text, row.ended_at) for row in reader.trials_from()] for reader in readers
    )
    assert first == again != other
    for reader in readers:
        reader.close()


async def test_an_id_is_taken_once(tmp_path: Path) -> None:
    (await make(tmp_path)).close()
    with pytest.raises(ValueError, match="has an experiment past already"):
        await make(tmp_path)


async def test_without_machines_all_trials_ran_here(tmp_path: Path) -> None:
    state = await past.write(Home(tmp_path), "past", trials=TRIALS, metrics=10, seed=1, machines=())
    validate(state)
    reader = ExperimentReader(tmp_path / "past")
    rows = reader.trials_from(limit=1000)
    assert {job.keeper_id for row in rows for job in reader.jobs(row.trial_id)} == {"local"}
    reader.close()
    entry = Index(Home(tmp_path)).get("past")
    assert entry is not None and entry.platform == "local"

"""A copy of a running experiment: it is stopped where it arrives, and a resume runs its trials again."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnimgr.core.managing import copied_folder
from nnimgr.core.managing.copied_folder import settle_copy
from nnimgr.rules import facts as f
from nnimgr.rules.validate import validate
from nnimgr.store.copies import copy_database
from nnimgr.store.location import database_path
from nnimgr.store.reader import ExperimentReader
from tests.core.lab import until
from tests.core.test_manager import Server
from training_services.fake import KEEPER_ID, hold, metric, saved, started

S = f.TrialStatus


async def test_a_copy_of_a_running_experiment_is_stopped(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.assembly.lab("exp", server.home.path / "exp").service.default = [started(), hold()]
    copy = tmp_path / "copy" / "exp"
    database_path(copy).parent.mkdir(parents=True)
    async with server.manager() as manager:
        await manager.create(server.new("exp"))
        runner = manager.get("exp")
        await until(runner, lambda: any(t.status is S.RUNNING for t in runner.state.trials.values()))
        copy_database(database_path(manager.directory("exp")), database_path(copy))
        await settle_copy(copy, code=tmp_path / "there")
        assert runner.state.ended_at is None
    reader = ExperimentReader(copy)
    state = reader.state()
    validate(state)
    assert state.status is f.ExperimentStatus.STOPPED and not state.trials and not state.jobs
    assert state.reason == "its original was running when it was copied"
    assert state.config["trialCodeDirectory"] == str(tmp_path / "there")
    assert [row.status for row in reader.trials()[1]] == [S.SYS_CANCELED]
    assert [trial.sequence for trial in state.interrupted] == [0]
    reader.close()


@pytest.mark.parametrize("is_local", [True, False])
async def test_a_paused_trial_says_if_its_checkpoints_are_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_local: bool
) -> None:
    if is_local:
        monkeypatch.setattr(copied_folder, "LOCAL", KEEPER_ID)
    server = Server(tmp_path)
    server.assembly.lab("exp", server.home.path / "exp").service.default = [
        *(started(), metric(0.5), saved(1), hold())
    ]
    copy = tmp_path / "copy" / "exp"
    database_path(copy).parent.mkdir(parents=True)
    async with server.manager() as manager:
        await manager.create(server.new("exp"))
        runner = manager.get("exp")
        await until(runner, lambda: any(trial.checkpoints for trial in runner.state.trials.values()))
        (trial_id,) = runner.state.trials
        await runner.pause_trial(trial_id)
        await until(runner, lambda: runner.state.trials[trial_id].status is S.PAUSED)
        await runner.turn_over()
        copy_database(database_path(manager.directory("exp")), database_path(copy))
        (keeper,) = runner.state.keepers.values()
        assert await settle_copy(copy, code=None) == (not is_local)
    reader = ExperimentReader(copy)
    row = reader.trial(trial_id)
    assert row is not None
    if is_local:
        assert row.note is None and (copy / "keeper" / "instance").read_text() == keeper.instance
    else:
        assert row.note is not None and "its checkpoints are on other machines" in row.note
    reader.close()

"""A copy of a running experiment: it is stopped where it arrives, and a resume runs its trials again."""

from __future__ import annotations

from pathlib import Path

from nnimgr.core.managing.copied_folder import settle_copy
from nnimgr.rules import facts as f
from nnimgr.rules.validate import validate
from nnimgr.store.copies import copy_database
from nnimgr.store.location import database_path
from nnimgr.store.reader import ExperimentReader
from tests.core.lab import until
from tests.core.test_manager import Server
from training_services.fake import hold, started

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
    assert state.config["trialCodeDirectory"] == str(tmp_path / "there")
    assert [row.status for row in reader.trials()[1]] == [S.SYS_CANCELED]
    assert [trial.sequence for trial in state.interrupted] == [0]
    reader.close()

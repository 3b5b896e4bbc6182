"""Users annotate the trials of experiments that run, that are viewed, and that no server has open."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from nnimgr.core.managing.manager import NNIManager, UnknownExperiment
from nnimgr.core.running.requests import RequestRefused
from nnimgr.rules.state import trial_id_of
from nnimgr.store.annotations import Annotation, annotate
from nnimgr.store.reader import ExperimentReader
from tests.core.lab import until
from tests.core.test_manager import Server
from training_services.fake import hold, started


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


async def note_and_read(manager: NNIManager, experiment_id: str, note: str) -> None:
    """Write a note to the first trial. Check that it is stored, and that followers hear of it."""
    follower = manager.changes.follow()
    first = trial_id_of(experiment_id, 0)
    stored = await manager.annotate(experiment_id, partial(annotate, trial_id=first, note=note))
    assert stored == Annotation(note)
    runner = manager.find(experiment_id)
    heard = await follower.take()
    assert heard.keys() == {experiment_id}
    assert heard[experiment_id] <= (0 if runner is None else runner.last_number)
    assert manager.reader(experiment_id).annotations([first]) == {first: stored}


async def test_trials_are_annotated_in_every_state_of_their_experiment(server: Server) -> None:
    server.assembly.lab("exp", server.home.path / "exp").service.default = [started(), hold()]
    async with server.manager() as manager:
        await manager.create(server.new("exp"))
        runner = manager.get("exp")
        await until(runner, lambda: bool(manager.reader("exp").trials()[1]))  # stored, not only folded
        await note_and_read(manager, "exp", "while it runs")
        await manager.stop("exp", detach=False)
        await note_and_read(manager, "exp", "stopped")
        await manager.view("exp")
        await note_and_read(manager, "exp", "viewed")
        with pytest.raises(UnknownExperiment):
            await manager.annotate("nobody", lambda folder: folder)
    async with server.manager(9090) as manager:
        await note_and_read(manager, "exp", "without a runner")
        manager._at_rest.deleting.add("exp")
        with pytest.raises(RequestRefused, match="exp is being deleted"):
            await manager.annotate("exp", lambda folder: folder)
    async with server.manager() as manager:
        await manager.stop("exp", detach=False)  # ends the view
        await manager.resume("exp")
        assert [row.note for row in stored_annotations(manager.reader("exp"))] == ["without a runner"]


def stored_annotations(reader: ExperimentReader) -> list[Annotation]:
    """Return the annotations of all trials, in order."""
    return list(reader.annotations([row.trial_id for row in reader.trials()[1]]).values())

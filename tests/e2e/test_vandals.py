"""Trials and users that disturb what runs an experiment: it ends in time, and nothing of it is left."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.e2e import vandalism
from tests.e2e.scene import Scene, eventually, scene
from tests.processes import holders, kill
from trial_keeper.attempt import claim
from trial_keeper.machine import procs

CLEARS = """
import os, shutil, nni
parameters = nni.get_next_parameter()
shutil.rmtree(os.environ["NNI_OUTPUT_DIR"])
os.makedirs(os.environ["NNI_OUTPUT_DIR"])
nni.report_intermediate_result(1)
nni.report_final_result(2)
"""
CLEARS_AND_WAITS = "rm -rf $NNI_OUTPUT_DIR; mkdir $NNI_OUTPUT_DIR; touch cleared; sleep 1000"


def keepers(here: Scene) -> list[int]:
    return holders(here.folder / "keeper" / "lock")


def stopped(here: Scene) -> None:
    """Stop the experiment as a user does; nothing of it is left."""
    running = keepers(here)
    answer = here.server.call("POST", f"{here.url}/stop")
    assert (answer.status, answer.body["stillRunning"]) == (200, [])
    assert here.profile()["status"] == "STOPPED"
    eventually(lambda: all(procs.start_time(pid) is None for pid in running), "the end of the keepers")
    assert here.processes(here.trial()["id"]) == []


def test_a_trial_that_clears_its_folder_keeps_its_metrics_and_its_end(tmp_path: Path) -> None:
    with scene(tmp_path) as here:
        here.create(here.script(CLEARS))
        (trial,) = here.done()
        assert (trial["status"], trial["reason"]) == ("SUCCEEDED", "exited with code 0")
        assert [metric["value"] for metric in here.metrics(trial["id"])] == [1.0, 2.0]


def test_an_experiment_whose_trial_has_cleared_its_folder_is_stopped(tmp_path: Path) -> None:
    with scene(tmp_path) as here:
        here.create(CLEARS_AND_WAITS)
        here.running()
        eventually((tmp_path / "cleared").exists, "the trial")
        stopped(here)


@pytest.mark.parametrize("which", ["keeper", "spawner", "both"])
def test_a_keeper_that_is_suspended_holds_up_no_stop(tmp_path: Path, which: str) -> None:
    with scene(tmp_path) as here:
        here.create("sleep 1000")
        here.running()
        (keeper,) = keepers(here)
        words = procs.strings(keeper, "cmdline")  # a fork has the same
        below = [pid for pid in procs.descendants(keeper) if procs.ancestors(pid)[:1] == [keeper]]
        spawner = [pid for pid in below if procs.strings(pid, "cmdline") == words]
        assert len(spawner) == 1
        suspended = {"keeper": [keeper], "spawner": spawner, "both": [keeper, *spawner]}[which]
        for pid in suspended:
            os.kill(pid, signal.SIGSTOP)
        stopped(here)
        eventually(lambda: all(procs.start_time(pid) is None for pid in suspended), "the end of both")


def test_a_trial_whose_shim_is_suspended_is_cancelled(tmp_path: Path) -> None:
    with scene(tmp_path) as here:
        here.create("sleep 1000")
        trial = here.running()
        found = claim.read(claim.prefix(str(here.folder / "keeper"), f"exp-{trial['id']}-1"))
        assert found is not None and found.pid
        os.kill(found.pid, signal.SIGSTOP)
        here.stop_trial(trial["id"])
        (trial,) = here.done()
        assert (trial["status"], trial["reason"]) == ("USER_CANCELED", "a user stopped it")
        assert here.processes(trial["id"]) == []


def test_the_folder_of_a_running_experiment_is_moved(tmp_path: Path) -> None:
    with scene(tmp_path) as here:
        here.create(f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; exit 3")
        trial = here.running()
        moved = here.folder.with_name("moved")
        here.folder.rename(moved)
        (tmp_path / "go").touch()
        eventually(lambda: not here.processes(trial["id"]), "the end of its processes")
        moved.rename(here.folder)
        (trial,) = here.done()
        assert (trial["status"], trial["reason"]) == ("FAILED", "exited with code 3")


def vandals(here: Scene, records: Path, *, kill_keeper: bool) -> None:
    """Create an experiment whose trials each spoil something else, and return once all have done it."""
    records.mkdir()
    here.create(
        f"RECORDS={records} {here.script(vandalism.TRIAL)}",
        trialConcurrency=vandalism.TRIALS,
        maxTrialNumber=vandalism.TRIALS,
    )
    eventually(lambda: vandalism.all_have_spoiled(records), "the damage")
    if kill_keeper:
        kill(*keepers(here))


@pytest.mark.parametrize("killed", [False, True], ids=["", "keeper-killed"])
def test_trials_that_spoil_one_another_end(tmp_path: Path, killed: bool) -> None:
    records = tmp_path / "records"
    with scene(tmp_path) as here:
        vandals(here, records, kill_keeper=killed)
        (records / "go").touch()
        eventually(lambda: not vandalism.left(records), "the end of the processes")
        assert vandalism.unexplained(here.done(vandalism.LIMIT_S)) == []
        assert vandalism.started_once(records)


@pytest.mark.parametrize("killed", [False, True], ids=["", "keeper-killed"])
def test_an_experiment_whose_trials_spoil_one_another_is_stopped(tmp_path: Path, killed: bool) -> None:
    records = tmp_path / "records"
    with scene(tmp_path) as here:
        vandals(here, records, kill_keeper=killed)
        stopped(here)
        assert vandalism.left(records) == [] and vandalism.started_once(records)

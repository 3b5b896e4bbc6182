"""Full disks: under the server, the keeper, the trials, the home. Said, nothing lost, gone on by itself."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nnimgr.index import Index
from tests.e2e.disks import disk
from tests.e2e.scene import Scene, eventually, scene
from tests.processes import holders, kill

# Waits for ``go``, and reports numbers until it is told that it is enough; ``acknowledged`` has those that
# were accepted. It begins shortly before the disk is full, while the database's journal (WAL) still has to
# grow for each commit. Later it reuses its own space, and needs none of the disk's for some megabytes.
REPORTER = """
import os, sys, time, nni
nni.get_next_parameter()
here = os.path.dirname(os.path.abspath(sys.argv[0]))
acknowledged = open(f"{here}/acknowledged", "a")
number = 0
while not os.path.exists(f"{here}/go"):
    time.sleep(0.002)
while not os.path.exists(f"{here}/enough"):
    number += 1
    try:
        nni.report_intermediate_result([number, "x" * 2000])
    except OSError:
        pass
    else:
        acknowledged.write(f"{number}\\n")
    time.sleep(0.002)
nni.report_final_result(0)
"""
FULL = "cannot be written: database or disk is full"
NO_SPACE = "No space left on device"
RECORD = "echo $NNIMGR_JOB_ID >> {}; "


def assert_nothing_acknowledged_is_lost(here: Scene) -> None:
    """The reporter ends now; what it was told to be accepted is there, once and in order."""
    (here.directory / "enough").touch()
    (trial,) = here.done()
    assert (trial["status"], trial["attempt"]) == ("SUCCEEDED", 1)
    found = [json.loads(metric["text"]) for metric in here.metrics(trial["id"])]
    accepted = list(map(int, (here.directory / "acknowledged").read_text().split()))
    assert [number for number, _ in found[:-1]] == accepted and found[-1] == 0


def assert_each_started_once(here: Scene, record: Path) -> None:
    trials = here.done()
    assert {trial["status"] for trial in trials} == {"SUCCEEDED"}
    assert Counter(record.read_text().split()) == Counter(f"exp-{trial['id']}-1" for trial in trials)


def test_the_database_has_no_room(tmp_path: Path) -> None:
    with disk(tmp_path / "work" / "exp" / "db", size="32m") as database, scene(tmp_path) as here:
        here.create(here.script(REPORTER))
        here.running()
        (tmp_path / "go").touch()
        database.fill()
        said = here.saying(FULL)
        assert str(here.folder / "db" / "nnimgr.sqlite") in said
        # Each time it is closed, its journal gives back some room, and the experiment goes on a little.
        eventually(lambda: FULL in here.nnictl("experiment", "status", "exp"), "it in nnictl's words")
        assert FULL in here.server.said
        database.free()
        eventually(lambda: FULL not in here.said(), "its going on")
        assert_nothing_acknowledged_is_lost(here)


def test_the_whole_experiment_has_no_room(tmp_path: Path) -> None:
    """The trial cannot write its reports either. A change by a user is what the server cannot write."""
    with (
        disk(tmp_path / "work" / "exp", size="32m") as folder,
        scene(tmp_path) as here,
        ThreadPoolExecutor(1) as user,
    ):
        here.create(here.script(REPORTER))
        here.running()
        (tmp_path / "go").touch()
        folder.fill()
        change = user.submit(here.server.call, "PATCH", here.url, {"trialConcurrency": 2})
        here.saying(FULL)
        folder.free()
        eventually(lambda: FULL not in here.said(), "its going on")
        assert change.result().status == 503  # it was refused
        assert_nothing_acknowledged_is_lost(here)


def test_the_keeper_has_no_room(tmp_path: Path) -> None:
    record = tmp_path / "record"
    with disk(tmp_path / "work" / "exp" / "keeper", size="1m") as keeper, scene(tmp_path) as here:
        here.create(RECORD.format(record), maxTrialNumber=60)
        eventually(record.exists, "the first trial")
        keeper.fill()
        said = here.saying(NO_SPACE)
        assert "on this machine: " in said
        journal, claims = (
            "the keeper's journal cannot be written",
            "the keeper cannot prepare any trial at present",
        )
        assert f"{journal}: {NO_SPACE}" in said or f"{claims}: {NO_SPACE}" in said
        assert NO_SPACE in here.server.said
        keeper.free()
        assert_each_started_once(here, record)
        told = [notice["about"] for notice in here.profile()["notices"]]
        assert told == ["results"]  # its trials have none


def test_a_keeper_that_was_killed_has_no_room_to_come_back(tmp_path: Path) -> None:
    record, go = tmp_path / "record", tmp_path / "go"
    with disk(tmp_path / "work" / "exp" / "keeper", size="1m") as keeper, scene(tmp_path) as here:
        here.create(RECORD.format(record) + f"until [ -e {go} ]; do sleep 0.02; done", maxTrialNumber=2)
        eventually(record.exists, "the first trial")
        keeper.fill()
        kill(*holders(here.folder / "keeper" / "lock"))
        said = here.saying(NO_SPACE)
        assert (
            f"the keeper on this machine could not be told the server's address: [Errno 28] {NO_SPACE}: "
            in said
        )
        go.touch()
        keeper.free()
        assert_each_started_once(here, record)
        assert here.profile()["notices"] == []


def test_a_trial_has_no_room_to_begin(tmp_path: Path) -> None:
    record, go = tmp_path / "record", tmp_path / "go"
    with disk(tmp_path / "work" / "exp" / "trials", size="1m") as trials, scene(tmp_path) as here:
        here.create(RECORD.format(record) + f"until [ -e {go} ]; do sleep 0.02; done", maxTrialNumber=3)
        here.running()
        trials.fill()
        go.touch()
        why = f"{NO_SPACE} (see the keeper's log)"
        said = f"the attempt could not be prepared on its host and is tried again: {why}"
        eventually(lambda: said in [trial["note"] for trial in here.trials()], "the note")
        trials.free()
        assert_each_started_once(here, record)


def test_the_home_has_no_room(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with disk(tmp_path / "home", size="1m") as home, scene(tmp_path) as here:
        here.create(f"until [ -e {go} ]; do sleep 0.02; done")
        here.running()
        home.fill()
        body = here.body("true") | {"id": "other"}
        answer = here.server.call("POST", "/api/v1/experiments", body)
        sentence = f"The index {here.server.home.index_path} cannot be written: {NO_SPACE}."
        assert (answer.status, answer.body["error"]["message"]) == (503, sentence)
        assert not (tmp_path / "work" / "other").exists()
        go.touch()
        here.done()
        eventually(
            lambda: f"entry of experiment exp was not updated: {sentence}" in here.server.said, "the log"
        )
        home.free()
        index = Index(here.server.home)
        eventually(
            lambda: {key: entry.status for key, entry in index.entries().items()} == {"exp": "DONE"}, "it"
        )

"""Tests of keepers, shims and spawners that are killed, replaced or restarted, with real processes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.trial_keeper.harness import (
    REPORT,
    FakeServer,
    Host,
    claim_of,
    ending,
    text,
    wait_for,
)
from trial_keeper.actions import journal
from trial_keeper.attempt import claim
from trial_keeper.machine import procs


def test_a_killed_keeper_adopts_its_trials(here: Host) -> None:
    directory = here.attempt(
        "e-a-1", REPORT + "echo start >> starts; for i in 1 2 3; do report $i; done; "
        "until [ -e go ]; do sleep 0.01; done; report 4"
    )  # fmt: skip
    told = here.server.told("e-a-1")
    wait_for(lambda: len(told.frames) == 3, "three metrics")
    here.kill()
    here.start()
    wait_for(lambda: here.server.calls[-1]["k_epoch"] == 2, "the new keeper")
    (here.directory / "go").touch()
    here.server.ended("e-a-1")
    assert told.frames == [b"1\n", b"2\n", b"3\n", b"4\n"]
    assert text(here.directory / "starts") == "start\n"
    assert directory.exists()


def test_a_trial_that_ends_without_a_keeper_is_told_by_the_next(here: Host) -> None:
    here.attempt("e-a-1", REPORT + "report 1; until [ -e go ]; do sleep 0.01; done; report 2; exit 7")
    told = here.server.told("e-a-1")
    wait_for(lambda: told.frames, "a metric")
    here.kill()
    (here.directory / "go").touch()
    wait_for(lambda: claim_of(here, "e-a-1").exit, "the end")
    here.start()
    assert ending(here.server.ended("e-a-1")) == ("exited", 7, None)
    assert told.frames == [b"1\n", b"2\n"]


def test_a_stop_is_repeated_by_the_next_keeper(here: Host) -> None:
    here.attempt("e-a-1", "trap '' TERM; touch up; while :; do sleep 0.05; done")
    wait_for((here.directory / "up").exists, "the trial")
    wait_for(lambda: here.server.acked_cmd == 1, "the acknowledgement")
    here.server.command("stop", "e-a-1", {"grace": 1.0})
    wait_for(lambda: b'"stop"' in (here.keeper / "journal").read_bytes(), "the record")
    here.kill()
    here.start()
    assert ending(here.server.ended("e-a-1")) == ("stopped", None, signal.SIGKILL)


def test_a_stop_reaches_a_trial_whose_grace_cannot_be_written(here: Host) -> None:
    here.attempt("e-a-1", "touch up; while :; do sleep 0.05; done")
    wait_for((here.directory / "up").exists, "the trial")
    wait_for(lambda: here.server.acked_cmd == 1, "the acknowledgement")
    Path(claim.prefix(str(here.keeper), "e-a-1") + claim.STOP).mkdir()  # prevents a rename to this name
    here.server.command("stop", "e-a-1", {"grace": 0.1})
    told = here.server.ended("e-a-1")
    assert ending(told) == ("stopped", None, signal.SIGTERM)
    assert any("could not be passed to the attempt's shim" in note for note in told.notes)


def test_a_keeper_whose_place_is_taken_stops_its_trials_and_leaves(here: Host) -> None:
    here.attempt("e-a-1", "trap 'echo bye > polite; exit' TERM; touch up; while :; do sleep 0.02; done")
    wait_for((here.directory / "up").exists, "the trial")
    with here.server.condition:
        here.server.refused = "instance"
        here.server.condition.notify_all()
    assert here.process is not None
    assert here.process.wait(20) == 0
    wait_for(lambda: not here.processes(), "the end of all processes")
    assert text(here.directory / "polite") == "bye\n"
    assert here.log().count("sync failed") == 1


def test_a_keeper_in_a_new_directory_first_ends_what_an_old_one_left(here: Host) -> None:
    here.attempt("e-a-1", "trap '' TERM; touch up; (setsid env -i sleep 66 &) ; while :; do sleep 0.05; done")
    wait_for((here.directory / "up").exists, "the trial")
    old = here.process
    assert old is not None
    shim = claim_of(here, "e-a-1").pid
    here.server.close()
    old.send_signal(signal.SIGSTOP)  # otherwise it would notice that its files are gone
    shutil.rmtree(here.keeper)
    here.keeper.mkdir()
    here.server = FakeServer("")  # this server accepts any instance
    seen: dict[str, list[int]] = {}  # processes that ran at an instance's first call
    here.server.heard = lambda header: seen.setdefault(
        header["instance"], procs.marked("NNIMGR_JOB_ID", "e-a-1")
    )
    here.point()
    here.start()
    instance = wait_for(lambda: text(here.keeper / "instance"), "the new instance")
    wait_for(lambda: instance in seen, "the new keeper")
    assert seen[instance] == []
    assert shim is not None and procs.start_time(shim) is None
    assert old.wait(10) == -signal.SIGKILL
    assert "killed processes that an earlier keeper had left" in here.log()
    assert all(procs.strings(pid, "cmdline")[:2] != ["sleep", "66"] for pid in procs.all_pids())
    here.server.commands.clear()
    here.attempt("e-b-1", "true")
    assert ending(here.server.ended("e-b-1")) == ("exited", 0, None)


def test_a_keeper_in_a_new_directory_leaves_another_experiment_alone(here: Host, tmp_path: Path) -> None:
    here.attempt("e-a-1", "until [ -e go ]; do sleep 0.01; done")
    wait_for(lambda: here.server.told("e-a-1").started, "the trial")
    other = Host(tmp_path / "other")
    (other.keeper / "instance").unlink()
    other.server.instance = ""
    try:
        other.start()
        wait_for(lambda: other.server.calls, "its first call")
        (here.directory / "go").touch()
        assert ending(here.server.ended("e-a-1")) == ("exited", 0, None)
    finally:
        other.close()


def test_a_second_keeper_leaves_at_once(here: Host) -> None:
    wait_for(lambda: here.server.calls, "the keeper")
    first = here.process
    assert here.start().wait(10) == 0
    here.process = first


def test_a_killed_shim_is_noticed_and_swept(here: Host) -> None:
    here.attempt("e-a-1", REPORT + "report 1; (setsid sleep 61 &) & echo $$ > main; sleep 62")
    told = here.server.told("e-a-1")
    wait_for(lambda: told.frames and text(here.directory / "main"), "the trial")
    elsewhere = {"NNIMGR_JOB_ID": "e-a-1", "NNI_SYS_DIR": "/elsewhere/trials/a"}
    with subprocess.Popen(["sleep", "64"], env={**os.environ, **elsewhere}) as namesake:
        shim = claim_of(here, "e-a-1").pid
        assert shim is not None
        os.kill(shim, signal.SIGKILL)
        here.server.ended("e-a-1")
        assert ending(told) == ("exited", None, None)
        assert told.final is not None and "killed" in told.final["message"]
        assert told.final["cause"] == "infrastructure"
        assert procs.start_time(int(text(here.directory / "main"))) is None
        assert procs.marked("NNIMGR_JOB_ID", "e-a-1") == [namesake.pid]
        namesake.kill()


def test_another_boot_is_a_lost_host(here: Host) -> None:
    here.attempt("e-a-1", REPORT + "report 1; sleep 63")
    told = here.server.told("e-a-1")
    wait_for(lambda: told.frames and here.server.acked_cmd == 1, "the trial")
    here.kill()
    procs.signal_all(here.processes(), signal.SIGKILL)
    here.boot.write_text("boot-2\n")
    here.attempt("e-b-1", "touch ran")  # the place has the previous boot
    here.start()
    here.server.ended("e-a-1")
    assert told.final is not None and (told.final["reason"], told.final["n"]) == ("host_lost", 1)
    other = here.server.ended("e-b-1")
    assert other.final is not None and other.final["reason"] == "host_lost"
    assert not (here.directory / "ran").exists()


def test_a_torn_journal_is_cut(here: Host) -> None:
    here.attempt("e-a-1", "until [ -e go ]; do sleep 0.01; done")
    wait_for(lambda: here.server.acked_cmd == 1, "the acknowledgement")
    here.kill()
    path = here.keeper / "journal"
    path.write_bytes(path.read_bytes() + journal.frame({"k": "nop", "seq": 99})[:-3])
    here.start()
    (here.directory / "go").touch()
    assert ending(here.server.ended("e-a-1")) == ("exited", 0, None)


def test_a_killed_spawner_is_replaced(here: Host) -> None:
    wait_for(lambda: here.server.calls, "the keeper")
    assert here.process is not None
    os.kill(procs.descendants(here.process.pid)[0], signal.SIGKILL)
    here.attempt("e-a-1", "true")
    assert ending(here.server.ended("e-a-1")) == ("exited", 0, None)


@pytest.mark.kill
def test_kills_at_random_instants_lose_and_double_nothing(here: Host) -> None:
    chance = random.Random(7)
    jobs = [f"e-{i:02}-1" for i in range(40)]
    for job in jobs:
        pause = chance.uniform(0.01, 0.1)
        loop = f"for i in 1 2 3 4 5; do report $i; sleep {pause:.3f}; done"
        here.attempt(job, f"{REPORT} echo {job} >> starts; {loop}")
    for _ in range(20):
        time.sleep(chance.uniform(0, 0.2))  # time of the kill
        here.kill()
        here.start()
    for job in jobs:
        told = here.server.ended(job)
        assert told.frames == [b"1\n", b"2\n", b"3\n", b"4\n", b"5\n"]
        assert ending(told) == ("exited", 0, None)
    assert sorted(text(here.directory / "starts").split()) == jobs

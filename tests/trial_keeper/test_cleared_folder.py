"""Tests of trials that remove, move or replace files of their own attempt, with real processes."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.trial_keeper.harness import REPORT, Host, Told, claim_of, wait_for
from trial_keeper.attempt import claim
from trial_keeper.machine import procs

WAITING = "touch up; while [ ! -e go ]; do sleep 0.02; done; "
JOB = "e-a-1"


def own(here: Host, name: str) -> Path:
    """Return the path of a file that the keeper keeps for the attempt."""
    return Path(claim.prefix(str(here.keeper), JOB) + name)


def clear(here: Host) -> None:
    shutil.rmtree(here.directory / "trials" / JOB)
    (here.directory / "trials" / JOB).mkdir()


def move(here: Host) -> None:
    (here.directory / "trials" / JOB).rename(here.directory / "elsewhere")


def remove_all_trials(here: Host) -> None:
    shutil.rmtree(here.directory / "trials")


def remove_claim(here: Host) -> None:
    own(here, claim.NAME).unlink()


def empty_claim(here: Host) -> None:
    os.truncate(own(here, claim.NAME), 0)


def overwrite_claim(here: Host) -> None:
    own(here, claim.NAME).write_bytes(b"aborted boot\n")


def replace_claim(here: Host) -> None:
    own(here, claim.NAME).unlink()
    os.mkfifo(own(here, claim.NAME))


def remove_attempts(here: Host) -> None:
    shutil.rmtree(here.keeper / claim.FOLDER)


def replace_metrics(here: Host) -> None:
    path = here.directory / "trials" / JOB / ".nni" / "metrics"
    path.unlink()
    os.mkfifo(path)


VANDALISM: list[Callable[[Host], None]] = [
    clear, move, remove_all_trials, remove_claim, empty_claim, overwrite_claim, replace_claim,
    remove_attempts, replace_metrics,
]  # fmt: skip


def running(here: Host, command: str) -> None:
    here.attempt(JOB, f"echo $$ >> starts; {WAITING}{command}")
    wait_for((here.directory / "up").exists, "the trial")
    wait_for(lambda: b'"claimed"' in (here.keeper / "journal").read_bytes(), "the record of its claim")


def ended(here: Host) -> Told:
    """Return the end of the attempt, once nothing of it runs. Check that it was started once."""
    told = here.server.ended(JOB)
    assert len((here.directory / "starts").read_text().split()) == 1
    assert procs.marked("NNIMGR_JOB_ID", JOB) == []
    return told


@pytest.mark.parametrize("vandalise", VANDALISM)
def test_the_attempt_ends_with_its_command(here: Host, vandalise: Callable[[Host], None]) -> None:
    running(here, "exit 3")
    vandalise(here)
    (here.directory / "go").touch()
    final = ended(here).final
    assert final is not None
    assert (final["reason"], final["code"]) == ("exited", 3)


@pytest.mark.parametrize("vandalise", VANDALISM)
def test_a_stop_ends_it(here: Host, vandalise: Callable[[Host], None]) -> None:
    running(here, "")
    vandalise(here)
    here.server.command("stop", JOB, {"grace": 0.2})
    final = ended(here).final
    assert final is not None
    assert (final["reason"], final["signal"]) == ("stopped", signal.SIGTERM)


@pytest.mark.parametrize("vandalise", VANDALISM)
def test_the_next_keeper_does_not_start_it_again(here: Host, vandalise: Callable[[Host], None]) -> None:
    running(here, "exit 3")
    here.kill()
    shim = claim_of(here, JOB).pid
    assert shim is not None
    vandalise(here)
    (here.directory / "go").touch()
    wait_for(lambda: not procs.marked("NNIMGR_JOB_ID", JOB), "the end of the command")
    wait_for(
        lambda: procs.start_time(shim) is None, "the end of its shim, which tells a keeper what it knows"
    )
    here.start()
    final = ended(here).final
    assert final is not None and final["reason"] == "exited"
    lost = final["code"] is None
    assert lost == (vandalise in (remove_claim, empty_claim, overwrite_claim, replace_claim, remove_attempts))
    assert not lost or "the claim file was removed or overwritten" in str(final["message"])


def test_a_stop_by_the_next_keeper_ends_it(here: Host) -> None:
    running(here, "")
    here.kill()
    remove_attempts(here)
    here.start()
    here.server.command("stop", JOB, {"grace": 0.2})
    final = ended(here).final
    assert final is not None and final["reason"] == "stopped"


def test_a_claim_that_no_keeper_has_seen_is_not_taken_again_while_its_processes_run(here: Host) -> None:
    """The keeper was killed between the start of the command and its check of the claim."""
    running(here, "")
    here.kill()
    remove_attempts(here)
    forget_claim(here)
    here.start()
    final = ended(here).final
    assert final is not None and "the claim file was removed or overwritten" in str(final["message"])


def test_nor_is_one_of_which_only_metrics_are_left(here: Host) -> None:
    running(here, f"{REPORT}report aa; exit 3")
    here.kill()
    remove_claim(here)
    forget_claim(here)
    (here.directory / "go").touch()
    wait_for(lambda: not procs.marked("NNIMGR_JOB_ID", JOB), "the end of the command")
    here.start()
    told = ended(here)
    assert told.final is not None and told.frames == [b"aa\n"]
    assert (told.final["reason"], told.final["code"]) == ("exited", None)


def forget_claim(here: Host) -> None:
    """Kill the keeper before it can record the claim."""
    journal = here.keeper / "journal"
    content = journal.read_bytes()
    at = content.index(b'{"k":"claimed"') - 8
    journal.write_bytes(content[:at])


def test_metrics_go_on_through_a_descriptor_that_was_opened_before(here: Host) -> None:
    command = "rm -rf $NNI_OUTPUT_DIR; mkdir $NNI_OUTPUT_DIR; printf 'ME000003bb\\n' >&7; exit 0"
    here.attempt(JOB, f"{REPORT} report aa; exec 7>>$NNI_SYS_DIR/.nni/metrics; {command}")
    assert here.server.ended(JOB).frames == [b"aa\n", b"bb\n"]


def test_metrics_of_a_new_file_count_if_the_first_one_was_empty(here: Host) -> None:
    command = "rm -rf $NNI_OUTPUT_DIR; mkdir -p $NNI_OUTPUT_DIR/.nni; report aa; "
    here.attempt(JOB, f"{REPORT}{command}{WAITING} exit 0")
    wait_for(
        lambda: JOB in here.server.jobs and here.server.jobs[JOB].frames, "the metric of a running trial"
    )
    (here.directory / "go").touch()
    assert here.server.ended(JOB).frames == [b"aa\n"]


def test_a_pipe_in_the_place_of_the_metrics_holds_up_nobody(here: Host) -> None:
    command = "rm $NNI_SYS_DIR/.nni/metrics; mkfifo $NNI_SYS_DIR/.nni/metrics $NNI_SYS_DIR/stderr.new; "
    here.attempt(JOB, f"{command} mv $NNI_SYS_DIR/stderr.new $NNI_SYS_DIR/stderr; exit 4")
    here.attempt("e-b-1", f"{REPORT} report bb; exit 5")
    for job, code in ((JOB, 4), ("e-b-1", 5)):
        final = here.server.ended(job).final
        assert final is not None and final["code"] == code
    assert here.server.jobs["e-b-1"].frames == [b"bb\n"]


def test_a_trial_that_suspends_its_shim_can_be_stopped(here: Host) -> None:
    running(here, "")
    found = claim.read(claim.prefix(str(here.keeper), JOB))
    assert found is not None and found.pid
    os.kill(found.pid, signal.SIGSTOP)
    here.server.command("stop", JOB, {"grace": 0.2})
    final = ended(here).final
    assert final is not None and final["reason"] == "stopped"


def test_the_experiment_folder_is_moved(here: Host) -> None:
    running(here, "exit 3")
    moved = here.directory.with_name("moved")
    here.directory.rename(moved)
    (moved / "go").touch()
    told = here.server.ended(JOB)
    assert told.final is not None and told.final["code"] == 3
    moved.rename(here.directory)


def test_a_keeper_whose_journal_was_removed_exits(here: Host) -> None:
    running(here, "")
    (here.keeper / "journal").unlink()
    assert here.process is not None
    assert here.process.wait(20) == 1
    assert "its file journal was removed" in here.log()

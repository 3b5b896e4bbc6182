"""Tests of ``failFast``: an experiment whose first trials all fail alike stops."""

from __future__ import annotations

import pytest

from nnimgr.rules import facts as f
from tests.rules.driver import Life, refold

E, S = f.ExperimentStatus, f.TrialStatus
BROKEN = "ModuleNotFoundError: No module named 'torch'"


def fail(life: Life, sequence: int, message: str = BROKEN, code: int = 1) -> None:
    life.take(
        f.JobEnded(
            job_id=life.job(sequence),
            reason=f.EndReason.EXITED,
            exit_code=code,
            signal=None,
            metrics=0,
            acked_cmd=life.cmd_seq,
            ended_at=life.now,
            message=message,
        )
    )


def test_the_first_trials_that_fail_alike_stop_the_experiment() -> None:
    life = Life(trial_concurrency=2, fail_fast=3)
    for sequence in range(3):
        life.start(sequence)
        fail(life, sequence)
    assert (life.state.status, life.state.drain) == (E.DRAINING, f.DrainReason.FAILURES)
    assert life.state.trials[life.trial(3)].target is None  # it was placed and may run
    fail(life, 3)
    assert life.state.status is E.STOPPED
    assert life.state.reason == (
        f"the first 3 trials all failed alike: exited with code 1: {BROKEN}; correct the trial's code, then "
        "continue: nnictl resume exp; if trialCommand is wrong, start a new experiment instead"
    )
    assert refold(life.log) == life.state


def test_failures_that_differ_in_the_names_of_pods_are_alike() -> None:
    life = Life(trial_concurrency=1, fail_fast=2)
    for sequence in range(2):
        life.start(sequence)
        fail(life, sequence, f"the Job exp-{life.trial(sequence)}-1 ran longer than 8 s: it was ended")
    assert life.state.status is E.STOPPED and "all failed alike" in life.state.reason


def test_a_command_that_does_not_exist_needs_a_new_experiment() -> None:
    life = Life(trial_concurrency=1, fail_fast=2)
    for sequence in range(2):
        life.start(sequence)
        fail(life, sequence, "sh: 1: pyhton3: not found", code=127)
    assert life.state.status is E.STOPPED
    assert life.state.reason.endswith(
        "command not found: pyhton3 (exit code 127); correct trialCommand, then start a new experiment"
    )


def test_a_script_that_is_missing_can_be_added() -> None:
    life = Life(trial_concurrency=1, fail_fast=2)
    for sequence in range(2):
        life.start(sequence)
        fail(life, sequence, "python3: can't open file 'train.py': [Errno 2] No such file", code=2)
    assert "add the file to the trial's code, then continue: nnictl resume exp;" in life.state.reason


def test_a_stop_after_the_end_keeps_why_the_experiment_ended() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1)
    life.start(0)
    life.end(0)
    assert life.state.status is E.DONE
    life.take(f.ExperimentStopRequested())
    assert (life.state.status, life.state.reason) == (
        E.STOPPED,
        "it was stopped after it was DONE: 1 of 1 trials",
    )


def test_a_resume_runs_what_was_cut_off_and_counts_again() -> None:
    life = Life(trial_concurrency=2, fail_fast=2)
    life.wait_reason = "no GPU is free"
    fail(life, 0)  # the next trial has no place yet
    fail(life, 1)
    assert life.ended()[life.trial(2)][0] is S.SYS_CANCELED
    assert life.state.status is E.STOPPED
    life.wait_reason = None
    life.take(f.ExperimentOpened(m_epoch=2, resumed=True))
    assert life.state.status is E.RUNNING
    again = [r.fact for r in life.log if isinstance(r.fact, f.Suggested) and r.fact.retry_of]
    assert [fact.retry_of for fact in again] == [life.trial(2)]
    life.start(3)
    fail(life, 3)
    assert life.state.status is E.RUNNING
    life.start(4)
    fail(life, 4)
    assert life.state.drain is f.DrainReason.FAILURES
    assert life.state.reason.startswith("the first 2 trials since the resume all failed alike: ")


def test_a_trial_that_runs_may_prove_the_others_wrong() -> None:
    life = Life(trial_concurrency=3, fail_fast=2)
    life.start(2)
    for sequence in range(2):
        life.start(sequence)
        fail(life, sequence)
    assert life.state.status is E.DRAINING
    assert life.state.trials[life.trial(2)].target is None
    life.end(2)
    assert life.state.status is E.RUNNING
    fail(life, 3)
    fail(life, 4)
    assert life.state.status is E.RUNNING


@pytest.mark.parametrize(
    ("message", "code"), [("ValueError: lr", 1), (BROKEN, 2)], ids=["another exception", "another exit code"]
)
def test_failures_that_differ_do_not_stop_it(message: str, code: int) -> None:
    life = Life(trial_concurrency=1, fail_fast=2)
    fail(life, 0)
    fail(life, 1, message, code)
    fail(life, 2)
    assert life.state.status is E.RUNNING


def test_details_of_an_exception_make_no_difference() -> None:
    life = Life(trial_concurrency=1, fail_fast=2)
    fail(life, 0, "ValueError: lr is 0.1")
    fail(life, 1, "ValueError: lr is 0.2")
    assert life.state.drain is f.DrainReason.FAILURES or life.state.status is E.STOPPED


def test_trials_that_were_stopped_are_not_counted() -> None:
    life = Life(trial_concurrency=1, fail_fast=2)
    fail(life, 0)
    life.take(f.TargetMoved(trial_id=life.trial(1), kind=f.StopKind.USER, reason="a user stopped it"))
    life.end(1, None, reason=f.EndReason.STOPPED, signal=15)
    assert life.ended()[life.trial(1)][0] is S.USER_CANCELED
    fail(life, 2)
    assert life.state.fails_fast


def test_an_experiment_whose_trials_have_all_failed_is_done() -> None:
    life = Life(trial_concurrency=1, fail_fast=2, max_trial_number=2)
    fail(life, 0)
    fail(life, 1)
    assert (life.state.status, life.state.reason) == (
        E.DONE,
        f"2 of 2 trials; the first 2 trials all failed alike: exited with code 1: {BROKEN}",
    )


def test_without_fail_fast_it_goes_on() -> None:
    life = Life(trial_concurrency=1)
    for sequence in range(9):
        fail(life, sequence)
    assert life.state.status is E.RUNNING

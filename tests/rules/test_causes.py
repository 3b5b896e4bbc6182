"""Tests of the causes of failures: how they are told apart, and how often a trial is retried for each."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from nnimgr.core.running import requests
from nnimgr.rules import facts as f
from nnimgr.rules.trial_ends import LONGEST_RETRY_DELAY
from tests.rules.driver import Life, refold
from tests.rules.saving import Saving

S = f.TrialStatus
C = f.Cause
KILLED = "killed for lack of memory: the limit is 512 MiB"
EVICTED = "the pod made room for a more important pod"


def life_of_one(**limits: Any) -> Life:
    life = Life(trial_concurrency=1, max_trial_number=1, **limits)
    life.start(0)
    return life


def due(facts: list[f.Fact]) -> f.AttemptDue:
    (found,) = (fact for fact in facts if isinstance(fact, f.AttemptDue))
    return found


def end_of(life: Life) -> f.TrialEnded:
    (found,) = (r.fact for r in life.log if isinstance(r.fact, f.TrialEnded))
    return found


def restart(life: Life) -> int:
    """Begin the attempt that is due, and return its number."""
    attempt = life.state.trials[life.trial(0)].attempt
    life.take(after=LONGEST_RETRY_DELAY)
    life.start(0, attempt)
    return attempt


def preempt(life: Life, attempt: int) -> list[f.Fact]:
    return life.take(f.JobLost(job_id=life.job(0, attempt), reason=EVICTED, cause=C.PREEMPTED))


@pytest.mark.parametrize(
    ("reason", "code", "known", "cause"),
    [
        (f.EndReason.EXITED, 1, None, C.USER_ERROR),
        (f.EndReason.EXITED, None, C.TIMEOUT, C.TIMEOUT),
        (f.EndReason.EXITED, 137, C.OUT_OF_MEMORY, C.OUT_OF_MEMORY),
        (f.EndReason.EXITED, 143, C.INFRASTRUCTURE, C.INFRASTRUCTURE),
        (f.EndReason.LEASE, None, None, C.INFRASTRUCTURE),
        (f.EndReason.NEVER_STARTED, None, None, C.USER_ERROR),
    ],
)
def test_each_failure_has_one_cause(reason: f.EndReason, code: int | None, known: C | None, cause: C) -> None:
    life = life_of_one(max_lost_attempts=0)
    life.end(0, code, reason=reason, cause=known)
    assert (end_of(life).status, end_of(life).cause) == (S.FAILED, cause)


def test_a_success_has_no_cause() -> None:
    life = life_of_one()
    life.end(0, 0, cause=C.INFRASTRUCTURE)  # its shim was stopped, but the command has finished its work
    assert (end_of(life).status, end_of(life).cause) == (S.SUCCEEDED, None)


def test_preempted_attempts_are_retried_without_a_limit() -> None:
    life = life_of_one(max_lost_attempts=0)
    attempt = 1
    for number in range(20):
        fact = due(preempt(life, attempt))
        assert (fact.cause, fact.lost, fact.failed) == (C.PREEMPTED, False, False)
        futile = f"; {number + 1} attempts have ended so without a new checkpoint (the trial may have to "
        assert (fact.reason == EVICTED) if number < 2 else fact.reason.startswith(EVICTED + futile)
        attempt = restart(life)
    trial = life.state.trials[life.trial(0)]
    assert (trial.preempted_attempts, trial.lost_attempts, trial.failed_attempts) == (20, 0, 0)
    assert refold(life.log) == life.state
    life.end(0, 1, attempt=attempt)
    assert end_of(life).reason == "exited with code 1"  # the first failure


def test_preempted_attempts_can_be_limited() -> None:
    life = life_of_one(max_preempted_attempts=1)
    preempt(life, 1)
    preempt(life, restart(life))
    assert end_of(life).reason == f"it was preempted 2 times, the last time: {EVICTED}"
    assert (end_of(life).status, end_of(life).cause) == (S.FAILED, C.PREEMPTED)


def test_a_checkpoint_is_progress_in_spite_of_preemption() -> None:
    saving = Saving(max_preempted_attempts=1)
    for _ in range(3):
        saving.save(1)
        preempt(saving.life, saving.attempt)
        saving.life.take(after=timedelta(seconds=1))
        saving.start()
    assert saving.trial.attempt == 4


def test_an_attempt_that_has_saved_is_repeated_without_a_pause() -> None:
    saving = Saving(max_failed_attempts=9)
    pauses = []
    for saves in (False, False, True, False):
        if saves:
            saving.save(1)
        fact = due(saving.end(1))
        pauses.append((fact.due_at - saving.life.now).total_seconds())
        saving.life.take(after=LONGEST_RETRY_DELAY)
        saving.start()
    assert pauses == [0, 1, 0, 4]


def test_a_lack_of_memory_counts_as_a_user_error() -> None:
    life = life_of_one(max_failed_attempts=1)
    fact = due(life.end(0, None, signal=9, message=KILLED, cause=C.OUT_OF_MEMORY))
    assert (fact.cause, fact.failed) == (C.OUT_OF_MEMORY, True)
    life.end(0, 1, attempt=restart(life))
    assert end_of(life).reason == "exited with code 1; it has failed 2 times"


def test_a_lack_of_memory_has_a_number_of_retries_of_its_own() -> None:
    life = life_of_one(max_memory_attempts=1, max_failed_attempts=0)
    fact = due(life.end(0, None, signal=9, message=KILLED, cause=C.OUT_OF_MEMORY))
    assert (fact.cause, fact.failed, fact.lost) == (C.OUT_OF_MEMORY, False, False)
    life.end(0, None, attempt=restart(life), signal=9, message=KILLED, cause=C.OUT_OF_MEMORY)
    end = end_of(life)
    assert end.reason == f"was killed by signal 9 (SIGKILL): {KILLED}; it ran out of memory 2 times"
    assert end.cause is C.OUT_OF_MEMORY


GROWTH = f.MemoryGrowth(start=4096, factor=2, limit=12288)


def run_out(life: Life, attempt: int = 1) -> list[f.Fact]:
    return life.end(0, None, attempt=attempt, signal=9, message=KILLED, cause=C.OUT_OF_MEMORY)


def test_attempts_after_a_lack_of_memory_get_more_of_it() -> None:
    life = life_of_one(memory_growth=GROWTH, max_failed_attempts=0)
    attempt, told = 1, []
    for memory in (8192, 12288):
        fact = due(run_out(life, attempt))
        assert (fact.cause, fact.failed, fact.lost) == (C.OUT_OF_MEMORY, False, False)
        told.append(fact.reason.rpartition("; ")[2])
        attempt = restart(life)
        assert GROWTH.after(life.state.trials[life.trial(0)].memory_attempts) == memory
    assert told == ["its next attempt gets 8 GiB of memory", "its next attempt gets 12 GiB of memory"]
    assert refold(life.log) == life.state
    run_out(life, attempt)
    assert end_of(life).reason == (
        f"was killed by signal 9 (SIGKILL): {KILLED}; it was tried 3 times, "
        "the last time with 12 GiB of memory"
    )


@pytest.mark.parametrize("limits", [{"max_memory_attempts": 1}, {"max_failed_attempts": 1}])
def test_the_usual_retries_follow_when_the_memory_no_longer_grows(limits: dict[str, int]) -> None:
    life = life_of_one(memory_growth=GROWTH, **limits)
    run_out(life)
    run_out(life, restart(life))
    fact = due(run_out(life, restart(life)))
    assert fact.reason == f"was killed by signal 9 (SIGKILL): {KILLED}"
    attempt = restart(life)
    trial = life.state.trials[life.trial(0)]
    assert attempt == 4 and GROWTH.after(trial.memory_attempts) == 12288
    run_out(life, attempt)
    assert "it was tried 4 times, the last time with 12 GiB of memory" in end_of(life).reason


def test_other_failures_do_not_change_the_memory() -> None:
    life = life_of_one(memory_growth=GROWTH, max_failed_attempts=1)
    run_out(life)
    fact = due(life.end(0, 1, attempt=restart(life)))
    assert fact.reason == "exited with code 1" and fact.failed
    restart(life)
    assert life.state.trials[life.trial(0)].memory_attempts == 1


def test_a_command_that_the_machine_has_stopped_is_retried_as_lost() -> None:
    life = life_of_one()
    fact = due(life.end(0, None, signal=15, message="the shim got SIGTERM", cause=C.INFRASTRUCTURE))
    assert (fact.cause, fact.lost) == (C.INFRASTRUCTURE, True)
    assert fact.reason == "was killed by signal 15 (SIGTERM): the shim got SIGTERM"


def test_a_loss_of_a_trial_that_is_to_end_is_no_retry() -> None:
    life = life_of_one()
    life.take(f.StopRequested(trial_id=life.trial(0)))
    life.end(0, None, signal=15, cause=C.INFRASTRUCTURE)
    assert end_of(life).status is S.USER_CANCELED


def test_a_pause_that_is_taken_back_before_the_start_costs_no_retry() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1)
    life.take(*requests.pause_trial(life.trial(0))(life.state))
    life.take(f.ResumeRequested(trial_id=life.trial(0)))
    fact = due(life.end(0, None, reason=f.EndReason.NEVER_STARTED, message="it was stopped before its start"))
    assert (fact.cause, fact.lost, fact.failed) == (None, False, False)

"""A trial is stopped for trials of an experiment with a higher priority, and continues later."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from nnimgr.rules import facts as f
from nnimgr.rules.checkpoints import saves_first
from nnimgr.rules.fold import admits
from tests.rules.driver import Life, refold
from tests.rules.saving import Saving
from tests.rules.test_decisions import K, S, decide, due, exploit, members, stopped

WHY = "which has a higher priority"


def running(number: int = 1, **more: Any) -> list[Saving]:
    return members(number, resizable=("trialCpuNumber",), **more)


def preempt(member: Saving) -> list[f.Fact]:
    return member.life.take(f.PreemptionWanted(job_id=member.job_id, by="other"))


def test_a_trial_continues_from_its_checkpoint_and_no_retry_is_used_up() -> None:
    (member,) = running(max_lost_attempts=0, max_failed_attempts=0, max_preempted_attempts=0)
    member.report(0.1, 0.2)
    member.save(2)
    member.report(0.3)
    (order,) = [fact for fact in preempt(member) if isinstance(fact, f.StopOrdered)]
    assert order.save_within == member.life.state.limits.save_within
    assert member.trial.reason == (
        "is being stopped, may save its state first, and continues later: trials of experiment other, "
        f"{WHY}, need the trial's resources"
    )
    job = member.life.state.jobs[member.job_id]
    member.life.wait_reason = "waits for 1 CPU"
    begun = due(stopped(member))
    assert job.cause is f.Cause.PREEMPTED
    assert (begun.lost, begun.failed, begun.cause, begun.rolled_back) == (False, False, None, 1)
    assert begun.origin is not None and begun.origin.step == 2
    assert begun.reason == (
        f"it was stopped for trials of experiment other, {WHY}; the trial will continue from step 2, and "
        "report 1 result again"
    )
    assert (member.trial.status, member.trial.target) == (S.WAITING, None)
    assert member.trial.reason == f"was stopped for trials of experiment other, {WHY}; waits for 1 CPU"
    assert refold(member.life.log) == member.life.state


def test_the_reason_is_told_until_the_next_attempt_has_a_place() -> None:
    (member,) = running()
    preempt(member)
    stopped(member)
    assert member.trial.reason == "is being started"
    member.start()
    assert member.trial.preempted_by is None
    member.life.wait_reason = "waits for 1 CPU"
    member.lose()
    assert member.trial.reason == "waits for 1 CPU"


def test_a_save_is_asked_for_only_if_results_are_not_covered() -> None:
    (member,) = running()
    member.report(0.1)
    member.save(1)
    preempt(member)
    assert not saves_first(member.life.state, member.trial)
    stopped(member)
    member.start()
    preempt(member)
    assert saves_first(member.life.state, member.trial) is False
    stopped(member)
    member.start()
    member.report(0.2)
    preempt(member)
    assert saves_first(member.life.state, member.trial)


def test_a_trial_that_has_saved_nothing_starts_from_the_beginning() -> None:
    (member,) = running()
    member.report(0.1)
    preempt(member)
    begun = due(stopped(member))
    assert (begun.origin, begun.rolled_back) == (None, 1)
    assert begun.reason.endswith("; the trial has saved no checkpoint, and will start from the beginning")


@pytest.mark.parametrize(("code", "left"), [(0, True), (0, False)])
def test_an_exit_counts_as_the_stop_only_after_the_save(code: int, left: bool) -> None:
    (member,) = running()
    preempt(member)
    if left:
        member.save(1, asked=True)
    member.report(*([] if left else [0.5]))
    facts = member.end(code)
    if left:
        assert due(facts).origin is not None
    else:
        assert member.life.ended()[member.id][0] is S.SUCCEEDED


def test_a_failure_and_a_loss_meanwhile_count_as_usual() -> None:
    (member,) = running(max_failed_attempts=1)
    preempt(member)
    begun = due(member.end(1))
    assert (begun.failed, begun.cause, member.trial.target) == (True, f.Cause.USER_ERROR, None)
    member.start()
    preempt(member)
    begun = due(member.lose())
    assert (begun.lost, begun.cause, member.trial.preempted_by) == (True, f.Cause.INFRASTRUCTURE, None)


def test_an_attempt_that_is_being_started_is_stopped_too() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1)
    job_id = life.job(0)
    life.take(f.PreemptionWanted(job_id=job_id, by="other"))
    begun = due(life.end(0, None, reason=f.EndReason.NEVER_STARTED))
    assert (begun.failed, begun.cause) == (False, None)
    assert begun.reason.startswith(f"it was stopped for trials of experiment other, {WHY}; ")


def test_trials_that_stop_anyway_are_left_alone() -> None:
    (member,) = running()
    wanted = f.PreemptionWanted(job_id=member.job_id, by="other")
    assert admits(member.life.state, wanted)
    member.pause()
    assert not admits(member.life.state, wanted)
    stopped(member)
    assert not admits(member.life.state, wanted)


def test_trials_on_silent_machines_are_left_alone() -> None:
    (member,) = running()
    member.life.take(f.KeeperSilent(keeper_id="local", reason="silent"))
    assert not admits(member.life.state, f.PreemptionWanted(job_id=member.job_id, by="other"))


def test_multi_phase_trials_are_left_alone() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1, multi_phase=True)
    life.start(0)
    assert not admits(life.state, f.PreemptionWanted(job_id=life.job(0), by="other"))


def test_a_user_may_pause_or_stop_the_trial_meanwhile() -> None:
    first, second = running(2)
    for member in (first, second):
        member.save(1)
        preempt(member)
    first.pause()
    second.life.take(f.StopRequested(trial_id=second.id))
    for member in (first, second):
        stopped(member)
    assert first.trial.status is S.PAUSED
    assert second.life.ended()[second.id][0] is S.USER_CANCELED
    assert due(first.resume()).reason.startswith("its pause has ended")
    assert first.trial.preempted_by is None


def test_the_scheduler_may_decide_meanwhile() -> None:
    paused, resized, heir = running(3)
    for member in (paused, resized, heir):
        member.save(1)
        preempt(member)
    decide(paused, K.PAUSE)
    decide(resized, K.RESIZE, resources={"trialCpuNumber": 2})
    exploit(heir, resized)
    stopped(paused)
    assert paused.trial.status is S.PAUSED
    assert due(stopped(resized)).resources == {"trialCpuNumber": 2}
    assert due(stopped(heir)).leg == 1
    assert refold(heir.life.log) == heir.life.state


def test_a_stop_of_the_experiment_pauses_the_trial() -> None:
    (member,) = running()
    member.save(1)
    preempt(member)
    member.life.take(f.ExperimentStopRequested())
    stopped(member)
    assert member.trial.status is S.PAUSED
    begun = due(member.life.take(f.ExperimentOpened(m_epoch=2, resumed=True)))
    assert begun.origin is not None and begun.lost is False


def test_the_next_attempt_waits_its_turn_and_not_for_a_time() -> None:
    (member,) = running()
    for _ in range(5):
        preempt(member)
        begun = due(stopped(member))
        assert begun.due_at == member.life.now
        member.start()
        member.life.now += timedelta(seconds=1)


def test_a_trial_that_has_begun_in_time_continues() -> None:
    (member,) = running(max_experiment_duration=timedelta(seconds=60))
    member.save(1)
    preempt(member)
    member.life.take(after=timedelta(seconds=61))
    due(stopped(member))
    member.start()
    member.end(0)
    assert member.life.ended()[member.id][0] is S.SUCCEEDED
    assert member.life.state.status is f.ExperimentStatus.DONE


def test_a_pause_that_is_taken_back_at_once_changes_nothing() -> None:
    (member,) = running(max_preempted_attempts=0)
    member.save(1)
    preempt(member)
    end = f.JobEnded(
        job_id=member.job_id,
        reason=f.EndReason.STOPPED,
        exit_code=None,
        signal=None,
        metrics=0,
        acked_cmd=member.life.cmd_seq,
        ended_at=member.life.now,
    )
    pause = f.StopRequested(trial_id=member.id, kind=f.StopKind.PAUSE)
    begun = due(member.life.take(end, pause, f.ResumeRequested(trial_id=member.id)))
    assert (begun.lost, begun.cause) == (False, None)
    assert begun.reason.startswith(f"it was stopped for trials of experiment other, {WHY}")

"""Growth of gangs: a trial continues with more members when there has been room for them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from nnimgr.rules import facts as f
from tests.rules.driver import refold
from tests.rules.gang_life import GangLife

RANGE = f.MemberRange(least=2, most=3, grow_after=timedelta(seconds=60))
MINUTE = timedelta(seconds=60)
SAVE_WITHIN = timedelta(seconds=30)


def kinds(facts: list[f.Fact]) -> list[str]:
    return [type(fact).__name__ for fact in facts]


def started(*, saved: bool = True, **limits: Any) -> GangLife:
    """Return a life whose trial runs with two of at most three members."""
    limits = {"max_trial_number": 1, "members": RANGE, **limits}
    life = GangLife(nodes=2, **limits)
    life.member_starts(0, 1)
    if saved:
        life.checkpoint(step=10)
    return life


def asked(**limits: Any) -> GangLife:
    """Return a life whose trial is asked to save its state, to continue with three members."""
    life = started(**limits)
    life.room(3)
    assert kinds(life.take(after=MINUTE)) == ["GrowthBegun", "SaveOrdered"]
    return life


def end_of_members(life: GangLife) -> list[f.Fact]:
    life.member_ends(0, None, reason=f.EndReason.STOPPED)
    return life.member_ends(1, None, reason=f.EndReason.STOPPED)


def test_a_trial_saves_its_state_and_continues_with_more_members() -> None:
    life = asked()
    trial = life.state.trials[life.trial(0)]
    assert trial.reason == "runs with 2 of 2 to 3 members; is asked to save its state, to continue with 3"
    facts = life.checkpoint(2, step=20, asked=True)
    assert kinds(facts) == ["CheckpointReported", "TargetMoved", "StopOrdered", "MembersStopped"]
    life.nodes = 3
    facts = end_of_members(life)
    assert kinds(facts) == ["MemberEnded", "JobEnded", "AttemptDue", "JobPlaced"]
    due = next(fact for fact in facts if isinstance(fact, f.AttemptDue))
    assert not due.lost and not due.failed and due.cause is None
    assert due.origin is not None and due.origin.step == 20
    assert (trial.failed_attempts, trial.lost_attempts, trial.target) == (0, 0, None)
    life.member_starts(0, 1, 2, attempt=2)
    assert trial.reason == (
        "there has been room for 3 of 2 to 3 members for 60 s; the trial will continue from step 20; "
        "it runs with 3 of 2 to 3 members"
    )
    assert refold(life.log) == life.state


def test_nothing_happens_before_the_room_has_been_there_for_the_time() -> None:
    life = started()
    life.room(3)
    assert life.wake_at == life.now + MINUTE
    assert not life.take(after=MINUTE - timedelta(seconds=1))
    life.room(2)
    life.room(3)
    assert not life.take(after=timedelta(seconds=2))
    assert life.wake_at == life.now + MINUTE - timedelta(seconds=2)


def test_a_trial_that_has_saved_nothing_is_left_alone() -> None:
    life = started(saved=False)
    life.room(3)
    assert not life.take(after=MINUTE) and life.wake_at is None
    assert kinds(life.checkpoint()) == ["CheckpointReported", "GrowthBegun", "SaveOrdered"]


def test_a_trial_that_does_not_save_in_time_stays_as_it_is_and_is_not_asked_again() -> None:
    life = asked()
    assert life.wake_at == life.now + SAVE_WITHIN
    assert kinds(life.take(after=SAVE_WITHIN)) == ["GrowthEnded"]
    trial = life.state.trials[life.trial(0)]
    assert trial.reason == "runs with 2 of 2 to 3 members"
    reason = "the trial was asked to save its state, and has not done so within 30 s"
    assert trial.note == f"stays with 2 of 2 to 3 members: {reason}"
    assert kinds(life.checkpoint(2, asked=True)) == ["CheckpointReported"]
    life.room(2)
    life.room(3)
    assert not life.take(after=2 * MINUTE)


def test_room_that_is_taken_meanwhile_ends_the_growth() -> None:
    life = asked()
    assert kinds(life.room(2)) == ["RoomForMembers", "GrowthEnded"]
    assert kinds(life.checkpoint(2, asked=True)) == ["CheckpointReported"]
    life.room(3)
    assert "GrowthBegun" in kinds(life.take(after=MINUTE))


def test_a_user_who_pauses_the_trial_meanwhile_gets_the_pause() -> None:
    life = asked()
    life.checkpoint(2, asked=True)
    life.take(f.StopRequested(trial_id=life.trial(0), kind=f.StopKind.PAUSE))
    assert kinds(end_of_members(life)) == ["MemberEnded", "JobEnded", "TrialPaused"]


def test_members_that_fail_because_the_leader_has_saved_and_left_do_not_count_as_failed() -> None:
    life = asked()
    life.member_ends(1, 1, message="connection reset by peer")
    life.checkpoint(2, step=20, asked=True)
    facts = life.member_ends(0, 0)
    due = next(fact for fact in facts if isinstance(fact, f.AttemptDue))
    assert not due.failed and due.cause is None and due.origin is not None and due.origin.step == 20


def test_a_failure_meanwhile_is_a_failure() -> None:
    life = asked()
    life.member_ends(1, 7, message="ValueError")
    life.member_ends(0, None, reason=f.EndReason.STOPPED)
    assert life.ended()[life.trial(0)][0] is f.TrialStatus.FAILED


def test_one_trial_grows_at_a_time_and_none_while_others_wait() -> None:
    life = GangLife(nodes=2, max_trial_number=2, members=RANGE)
    life.member_starts(0, 1)
    life.checkpoint()
    life.wait_reason = "waits for at least 2 hosts"
    life.take(f.ConfigChanged(changes={}, limits=f.Limits(trial_concurrency=2, members=RANGE)))
    (waiting,) = [job for job in life.state.jobs.values() if job.placed is None]
    life.room(3)
    assert not life.take(after=MINUTE)
    assert "GrowthBegun" not in kinds(life.take(life.placed(waiting.id), after=MINUTE))
    assert life.job_state().room is None  # another trial may have got the room
    for sequence in (0, 1):
        life.take(f.RoomForMembers(job_id=life.job(sequence), members=3))
    assert kinds(life.take(after=MINUTE)).count("GrowthBegun") == 1


def test_another_server_begins_to_count_again() -> None:
    life = started()
    life.room(3)
    life.take(f.ExperimentOpened(m_epoch=2), after=MINUTE / 2)
    life.room(3)
    assert life.wake_at == life.now + MINUTE


def test_a_growth_that_has_begun_goes_on_after_a_kill_of_the_server() -> None:
    life = asked()
    assert kinds(life.take(f.ExperimentOpened(m_epoch=2), after=2 * MINUTE)) == ["ExperimentOpened"]
    assert kinds(life.checkpoint(2, asked=True)) == ["CheckpointReported"]
    assert kinds(life.room(3)) == ["RoomForMembers", "TargetMoved", "StopOrdered", "MembersStopped"]


@pytest.mark.parametrize("saved", [False, True])
def test_a_growth_after_a_kill_of_the_server_ends_if_there_is_no_room_any_more(saved: bool) -> None:
    life = asked()
    life.take(f.ExperimentOpened(m_epoch=2), after=2 * MINUTE)
    if saved:
        life.checkpoint(2, asked=True)
    assert kinds(life.room(2)) == ["RoomForMembers", "GrowthEnded"]
    assert not life.job_state().stays


def test_a_trial_that_grows_when_the_time_is_up_has_begun_in_time() -> None:
    life = asked(max_experiment_duration=2 * MINUTE)
    life.checkpoint(2, asked=True)
    life.nodes = 3
    life.take(after=2 * MINUTE)
    assert "JobPlaced" in kinds(end_of_members(life))

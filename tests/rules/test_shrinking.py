"""Gangs that give up members: a trial continues with fewer members, because another one waits for a place."""

from __future__ import annotations

from datetime import timedelta

import pytest

from nnimgr.rules import facts as f
from nnimgr.rules.fold import admits
from tests.rules.driver import refold
from tests.rules.gang_life import GangLife

RANGE = f.MemberRange(least=1, most=3, grow_after=timedelta(seconds=60))


def kinds(facts: list[f.Fact]) -> list[str]:
    return [type(fact).__name__ for fact in facts]


def due(facts: list[f.Fact]) -> f.AttemptDue:
    (found,) = [fact for fact in facts if isinstance(fact, f.AttemptDue)]
    return found


def wanted(life: GangLife, *leaving: int, by: str = "exp", attempt: int = 1) -> f.FewerMembersWanted:
    return f.FewerMembersWanted(job_id=life.job(0, attempt), leaving=leaving, by=by)


def started(nodes: int = 3) -> GangLife:
    """Return a life whose trial runs with so many of one to three members, and has saved its state."""
    life = GangLife(nodes=nodes, max_trial_number=1, members=RANGE)
    life.member_starts(*range(nodes))
    life.checkpoint(step=10)
    return life


def end_of_members(life: GangLife, *members: int) -> list[f.Fact]:
    facts: list[f.Fact] = []
    for member in members:
        facts += life.member_ends(member, None, reason=f.EndReason.STOPPED)
    return facts


def test_a_trial_continues_without_the_members_and_no_retry_is_used_up() -> None:
    life = started()
    trial = life.state.trials[life.trial(0)]
    facts = life.take(wanted(life, 1, by="other"))
    assert kinds(facts) == ["FewerMembersWanted", "StopOrdered", "MembersStopped"]
    assert trial.reason == (
        "is being stopped, may save its state first, and continues: a trial of experiment other waits for "
        "the place of member 1"
    )
    life.nodes = 2
    again = due(end_of_members(life, 0, 1, 2))
    assert (again.lost, again.failed, again.cause) == (False, False, None)
    assert (again.seats, again.most_members) == (("ash", "oak"), 2)
    assert again.origin is not None and again.origin.step == 10
    life.member_starts(0, 1, attempt=2)
    assert trial.reason == (
        "a trial of experiment other waits for the place of member 1; the trial will continue from step 10; "
        "it runs with 2 of 1 to 3 members"
    )
    assert (trial.lost_attempts, trial.failed_attempts, trial.preempted_attempts) == (0, 0, 0)
    assert refold(life.log) == life.state


def test_the_limit_holds_for_one_attempt() -> None:
    life = started()
    life.take(wanted(life, 1, 2))
    trial = life.state.trials[life.trial(0)]
    assert trial.target_reason == "another trial waits for places of members 1 and 2"
    life.nodes = 1
    assert due(end_of_members(life, 0, 1, 2)).most_members == 1
    assert trial.most_members == 1
    life.take(f.JobStarted(job_id=life.job(0, 2), started_at=life.now))
    facts = life.take(f.JobLost(job_id=life.job(0, 2), reason="gone"))
    assert due(facts).most_members is None and trial.most_members is None


def test_a_save_is_asked_for_if_results_are_not_covered() -> None:
    life = started()
    life.metric(0, 1, 1.0)
    facts = life.take(wanted(life, 2))
    (stop,) = [fact for fact in facts if isinstance(fact, f.StopOrdered)]
    assert stop.save_within is not None and "MembersStopped" not in kinds(facts)


@pytest.mark.parametrize("leaving", [(), (0,), (3,), (1, 2, 3)])
def test_impossible_wishes_are_ignored(leaving: tuple[int, ...]) -> None:
    life = started()
    assert not admits(life.state, wanted(life, *leaving))


def test_a_gang_of_the_least_number_gives_up_nobody() -> None:
    members = f.MemberRange(least=2, most=3, grow_after=timedelta(seconds=60))
    life = GangLife(nodes=2, max_trial_number=1, members=members)
    life.member_starts(0, 1)
    assert not admits(life.state, wanted(life, 1))


def test_a_trial_that_stops_anyway_or_whose_host_is_silent_is_left_alone() -> None:
    life = started()
    life.goes_silent(2)
    assert not admits(life.state, wanted(life, 1))
    life = started()
    life.take(f.StopRequested(trial_id=life.trial(0), kind=f.StopKind.PAUSE))
    assert not admits(life.state, wanted(life, 1))


def test_a_user_who_pauses_the_trial_meanwhile_gets_the_pause() -> None:
    life = started()
    life.take(wanted(life, 1))
    life.take(f.StopRequested(trial_id=life.trial(0), kind=f.StopKind.PAUSE))
    assert "TrialPaused" in kinds(end_of_members(life, 0, 1, 2))


def test_a_failure_meanwhile_is_a_failure_and_the_loss_of_a_member_a_loss() -> None:
    life = started()
    life.take(wanted(life, 2))
    life.member_is_lost(1, "the host was restarted")
    again = due(end_of_members(life, 0, 2))
    assert again.lost and again.seats == ("ash",) and again.most_members == 2


def test_members_that_survive_keep_their_order() -> None:
    life = started()
    life.member_is_lost(0, "the host was restarted")
    assert due(end_of_members(life, 1, 2)).seats == ("elm", "oak")


def test_a_trial_that_was_asked_to_grow_gives_up_members_instead() -> None:
    life = started(nodes=2)
    life.room(3)
    life.take(after=timedelta(seconds=60))
    assert life.job_state().growth is not None
    assert "StopOrdered" in kinds(life.take(wanted(life, 1)))
    life.nodes = 1
    assert due(end_of_members(life, 0, 1)).most_members == 1
    assert refold(life.log) == life.state

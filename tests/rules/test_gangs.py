"""Gangs: what happens to a job follows from what happens to its members."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from nnimgr.rules import facts as f
from nnimgr.rules.silent_hosts import SILENT_GRACE, STOP_LIMIT
from tests.rules.driver import refold
from tests.rules.gang_life import HOSTS, GangLife, place

BARRIER, SECOND = timedelta(minutes=5), timedelta(seconds=1)
RUNNING, UNKNOWN = f.TrialStatus.RUNNING, f.TrialStatus.UNKNOWN


def kinds(facts: list[f.Fact]) -> list[str]:
    return [type(fact).__name__ for fact in facts]


def one(facts: list[f.Fact], kind: type[f.Fact]) -> f.Fact:
    (found,) = [fact for fact in facts if isinstance(fact, kind)]
    return found


def started(nodes: int = 2, **limits: object) -> GangLife:
    life = GangLife(nodes=nodes, max_trial_number=1, **limits)
    life.member_starts(*range(nodes))
    return life


def test_the_job_has_started_when_all_members_have() -> None:
    life = GangLife(nodes=3)
    assert kinds(life.member_starts(1)) == ["MemberStarted"]
    assert kinds(life.member_starts(0)) == ["MemberStarted"]
    assert kinds(life.member_starts(2)) == ["MemberStarted", "JobStarted", "GangGathered"]
    assert life.state.trials[life.trial(0)].status is RUNNING
    assert life.job_state().gathered and life.job_state().members[1].go is not None


def test_the_trial_succeeds_when_all_members_have_ended_well() -> None:
    life = started(3)
    life.metric(0, 0, 1.0, "FINAL")
    assert kinds(life.member_ends(0)) == ["MemberEnded"]
    assert kinds(life.member_ends(2)) == ["MemberEnded"]
    assert kinds(life.member_ends(1)) == ["MemberEnded", "JobEnded", "TrialEnded", "ExperimentMoved"]
    assert life.ended()[life.trial(0)][0] is f.TrialStatus.SUCCEEDED


def test_the_first_failure_stops_all_others_in_the_same_turn_and_is_the_reason() -> None:
    life = started(3)
    facts = life.member_ends(1, 7, message="rank 3 failed first: ValueError: bad")
    assert kinds(facts) == ["MemberEnded", "MembersStopped"]
    stopped = one(facts, f.MembersStopped)
    assert isinstance(stopped, f.MembersStopped) and [member for member, _ in stopped.orders] == [0, 2]
    life.member_ends(0, 1, message="its peers are gone")
    facts = life.member_ends(2, None, reason=f.EndReason.STOPPED)
    end = one(facts, f.JobEnded)
    assert isinstance(end, f.JobEnded) and (end.reason, end.exit_code) == (f.EndReason.EXITED, 7)
    status, reason = life.ended()[life.trial(0)]
    assert status is f.TrialStatus.FAILED
    assert reason == "exited with code 7: rank 3 failed first: ValueError: bad (member 1 on elm)"


def test_a_member_that_never_started_ends_the_gang_before_it_runs() -> None:
    life = GangLife(max_trial_number=1)
    life.member_starts(0)
    facts = life.member_ends(1, None, reason=f.EndReason.NEVER_STARTED, message="no such file")
    assert kinds(facts) == ["MemberEnded", "MembersStopped"]
    life.member_ends(0, None, reason=f.EndReason.STOPPED)
    assert life.ended()[life.trial(0)][1].startswith("no such file (member 1 on elm)")


def test_a_lost_member_makes_a_lost_attempt_after_the_others_have_ended() -> None:
    life = started()
    assert kinds(life.member_is_lost(1, "the host was restarted")) == ["MemberLost", "MembersStopped"]
    facts = life.member_ends(0, None, reason=f.EndReason.STOPPED)
    assert kinds(facts) == ["MemberEnded", "JobLost", "AttemptDue", "JobPlaced"]
    due = one(facts, f.AttemptDue)
    assert isinstance(due, f.AttemptDue) and due.lost
    assert due.reason == "the host was restarted (member 1 on elm)"


UP_TO_THREE = f.MemberRange(least=1, most=3)


def test_an_attempt_with_fewer_members_follows_the_loss_of_one() -> None:
    life = started(3, members=UP_TO_THREE)
    trial = life.state.trials[life.trial(0)]
    assert trial.reason == "runs with 3 of 1 to 3 members"
    life.checkpoint(step=1200)
    life.member_is_lost(1, "the host was restarted")
    life.nodes = 2
    life.member_ends(0, None, reason=f.EndReason.STOPPED)
    life.member_ends(2, None, reason=f.EndReason.STOPPED)
    assert trial.reason == "is being started with 2 of 1 to 3 members"
    life.member_starts(0, 1, attempt=2)
    assert trial.reason == (
        "the host was restarted (member 1 on elm); the trial will continue from step 1200; "
        "it runs with 2 of 1 to 3 members"
    )
    life.goes_silent(0)
    life.take(f.KeeperHeard(keeper_id="ash"))
    assert trial.reason.endswith("it runs with 2 of 1 to 3 members")


def test_an_attempt_with_one_member_has_none_besides_its_leader() -> None:
    life = GangLife(nodes=1, max_trial_number=1, members=UP_TO_THREE)
    life.start(0)
    assert life.state.trials[life.trial(0)].reason == "runs with 1 of 1 to 3 members"
    life.metric(0, 0, 1.0, "FINAL")
    life.end(0)
    assert life.ended()[life.trial(0)][0] is f.TrialStatus.SUCCEEDED


def test_a_stop_reaches_all_members() -> None:
    life = started()
    facts = life.take(f.StopRequested(trial_id=life.trial(0)))
    assert kinds(facts) == ["StopRequested", "StopOrdered", "MembersStopped"]
    life.member_ends(1, 1, message="its leader is gone")
    life.member_ends(0, 1, message="its peers are gone")
    status, _ = life.ended()[life.trial(0)]
    assert status is f.TrialStatus.USER_CANCELED


def test_a_stop_with_a_save_lets_the_others_go_on_until_the_leader_has_ended() -> None:
    life = started()
    life.checkpoint()
    facts = life.take(f.StopRequested(trial_id=life.trial(0), kind=f.StopKind.PAUSE))
    assert kinds(facts) == ["StopRequested", "StopOrdered"]
    facts = life.member_ends(0, None, reason=f.EndReason.STOPPED)
    assert kinds(facts) == ["MemberEnded", "MembersStopped"]
    facts = life.member_ends(1, None, reason=f.EndReason.STOPPED)
    assert kinds(facts) == ["MemberEnded", "JobEnded", "TrialPaused"]


def test_a_stop_of_a_gang_whose_leader_has_ended_stops_the_rest() -> None:
    life = started()
    life.member_ends(0)
    facts = life.take(f.StopRequested(trial_id=life.trial(0)))
    assert kinds(facts) == ["StopRequested", "StopOrdered", "MembersStopped"]
    life.member_ends(1, None, reason=f.EndReason.STOPPED)
    assert life.trial(0) in life.ended()


def test_a_silent_host_of_any_member_makes_the_trial_unknown() -> None:
    life = started(3)
    life.goes_silent(1)
    life.goes_silent(2)
    assert life.state.trials[life.trial(0)].status is UNKNOWN
    assert "elm has not called" in life.state.trials[life.trial(0)].reason  # type: ignore[operator]
    life.take(f.KeeperHeard(keeper_id="elm"))
    assert life.state.trials[life.trial(0)].status is UNKNOWN
    life.take(f.KeeperHeard(keeper_id="oak"))
    assert life.state.trials[life.trial(0)].status is RUNNING


def test_a_member_that_a_user_declares_lost_is_lost_and_the_others_are_stopped() -> None:
    life = started()
    life.goes_silent(1)
    facts = life.take(f.LossDeclared(trial_id=life.trial(0)))
    assert kinds(facts) == ["LossDeclared", "StopOrdered", "MembersStopped", "MemberLost"]
    facts = life.member_ends(0, None, reason=f.EndReason.STOPPED)
    assert kinds(facts) == ["MemberEnded", "JobLost", "AttemptDue", "JobWaiting"]


def test_a_loss_that_is_declared_after_a_failure_is_why_the_gang_has_failed() -> None:
    life = started()
    life.goes_silent(1)
    life.member_ends(0, 1)
    facts = life.take(f.LossDeclared(trial_id=life.trial(0)))
    due = one(facts, f.AttemptDue)
    assert isinstance(due, f.AttemptDue) and due.lost and not due.failed


def test_a_member_that_fails_because_the_host_of_another_one_is_gone_does_not_count_as_failed() -> None:
    life = started()
    life.member_ends(0, 1, message="connection reset by peer")
    facts = life.member_is_lost(1, "the host was restarted")
    due = one(facts, f.AttemptDue)
    assert isinstance(due, f.AttemptDue) and due.lost and not due.failed
    assert due.reason == "the host was restarted (member 1 on elm)"


def test_neither_does_one_that_fails_because_the_lease_of_another_one_has_ended() -> None:
    life = started()
    life.member_ends(0, 1, message="connection reset by peer")
    facts = life.member_ends(1, 0, reason=f.EndReason.LEASE)
    due = one(facts, f.AttemptDue)
    assert isinstance(due, f.AttemptDue) and due.cause is f.Cause.INFRASTRUCTURE and not due.failed


def test_a_stopped_trial_on_a_silent_host_is_given_up_and_never_followed_by_another_attempt() -> None:
    life = started()
    life.goes_silent(1)
    life.take(f.StopRequested(trial_id=life.trial(0)))
    life.member_ends(0, None, reason=f.EndReason.STOPPED)
    facts = life.take(after=SILENT_GRACE + timedelta(seconds=1))
    assert kinds(facts)[:2] == ["MemberLost", "JobLost"]
    lost = one(facts, f.JobLost)
    assert isinstance(lost, f.JobLost) and lost.unproven
    assert life.ended()[life.trial(0)][0] is f.TrialStatus.USER_CANCELED


def test_members_that_do_not_end_after_the_stop_of_the_experiment_are_given_up() -> None:
    life = started()
    life.take(f.ExperimentStopRequested())
    facts = life.take(after=STOP_LIMIT + timedelta(seconds=1))
    assert kinds(facts)[:3] == ["MemberLost", "MemberLost", "JobLost"]
    assert life.ended()[life.trial(0)][0] is f.TrialStatus.SYS_CANCELED
    life.take(*(f.KeeperAcknowledged(keeper_id=name, acked_cmd=life.cmd_seq) for name in HOSTS))
    assert life.state.status is f.ExperimentStatus.STOPPED


def test_a_member_on_a_machine_that_is_removed_by_force_is_stopped_and_tried_elsewhere() -> None:
    life = started()
    facts = life.take(f.MachineRemoved(keeper_id="elm", force=True))
    assert "StopOrdered" in kinds(facts) and "MembersStopped" in kinds(facts)
    life.member_ends(1, None, reason=f.EndReason.STOPPED)
    facts = life.member_ends(0, None, reason=f.EndReason.STOPPED)
    due = one(facts, f.AttemptDue)
    assert isinstance(due, f.AttemptDue) and due.reason == "its machine was removed by force"


def test_the_job_is_kept_until_every_keeper_has_carried_out_its_last_command() -> None:
    life = started()
    life.member_ends(1, 1, acked=0)
    life.member_ends(0, None, reason=f.EndReason.STOPPED, acked=0)
    assert life.job(0) in life.state.jobs
    life.take(f.KeeperAcknowledged(keeper_id="ash", acked_cmd=life.cmd_seq))
    assert life.job(0) in life.state.jobs
    life.take(f.KeeperAcknowledged(keeper_id="elm", acked_cmd=life.cmd_seq))
    assert not life.state.jobs


@pytest.mark.parametrize("gone", [0, 1])
def test_a_keeper_that_has_gone_needs_no_more_commands(gone: int) -> None:
    life = started()
    life.member_ends(1, 1, acked=0)
    life.member_ends(0, None, reason=f.EndReason.STOPPED, acked=0)
    life.take(f.KeeperGone(keeper_id=HOSTS[gone]))
    assert life.job(0) in life.state.jobs
    life.take(f.KeeperAcknowledged(keeper_id=HOSTS[1 - gone], acked_cmd=life.cmd_seq))
    assert not life.state.jobs


@pytest.mark.parametrize("gone", [0, 1])
@pytest.mark.parametrize("lost", [False, True])
def test_the_host_of_a_member_that_is_over_may_go_before_the_others_end(gone: int, lost: bool) -> None:
    """Pods do: each is removed as soon as its own member is over."""
    life = started()
    if lost:
        life.member_is_lost(gone)
    else:
        life.member_ends(gone)
    life.take(f.KeeperGone(keeper_id=HOSTS[gone]))
    facts = life.member_ends(1 - gone)
    assert one(facts, f.JobLost if lost else f.JobEnded)
    assert refold(life.log) == life.state


def test_a_keeper_gets_numbers_again_that_one_that_has_gone_has_never_heard_of() -> None:
    life = started()
    life.wait_reason = "waits for all hosts"
    life.member_is_lost(1)
    life.take(*_replaced(HOSTS[1]))
    life.member_ends(0, None, reason=f.EndReason.STOPPED, acked=0)
    before = life.job_state().members[1].cmd_seq
    again = f.MemberPlace(place=place(1), cmd_seq=before)
    job_id, number = life.job(0, 2), life.cmd_seq + 1
    life.take(f.JobPlaced(job_id=job_id, place=place(0), cmd_seq=number, members=(again,)))
    assert life.job_state(attempt=2).placed is not None
    assert refold(life.log) == life.state


# ---- the exit barrier -------------------------------------------------------------------------------------


def led(nodes: int = 2, **limits: object) -> GangLife:
    """Return a life in which the leader has reported a result and ended with exit code 0."""
    life = started(nodes, **limits)
    life.metric(0, 0, 1.0, "FINAL")
    assert kinds(life.member_ends(0)) == ["MemberEnded"]
    return life


def outcome(life: GangLife, facts: list[f.Fact]) -> str | None:
    """Return the note of the gang's job, whose trial has succeeded with the leader's result."""
    end = one(facts, f.JobEnded)
    assert isinstance(end, f.JobEnded) and (end.reason, end.exit_code) == (f.EndReason.EXITED, 0)
    assert life.ended()[life.trial(0)] == (f.TrialStatus.SUCCEEDED, "exited with code 0")
    return end.message


def test_members_have_time_to_end_after_the_leader_and_are_then_stopped() -> None:
    life = led(3)
    assert life.state.trials[life.trial(0)].reason == (
        "the leader has ended with exit code 0; waits at most 300 s for the end of member 1 on elm, "
        "member 2 on oak"
    )
    assert life.wake_at == life.now + BARRIER
    assert kinds(life.take(after=BARRIER - SECOND)) == []
    assert kinds(life.member_ends(1)) == ["MemberEnded"]
    facts = life.take(after=SECOND)
    stopped = one(facts, f.MembersStopped)
    assert isinstance(stopped, f.MembersStopped) and [member for member, _ in stopped.orders] == [2]
    assert life.wake_at is None
    facts = life.member_ends(2, None, reason=f.EndReason.STOPPED)
    assert outcome(life, facts) == (
        "member 2 on oak was stopped, because it had not ended 300 s after the leader"
    )


def test_the_time_after_the_leader_is_that_of_the_configuration() -> None:
    life = led(exit_barrier=timedelta(seconds=30))
    assert kinds(life.take(after=timedelta(seconds=29))) == []
    assert kinds(life.take(after=SECOND)) == ["MembersStopped"]


def test_a_restart_of_the_server_does_not_prolong_the_time_after_the_leader() -> None:
    life = led()
    life.take(after=BARRIER - SECOND)
    life.take(f.ExperimentOpened(m_epoch=2))
    assert kinds(life.take(after=SECOND)) == ["MembersStopped"]
    assert refold(life.log) == life.state


@pytest.mark.parametrize(
    ("code", "signal", "message", "note"),
    [
        (3, None, "boom", "member 1 on elm failed after the leader had ended (exit code 3): boom"),
        (3, None, None, "member 1 on elm failed after the leader had ended (exit code 3)"),
        (None, 9, None, "member 1 on elm failed after the leader had ended (signal 9)"),
        (None, None, None, "member 1 on elm failed after the leader had ended (no exit code)"),
    ],
)
def test_a_failure_after_the_good_end_of_the_leader_is_only_noted(
    code: int | None, signal: int | None, message: str | None, note: str
) -> None:
    life = led(3)
    assert kinds(life.member_ends(1, code, signal=signal, message=message)) == ["MemberEnded"]
    facts = life.member_ends(2)
    assert outcome(life, facts) == note
    assert life.touched.trials[life.trial(0)].note == note


def test_a_loss_after_the_good_end_of_the_leader_is_only_noted() -> None:
    life = led()
    facts = life.member_is_lost(1, "the host was restarted")
    assert outcome(life, facts) == (
        "member 1 on elm was lost after the leader had ended: the host was restarted"
    )


def test_several_members_are_noted() -> None:
    life = led(3)
    life.member_ends(2, 1)
    facts = life.member_ends(1, None, reason=f.EndReason.LEASE)
    assert outcome(life, facts) == (
        "member 1 on elm was ended after the leader (lease); "
        "member 2 on oak failed after the leader had ended (exit code 1)"
    )


def test_a_failure_before_the_good_end_of_the_leader_fails_the_trial() -> None:
    life = started()
    life.member_ends(1, 1)
    life.member_ends(0)
    assert life.ended()[life.trial(0)][0] is f.TrialStatus.FAILED


def test_a_leader_that_has_failed_stops_the_others_at_once() -> None:
    life = started()
    assert kinds(life.member_ends(0, 1)) == ["MemberEnded", "MembersStopped"]


def test_a_member_on_a_silent_host_is_given_up_after_the_time_that_it_had() -> None:
    life = led()
    life.goes_silent(1)
    assert life.state.trials[life.trial(0)].status is UNKNOWN
    assert kinds(life.take(after=BARRIER)) == ["MembersStopped"]
    assert life.wake_at == life.now + SILENT_GRACE
    facts = life.take(after=SILENT_GRACE)
    assert kinds(facts)[:2] == ["MemberLost", "JobEnded"]
    note = outcome(life, facts)
    assert note is not None and note.startswith(
        "member 1 on elm was lost after the leader had ended: the trial may still run on its machine"
    )


def test_a_host_that_answers_again_says_again_what_the_trial_waits_for() -> None:
    life = led()
    waits = life.state.trials[life.trial(0)].reason
    assert waits is not None
    life.goes_silent(1)
    assert life.state.trials[life.trial(0)].reason == (
        f"unknown since 2026-01-01 00:00:00 UTC: elm has not called for 30 s; {waits}"
    )
    life.take(f.KeeperHeard(keeper_id="elm"))
    assert life.state.trials[life.trial(0)].reason == waits


def test_the_end_of_the_leader_does_not_hide_that_a_host_is_silent() -> None:
    life = started()
    life.goes_silent(1)
    life.member_ends(0)
    assert life.state.trials[life.trial(0)].reason == (
        "unknown since 2026-01-01 00:00:00 UTC: elm has not called for 30 s; the leader has ended with exit "
        "code 0; waits at most 300 s for the end of member 1 on elm"
    )


def _random_event(life: GangLife, draw: random.Random) -> f.Fact:
    trial_id = life.trial(draw.randint(0, 3))
    attempt, member = draw.randint(1, 3), draw.randrange(life.nodes)
    job_id, name = f"exp-{trial_id}-{attempt}", HOSTS[member]
    choice = draw.random()
    if choice < 0.45:
        return f.MemberStarted(job_id=job_id, member=member, started_at=life.now)
    if choice < 0.7:
        return f.MemberEnded(
            job_id=job_id,
            member=member,
            reason=draw.choice(list(f.EndReason)),
            exit_code=draw.choice([0, 0, 1, None]),
            signal=None,
            metrics=0,
            acked_cmd=draw.choice([life.cmd_seq, 0]),
            ended_at=life.now,
        )
    if choice < 0.74:
        return f.MemberLost(job_id=job_id, member=member, reason="gone", unproven=draw.random() < 0.2)
    if choice < 0.8:
        return f.KeeperSilent(keeper_id=name, reason="silent")
    if choice < 0.9:
        return f.KeeperHeard(keeper_id=name)
    if choice < 0.93:
        kind = draw.choice([f.StopKind.USER, f.StopKind.PAUSE])
        return f.StopRequested(trial_id=trial_id, kind=kind)
    if choice < 0.95:
        return f.LossDeclared(trial_id=trial_id)
    if choice < 0.97:
        return f.ResumeRequested(trial_id=trial_id)
    if life.state.limits.members is not None and choice < 0.985:
        return f.RoomForMembers(job_id=job_id, members=draw.randint(2, 3))
    if life.state.limits.members is not None and choice < 0.995:
        return f.FewerMembersWanted(job_id=job_id, leaving=(draw.randint(1, 2),), by="exp")
    return f.KeeperAcknowledged(keeper_id=name, acked_cmd=life.cmd_seq)


def _replaced(name: str) -> list[f.Fact]:
    """Return the facts about a host that goes, and another one that comes under its name."""
    instance = place(HOSTS.index(name)).instance
    return [
        f.KeeperGone(keeper_id=name),
        f.KeeperEnrolled(keeper_id=name, token_sha256="1" * 64),
        f.KeeperBound(keeper_id=name, instance=instance, boot_id="b1"),
    ]


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("varies", [False, True])
def test_a_random_life_of_gangs_stays_valid_and_ends(seed: int, varies: bool) -> None:
    draw = random.Random(seed)
    limits = {"trial_concurrency": draw.randint(1, 3), "max_trial_number": 4}
    members = f.MemberRange(least=2, most=3, grow_after=timedelta(seconds=1)) if varies else None
    life = GangLife(nodes=draw.choice([2, 3]), members=members, **limits)
    for _ in range(150):
        if varies:
            life.nodes = draw.choice([2, 3])
            if life.trial(0) in life.state.trials and life.state.trials[life.trial(0)].job_id:
                life.checkpoint(draw.randint(1, 9), asked=draw.random() < 0.3)
        life.take(_random_event(life, draw), after=timedelta(seconds=draw.choice([0, 0, 1, 10])))
        name = draw.choice(HOSTS)
        if draw.random() < 0.05 and not any(life.state.open_jobs_at(name)):
            life.take(*_replaced(name))
    if draw.random() < 0.5:
        life.take(f.ExperimentStopRequested())
    for _ in range(100):
        life.take(*(f.KeeperHeard(keeper_id=name) for name in HOSTS), after=timedelta(seconds=20))
        life.take(*(f.ResumeRequested(trial_id=trial_id) for trial_id in life.state.trials))
        life.take(*(life.placed(job.id) for job in list(life.state.jobs.values()) if job.placed is None))
        for job in list(life.state.jobs.values()):
            for number in range(len(job.members)):
                if not job.closed:
                    sequence = life.state.trials[job.trial_id].sequence
                    life.member_ends(number, sequence=sequence, attempt=job.attempt)
        life.take(*(f.KeeperAcknowledged(keeper_id=name, acked_cmd=life.cmd_seq) for name in HOSTS))
        if life.state.status in (f.ExperimentStatus.DONE, f.ExperimentStatus.STOPPED):
            break
    assert life.state.status in (f.ExperimentStatus.DONE, f.ExperimentStatus.STOPPED)
    assert not life.state.jobs
    assert refold(life.log) == life.state

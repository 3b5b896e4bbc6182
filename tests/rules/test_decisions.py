"""Decisions of a scheduler: pauses, legs that begin with checkpoints of other trials, and refusals."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from nnimgr.core.running import new_trials, requests
from nnimgr.rules import facts as f
from nnimgr.rules.decisions import NOTHING_SAVED, recorded_as
from tests.rules.driver import Life, refold
from tests.rules.saving import Saving

S = f.TrialStatus
K = f.DecisionKind


def members(number: int = 2, **limits: Any) -> list[Saving]:
    """Return trials of one experiment that all run."""
    life = Life(**{"trial_concurrency": number, "max_trial_number": number, **limits})
    return [Saving(life=life, sequence=sequence) for sequence in range(number)]


def decide(member: Saving, kind: f.DecisionKind, **more: object) -> list[f.Fact]:
    """Record a decision, as the runner does."""
    state = member.life.state
    decision = f.Decided(trial_id=member.id, kind=kind, cause=state.number, reason="because", **more)  # type: ignore[arg-type]
    return member.life.take(*recorded_as(state, decision))


def exploit(heir: Saving, donor: Saving, number: int = 1, parameters: str = '{"x": 2}') -> list[f.Fact]:
    return decide(heir, K.EXPLOIT, parameters=parameters, donor=donor.id, checkpoint=(donor.attempt, number))


def refusal(facts: list[f.Fact]) -> str:
    (found,) = (fact for fact in facts if isinstance(fact, f.DecisionRefused))
    return found.reason


def due(facts: list[f.Fact]) -> f.AttemptDue:
    (found,) = (fact for fact in facts if isinstance(fact, f.AttemptDue))
    return found


def stopped(member: Saving) -> list[f.Fact]:
    return member.end(None, f.EndReason.STOPPED)


def test_a_leg_begins_with_the_checkpoint_of_another_trial() -> None:
    donor, heir = members()
    donor.report(0.7, 0.8)
    donor.save(2)
    heir.report(0.1, 0.2, 0.3)
    heir.save(3)
    assert any(isinstance(fact, f.StopOrdered) for fact in exploit(heir, donor))
    assert heir.trial.reason == (
        "is being stopped, and continues from another checkpoint: the scheduler gives it other parameters: "
        "because"
    )
    begun = due(stopped(heir))
    assert (begun.leg, begun.parameters, begun.rolled_back, begun.lost) == (1, '{"x": 2}', 1, False)
    assert begun.origin == f.Origin(
        trial_id=donor.id, attempt=1, number=1, keeper_id="local", step=2, position=4, reports=2
    )
    assert begun.reason == f"because; the trial will continue from step 2 of trial {donor.id}"
    assert (heir.trial.parameters, heir.trial.intermediates, heir.trial.latest_value) == ('{"x": 2}', 2, 0.8)
    heir.start()
    assert heir.life.state.jobs[heir.job_id].recorded == 4
    heir.report(0.9)
    assert heir.trial.intermediates == 3
    assert refold(heir.life.log) == heir.life.state


@pytest.mark.parametrize("kind", [K.PAUSE, K.EXPLOIT, K.RESIZE])
def test_a_trial_that_has_reported_its_final_result_is_let_alone(kind: f.DecisionKind) -> None:
    donor, member = members()
    donor.save(1)
    member.save(1)
    member.life.final(1, 0.9, 1)
    more = {"parameters": '{"x": 2}', "donor": donor.id, "checkpoint": (1, 1)} if kind is K.EXPLOIT else {}
    assert refusal(decide(member, kind, **more)) == "the trial has reported its final result already"
    assert member.trial.note is None
    member.end(0)
    assert member.life.ended()[member.id][0] is S.SUCCEEDED


def test_a_leg_without_a_step_left_says_so() -> None:
    donor, heir = members()
    donor.report(0.7)
    donor.save(12)
    exploit(heir, donor)
    stopped(heir)
    heir.start()
    heir.end(0)
    assert heir.life.ended()[heir.id] == (
        S.SUCCEEDED,
        "no result: the trial continued from step 12 and reported nothing after it; if no step was left, "
        "fork it from an earlier checkpoint",
    )


def test_no_trial_continues_from_one_that_is_about_to_end() -> None:
    donor, heir = members()
    donor.save(12)
    donor.life.final(0, 0.9, 1)
    told = f"trial {donor.id} has reported its final result, so it may have no step left"
    assert refusal(exploit(heir, donor)) == told


def test_the_donor_keeps_a_checkpoint_until_the_heir_has_its_own() -> None:
    donor, heir = members(checkpoints_kept=1)
    donor.save(1)
    exploit(heir, donor)
    stopped(heir)
    pruned = donor.save(2)  # of two checkpoints, one is borrowed and one is the newest
    assert not [fact for fact in pruned if isinstance(fact, f.CheckpointsPruned)]
    heir.start()
    heir.save(5)
    (gone,) = (fact for fact in donor.save(3) if isinstance(fact, f.CheckpointsPruned))
    assert (gone.up_to, gone.keep) == (2, ())


def test_a_further_decision_does_not_keep_what_the_present_leg_began_with() -> None:
    donor, heir = members(checkpoints_kept=1)
    donor.save(1)
    exploit(heir, donor)
    stopped(heir)
    donor.save(2)
    heir.start()
    heir.save(5)
    exploit(heir, donor, number=2)
    (gone,) = (fact for fact in donor.save(3) if isinstance(fact, f.CheckpointsPruned))
    assert (gone.up_to, gone.keep) == (1, ())


def test_a_donor_that_ends_after_its_heir_keeps_nothing_for_it() -> None:
    heir, donor = members(checkpoints_kept=1)
    life = heir.life
    donor.save(1)
    exploit(heir, donor)
    donor.save(2)
    life.take(f.StopRequested(trial_id=heir.id))
    jobs = heir.job_id, donor.job_id
    end = partial(f.JobEnded, signal=None, metrics=0, acked_cmd=life.cmd_seq, ended_at=life.now)
    facts = life.take(
        end(job_id=jobs[0], reason=f.EndReason.STOPPED, exit_code=None),
        end(job_id=jobs[1], reason=f.EndReason.EXITED, exit_code=0),
    )
    assert [each.trial_id for each in facts if isinstance(each, f.TrialEnded)] == [heir.id, donor.id]
    (gone,) = (fact for fact in facts if isinstance(fact, f.CheckpointsPruned))
    assert (gone.job_id, gone.up_to, gone.keep) == (jobs[1], 1, ())


def test_an_heir_that_is_lost_begins_the_leg_again() -> None:
    donor, heir = members()
    donor.report(0.8)
    donor.save(1)
    exploit(heir, donor)
    stopped(heir)
    heir.start()
    heir.report(0.9)
    again = due(heir.lose())
    assert again.leg is None and again.origin is not None and again.origin.trial_id == donor.id
    assert (again.rolled_back, heir.trial.leg, heir.trial.parameters) == (1, 1, '{"x": 2}')


@pytest.mark.parametrize("copied", [True, False])
def test_an_heir_goes_back_to_the_donors_checkpoint_only_while_there_is_a_copy(copied: bool) -> None:
    donor, heir = members(checkpoints_kept=1)
    donor.save(1)
    donor.keep(1)
    exploit(heir, donor)
    stopped(heir)
    heir.start()
    heir.save(2)  # nothing keeps the donor's checkpoint any more
    if not copied:
        donor.save(3)
        donor.keep(2)
    heir.life.take(f.KeeperSilent(keeper_id="local", reason="no word for 30 s"))
    again = due(heir.lose())
    assert (again.origin is not None) == copied
    assert again.origin is None or again.origin.trial_id == donor.id


def test_checkpoints_of_an_earlier_leg_are_never_used() -> None:
    donor, heir = members()
    donor.save(1)
    heir.save(1)
    exploit(heir, donor)
    (gone,) = (fact for fact in stopped(heir) if isinstance(fact, f.CheckpointsPruned))
    assert (gone.job_id, gone.up_to, gone.keep) == (heir.life.job(1), 1, ())
    assert heir.trial.checkpoints == []


def test_a_trial_can_continue_from_its_own_checkpoint_with_other_parameters() -> None:
    (member,) = members(1)
    member.report(0.1)
    member.save(1)
    member.report(0.2)
    exploit(member, member)
    begun = due(stopped(member))
    assert begun.origin == f.Origin(attempt=1, number=1, keeper_id="local", step=1, position=2, reports=1)
    assert (begun.leg, begun.rolled_back, member.trial.parameters) == (1, 1, '{"x": 2}')
    member.start()
    assert due(member.lose()).origin == begun.origin


def test_a_paused_member_continues_with_its_leg() -> None:
    donor, heir = members()
    donor.save(1)
    heir.save(1)
    decide(heir, K.PAUSE)
    stopped(heir)
    assert (heir.trial.status, heir.trial.paused_by) == (S.PAUSED, f.PausedBy.SCHEDULER)
    assert due(exploit(heir, donor)).leg == 1


def test_a_trial_that_finishes_before_its_leg_has_finished() -> None:
    donor, heir = members()
    donor.save(1)
    exploit(heir, donor)
    heir.end(0)
    assert heir.life.ended()[heir.id][0] is S.SUCCEEDED


def test_a_trial_that_fails_before_its_leg_begins_it() -> None:
    donor, heir = members()
    donor.save(1)
    exploit(heir, donor)
    assert due(heir.end(1)).leg == 1


def test_a_leg_whose_checkpoint_is_lost_does_not_begin() -> None:
    donor, heir = members()
    donor.save(1)
    exploit(heir, donor)
    heir.life.take(f.KeeperBound(keeper_id="local", instance="i2", boot_id="b1"))
    facts = heir.lose()
    assert refusal(facts) == f"the host of the checkpoint of trial {donor.id} cannot be used any more"
    assert (due(facts).leg, due(facts).origin, heir.trial.parameters) == (None, None, '{"x": 1}')


def test_a_pause_by_the_scheduler_does_not_wait_for_a_save() -> None:
    (member,) = members(1)
    member.report(0.1)
    member.save(1)
    decide(member, K.PAUSE)
    assert stopped(member)
    assert member.trial.reason == "the scheduler paused it: because; the trial will continue from step 1"


def test_only_the_scheduler_continues_what_it_has_paused() -> None:
    (member,) = members(1)
    member.save(1)
    member.pause()
    stopped(member)
    assert refusal(decide(member, K.CONTINUE)) == "a user has paused the trial"
    member.resume()
    member.start()
    decide(member, K.PAUSE)
    stopped(member)
    assert due(decide(member, K.CONTINUE)).origin is not None


def test_a_user_takes_over_a_pause() -> None:
    (member,) = members(1)
    member.save(1)
    decide(member, K.PAUSE)
    stopped(member)
    member.life.take(*requests.pause_trial(member.id)(member.life.state))
    assert member.trial.reason == "a user paused it; the trial will continue from step 1"
    assert refusal(decide(member, K.CONTINUE)) == "a user has paused the trial"


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (K.PAUSE, "the trial has saved no checkpoint, from which it could continue later"),
        (K.CONTINUE, "the trial is RUNNING, and is not being paused"),
    ],
)
def test_a_decision_that_is_not_possible_is_refused(kind: f.DecisionKind, why: str) -> None:
    (member,) = members(1)
    assert refusal(decide(member, kind)) == why
    assert member.trial.note == f"the scheduler cannot {kind} the trial: {why}"


def test_an_exploit_of_a_trial_that_has_saved_nothing_is_refused() -> None:
    heir, donor = members()
    facts = decide(heir, K.EXPLOIT, parameters="{}", donor=donor.id, checkpoint=None)
    assert refusal(facts) == (
        f"{NOTHING_SAVED}, and trial {donor.id} has saved none from which it could continue"
    )


def test_an_exploit_of_a_checkpoint_that_is_gone_is_refused() -> None:
    donor, heir = members()
    assert refusal(exploit(heir, donor)) == f"trial {donor.id} has no checkpoint 1 of attempt 1 any more"
    heir.life.take(f.StopRequested(trial_id=heir.id))
    assert refusal(exploit(heir, donor)) == "the trial is being stopped: a user stopped it"
    stopped(heir)
    assert refusal(exploit(heir, donor)) == "the trial has ended"


def test_a_decision_is_recorded_once() -> None:
    (member,) = members(1)
    member.save(1)
    state = member.life.state
    decision = f.Decided(trial_id=member.id, kind=K.PAUSE, cause=state.number, reason="because")
    member.life.take(*recorded_as(state, decision))
    assert recorded_as(state, decision) == ()


def test_a_stopped_experiment_keeps_the_next_leg() -> None:
    donor, heir = members()
    donor.save(1)
    exploit(heir, donor)
    life = heir.life
    life.take(f.ExperimentStopRequested())
    stopped(heir)
    stopped(donor)
    assert {trial.status for trial in life.state.trials.values()} == {S.PAUSED}
    facts = life.take(f.ExperimentOpened(m_epoch=2, resumed=True))
    assert [fact.leg for fact in facts if isinstance(fact, f.AttemptDue) and fact.trial_id == heir.id] == [1]


def test_a_fork_begins_with_a_checkpoint_of_another_trial() -> None:
    donor, _ = members(2, max_trial_number=3)
    donor.report(0.8)
    donor.save(1)
    life = donor.life
    origin = new_trials.fork_origin(life.state, donor.id, None)
    life.take(*new_trials.TrialAddition({"x": 1}, outstanding=0, origin=origin)(life.state))
    fork = life.state.trials[life.trial(2)]
    assert fork.origin is not None and fork.origin.origin == origin
    assert (origin.trial_id, origin.number, origin.position, origin.reports) == (donor.id, 1, 0, 1)
    assert (fork.parameters, fork.intermediates, fork.retry_of) == ('{"x": 1}', 1, donor.id)
    assert refold(life.log) == life.state


def test_the_retry_of_a_fork_begins_with_its_checkpoint_while_that_exists() -> None:
    donor, _ = members(2, max_trial_number=3)
    donor.report(0.8)
    donor.save(1)
    life = donor.life
    origin = new_trials.fork_origin(life.state, donor.id, None)
    failed = new_trials.FailedTrial(id="bad", parameter_id=None, parameters='{"x": 1}', origin=origin)
    (again,) = life.take(*new_trials.rerun([failed])(life.state))[:1]
    assert isinstance(again, f.Suggested)
    trial = life.state.trials[again.trial_id]
    assert (again.source, again.retry_of, trial.forked) == (f.SuggestionSource.RERUN, "bad", True)
    assert trial.origin is not None and trial.origin.origin == origin
    assert (trial.intermediates, trial.note) == (1, None)
    lost = replace(failed, origin=replace(origin, number=7))
    (suggested, noted) = new_trials.rerun([lost])(life.state)
    assert isinstance(suggested, f.Suggested) and suggested.origin is None
    assert noted == f.TrialNoted(
        trial_id=suggested.trial_id,
        note=f"checkpoint 7 of trial {donor.id} was deleted, or its host has left: this retry of the "
        "fork bad starts from the beginning",
    )
    assert refold(life.log) == life.state

"""The scheduler gives trials other resources, which their next attempt has."""

from __future__ import annotations

from typing import Any

import pytest

from nnimgr.core.running.service_session import job_spec
from nnimgr.rules import facts as f
from nnimgr.rules.checkpoints import saves_first
from nnimgr.rules.decisions import recorded_as
from tests.rules.driver import refold
from tests.rules.saving import Saving
from tests.rules.test_decisions import K, S, decide, due, exploit, members, refusal, stopped

GPUS, CPUS = "trialGpuNumber", "trialCpuNumber"


def running(number: int = 1, **more: Any) -> list[Saving]:
    return members(number, resizable=(GPUS, CPUS), **more)


def resize(member: Saving, **resources: float) -> list[f.Fact]:
    return decide(member, K.RESIZE, resources=resources)


def given(member: Saving) -> dict[str, float]:
    """Return the resources that the trial's attempt has, as the training service is told."""
    return dict(job_spec(member.life.state, member.trial, member.job_id).resources)


def test_a_trial_continues_from_its_checkpoint_with_other_resources() -> None:
    (member,) = running()
    member.report(0.1, 0.2)
    member.save(2)
    member.report(0.3)
    facts = resize(member, **{GPUS: 2})
    assert any(isinstance(fact, f.StopOrdered) for fact in facts)
    assert member.trial.reason == (
        "is being stopped, may save its state first, and continues: the scheduler gives it other resources: "
        "because"
    )
    assert given(member) == {}  # the attempt that ends has what it had
    begun = due(stopped(member))
    assert (begun.resources, begun.lost, begun.failed, begun.rolled_back) == ({GPUS: 2}, False, False, 1)
    assert begun.origin is not None and begun.origin.step == 2
    assert begun.reason == (
        "the scheduler gives it other resources: because; the trial will continue from step 2, and report 1 "
        "result again"
    )
    member.start()
    assert given(member) == {GPUS: 2}
    resize(member, **{CPUS: 8})
    assert due(stopped(member)).resources == {GPUS: 2, CPUS: 8}
    assert refold(member.life.log) == member.life.state


def test_a_save_is_asked_for_only_if_results_are_not_covered() -> None:
    (member,) = running()
    member.report(0.1)
    member.save(1)
    resize(member, **{GPUS: 2})
    assert not saves_first(member.life.state, member.trial)
    stopped(member)
    member.start()
    member.report(0.2)
    resize(member, **{GPUS: 3})
    assert saves_first(member.life.state, member.trial)


def test_a_trial_that_waits_gets_them_at_once() -> None:
    life = running(1, max_trial_number=2)[0].life
    life.take(life.suggestion())
    waiting = life.state.trials[life.trial(1)]
    decision = f.Decided(
        trial_id=waiting.id, kind=K.RESIZE, cause=life.state.number, reason="because", resources={CPUS: 3}
    )
    facts = life.take(*recorded_as(life.state, decision))
    assert (due(facts).resources, due(facts).attempt) == ({CPUS: 3}, 2)
    assert waiting.resources == {CPUS: 3}


def test_a_paused_trial_gets_them_when_it_continues() -> None:
    (member,) = running()
    member.save(1)
    decide(member, K.PAUSE)
    stopped(member)
    resize(member, **{CPUS: 2})
    assert member.trial.status is S.PAUSED
    assert due(decide(member, K.CONTINUE)).resources == {CPUS: 2}


def test_they_come_with_the_next_leg() -> None:
    donor, heir = running(2)
    donor.save(1)
    heir.save(1)
    exploit(heir, donor)
    resize(heir, **{CPUS: 2})
    begun = due(stopped(heir))
    assert (begun.leg, begun.resources) == (1, {CPUS: 2})
    assert refold(heir.life.log) == heir.life.state


def test_a_leg_that_is_decided_after_them_begins_at_once() -> None:
    donor, heir = running(2)
    donor.save(1)
    heir.save(1)
    resize(heir, **{CPUS: 2})
    exploit(heir, donor)
    begun = due(stopped(heir))
    assert (begun.leg, begun.resources) == (1, {CPUS: 2})
    assert refold(heir.life.log) == heir.life.state


def test_an_attempt_that_is_lost_or_fails_meanwhile_counts_as_usual() -> None:
    (member,) = running(max_failed_attempts=1)
    member.save(1)
    resize(member, **{CPUS: 2})
    begun = due(member.lose())
    assert (begun.lost, begun.resources) == (True, {CPUS: 2})
    member.start()
    member.save(2)
    resize(member, **{CPUS: 4})
    begun = due(member.end(1))
    assert (begun.failed, begun.resources, member.trial.target) == (True, {CPUS: 4}, None)


def test_a_trial_that_succeeds_meanwhile_has_succeeded() -> None:
    (member,) = running()
    member.save(1)
    resize(member, **{CPUS: 2})
    member.end(0)
    assert member.life.ended()[member.id][0] is S.SUCCEEDED


def test_a_stop_by_a_user_comes_first() -> None:
    (member,) = running()
    member.save(1)
    resize(member, **{CPUS: 2})
    member.life.take(f.StopRequested(trial_id=member.id))
    stopped(member)
    assert member.life.ended()[member.id][0] is S.USER_CANCELED


def test_if_no_machine_has_as_much_the_trial_continues_with_what_it_had() -> None:
    (member,) = running()
    member.save(1)
    resize(member, **{CPUS: 2})
    stopped(member)
    member.start()
    resize(member, **{CPUS: 64})
    stopped(member)
    member.attempt = member.trial.attempt
    why = "The trial asks for 64 CPUs, but this machine has 2."
    facts = member.life.end(0, None, attempt=member.attempt, reason=f.EndReason.NEVER_STARTED, message=why)
    assert refusal(facts) == why
    assert due(facts).resources == {CPUS: 2}
    assert "the others are not possible: The trial asks for 64 CPUs" in due(facts).reason
    member.start()
    assert given(member) == {CPUS: 2}
    assert refold(member.life.log) == member.life.state


@pytest.mark.parametrize("name", ["trialMemorySize", "gpus"])
def test_resources_that_cannot_be_changed_are_refused(name: str) -> None:
    (member,) = running()
    member.save(1)
    assert refusal(resize(member, **{name: 2})) == (
        f"{name} cannot be changed for single trials: the configuration does not give it as a plain number, "
        "or the training service gives all trials the same"
    )


def test_a_trial_that_has_saved_nothing_refuses() -> None:
    (member,) = running()
    assert refusal(resize(member, **{CPUS: 2})) == (
        "the trial has saved no checkpoint, from which it could continue with other resources"
    )


def test_a_stopped_experiment_keeps_the_decision() -> None:
    (member,) = running()
    member.save(1)
    resize(member, **{CPUS: 2})
    member.life.take(f.ExperimentStopRequested())
    stopped(member)
    assert member.trial.status is S.PAUSED
    facts = member.life.take(f.ExperimentOpened(m_epoch=2, resumed=True))
    assert due(facts).resources == {CPUS: 2}

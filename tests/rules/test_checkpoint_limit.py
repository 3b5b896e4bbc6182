"""Experiments whose checkpoints hold more bytes than their limit. Each checkpoint has 10 bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nnimgr.core.running import new_trials, requests
from nnimgr.core.running.notices import notices_of
from nnimgr.core.running.requests import RequestRefused
from nnimgr.rules import facts as f
from tests.rules.driver import Life, refold
from tests.rules.saving import Saving
from tests.rules.test_kept_checkpoints import RECREATED
from tests.rules.test_pins import pin

Pruned = list[tuple[str, int, tuple[int, ...]]]


def pruned(facts: list[f.Fact]) -> Pruned:
    found = [fact for fact in facts if isinstance(fact, f.CheckpointsPruned)]
    return [(fact.job_id, fact.up_to, fact.keep) for fact in found]


def trials(count: int, **limits: Any) -> list[Saving]:
    """Return trials of one experiment that have saved two checkpoints each."""
    life = Life(**{"trial_concurrency": count, "max_trial_number": count + 2, **limits})
    found = [Saving(life=life, sequence=sequence) for sequence in range(count)]
    for saving in found:
        saving.save(1)
        saving.save(2)
    return found


def test_without_a_limit_nothing_is_counted() -> None:
    (saving,) = trials(1)
    saving.end(0)
    assert (saving.life.state.held, saving.life.state.left) == (0, {})


def test_the_checkpoints_of_the_trial_that_ended_first_are_deleted_first() -> None:
    first, second, third = trials(3, checkpoints_limit=60)
    assert first.life.state.held == 60
    jobs = second.job_id, first.job_id
    assert pruned(second.end(0)) == pruned(first.end(0)) == []
    assert pruned(third.save(3)) == [(third.job_id, 1, ())]  # it has two checkpoints, as before
    other = Saving(life=first.life, sequence=3)
    assert pruned(other.save(1)) == [(jobs[0], 1, ())]
    assert pruned(other.save(2)) == [(jobs[0], 2, ())]
    another = Saving(life=first.life, sequence=4)
    assert pruned([*another.save(1), *another.save(2)]) == [(jobs[1], 1, ()), (jobs[1], 2, ())]
    assert first.life.state.held == 60 and not first.life.state.left
    assert refold(first.life.log) == first.life.state


def test_pinned_checkpoints_stay_and_a_notice_says_so() -> None:
    first, second = trials(2, checkpoints_limit=20)
    assert (
        "hold 40 bytes, more than checkpoints.limit (20 bytes)"
        in notices_of(first.life.state)["checkpoints"].sentence
    )
    pin(first, 1)
    job_id, trial_id = first.job_id, first.id
    assert pruned(first.end(0)) == [(job_id, 2, (1,))]
    assert first.life.state.held == 30 and "checkpoints" in notices_of(first.life.state)
    request = requests.pin_checkpoint(trial_id, 1, 1, pinned=False, saved=None)
    assert pruned(first.life.take(*request(first.life.state))) == [(job_id, 1, ())]
    assert "checkpoints" not in notices_of(first.life.state)
    assert second.trial.held == 20
    assert refold(first.life.log) == first.life.state


def test_a_checkpoint_from_which_a_fork_continues_stays() -> None:
    first, second = trials(2, checkpoints_limit=40)
    origin = replace(first.trial.checkpoints[0].origin, trial_id=first.id, position=0)
    job_id = first.job_id
    first.life.take(*new_trials.TrialAddition({"x": 1}, outstanding=0, origin=origin)(first.life.state))
    first.end(0)
    third = Saving(life=first.life, sequence=2)
    assert pruned(third.save(1)) == [(job_id, 1, ())]  # it now has a checkpoint of its own
    assert second.trial.held == 20


def test_a_deleted_checkpoint_can_neither_be_forked_nor_pinned() -> None:
    first, second = trials(2, checkpoints_limit=20)
    origin = replace(first.trial.checkpoints[0].origin, trial_id=first.id, position=0)
    trial_id = first.id
    first.end(0)
    state = second.life.state
    with pytest.raises(RequestRefused, match="was deleted, or its host has left"):
        new_trials.TrialAddition({"x": 1}, outstanding=0, origin=origin)(state)
    with pytest.raises(RequestRefused, match="has no checkpoint 1 of attempt 1 any more"):
        requests.pin_checkpoint(trial_id, 1, 1, pinned=True, saved=origin)(state)


def test_what_is_only_on_a_machine_that_leaves_is_not_forked() -> None:
    first, second = trials(2)
    origin = replace(first.trial.checkpoints[0].origin, trial_id=first.id, position=0)
    first.end(0)
    life = second.life
    fork = new_trials.TrialAddition({"x": 1}, outstanding=0, origin=origin)
    assert fork(life.state)
    life.take(f.MachineDrained(keeper_id="local"))
    with pytest.raises(
        RequestRefused, match="is only on local, which takes no more trials; to let it take tr"
    ):
        fork(life.state)
    life.take(f.MachineRemoved(keeper_id="local", force=True))
    life.take(f.MachineGone(keeper_id="local", returns=False))
    with pytest.raises(RequestRefused, match="cannot be used any more"):
        fork(life.state)


def test_files_that_a_host_has_lost_do_not_count() -> None:
    first, second = trials(2, checkpoints_limit=40)
    first.end(0)
    assert first.life.state.held == 40
    first.life.take(RECREATED)
    assert (first.life.state.held, second.trial.held, first.life.state.left) == (0, 0, {})
    assert refold(first.life.log) == first.life.state


def test_a_pinned_checkpoint_counts_again_when_its_machine_is_used_again() -> None:
    (saving,) = trials(1, checkpoints_limit=40)
    pin(saving, 1)
    saving.life.wait_reason = "waits for a machine"
    saving.life.take(f.MachineRemoved(keeper_id="local", force=True))
    saving.lose()
    saving.life.take(f.MachineGone(keeper_id="local"))
    assert (saving.trial.checkpoints, saving.life.state.held) == ([], 0)
    saving.life.take(f.MachineAdded(keeper_id="local"))
    assert saving.life.state.held == 10
    assert refold(saving.life.log) == saving.life.state

"""Lives of trials whose checkpoints users pin."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnimgr.core.running import requests
from nnimgr.core.running.requests import RequestRefused
from nnimgr.rules import facts as f
from nnimgr.rules.checkpoints import known_copies
from tests.rules.driver import refold
from tests.rules.saving import Saving
from tests.rules.test_kept_checkpoints import pruned, steps


def pin(
    saving: Saving, number: int, *, attempt: int = 1, pinned: bool = True, saved: f.Origin | None = None
) -> list[f.Fact]:
    request = requests.pin_checkpoint(saving.id, attempt, number, pinned=pinned, saved=saved)
    return saving.life.take(*request(saving.life.state))


def test_a_pinned_checkpoint_stays_until_its_pin_is_taken_back() -> None:
    saving = Saving(checkpoints_kept=1)
    saving.save(1)
    pin(saving, 1)
    saving.save(2)
    assert pruned(saving.save(3)) == [("local", 2, (1,))]
    assert steps(saving) == [1, 3]
    assert pruned(pin(saving, 1, pinned=False)) == [("local", 1, ())]
    assert steps(saving) == [3]
    assert not saving.life.state.pins
    assert refold(saving.life.log) == saving.life.state


def test_a_repeated_request_changes_nothing() -> None:
    saving = Saving()
    saving.save(1)
    assert pin(saving, 1)
    assert pin(saving, 1) == []
    assert pin(saving, 1, pinned=False)
    assert pin(saving, 1, pinned=False) == []


def test_a_pinned_checkpoint_stays_when_its_trial_goes_back() -> None:
    saving = Saving()
    saving.save(1)
    saving.save(2)
    saving.keep(2)
    pin(saving, 2)
    lost = f.CheckpointLost(job_id=saving.job_id, number=2, reason="a file is missing")
    first = saving.job_id
    saving.life.wait_reason = "its machine is busy"
    saving.lose()
    saving.life.take(lost, replace(lost, keeper_id="local"))
    assert steps(saving) == [1]
    assert saving.life.state.pins[saving.id][0].kept is None
    saving.start()
    saving.save(3)
    assert first != saving.job_id
    assert pruned(pin(saving, 2, pinned=False)) == [("local", 2, (1,))]
    assert refold(saving.life.log) == saving.life.state


def test_the_copy_of_a_pinned_checkpoint_stays_after_the_end_of_its_trial() -> None:
    saving = Saving()
    saving.save(1)
    saving.keep(1)
    pin(saving, 1)
    trial_id, job_id = saving.id, saving.job_id
    assert pruned(saving.end(0)) == []
    assert known_copies(saving.life.state) == {(job_id, 1)}
    request = requests.pin_checkpoint(trial_id, 1, 1, pinned=False, saved=None)
    assert pruned(saving.life.take(*request(saving.life.state))) == [(None, 1, ())]
    assert known_copies(saving.life.state) == set()
    assert refold(saving.life.log) == saving.life.state


def test_a_checkpoint_of_an_ended_trial_is_pinned_by_its_record_in_the_database() -> None:
    saving = Saving(max_trial_number=2)
    saving.save(1)
    saved = replace(saving.trial.checkpoints[0].origin, trial_id=saving.id)
    saving.end(0)
    (fact, *_) = pin(saving, 1, saved=saved)
    assert isinstance(fact, f.CheckpointPinned) and fact.origin == replace(saved, trial_id=None)
    assert refold(saving.life.log) == saving.life.state


@pytest.mark.parametrize("ended", [False, True])
def test_a_deleted_checkpoint_cannot_be_pinned(ended: bool) -> None:
    saving = Saving(checkpoints_kept=1, max_trial_number=2)
    saving.save(1)
    saving.save(2)
    if ended:
        saving.end(0)
    with pytest.raises(RequestRefused, match="has no checkpoint 1 of attempt 1 any more"):
        pin(saving, 1)

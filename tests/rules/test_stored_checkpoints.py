"""Lives of trials whose checkpoints are put into a storage, which always has one of a trial."""

from __future__ import annotations

from nnimgr.rules import facts as f
from tests.rules.driver import refold
from tests.rules.saving import Saving
from tests.rules.test_kept_checkpoints import pruned, steps
from tests.rules.test_pins import pin


def store(saving: Saving, number: int) -> list[f.Fact]:
    return saving.life.take(f.CheckpointStored(job_id=saving.job_id, number=number))


def copies(saving: Saving) -> list[int]:
    return saving.life.state.copies.get(saving.job_id, [])


def test_the_first_copy_stays_until_it_is_stored() -> None:
    saving = Saving(checkpoints_kept=1, stores_copies=True)
    for step in (1, 2, 3):
        saving.save(step)
        saving.keep(step)
    assert copies(saving) == [1, 3] and steps(saving) == [1, 3]
    saving.save(4)
    saving.keep(4)
    assert copies(saving) == [1, 4]
    assert pruned(store(saving, 1)) == []
    assert copies(saving) == [1, 4]
    assert refold(saving.life.log) == saving.life.state


def test_the_newest_stored_copy_stays_until_a_newer_one_is_stored() -> None:
    saving = Saving(checkpoints_kept=1, stores_copies=True)
    saving.save(1)
    saving.keep(1)
    store(saving, 1)
    for step in (2, 3, 4):
        saving.save(step)
        saving.keep(step)
    assert copies(saving) == [1, 2, 4]  # stored, stored next, newest
    assert pruned(store(saving, 2)) == [("local", 1, ())]
    assert copies(saving) == [2, 4] and saving.life.state.stored == {saving.job_id: [2]}
    assert pruned(store(saving, 4)) == [("local", 2, ())]
    assert refold(saving.life.log) == saving.life.state


def test_without_a_storage_only_the_newest_copy_stays() -> None:
    saving = Saving(checkpoints_kept=1)
    for step in (1, 2):
        saving.save(step)
        saving.keep(step)
    assert copies(saving) == [2]


def test_only_copies_can_be_stored_and_each_is_recorded_once() -> None:
    saving = Saving(stores_copies=True)
    saving.save(1)
    assert store(saving, 1) == []
    saving.keep(1)
    assert [type(fact) for fact in store(saving, 1)] == [f.CheckpointStored]
    assert store(saving, 1) == []


def test_a_lost_copy_is_not_stored_any_more() -> None:
    saving = Saving(stores_copies=True)
    saving.save(1)
    saving.keep(1)
    store(saving, 1)
    saving.life.take(f.CheckpointLost(job_id=saving.job_id, number=1, reason="it is damaged"))
    assert saving.life.state.stored == {} and copies(saving) == []
    saving.keep(1)
    assert [type(fact) for fact in store(saving, 1)] == [f.CheckpointStored]


def test_a_pinned_copy_of_an_ended_trial_is_stored() -> None:
    saving = Saving(stores_copies=True, max_trial_number=2)
    saving.save(1)
    saving.keep(1)
    pin(saving, 1)
    saving.end()
    assert copies(saving) == [1]
    assert [type(fact) for fact in store(saving, 1)] == [f.CheckpointStored]
    assert store(saving, 1) == []
    assert refold(saving.life.log) == saving.life.state


def test_nothing_of_an_ended_trial_stays_stored() -> None:
    saving = Saving(stores_copies=True, max_trial_number=2)
    saving.save(1)
    saving.keep(1)
    store(saving, 1)
    assert (None, 1, ()) in pruned(saving.end())
    assert saving.life.state.stored == {} and copies(saving) == []

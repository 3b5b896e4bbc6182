"""Lives of trials whose checkpoints are copied to the server."""

from __future__ import annotations

import pytest

from nnimgr.rules import facts as f
from nnimgr.rules.checkpoints import copy_comes, known_copies, to_keep
from tests.rules.driver import refold
from tests.rules.saving import Saving
from tests.rules.test_checkpoints import due

SILENT = f.KeeperSilent(keeper_id="local", reason="no call for 30 s")
RECREATED = f.KeeperBound(keeper_id="local", instance="i2", boot_id="b1")


def wanted(saving: Saving) -> int | None:
    """Return the number of the checkpoint that is to be copied."""
    found = to_keep(saving.life.state, saving.trial)
    return None if found is None else found.number


def steps(saving: Saving) -> list[int | None]:
    return [each.origin.step for each in saving.trial.checkpoints]


def pruned(facts: list[f.Fact]) -> list[tuple[str | None, int, tuple[int, ...]]]:
    found = [fact for fact in facts if isinstance(fact, f.CheckpointsPruned)]
    return [(fact.keeper_id, fact.up_to, fact.keep) for fact in found]


def test_the_newest_checkpoint_is_to_be_copied() -> None:
    saving = Saving()
    assert wanted(saving) is None
    saving.save(1)
    saving.save(2)
    assert wanted(saving) == 2
    saving.keep(2)
    assert wanted(saving) is None
    assert known_copies(saving.life.state) == {(saving.job_id, 2)}
    saving.save(3)
    assert wanted(saving) == 3
    assert refold(saving.life.log) == saving.life.state


def test_nothing_is_copied_if_the_configuration_says_so() -> None:
    saving = Saving(keeps_copies=False)
    saving.save(1)
    assert wanted(saving) is None


def test_the_checkpoint_that_is_being_copied_and_the_newest_copy_stay() -> None:
    saving = Saving(checkpoints_kept=1)
    saving.save(1)
    saving.life.take(f.CheckpointKeepBegun(job_id=saving.job_id, number=1))
    assert pruned([*saving.save(2), *saving.save(3)]) == [("local", 2, (1,))]
    assert steps(saving) == [1, 3]
    saving.keep(1)
    assert pruned(saving.save(4)) == [("local", 3, (1,))]
    assert steps(saving) == [1, 4]
    assert pruned(saving.keep(4)) == [("local", 1, ())]
    assert steps(saving) == [4]
    assert refold(saving.life.log) == saving.life.state


def test_an_order_replaced_by_a_newer_one_protects_nothing_any_more() -> None:
    saving = Saving(checkpoints_kept=1)
    saving.save(1)
    saving.life.take(f.CheckpointKeepBegun(job_id=saving.job_id, number=1))
    saving.save(2)
    facts = saving.life.take(f.CheckpointKeepBegun(job_id=saving.job_id, number=2))
    assert pruned(facts) == [("local", 1, ())]


@pytest.mark.parametrize("kept", [False, True])
def test_the_next_attempt_knows_whether_a_copy_comes(kept: bool) -> None:
    for keeps_copies in (True, False):
        saving = Saving(keeps_copies=keeps_copies)
        assert not copy_comes(saving.life.state, saving.trial)
        saving.save(1)
        if kept:
            saving.keep(1)
        assert due(saving.lose()).origin is not None
        assert copy_comes(saving.life.state, saving.trial) is (keeps_copies and not kept)


def test_a_lost_host_leaves_the_newest_copy() -> None:
    saving = Saving()
    saving.save(1)
    saving.keep(1)
    saving.save(2)
    saving.life.take(RECREATED)
    again = due(saving.lose())
    assert again.origin is not None and again.origin.step == 1


def test_a_silent_host_is_not_awaited_if_there_is_a_copy() -> None:
    saving = Saving()
    saving.save(1)
    saving.keep(1)
    saving.save(2)
    saving.pause()
    saving.end(None, f.EndReason.STOPPED)
    saving.life.take(SILENT)
    again = due(saving.resume())
    assert again.origin is not None and again.origin.step == 1


def test_a_silent_host_is_awaited_if_there_is_nothing_else() -> None:
    saving = Saving()
    saving.save(1)
    saving.pause()
    saving.end(None, f.EndReason.STOPPED)
    saving.life.take(SILENT)
    again = due(saving.resume())
    assert again.origin is not None and again.origin.step == 1


@pytest.mark.parametrize("keeper_id", ["local", None])
def test_a_checkpoint_stays_usable_while_one_of_its_two_places_has_it(keeper_id: str | None) -> None:
    saving = Saving()
    saving.save(1)
    saving.save(2)
    saving.keep(2)
    lost = f.CheckpointLost(job_id=saving.job_id, number=2, reason="a file is missing", keeper_id=keeper_id)
    saving.life.take(lost)
    assert steps(saving) == [1, 2]
    assert saving.trial.note == "checkpoint 2 of attempt 1 is lost: a file is missing"
    other = None if keeper_id else "local"
    saving.life.take(f.CheckpointLost(job_id=saving.job_id, number=2, reason="gone", keeper_id=other))
    assert steps(saving) == [1]
    again = due(saving.lose())
    assert again.origin is not None and again.origin.step == 1


def test_a_damaged_copy_at_the_start_leaves_the_files_of_another_host() -> None:
    saving = Saving()
    saving.save(1)
    saving.keep(1)
    first = saving.job_id
    saving.lose()
    saving.start()
    saving.life.take(f.CheckpointLost(job_id=first, number=1, reason="its hash is wrong"))
    elsewhere = saving.life.state.jobs[saving.job_id].placed
    assert elsewhere is not None
    # The driver places all jobs on one host, which has the files: so they count as missing there, too.
    again = due(saving.life.end(0, None, attempt=2, reason=f.EndReason.CHECKPOINT_LOST))
    assert again.origin is None
    assert again.reason.endswith("; no other checkpoint is left: the trial will start from the beginning")


def test_a_waiting_attempt_takes_another_checkpoint_if_its_own_is_lost() -> None:
    saving = Saving()
    saving.save(1)
    saving.keep(1)
    saving.save(2)
    saving.life.wait_reason = "its machine is busy"
    first = saving.job_id
    assert due(saving.lose()).origin == saving.trial.checkpoints[-1].origin
    lost = f.CheckpointLost(job_id=first, number=2, reason="nothing could be copied", keeper_id="local")
    again = due(saving.life.take(lost))
    assert again.origin is not None and again.origin.step == 1


def test_a_drained_machine_keeps_its_checkpoint_for_the_copy() -> None:
    saving = Saving()
    saving.save(1)
    saving.life.wait_reason = "its machine is busy"
    saving.lose()
    saving.life.take(f.MachineDrained(keeper_id="local"))
    assert saving.trial.origin is not None and wanted(saving) == 1


def test_a_silent_machine_that_is_removed_by_force_is_not_awaited() -> None:
    saving = Saving()
    saving.save(1)
    saving.life.wait_reason = "its machine is busy"
    saving.lose()
    forced = f.MachineRemoved(keeper_id="local", force=True)
    assert due([*saving.life.take(SILENT), *saving.life.take(forced)]).origin is None


def test_a_host_that_has_ended_leaves_only_copies() -> None:
    saving = Saving()
    saving.save(1)
    saving.keep(1)
    saving.save(2)
    saving.life.take(f.HostVanished(keeper_id="local", reason="the pod was deleted"))
    again = due(saving.lose())
    assert again.origin is not None and again.origin.step == 1


def test_a_trial_that_waits_for_the_copy_from_a_host_that_has_ended_says_so() -> None:
    saving = Saving()
    saving.save(1)
    saving.life.wait_reason = "waits until the trial's checkpoint has been copied"
    saving.lose()
    assert saving.trial.origin is not None
    again = due(saving.life.take(f.HostVanished(keeper_id="local", reason="the pod was deleted")))
    assert again.reason == (
        "its checkpoint was only on local, which has ended; no host has a usable checkpoint of the trial any "
        "more: it will start from the beginning"
    )


def test_the_copies_of_an_ended_trial_are_deleted_after_their_fact() -> None:
    saving = Saving()
    saving.save(1)
    saving.keep(1)
    job_id = saving.job_id
    facts = saving.end(0)
    assert pruned(facts) == [(None, 1, ())]
    assert known_copies(saving.life.state) == set()
    assert saving.life.take(f.CheckpointKept(job_id=job_id, number=1, digest="d", size=1)) == []
    assert refold(saving.life.log) == saving.life.state

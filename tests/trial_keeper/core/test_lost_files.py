"""Tests of attempts whose claim, shim or journal misbehaves, with a host in memory."""

from __future__ import annotations

import pytest

from tests.trial_keeper.core.rig import Rig, start, stop
from trial_keeper.attempt.claim import Claim
from trial_keeper.core import recovery
from trial_keeper.core.records import Record
from trial_keeper.core.recovery import DurableState
from trial_keeper.core.stops import KILLS, OBEY_S


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.greet()
    return made


def running(rig: Rig, job: str = "a") -> Claim:
    rig.order(start(1, job))
    rig.claim(job)
    return rig.claims[job]


def test_a_shim_that_does_not_obey_its_stop_is_killed(rig: Rig) -> None:
    running(rig)
    rig.order(stop(2, "a", grace=5.0))
    rig.wait(5.0 + OBEY_S - 1.0)
    assert rig.killed == []
    rig.wait(1.5)
    assert rig.killed == ["a"]
    final = rig.core.attempts["a"].final
    assert final is not None and final["reason"] == "stopped"


def test_a_shim_that_survives_sigkill_is_waited_for_no_longer(rig: Rig) -> None:
    running(rig)
    rig.undead = True
    rig.order(stop(2, "a", grace=5.0))
    rig.wait(5.0 + OBEY_S + KILLS + 2.0)
    final = rig.core.attempts["a"].final
    assert final is not None and final["message"] is not None
    assert "did not end although it was killed" in final["message"]


def test_an_attempt_that_ends_after_its_stop_is_not_killed(rig: Rig) -> None:
    running(rig)
    rig.order(stop(2, "a", grace=5.0))
    rig.exit("a", None, signalled=True)
    rig.wait(60.0)
    assert rig.killed == []


def test_a_claim_of_another_boot_is_not_believed(rig: Rig) -> None:
    """The trial has replaced its claim file, and its shim still runs."""
    running(rig)
    rig.claims["a"] = Claim(1, "2", "elsewhere")
    rig.run(rig.core.notified(rig.now, "a"))
    assert rig.core.attempts["a"].final is None
    assert rig.spawned == ["a"]


def test_the_next_keeper_remembers_who_has_claimed(rig: Rig) -> None:
    claim = running(rig)
    del rig.claims["a"]
    rig.alive.discard(claim.pid or 0)
    rig.start()
    rig.wait(1.0)
    final = rig.core.attempts["a"].final
    assert final is not None and final["message"] is not None
    assert "the claim file was removed or overwritten" in final["message"]
    assert rig.spawned == ["a"]


def test_attempts_of_an_earlier_version_are_in_the_trials_folder() -> None:
    records: list[Record] = [
        {"k": "epoch", "k_epoch": 3},
        {"k": "start", "seq": 1, "job": "a", "start": {"directory": "trials/a", "boot_id": "boot-1"}},
    ]
    assert recovery.is_whole(records)
    found = DurableState(records)
    assert not found.attempts["a"].apart
    assert not DurableState(found.records()).attempts["a"].apart


def test_a_journal_that_was_cut_in_what_it_was_rewritten_with_is_not_whole(rig: Rig) -> None:
    running(rig)
    rewritten = DurableState(rig.journal).records()
    assert recovery.is_whole(rewritten)
    assert recovery.is_whole([*rewritten, {"k": "nop", "seq": 7}])
    assert not recovery.is_whole(rewritten[:-1])
    assert not recovery.is_whole([])


def test_a_host_where_nothing_can_be_prepared_says_so_until_it_can(rig: Rig) -> None:
    rig.order(start(1, "a"))
    rig.run(rig.core.shim_failed(rig.now, "a", "No space left on device"))
    assert rig.core.status == "the keeper cannot prepare any trial at present: No space left on device"
    rig.claim("a")
    assert rig.core.status is None

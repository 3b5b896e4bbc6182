"""Tests of stops that let a trial save its state, of starts from a checkpoint, and of deleted checkpoints."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trial_keeper.core.rig import JOB, Rig, final, running, start, stop
from trial_keeper import wire
from trial_keeper.core.effects import Channel, Prune
from trial_keeper.core.recovery import fold
from trial_keeper.core.stops import OBEY_S

SAVE_S = 30.0
ORIGIN = {"directory": "trials/a/1", "number": 3, "step": 5, "reports": 4}


@pytest.fixture
def asked(rig: Rig) -> Rig:
    """Return a host with a running attempt that was stopped, and whose trial was asked to save its state."""
    running(rig)
    rig.listening.add(JOB)
    rig.order(stop(2, JOB, 7.0, save=SAVE_S))
    assert rig.asked == [JOB] and rig.signalled == []
    return rig


# -- stops


def test_a_trial_that_looks_for_no_requests_is_stopped_at_once(rig: Rig) -> None:
    running(rig)
    rig.order(stop(2, JOB, 7.0, save=SAVE_S))
    assert (rig.asked, rig.signalled) == ([JOB], [(JOB, 7.0)])
    assert rig.journal[-1]["k"] == "stop" and rig.journal[-1]["save"] == SAVE_S
    rig.wait(SAVE_S + 1.0)
    assert rig.signalled == [(JOB, 7.0)]


def test_a_stop_without_time_to_save_asks_nobody(rig: Rig) -> None:
    running(rig)
    rig.listening.add(JOB)
    rig.order(stop(2, JOB, 7.0))
    assert (rig.asked, rig.signalled) == ([], [(JOB, 7.0)])


def test_a_trial_is_stopped_when_it_has_saved_its_state(asked: Rig) -> None:
    asked.wait(10.0)
    assert asked.signalled == []
    asked.save(JOB)
    asked.wait(0.1)
    assert asked.signalled == [(JOB, 7.0)]
    asked.wait(SAVE_S)
    assert (asked.asked, asked.signalled) == ([JOB], [(JOB, 7.0)])
    asked.exit(JOB, None, signalled=True)
    assert final(asked)["reason"] == "stopped"


def test_a_trial_is_stopped_when_the_time_to_save_has_elapsed(asked: Rig) -> None:
    asked.wait(SAVE_S - 0.1)
    assert asked.signalled == []
    asked.wait(0.2)
    assert asked.signalled == [(JOB, 7.0)]
    asked.wait(7.0 + OBEY_S - 1.0)
    assert asked.signalled == [(JOB, 7.0)] and asked.killed == []
    asked.wait(1.5)  # the shim has the whole grace after the signal
    assert asked.killed == [JOB]


def test_a_trial_that_exits_while_it_is_asked_has_exited(asked: Rig) -> None:
    asked.wait(1.0)
    asked.exit(JOB, 0)
    assert (final(asked)["reason"], final(asked)["code"]) == ("exited", 0)
    asked.wait(SAVE_S + 7.0 + OBEY_S)
    assert asked.signalled == [] and asked.killed == []


def test_a_restarted_keeper_asks_again_and_allows_the_whole_time(asked: Rig) -> None:
    asked.wait(SAVE_S - 5.0)
    asked.start()
    asked.greet()
    assert (asked.asked, asked.signalled) == ([JOB, JOB], [])
    asked.wait(SAVE_S - 0.1)
    assert asked.signalled == []
    asked.wait(0.2)
    assert asked.signalled == [(JOB, 7.0)]


def test_a_second_stop_changes_nothing(asked: Rig) -> None:
    asked.order(stop(3, JOB, 1.0), stop(4, JOB, 1.0, save=1.0))
    asked.wait(SAVE_S - 0.1)
    assert (asked.asked, asked.signalled) == ([JOB], [])
    asked.wait(0.2)
    assert asked.signalled == [(JOB, 7.0)]
    asked.start()
    assert asked.asked == [JOB, JOB] and asked.core.attempts[JOB].save == SAVE_S


def test_an_attempt_that_the_server_does_not_know_saves_nothing(asked: Rig) -> None:
    asked.answer(Channel.WAIT, kill=[JOB])
    assert asked.signalled == [(JOB, 7.0)]
    asked.save(JOB)
    asked.wait(1.0)
    assert asked.signalled == [(JOB, 7.0)]


def test_a_host_that_ends_leaves_no_time_to_save(asked: Rig) -> None:
    asked.shut_down(3.0)
    assert asked.signalled == [(JOB, 7.0)]
    asked.start()
    asked.greet()
    asked.wait(1.0)
    assert (asked.asked, asked.signalled) == ([JOB], [(JOB, 7.0)] * 2)
    asked.answer()
    asked.exit(JOB, None, signalled=True)
    assert final(asked)["reason"] == "stopped"


def test_a_stop_before_the_claim_asks_nobody(rig: Rig) -> None:
    rig.listening.add(JOB)
    rig.order(start(1, JOB), stop(2, JOB, save=SAVE_S))
    assert rig.asked == [] and final(rig)["reason"] == "never_started"


def test_a_shim_that_claims_after_the_stop_lets_its_trial_save(rig: Rig) -> None:
    """The keeper was killed after it had forked the shim, and its stop did not come first."""
    rig.unclaimable = True
    rig.listening.add(JOB)
    rig.order(start(1, JOB), stop(2, JOB, 7.0, save=SAVE_S))
    rig.claim(JOB)
    assert rig.asked == [JOB] and rig.signalled == []
    rig.save(JOB)
    rig.wait(0.1)
    assert rig.signalled == [(JOB, 7.0)]


# -- starts from a checkpoint


@pytest.fixture
def baseless(rig: Rig) -> Rig:
    """Return a host without the checkpoint from which the next attempt is to continue."""
    rig.baseless.add(JOB)
    return rig


def lost(rig: Rig) -> tuple[Any, ...]:
    end = final(rig)
    return end["reason"], end["message"], end["n"], end["code"]


LOST = (wire.CHECKPOINT_LOST, "checkpoint 3 is missing", 0, None)


def test_an_attempt_without_its_checkpoint_ends_before_its_command_starts(baseless: Rig) -> None:
    baseless.order(start(1, JOB, origin=ORIGIN))
    assert baseless.claims[JOB].pid is None  # no shim can start it any more
    assert lost(baseless) == LOST
    assert baseless.spawned == [JOB] and baseless.signalled == []
    baseless.answer(done=[JOB])
    assert baseless.core.attempts == {}


def test_a_stop_that_comes_first_stays_a_stop(rig: Rig) -> None:
    rig.order(start(1, JOB, origin=ORIGIN))
    rig.order(stop(2, JOB))
    rig.run(rig.core.origin_missing(rig.now, JOB, "checkpoint 3 is missing"))
    assert final(rig)["reason"] == "never_started"


def test_a_stop_that_comes_before_the_claim_stays_a_stop(baseless: Rig) -> None:
    baseless.unclaimable = True
    baseless.order(start(1, JOB, origin=ORIGIN))
    baseless.order(stop(2, JOB))
    baseless.unclaimable = False
    baseless.wait(1.5)
    assert final(baseless)["reason"] == "never_started"


def test_a_claim_that_cannot_be_written_is_tried_again(baseless: Rig) -> None:
    baseless.unclaimable = True
    baseless.order(start(1, JOB, origin=ORIGIN))
    baseless.wait(3.5)
    assert baseless.spawned == [JOB] and JOB not in baseless.claims
    baseless.unclaimable = False
    baseless.wait(1.5)
    assert lost(baseless) == LOST


def test_an_attempt_whose_shim_has_claimed_runs_although_its_checkpoint_is_gone_now(rig: Rig) -> None:
    running(rig)
    rig.run(rig.core.origin_missing(rig.now, JOB, "checkpoint 3 is missing"))
    rig.exit(JOB, 0)
    assert final(rig)["reason"] == "exited"


def test_a_keeper_that_is_restarted_before_the_claim_looks_for_the_checkpoint_again(rig: Rig) -> None:
    rig.order(start(1, JOB, origin=ORIGIN))
    rig.baseless.add(JOB)
    rig.start()
    rig.greet()
    assert rig.spawned == [JOB, JOB] and lost(rig) == LOST


@pytest.mark.parametrize("folded", [False, True])
def test_a_keeper_that_is_restarted_after_the_claim_knows_why(baseless: Rig, folded: bool) -> None:
    """Otherwise the end would be a start that failed, and the trial would fail with it."""
    baseless.order(start(1, JOB, origin=ORIGIN))
    kinds = [record["k"] for record in baseless.journal]
    del baseless.journal[kinds.index("final") :]
    baseless.journal = fold(baseless.journal) if folded else baseless.journal
    baseless.start()
    baseless.greet()
    assert lost(baseless) == LOST


# -- deleted checkpoints


def test_an_answer_orders_deletions(rig: Rig) -> None:
    rig.answer(Channel.WAIT, prunes=[["trials/a/1", 4, [2]], ["trials/b/1", 1, []]], prune=7)
    assert rig.pruned == [Prune("trials/a/1", 4, [2]), Prune("trials/b/1", 1, [], 7)]
    assert "pruned" not in rig.calls[Channel.WAIT].header
    rig.run(rig.core.pruned(rig.now, 7))
    rig.answer(Channel.WAIT)
    assert len(rig.pruned) == 2
    assert rig.calls[Channel.WAIT].header["pruned"] == 7

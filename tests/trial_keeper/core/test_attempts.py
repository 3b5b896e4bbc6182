"""Tests of the life of attempts: starts, ends, stops. They run in memory, on a simulated clock."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trial_keeper.core.rig import JOB, Rig, final, report, running, start, stop
from trial_keeper import wire
from trial_keeper.attempt.claim import Exit, damaged
from trial_keeper.core.attempts import RETRY_S
from trial_keeper.core.effects import Channel

OTHER = "e-b-1"


def test_a_start_is_written_before_it_is_spawned_and_acknowledged_when_flushed(rig: Rig) -> None:
    rig.order(start(1, JOB))
    assert rig.journal[-1]["k"] == "start" and rig.spawned == [JOB]
    assert (rig.call(Channel.WAIT)["seen_cmd"], rig.call(Channel.WAIT)["acked_cmd"]) == (1, 0)
    rig.flush()
    rig.answer(Channel.WAIT)
    assert rig.call(Channel.WAIT)["acked_cmd"] == 1


def test_commands_are_applied_in_order_once_and_without_a_gap(rig: Rig) -> None:
    rig.order(start(2, "e-b-1"))
    assert rig.spawned == []
    rig.order(start(1, JOB), start(2, "e-b-1"))
    rig.order(start(1, JOB), start(2, "e-b-1"), [3, "nop", "", {}])
    assert rig.spawned == [JOB, "e-b-1"]
    assert rig.call(Channel.WAIT)["seen_cmd"] == 3


def test_a_start_record_without_a_claim_spawns_again_after_a_restart(rig: Rig) -> None:
    rig.order(start(1, JOB))
    rig.start()
    assert rig.spawned == [JOB, JOB]


def test_a_start_record_of_another_boot_is_a_lost_host(rig: Rig) -> None:
    rig.order(start(1, JOB))
    rig.power_loss()
    rig.start()
    rig.greet()
    assert (final(rig)["reason"], final(rig)["n"]) == (wire.HOST_LOST, 0)
    assert rig.spawned == [JOB]


def test_a_start_for_another_boot_is_never_started(rig: Rig) -> None:
    rig.order(start(1, JOB, boot_id="boot-0"))
    assert final(rig)["reason"] == wire.HOST_LOST
    assert rig.spawned == []


def test_a_claim_of_another_boot_is_a_lost_host_with_what_it_wrote(rig: Rig) -> None:
    running(rig)
    rig.metrics[JOB] += b"ME000001a"
    rig.power_loss()
    rig.start()
    rig.greet()
    assert (final(rig)["reason"], final(rig)["n"], report(rig)[1]) == (wire.HOST_LOST, 1, [b"a"])


@pytest.mark.parametrize(("kept", "reason"), [(18, "exited"), (9, wire.HOST_LOST)])
def test_an_end_of_another_boot_counts_only_with_all_its_metrics(rig: Rig, kept: int, reason: str) -> None:
    running(rig)
    rig.metrics[JOB] += b"ME000001aME000001b"
    rig.claims[JOB].exit = None
    exited = rig.claims[JOB]
    rig.power_loss()
    exited.exit = Exit(0, None, 18, signalled=False, at=1.0)
    rig.metrics[JOB] = rig.metrics[JOB][:kept]
    rig.start()
    rig.greet()
    assert (final(rig)["reason"], final(rig)["n"]) == (reason, kept // 9)


@pytest.mark.parametrize(("acked", "reason"), [(2, "exited"), (1, wire.HOST_LOST)])
def test_a_sealed_file_that_has_shrunk(rig: Rig, acked: int, reason: str) -> None:
    running(rig)
    rig.metrics[JOB] += b"ME000001aME000001b"
    rig.exit(JOB)
    rig.power_loss()
    rig.metrics[JOB] = b""
    rig.start()
    rig.greet(acks={JOB: acked})
    assert final(rig)["reason"] == reason
    assert final(rig).get("cause") == (wire.INFRASTRUCTURE if reason == wire.HOST_LOST else None)


@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ({"code": 1}, None),
        ({"code": 137, "out_of_memory": True}, wire.OUT_OF_MEMORY),
        ({"code": None, "signalled": True}, wire.INFRASTRUCTURE),  # not by the keeper
        ({"code": 2, "unreached": True}, wire.INFRASTRUCTURE),
    ],
)
def test_an_exit_has_the_cause_that_only_the_keeper_knows(
    rig: Rig, how: dict[str, Any], cause: str | None
) -> None:
    running(rig)
    rig.exit(JOB, **how)
    assert (final(rig)["reason"], final(rig).get("cause")) == ("exited", cause)
    assert final(rig).get("unreached") == how.get("unreached")


def test_an_ordered_stop_has_no_cause(rig: Rig) -> None:
    running(rig)
    rig.order(stop(2, JOB))
    rig.exit(JOB, None, signalled=True)
    assert "cause" not in final(rig)


def test_a_stop_before_the_claim_aborts_it(rig: Rig) -> None:
    rig.order(start(1, JOB), stop(2, JOB))
    assert rig.claims[JOB].pid is None
    assert final(rig)["reason"] == "never_started"


def test_a_keeper_that_starts_again_aborts_at_once_what_was_to_be_aborted(rig: Rig) -> None:
    rig.unclaimable = True
    rig.order(start(1, JOB), stop(2, JOB))
    rig.unclaimable = False
    rig.start()
    assert rig.claims[JOB].pid is None, "a shim can still claim the attempt"


def test_a_delayed_abort_finds_the_shim_that_has_claimed_the_attempt_since(rig: Rig) -> None:
    rig.unclaimable = True
    rig.order(start(1, JOB), stop(2, JOB))
    rig.claim(JOB)
    assert rig.signalled == [(JOB, 5.0)]
    rig.claims[JOB] = damaged()  # by the trial, which uses its grace
    rig.marked[JOB] = [7]
    rig.wait(2 * RETRY_S)
    assert rig.marked == {JOB: [7]}, "its processes were killed before the grace was over"


@pytest.mark.parametrize(("kept", "reason"), [(1, wire.HOST_LOST), (2, "never_started")])
def test_an_aborted_claim_of_another_boot_counts_only_with_the_stop(rig: Rig, kept: int, reason: str) -> None:
    rig.order(start(1, JOB))
    rig.flush()
    records = [record["k"] for record in rig.journal]
    rig.order(stop(2, JOB))
    assert rig.claims[JOB].pid is None
    rig.power_loss(kept=records.index("start") + kept)
    rig.start()
    rig.greet()
    assert final(rig)["reason"] == reason


def test_a_stop_signals_first_and_is_journaled(rig: Rig) -> None:
    running(rig)
    rig.order(stop(2, JOB, 7.0))
    assert rig.signalled == [(JOB, 7.0)]
    assert rig.journal[-1]["k"] == "stop"
    rig.exit(JOB, None, signalled=True)
    assert final(rig)["reason"] == "stopped"


def test_a_second_stop_signals_nothing(rig: Rig) -> None:
    running(rig)
    rig.order(stop(2, JOB, 7.0))
    rig.order(stop(3, JOB, 7.0))
    assert rig.signalled == [(JOB, 7.0)] and rig.journal[-1]["seq"] == 3


def test_an_exit_before_the_stop_stays_an_exit(rig: Rig) -> None:
    running(rig)
    rig.claims[JOB].exit = None
    rig.order(stop(2, JOB))
    rig.exit(JOB, 0, signalled=False)
    assert final(rig)["reason"] == "exited"


def test_a_stop_is_repeated_after_a_restart(rig: Rig) -> None:
    running(rig)
    rig.order(stop(2, JOB, 7.0))
    rig.start()
    assert rig.signalled == [(JOB, 7.0)] * 2


def test_the_last_acknowledgement_follows_an_end_that_overtook_it(rig: Rig) -> None:
    running(rig)
    rig.order(stop(2, JOB))
    rig.exit(JOB, None, signalled=True)
    assert rig.call()["acked_cmd"] == 1
    rig.answer(done=[JOB])
    assert Channel.REPORT not in rig.calls
    rig.flush()
    assert rig.call()["acked_cmd"] == 2


def test_a_killed_shim_is_swept_until_two_looks_find_nothing(rig: Rig) -> None:
    running(rig)
    rig.metrics[JOB] += b"ME000001a"
    rig.marked[JOB] = [555]
    rig.kill_shim(JOB)
    assert Channel.REPORT not in rig.calls
    rig.wait(1)
    assert (final(rig)["reason"], final(rig)["code"], final(rig)["n"]) == ("exited", None, 1)
    assert "was killed" in str(final(rig)["message"])


def resident(rig: Rig, *, told: bool = True) -> None:
    """Let one shim run the attempt JOB to its end, and then the attempt OTHER.

    ``told``: the keeper hears of the end before it orders the other attempt.
    """
    running(rig)
    rig.order(start(2, OTHER))
    if told:
        rig.exit(JOB, stays=True)
    else:
        rig.claims[JOB].exit = Exit(0, None, 0, signalled=False, at=2000.0)
    rig.claim(OTHER, shim_of=JOB)


@pytest.mark.parametrize("told", [True, False])
def test_two_attempts_of_one_shim_end_one_after_the_other(rig: Rig, told: bool) -> None:
    resident(rig, told=told)
    rig.start()
    rig.greet()
    assert report(rig)[0]["final"] is not None
    rig.kill_shim(OTHER)
    rig.wait(1)
    rig.answer()
    assert final(rig, OTHER)["code"] is None and "was killed" in str(final(rig, OTHER)["message"])


def test_the_end_of_one_attempt_is_not_the_end_of_the_next_one_of_its_shim(rig: Rig) -> None:
    resident(rig)
    assert final(rig)["reason"] == "exited"
    rig.answer()
    rig.wait(60)
    assert rig.core.attempts[OTHER].live
    rig.exit(OTHER, stays=True)
    rig.answer()
    assert final(rig, OTHER)["code"] == 0


def test_a_note_of_a_claim_is_reported(rig: Rig) -> None:
    running(rig)
    rig.claims[JOB].note = "a thread runs on"
    rig.exit(JOB)
    assert report(rig)[0]["note"] == "a thread runs on"


def test_a_shim_that_cannot_prepare_is_tried_again_with_a_note(rig: Rig) -> None:
    rig.order(start(1, JOB))
    rig.run(rig.core.shim_failed(rig.now, JOB, "disk full"))
    assert rig.spawned == [JOB]
    assert "disk full" in str(report(rig)[0]["note"])
    rig.wait(0.6)
    assert rig.spawned == [JOB, JOB]
    rig.claim(JOB)
    rig.exit(JOB)
    rig.answer()
    assert final(rig)["reason"] == "exited"


def test_a_loser_of_the_claim_changes_nothing(rig: Rig) -> None:
    running(rig)
    rig.run(rig.core.shim_failed(rig.now, JOB, "it was killed"))
    rig.wait(60)
    assert rig.spawned == [JOB]


def test_a_full_disk_acknowledges_nothing_and_goes_on_by_itself(rig: Rig) -> None:
    rig.disk_full = True
    rig.order(start(1, JOB))
    assert rig.spawned == [] and "no space" in str(rig.call()["status"])
    rig.answer()
    calls = 0
    for _ in range(20):
        rig.wait(0.25)
        assert rig.spawned == []
        if Channel.WAIT in rig.calls:
            calls += 1
            assert rig.call(Channel.WAIT)["seen_cmd"] == 0
            rig.order(start(1, JOB))
    assert 4 <= calls <= 7  # the server answers at once, but must not be called all the time
    rig.disk_full = False
    rig.wait(1.1)
    assert rig.spawned == [JOB]
    rig.flush()
    assert rig.call()["status"] is None and rig.call()["acked_cmd"] == 1


def test_a_further_parameter_set_is_written_when_there_is_room(rig: Rig) -> None:
    running(rig)
    rig.order([2, "update", JOB, {"index": 1, "parameter": "{}"}])
    assert rig.updates == {(JOB, 1): "{}"}
    rig.updates.clear()
    rig.start()
    assert rig.updates == {(JOB, 1): "{}"}


def test_an_unknown_attempt_that_nobody_has_claimed_is_forgotten_at_once(rig: Rig) -> None:
    rig.order(start(1, "a"))
    rig.start()  # the next keeper looks for frames of all attempts in its journal
    rig.greet(kill=["a"])
    assert rig.claims["a"].pid is None and not rig.core.attempts
    rig.wait(5.0)
    assert rig.left is None


def test_an_unknown_attempt_is_stopped_and_forgotten(rig: Rig) -> None:
    running(rig)
    rig.answer(Channel.WAIT, kill=[JOB])
    rig.answer(Channel.WAIT, kill=[JOB])
    assert len(rig.signalled) == 1
    rig.exit(JOB, None, signalled=True)
    assert rig.core.attempts == {}


def test_a_stop_that_was_not_handed_over_is_tried_again_and_said_once(rig: Rig) -> None:
    running(rig)
    rig.unreachable = True
    rig.order(stop(2, JOB))
    assert "no space left on device" in str(report(rig)[0]["note"])
    rig.wait(3.5)
    assert rig.signalled == [] and len([line for line in rig.said if JOB in line]) == 1
    rig.unreachable = False
    rig.wait(1)
    assert rig.signalled == [(JOB, 5.0)]
    rig.wait(10)
    assert rig.signalled == [(JOB, 5.0)]


def test_a_stop_is_not_tried_again_on_an_attempt_that_has_ended(rig: Rig) -> None:
    running(rig)
    rig.unreachable = True
    rig.order(stop(2, JOB))
    rig.exit(JOB)
    rig.unreachable = False
    rig.wait(3)
    assert rig.signalled == []


def test_what_a_start_waits_for_is_said(rig: Rig) -> None:
    rig.order(start(1, JOB))
    rig.run(rig.core.delayed(rig.now, JOB, "python3 is slow"))
    assert report(rig)[0]["note"] == "python3 is slow"
    rig.answer()
    rig.run(rig.core.delayed(rig.now, JOB, "python3 is slow"))
    assert Channel.REPORT not in rig.calls
    rig.claim(JOB)
    rig.wait(1)
    assert report(rig)[0]["started"] is not None and report(rig)[0]["note"] is None

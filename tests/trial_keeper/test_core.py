"""The rules of the keeper's side, in memory and on a clock of the test's own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trial_keeper.rig import Rig, start, stop
from trial_keeper import wire
from trial_keeper.claim import Exit
from trial_keeper.effects import Channel, Send

JOB = "e-a-1"


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.greet()
    return made


def running(rig: Rig) -> None:
    """One attempt runs, and the server knows."""
    rig.order(start(1, JOB))
    rig.flush()
    rig.claim(JOB)
    rig.wait(1)
    rig.answer()


def report(rig: Rig) -> tuple[dict[str, object], list[bytes]]:
    """What the report in flight says of the attempt."""
    return rig.call()["attempts"][JOB], rig.calls[Channel.REPORT].payloads


def final(rig: Rig) -> dict[str, object]:
    found = report(rig)[0]["final"]
    assert isinstance(found, dict)
    return found


def test_the_first_call_lists_everything_and_comes_alone() -> None:
    rig = Rig()
    assert rig.call()["all"] and not rig.call()["wait"]
    assert Channel.WAIT not in rig.calls
    rig.greet()
    assert rig.call(Channel.WAIT)["wait"]
    assert Channel.REPORT not in rig.calls


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


def test_started_waits_for_company_but_not_for_long(rig: Rig) -> None:
    rig.order(start(1, JOB))
    rig.claim(JOB)
    assert Channel.REPORT not in rig.calls
    rig.wait(0.019)
    assert Channel.REPORT not in rig.calls
    rig.wait(0.002)
    assert report(rig)[0]["started"] == {"at": 1000.0, "pid": 10_100}


def test_started_goes_with_the_first_metric(rig: Rig) -> None:
    rig.order(start(1, JOB))
    rig.claim(JOB)
    rig.write(JOB, b"0.5\n")
    entry, payloads = report(rig)
    assert entry["started"] is not None and payloads == [b"0.5\n"]
    rig.answer(acks={JOB: 1})
    rig.write(JOB, b"0.6\n")
    assert report(rig)[0]["started"] is None


def test_what_happens_during_a_report_goes_into_the_next(rig: Rig) -> None:
    running(rig)
    rig.write(JOB, b"1")
    rig.write(JOB, b"2")
    rig.write(JOB, b"3")
    assert report(rig)[1] == [b"1"]
    rig.answer()
    assert (report(rig)[0]["from"], report(rig)[1]) == (1, [b"2", b"3"])


def test_the_end_comes_with_the_last_frame(rig: Rig) -> None:
    running(rig)
    rig.metrics[JOB] += b"ME000001a" + b"ME000001b"
    rig.exit(JOB, 3)
    entry, payloads = report(rig)
    assert payloads == [b"a", b"b"]
    assert (final(rig)["reason"], final(rig)["code"], final(rig)["n"]) == ("exited", 3, 2)
    assert entry["from"] == 0
    rig.answer(acks={JOB: 2}, done=[JOB])
    assert rig.core.attempts == {}
    rig.start()
    assert rig.call()["attempts"] == {}


def test_the_end_waits_for_frames_that_do_not_fit(rig: Rig) -> None:
    running(rig)
    rig.metrics[JOB] += b"ME000001x" * (wire.MAX_EVENTS + 1)
    rig.exit(JOB)
    assert len(report(rig)[1]) == wire.MAX_EVENTS and report(rig)[0]["final"] is None
    rig.answer()
    assert report(rig)[1] == [b"x"] and final(rig)["n"] == wire.MAX_EVENTS + 1


def test_a_report_holds_no_more_than_it_may(rig: Rig) -> None:
    running(rig)
    rig.write(JOB, *[b"y" * 400_000] * 5)
    sizes = []
    while Channel.REPORT in rig.calls:
        sizes.append(sum(map(len, report(rig)[1])))
        rig.answer()
    assert sizes == [800_000, 800_000, 400_000]


def test_a_large_frame_does_not_ride_on_anothers_room(rig: Rig) -> None:
    running(rig)
    rig.order(start(2, "e-b-1"))
    rig.claim("e-b-1")
    rig.write(JOB, b"wake")
    rig.metrics["e-b-1"] += b"ME900000" + b"z" * 900_000
    rig.metrics[JOB] += b"ME900000" + b"z" * 900_000
    rig.run(rig.core.grown(rig.now, JOB))
    rig.run(rig.core.grown(rig.now, "e-b-1"))
    rig.answer()
    sizes = []
    while Channel.REPORT in rig.calls:
        sizes.append(sum(map(len, rig.calls[Channel.REPORT].payloads)))
        rig.answer()
    assert sizes == [900_000, 900_000]


def test_a_failed_report_goes_again_after_a_pause(rig: Rig) -> None:
    running(rig)
    rig.write(JOB, b"1")
    rig.fail()
    assert Channel.REPORT not in rig.calls
    rig.wait(0.049)
    assert Channel.REPORT not in rig.calls
    rig.wait(0.1)
    assert (report(rig)[0]["from"], report(rig)[1]) == (0, [b"1"])


def test_pauses_double_to_a_second_and_a_new_address_ends_them(rig: Rig) -> None:
    running(rig)
    rig.write(JOB, b"1")
    pauses = []
    for _ in range(7):
        rig.fail()
        before = rig.now
        while Channel.REPORT not in rig.calls:
            due = rig.core.deadline(rig.now)
            assert due is not None
            rig.now = due
            rig.run(rig.core.tick(due))
        pauses.append(round(rig.now - before, 3))
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    rig.fail()
    rig.run(rig.core.manager_changed(rig.now))
    assert Channel.REPORT in rig.calls


def test_a_waiting_call_that_failed_alone_comes_again(rig: Rig) -> None:
    running(rig)
    rig.fail(Channel.WAIT)
    rig.wait(0.2)
    assert list(rig.calls) == [Channel.WAIT]


def test_both_calls_failing_is_one_failure(rig: Rig) -> None:
    running(rig)
    rig.write(JOB, b"1")
    rig.fail(Channel.WAIT)
    rig.fail(Channel.REPORT)
    rig.wait(0.06)
    assert set(rig.calls) == {Channel.WAIT, Channel.REPORT}


def test_rewind_sends_again_from_there(rig: Rig) -> None:
    running(rig)
    rig.write(JOB, b"1", b"2", b"3")
    rig.answer()
    rig.write(JOB, b"4")
    rig.answer(acks={JOB: 0}, rewind={JOB: 1})
    assert (report(rig)[0]["from"], report(rig)[1]) == (1, [b"2", b"3", b"4"])


def test_after_a_restart_the_answer_says_where_to_go_on(rig: Rig) -> None:
    running(rig)
    rig.write(JOB, b"1", b"2", b"3")
    rig.start()
    assert rig.call()["k_epoch"] == 2 and report(rig)[0]["from"] == 0
    assert report(rig)[1] == []
    rig.greet(acks={JOB: 2})
    assert (report(rig)[0]["from"], report(rig)[1]) == (2, [b"3"])
    assert rig.spawned == [JOB]


def test_an_overtaken_acknowledgement_rewinds_nothing(rig: Rig) -> None:
    running(rig)
    rig.write(JOB, b"1", b"2")
    rig.answer(acks={JOB: 2})
    rig.answer(Channel.WAIT, acks={JOB: 1})
    assert Channel.REPORT not in rig.calls


def test_a_new_server_says_anew_what_it_has(rig: Rig) -> None:
    running(rig)
    rig.write(JOB, b"1", b"2")
    rig.answer(acks={JOB: 1})
    rig.answer(Channel.WAIT, m_epoch=2)
    assert rig.call()["all"] and rig.call()["m_epoch_seen"] == 2
    rig.answer(m_epoch=2, acks={JOB: 1})
    assert (report(rig)[0]["from"], report(rig)[1]) == (1, [b"2"])


def test_an_older_server_and_a_foreign_database_are_not_obeyed(rig: Rig) -> None:
    rig.answer(Channel.WAIT, m_epoch=2)
    rig.answer(m_epoch=2)
    rig.answer(Channel.WAIT, m_epoch=1, cmds=[start(1, JOB)])
    rig.wait(1)
    rig.answer(Channel.WAIT, db_id="other", m_epoch=9, cmds=[start(1, JOB)])
    rig.wait(1)
    rig.answer(Channel.WAIT, instance="j", m_epoch=2, cmds=[start(1, JOB)])
    assert rig.spawned == []
    assert [sentence.split(":")[0] for sentence in rig.said] == ["sync failed"] * 3
    rig.start()
    assert rig.call()["m_epoch_seen"] == 2


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


def test_a_stop_before_the_claim_aborts_it(rig: Rig) -> None:
    rig.order(start(1, JOB), stop(2, JOB))
    assert rig.claims[JOB].pid is None
    assert final(rig)["reason"] == "never_started"


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
    assert rig.spawned == [] and "no space" in rig.call()["status"]
    rig.answer()
    calls = 0
    for _ in range(20):
        rig.wait(0.25)
        assert rig.spawned == []
        if Channel.WAIT in rig.calls:
            calls += 1
            assert rig.call(Channel.WAIT)["seen_cmd"] == 0
            rig.order(start(1, JOB))
    assert 4 <= calls <= 7  # the server answers at once, but is not asked all the time
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
    rig.start()  # the next keeper looks for frames of all that it holds
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


def test_an_end_that_is_not_done_is_said_again(rig: Rig) -> None:
    running(rig)
    rig.exit(JOB)
    rig.answer()
    assert Channel.REPORT not in rig.calls
    rig.wait(5.1)
    assert final(rig)["n"] == 0


def test_a_bad_header_ends_the_reading_with_a_note(rig: Rig) -> None:
    running(rig)
    rig.metrics[JOB] += b"ME000001aoops, no frame"
    rig.run(rig.core.grown(rig.now, JOB))
    assert report(rig)[1] == [b"a"] and "byte 9" in str(report(rig)[0]["note"])
    rig.answer()
    rig.exit(JOB)
    assert final(rig)["n"] == 1 and "byte 9" in str(report(rig)[0]["note"])


def test_a_metrics_file_that_the_trial_has_deleted_is_told_of(rig: Rig) -> None:
    running(rig)
    rig.metrics[JOB] = b"ME000001a"
    rig.run(rig.core.grown(rig.now, JOB))
    rig.answer()
    rig.metrics[JOB] = b""
    rig.exit(JOB)
    assert "was deleted or cut while it ran" in str(report(rig)[0]["note"])


def test_it_leaves_only_without_attempts(rig: Rig) -> None:
    running(rig)
    rig.answer(Channel.WAIT, leave=True)
    assert rig.left is None
    rig.exit(JOB)
    rig.answer(done=[JOB], leave=True)
    assert rig.left is not None


def test_it_leaves_after_ten_minutes_without_server_and_attempt(rig: Rig) -> None:
    calls: list[Send] = []
    rig.fail(Channel.WAIT)
    while rig.left is None and rig.now < 700:
        rig.wait(1)
        calls += rig.calls.values()
        for channel in list(rig.calls):
            rig.fail(channel)
    assert rig.left is not None and 599 <= rig.now <= 602
    assert len(calls) > 100


def test_it_stays_while_an_attempt_lives(rig: Rig) -> None:
    running(rig)
    rig.fail(Channel.WAIT)
    rig.wait(3600)
    assert rig.left is None


def test_where_all_goes_with_it_it_waits_longer_with_what_the_server_has_not_heard_of(rig: Rig) -> None:
    rig.unreported_s = 3600.0
    rig.start()
    rig.greet()
    running(rig)
    rig.fail(Channel.WAIT)
    ended_at = rig.now
    rig.exit(JOB, 0)
    while rig.left is None:
        for channel in list(rig.calls):
            rig.fail(channel)
        rig.wait(10)
    assert 3590 <= rig.now - ended_at <= 3620


def test_orphans_are_stopped_when_so_wanted_and_the_keeper_leaves(rig: Rig) -> None:
    rig.orphan_s = 3600.0
    rig.start()
    rig.greet()
    running(rig)
    rig.order(start(2, "exp-bbbb2-1"))
    rig.fail(Channel.WAIT)
    rig.wait(3590)
    assert rig.signalled == [] and rig.left is None
    rig.wait(20)
    assert rig.signalled == [(JOB, 10.0)]
    assert [record["orphaned"] for record in rig.journal if record["k"] == "stop"] == [True, True]
    rig.start()  # it was killed meanwhile: what it has begun goes on
    rig.exit(JOB, None, signalled=True)
    ends = [record["final"] for record in rig.journal if record["k"] == "final"]
    assert [end["reason"] for end in ends] == ["lease", "lease"]
    assert ends[1]["message"] == "its keeper had not heard from the server for too long"
    for channel in list(rig.calls):
        rig.fail(channel)
    rig.wait(700)
    assert rig.left is not None


def ends(rig: Rig) -> dict[str, tuple[str, str | None]]:
    finals = [record for record in rig.journal if record["k"] == "final"]
    return {each["job"]: (each["final"]["reason"], each["final"]["message"]) for each in finals}


def test_on_a_host_that_ends_everything_is_stopped_and_counts_as_lost(rig: Rig) -> None:
    running(rig)
    rig.order(start(2, "exp-stopped-1"), start(3, "exp-waiting-1"), start(4, "exp-over-1"))
    rig.claim("exp-stopped-1")
    rig.claim("exp-over-1")
    rig.order(stop(5, "exp-stopped-1", 30.0))
    rig.run(rig.core.host_ends(rig.now, 7.0))
    rig.run(rig.core.host_ends(rig.now, 1.0))  # nothing new
    assert rig.signalled == [("exp-stopped-1", 30.0), (JOB, 7.0), ("exp-over-1", 7.0)]
    rig.write(JOB, b"last")
    rig.exit(JOB, 0, signalled=True)
    rig.exit("exp-stopped-1", 0, signalled=True)
    rig.exit("exp-over-1", 4)  # by itself, just before
    why = "its pod was told to end"
    assert ends(rig) == {
        "exp-waiting-1": ("host_lost", why),
        JOB: ("host_lost", why),
        "exp-stopped-1": ("stopped", None),
        "exp-over-1": ("exited", None),
    }
    while rig.left is None:
        entries = rig.call()["attempts"]
        rig.answer(done=[job for job, entry in entries.items() if entry["final"] is not None])
    assert rig.left == "its host is about to end" and rig.core.attempts == {}


def test_what_is_to_start_on_a_host_that_ends_does_not(rig: Rig) -> None:
    running(rig)
    rig.run(rig.core.host_ends(rig.now, 7.0))
    rig.order(start(2, "e-b-1"))
    assert rig.spawned == [JOB]
    assert ends(rig) == {"e-b-1": ("host_lost", "its pod was told to end")}


def test_a_keeper_started_anew_on_a_host_that_ends_goes_on_with_that(rig: Rig) -> None:
    running(rig)
    rig.run(rig.core.host_ends(rig.now, 7.0))
    rig.order(start(2, "e-b-1"))
    rig.ending = 7.0
    rig.start()
    rig.greet()
    assert rig.signalled == [(JOB, 7.0), (JOB, 7.0)]
    rig.exit(JOB, None, signalled=True)
    assert [reason for reason, _ in ends(rig).values()] == ["host_lost", "host_lost"]


def test_a_host_that_ends_is_left_in_time_without_the_server(rig: Rig) -> None:
    running(rig)
    rig.run(rig.core.host_ends(rig.now, 7.0))
    rig.wait(6.0)
    rig.exit(JOB, None, signalled=True)
    ended_at = rig.now
    while rig.left is None:
        for channel in list(rig.calls):
            rig.fail(channel)
        rig.wait(0.5)
    assert 5.0 <= rig.now - ended_at <= 6.0
    assert "has not heard" in rig.left


def test_an_idle_host_that_ends_is_left_at_once(rig: Rig) -> None:
    rig.run(rig.core.host_ends(rig.now, 7.0))
    assert rig.left == "its host is about to end"


def test_two_attempts_share_a_report(rig: Rig) -> None:
    rig.order(start(1, JOB), start(2, "e-b-1"))
    rig.claim(JOB)
    rig.claim("e-b-1")
    rig.wait(1)
    rig.metrics[JOB] += b"ME000001a"
    rig.metrics["e-b-1"] += b"ME000001b"
    rig.run(rig.core.grown(rig.now, JOB))
    rig.run(rig.core.grown(rig.now, "e-b-1"))
    rig.answer()
    header, payloads = rig.call(), rig.calls[Channel.REPORT].payloads
    assert wire.decode_request(wire.encode_request(header, payloads))[1] == {JOB: [b"a"], "e-b-1": [b"b"]}


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


def test_a_replaced_keeper_ends_everything_and_leaves(rig: Rig) -> None:
    running(rig)
    rig.order(start(2, "e-b-1"))  # not claimed yet
    rig.fail(Channel.WAIT, "409", "instance")
    assert rig.signalled == [(JOB, 10.0)]
    assert rig.left is None
    rig.wait(5)
    assert rig.calls == {}
    rig.exit(JOB, None, signalled=True)
    assert rig.left is not None and rig.core.deadline(rig.now) is None


def test_a_replaced_keeper_obeys_no_late_answer(rig: Rig) -> None:
    running(rig)
    rig.write(JOB, b"1")
    rig.fail(Channel.REPORT, "409", "instance")
    rig.answer(Channel.WAIT, cmds=[start(2, "e-b-1")])
    assert rig.spawned == [JOB]


def test_a_repeated_refusal_is_said_once(rig: Rig) -> None:
    running(rig)
    rig.write(JOB, b"1")
    for _ in range(5):
        rig.fail(Channel.REPORT, "409 database", "database")
        rig.fail(Channel.WAIT, "nobody listens")
        rig.wait(2)
    assert rig.said == ["sync failed: 409 database", "sync failed: nobody listens"]
    assert rig.signalled == [] and rig.left is None


@pytest.mark.parametrize("forgetful", [{"m_epoch": 2}, {"all": True}], ids=["another", "it asks"])
def test_a_server_that_may_not_know_it_is_told_again_what_has_started(
    rig: Rig, forgetful: dict[str, Any]
) -> None:
    running(rig)
    rig.write(JOB, b"1")
    assert report(rig)[0]["started"] is None
    rig.answer(**forgetful)
    assert rig.call()["all"] and report(rig)[0]["started"] is not None
    rig.answer(m_epoch=forgetful.get("m_epoch", 1))
    rig.write(JOB, b"2")
    assert not rig.call()["all"]


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


READING = {"trouble": None, "gpus": [{"index": 0, "memory": 0, "processes": []}]}


def test_gpus_are_read_while_the_server_wants_them(rig: Rig) -> None:
    assert rig.surveys == []
    rig.answer(Channel.WAIT, gpu=True)
    assert rig.surveys == [True]
    assert "gpu" not in rig.call(Channel.WAIT)
    rig.run(rig.core.gpus_read(rig.now, READING))
    assert rig.call()["gpu"] == READING
    rig.answer(gpu=True)
    rig.answer(Channel.WAIT, gpu=True, cmds=[start(1, "x")])
    assert rig.surveys == [True]
    rig.claim("x")
    rig.wait(1)
    assert "gpu" not in rig.call()
    rig.answer(gpu=False)
    assert rig.surveys == [True, False]
    rig.run(rig.core.gpus_read(rig.now, READING))  # one that was under way
    assert Channel.REPORT not in rig.calls


@pytest.mark.parametrize("forgetful", [{"m_epoch": 2}, {"all": True}], ids=["another", "it asks"])
def test_a_reading_that_is_lost_goes_again_and_a_server_that_may_not_know_it_gets_it(
    rig: Rig, forgetful: dict[str, Any]
) -> None:
    rig.answer(Channel.WAIT, gpu=True)
    rig.run(rig.core.gpus_read(rig.now, READING))
    rig.fail()
    rig.wait(5)
    assert rig.call()["gpu"] == READING
    rig.answer(gpu=True, **forgetful)
    assert rig.call()["all"] and rig.call()["gpu"] == READING

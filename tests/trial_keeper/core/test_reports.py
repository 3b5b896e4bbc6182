"""Tests of the keeper's reports on attempts, and of when it reads metrics for them."""

from __future__ import annotations

from tests.trial_keeper.core.rig import JOB, Rig, final, report, running, start
from trial_keeper import wire
from trial_keeper.core.effects import Channel


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
    assert "was deleted or cut while the trial ran" in str(report(rig)[0]["note"])


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

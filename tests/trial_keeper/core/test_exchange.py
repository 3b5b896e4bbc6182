"""Tests of the keeper's calls: when they are made or repeated, and which answers count."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trial_keeper.core.rig import JOB, Rig, report, running, start
from trial_keeper import wire
from trial_keeper.core.effects import Channel


def test_the_first_call_lists_everything_and_comes_alone() -> None:
    rig = Rig()
    assert rig.call()["all"] and not rig.call()["wait"]
    assert Channel.WAIT not in rig.calls
    rig.greet()
    assert rig.call(Channel.WAIT)["wait"]
    assert Channel.REPORT not in rig.calls


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


READING: wire.GpuReading = {"trouble": None, "gpus": [{"index": 0, "memory": 0, "processes": []}]}


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
    rig.run(rig.core.gpus_read(rig.now, READING))  # a call that was in progress
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

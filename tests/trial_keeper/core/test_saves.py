"""Tests of orders to save: a trial is asked to save its state, and runs on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trial_keeper.core.rig import JOB, Rig, running, stop
from trial_keeper.core.recovery import fold

WITHIN_S = 30.0
ALONE = "so it saves only when its code does so anyway"


def save(seq: int, within: float = WITHIN_S) -> tuple[int, str, str, Any]:
    return seq, "save", JOB, {"within": within}


def note(rig: Rig) -> str | None:
    return rig.core.attempts[JOB].note


@pytest.fixture
def listening(rig: Rig) -> Rig:
    """Return a host with a running attempt whose trial looks for requests to save."""
    running(rig)
    rig.listening.add(JOB)
    return rig


def test_a_trial_is_asked_once_and_runs_on(listening: Rig) -> None:
    listening.order(save(2))
    assert (listening.asked, listening.signalled) == ([JOB], [])
    assert [record["k"] for record in listening.journal if record.get("seq") == 2] == ["save"]
    listening.save(JOB)
    listening.wait(WITHIN_S + 1.0)
    assert (listening.asked, listening.signalled, note(listening)) == ([JOB], [], None)
    assert listening.journal[-1]["k"] == "asked"


def test_a_missing_answer_is_reported(listening: Rig) -> None:
    listening.order(save(2))
    listening.wait(WITHIN_S - 1.0)
    assert note(listening) is None
    listening.wait(2.0)
    assert note(listening) == "the trial was asked to save its state, and has not done so within 30 s"
    assert listening.signalled == []


def test_a_trial_that_looks_for_no_requests_saves_by_itself_only(rig: Rig) -> None:
    running(rig)
    rig.order(save(2))
    assert ALONE in (note(rig) or "")
    rig.wait(WITHIN_S + 1.0)
    assert (rig.asked, rig.signalled) == ([JOB], [])


def test_a_restarted_keeper_asks_again_until_the_order_is_complete(listening: Rig) -> None:
    listening.order(save(2))
    assert any(record["k"] == "save" for record in fold(listening.journal))
    listening.start()
    listening.greet()
    assert listening.asked == [JOB, JOB]
    listening.save(JOB)
    listening.wait(WITHIN_S + 1.0)
    listening.start()
    listening.greet()
    assert listening.asked == [JOB, JOB]


def test_a_stop_takes_the_place_of_the_order(listening: Rig) -> None:
    listening.order(save(2))
    listening.order(stop(3, JOB, 7.0, save=10.0))
    assert (listening.asked, listening.signalled) == ([JOB, JOB], [])
    listening.save(JOB)
    listening.wait(WITHIN_S + 1.0)
    assert (listening.signalled, note(listening)) == ([(JOB, 7.0)], None)
    listening.order(save(4))
    assert listening.asked == [JOB, JOB]


def test_a_second_order_counts_from_its_own_time(listening: Rig) -> None:
    listening.order(save(2))
    listening.wait(20.0)
    listening.order(save(3))
    listening.wait(20.0)
    assert (listening.asked, note(listening)) == ([JOB, JOB], None)
    listening.wait(11.0)
    assert note(listening) is not None


def test_an_order_for_an_unknown_attempt_changes_nothing(rig: Rig) -> None:
    rig.order(save(1))
    assert rig.journal[-1]["k"] == "nop" and rig.asked == []

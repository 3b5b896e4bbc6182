"""The notice about trials that have ended without a result that the tuner can use."""

from __future__ import annotations

from nnimgr.core.running.notices import Notice, notices_of
from nnimgr.rules import facts as f
from tests.rules.driver import Life


def notice_after(ends: str) -> Notice | None:
    """Return the notice after trials with these ends: r (with a result), f (failed) and u (a user stopped
    it).
    """
    life = Life(trial_concurrency=1)
    for sequence, end in enumerate(ends):
        life.start(sequence)
        if end == "r":
            life.metric(sequence, 0, 0.5, "FINAL")
        if end == "u":
            life.take(f.StopRequested(trial_id=life.trial(sequence)))
        reason = f.EndReason.STOPPED if end == "u" else f.EndReason.EXITED
        life.end(sequence, code=int(end != "r"), reason=reason)
    return notices_of(life.state).get("results")


def test_no_trial_that_ended_has_a_result() -> None:
    assert notice_after("ffff") is None
    found = notice_after("ffffff")
    assert found is not None
    assert found.sentence.startswith("all 6 trials that ended have no result that the tuner can use; ")
    assert "; for example trial 0 (" in found.sentence
    earlier = notice_after("fffff")
    assert earlier is not None and earlier.subject == found.subject  # a client shows the notice only once


def test_trials_that_a_user_stopped_are_not_counted() -> None:
    found = notice_after("fufffff")
    assert found is not None
    assert found.sentence.startswith("all 6 trials that ended without being stopped have no result that ")


def test_only_the_last_trials_have_no_result() -> None:
    found, earlier = notice_after("frfffffff"), notice_after("frfffff")
    assert found is not None and earlier is not None
    assert found.sentence.startswith("the last 7 trials that ended have no result that the tuner can use; ")
    assert "; for example trial 2 (" in found.sentence
    assert earlier.subject == found.subject

"""Notices about results that the tuner or the assessor cannot use."""

from __future__ import annotations

from nnimgr.core.running.notices import Notice, notices_of
from nnimgr.dispatcher import messages as m
from nnimgr.rules import facts as f
from nnimgr.rules.state import trial_id_of
from tests.core.lab import Lab, until_status
from tests.rules.driver import Life
from training_services.fake import hold, started


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


async def test_results_that_the_assessor_ignores_are_told_for_the_whole_experiment(lab: Lab) -> None:
    lab.assessor = True
    lab.service.script(trial_id_of("exp", 0), [started(), hold()])
    async with lab.runner(trial_concurrency=1, max_trial_number=1) as runner:
        await until_status(runner, f.ExperimentStatus.DRAINING)
        (assessor,) = [child for child in lab.children if child.start_message.role == "assessor"]
        for number, name in enumerate(("ta", "tb"), 1):
            assessor.on_message(m.Noted(trial_id=name, note="its intermediate result 1 is a text"))
            which = "1 trial" if number == 1 else "2 trials"
            assert runner.notices["assessor ignores"].sentence == (
                f"the assessor cannot use intermediate results of {which}; for example trial {name}: "
                "its intermediate result 1 is a text"
            )

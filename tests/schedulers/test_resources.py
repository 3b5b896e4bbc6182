"""The scheduler Resources: the best trials get what is free when no more trials come."""

from __future__ import annotations

from typing import Any

from nnimgr.dispatcher import messages as m
from nnimgr.schedulers.resources import ResourcesScheduler
from nnimgr.testing import SchedulerConformance
from tests.schedulers.play import Play


class TestConformance(SchedulerConformance):
    builtin = True

    def make(self) -> Any:
        return ResourcesScheduler(total={"trialCpuNumber": 8, "trialGpuNumber": 4})


def playing(*trials: str, most: int = 4, total: float = 8) -> Play:
    """Return an experiment whose trials have 2 CPUs each; the later ones are better."""
    play = Play(ResourcesScheduler(total={"trialCpuNumber": total}, most=most))
    play.create(*trials)
    for value, trial_id in enumerate(trials):
        assert play.report(trial_id, float(value), saves=True) == []
    return play


def wanted(decisions: list[m.Decided]) -> list[tuple[str, Any]]:
    assert {each.kind for each in decisions} <= {"resize"}
    return [(each.trial_id, dict(each.resources or {})) for each in decisions]


def test_nothing_is_changed_while_trials_come() -> None:
    play = playing("a", "b")
    assert play.end("a") == []
    (decided,) = play.drain()
    assert wanted([decided]) == [("b", {"trialCpuNumber": 8})]
    assert decided.reason == "no more trials come, and it is number 1 of 1 trials that run"


def test_the_best_trial_comes_first() -> None:
    play = playing("a", "b", "c", "d")
    assert play.drain() == []
    assert wanted(play.end("a")) == [("d", {"trialCpuNumber": 4})]
    assert play.save("c") == []  # nothing is free until the decision is carried out, and after it
    assert wanted(play.end("b")) == [("c", {"trialCpuNumber": 4})]


def test_the_rest_goes_to_the_next() -> None:
    play = playing("a", "b", total=16, most=3)
    assert wanted(play.drain()) == [("b", {"trialCpuNumber": 6}), ("a", {"trialCpuNumber": 6})]


def test_a_trial_without_a_checkpoint_gets_nothing() -> None:
    play = Play(ResourcesScheduler(total={"trialCpuNumber": 8}))
    play.create("a")
    play.report("a", 1.0)
    assert play.drain() == []
    assert wanted(play.save("a")) == [("a", {"trialCpuNumber": 8})]


def test_what_was_refused_is_not_asked_again_but_less_is() -> None:
    play = playing("a")
    (decided,) = play.drain()
    play.refuse(decided)
    assert wanted(play.save("a")) == [("a", {"trialCpuNumber": 6})]


def test_a_resource_that_cannot_be_changed_is_left_alone() -> None:
    play = Play(ResourcesScheduler(total={"nothing": 8}))
    play.create("a")
    play.report("a", 1.0, saves=True)
    assert play.drain() == []

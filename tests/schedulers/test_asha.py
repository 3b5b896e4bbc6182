"""ASHA: which trials are paused at a rung, which continue, and the reasons."""

from __future__ import annotations

import math
from random import Random

import pytest

from nnimgr.schedulers.asha import ASHAScheduler
from tests.schedulers.play import Play, said


def test_trials_are_promoted_when_enough_have_come() -> None:
    play = Play(ASHAScheduler(min_budget=2))
    play.create("a", "b", "c", "d")
    assert play.report("a", 0.1) == []
    (first,) = play.report("a", 0.5)
    assert (first.kind, first.rung) == ("pause", 2)
    assert first.reason == "rung 2: rank 1 of 1 so far; when 3 have reached it, the best one continues"
    play.pause("a")
    (second,) = play.report("b", 0.9, 0.4)
    assert (second.reason, second.better) == (
        "rung 2: rank 2 of 2 so far; when 3 have reached it, the best one continues",
        ("a",),
    )
    play.pause("b")
    third, promoted = play.report("c", 0.0, 0.3)
    assert (third.reason, third.better) == (
        "rung 2: rank 3 of 3, only the best trial continues",
        ("b", "a"),
    )
    assert (promoted.kind, promoted.trial_id) == ("continue", "a")
    assert promoted.reason == "rung 2: rank 1 of 3, the best trial continues"
    assert play.resume("a") == []
    assert play.report("d", 0.0, 0.6) == []  # the best so far runs on
    assert said(play.report("a", 0.5, 0.5, 0.5, 0.5)) == ["pause a"]
    assert play.host.decided[-1].rung == 6


def test_a_fork_is_compared_only_at_rungs_that_it_reaches_itself() -> None:
    play = Play(ASHAScheduler(eta=2, max_budget=16))
    play.create("a", "b")
    assert said(play.report("a", 0.5)) == ["pause a"] and said(play.report("b", 0.9)) == []
    play.create("fork", reports=4)
    assert said(play.report("fork", *[0.1] * 3)) == []
    assert said(play.report("fork", 0.1)) == ["pause fork"]
    assert play.host.decided[-1].rung == 8


def test_results_may_be_better_if_they_are_lower() -> None:
    play = Play(ASHAScheduler("minimize", eta=2))
    play.create("a", "b", "c")
    assert said(play.report("a", 2.0)) == ["pause a"]
    play.pause("a")
    assert said(play.report("b", 1.0)) == []
    assert said(play.report("c", math.nan)) == ["pause c"]
    assert play.host.decided[-1].reason == "rung 1: rank 3 of 3, only the best trial continues"


def test_a_trial_that_is_promoted_during_its_pause_continues_after_it() -> None:
    play = Play(ASHAScheduler(eta=2))
    play.create("a", "b")
    play.report("a", 1.0)
    assert said(play.report("b", 0.5)) == ["pause b"]
    (continued,) = play.pause("a")
    assert (continued.kind, continued.reason) == (
        "continue",
        "rung 1: rank 1 of 2, and it was promoted while it was being paused",
    )
    assert play.pause("b") == []


def test_there_is_no_rung_from_the_largest_budget_on() -> None:
    for end, paused in ((3, []), (4, ["pause a"]), (None, ["pause a"])):
        play = Play(ASHAScheduler(min_budget=3, max_budget=end))
        play.create("a")
        assert said(play.report("a", 1, 1, 1)) == paused


def test_a_trial_that_cannot_be_paused_runs_on() -> None:
    play = Play(ASHAScheduler())
    play.create("a", "b", "c")
    (pause,) = play.report("a", 0.1)
    assert play.refuse(pause) == []
    assert said(play.report("a", 0.1, 0.1)) == ["pause a"] and play.host.decided[-1].rung == 3
    play.report("b", 0.3)
    play.pause("b")
    assert said(play.report("c", 0.2)) == ["pause c", "continue b"]


def test_a_trial_that_makes_results_again_is_compared_once() -> None:
    play = Play(ASHAScheduler())
    play.create("a")
    (pause,) = play.report("a", 0.1)
    assert play.roll_back("a", 0) == []  # it could not be paused
    assert play.report("a", 0.1, 0.2) == []
    assert said(play.report("a", 0.2)) == ["pause a"] and pause.rung == 1


def test_a_trial_that_a_user_continues_has_passed_the_rung() -> None:
    play = Play(ASHAScheduler())
    play.create("a", "b", "c")
    for trial_id, value in (("a", 0.1), ("b", 0.5), ("c", 0.2)):
        play.report(trial_id, value)
        play.pause(trial_id)
    assert play.resume("a") == [] and play.report("a", 0.1) == []
    assert said(play.report("a", 0.1)) == ["pause a"]


def test_a_trial_that_ended_while_it_was_paused_leaves_the_rung() -> None:
    play = Play(ASHAScheduler(eta=2))
    play.create("a", "b", "c", "d")
    play.report("a", 0.9)
    play.pause("a", by="user")
    assert play.end("a", "USER_CANCELED") == []
    assert said(play.report("b", 0.1)) == ["pause b"]
    play.pause("b")
    assert said(play.report("c", 0.0)) == ["pause c", "continue b"]


def test_trials_that_were_left_behind_still_count_for_trials_that_come_later() -> None:
    play = Play(ASHAScheduler(max_budget=9))
    play.create("a", "b", "c")
    for trial_id, value in (("a", 0.1), ("b", 0.2), ("c", 0.3)):
        play.report(trial_id, value)
    play.pause("a")
    play.pause("b")
    play.drain()
    assert said(play.end("c", "SUCCEEDED")) == ["stop a", "stop b"]
    play.end("a", "EARLY_STOPPED")
    play.end("b", "EARLY_STOPPED")
    play.undrain()
    play.create("d", "e", "f")
    (worse,) = play.report("d", 0.15)
    assert worse.reason == "rung 1: rank 3 of 4, only the best trial continues"
    assert said(play.report("e", 0.25)) == ["pause e"]
    assert play.report("f", 0.4) == []


def test_the_best_trial_of_the_highest_rung_continues_when_no_other_does() -> None:
    play = Play(ASHAScheduler(min_budget=1, max_budget=9))
    play.create("a", "b")
    play.drain()
    play.report("a", 0.1)
    play.report("b", 0.2)
    assert play.pause("a") == []
    (best,) = play.pause("b")
    assert (best.kind, best.trial_id, best.rung) == ("continue", "b", 1)
    play.resume("b")
    assert said(play.report("b", 0.2, 0.2)) == ["pause b"]
    assert said(play.pause("b")) == ["continue b"]
    play.resume("b")
    (left,) = play.end("b", "SUCCEEDED")
    assert (left.kind, left.trial_id, left.better) == ("stop", "a", ("b",))
    assert left.reason == "rung 1: rank 2 of 2, only the best trial continues, and no more trials come"


def test_with_stop_bad_trials_end() -> None:
    play = Play(ASHAScheduler(stop=True))
    play.create("a", "b", "c")
    assert play.report("a", 0.5) == []
    (stop,) = play.report("b", 0.4)
    assert (stop.kind, stop.reason) == ("stop", "rung 1: rank 2 of 2, only the best trial continues")
    assert play.end("b", "EARLY_STOPPED") == []
    assert play.report("c", 0.6) == [] and play.report("a", 0.5, 0.5) == []


@pytest.mark.parametrize("slots", [1, 4, 100])
def test_the_best_trial_gets_to_the_end_with_a_third_of_the_results(slots: int) -> None:
    """If curves keep their order, the best trial is never left behind."""
    random = Random(slots)
    play = Play(ASHAScheduler("minimize", max_budget=81))
    levels = {f"t{number}": random.random() for number in range(100)}
    new, queue, running = list(levels), list[str](), set[str]()
    made = dict.fromkeys(levels, 0)
    finished: list[str] = []
    while new or queue or running:
        for source in (queue, new):
            while source and len(running) < slots:
                running.add(trial_id := source.pop(0))
                if source is new:
                    play.create(trial_id)
                    _ = play.drain() if not new else None
        for trial_id in sorted(running):
            made[trial_id] += 1
            todo = play.report(trial_id, levels[trial_id] + 1 / made[trial_id])
            if made[trial_id] == 81:
                running.remove(trial_id)
                finished.append(trial_id)
                todo += play.end(trial_id, "SUCCEEDED")
            while todo:
                decided = todo.pop(0)
                if decided.kind == "continue":
                    queue.append(decided.trial_id)
                    todo += play.resume(decided.trial_id)
                    continue
                running.discard(decided.trial_id)
                paused = decided.kind == "pause"
                todo += (
                    play.pause(decided.trial_id) if paused else play.end(decided.trial_id, "EARLY_STOPPED")
                )
    assert min(levels, key=levels.__getitem__) in finished
    assert sum(made.values()) < 100 * 81 / 3

"""PBT: who continues from whose checkpoint, with which parameters, and who waits for whom."""

from __future__ import annotations

import json
import math
from typing import Any

from nnimgr.schedulers.pbt import PBTScheduler
from tests.schedulers.play import SPACE, Play, said


def population(**arguments: Any) -> Play:
    """Return an experiment with four trials, of which a is the best and d the worst so far."""
    arguments = {"perturbation_interval": 2, **arguments}
    play = Play(PBTScheduler(**arguments))
    for trial_id in ("a", "b", "c", "d"):
        play.create(trial_id, parameters={"x": 0.5, "own": trial_id})
    for trial_id, value in (("c", 0.7), ("b", 0.8), ("a", 0.9)):
        assert play.report(trial_id, 0.0, value) == []
        play.save(trial_id)
    return play


def test_the_worst_continues_from_the_best() -> None:
    play = population()
    (decided,) = play.report("d", 0.2, 0.1)
    assert (decided.kind, decided.donor, decided.checkpoint) == ("exploit", "a", (1, 1))
    assert decided.reason == ("report 2: rank 4 of 4 with 0.1; trial a has 0.9 at report 2")
    assert (decided.rung, decided.better) == (2, ("c", "b", "a"))
    parameters = json.loads(decided.parameters or "")
    assert parameters["own"] == "a" and parameters["x"] != 0.5 and 0 <= parameters["x"] <= 1
    assert play.report("d", 0.1, 0.1, 0.1) == []  # the decision is being carried out
    play.begin_leg(decided, reports=2)
    assert play.report("d", 0.9) == []
    # It counts with the loss of the checkpoint until it is compared again, and its parent has saved nothing.
    assert play.report("a", 0.0) == [] and said(play.report("c", 0.7, 0.7)) == ["exploit c"]
    assert play.host.decided[-1].donor == "a"


def test_the_same_events_give_the_same_parameters() -> None:
    first, second = (population(seed=3).report("d", 0.2, 0.1) for _ in range(2))
    assert first == second != population(seed=4).report("d", 0.2, 0.1)


def test_a_checkpoint_that_is_gone_is_replaced_by_a_newer_one() -> None:
    play = population()
    (decided,) = play.report("d", 0.2, 0.1)
    play.report("a", 0.95, saves=True)
    (again,) = play.refuse(decided)
    assert (again.kind, again.donor, again.checkpoint) == ("exploit", "a", (1, 2))
    assert play.refuse(again) == []


def test_only_a_better_state_is_taken() -> None:
    play = Play(PBTScheduler(perturbation_interval=2))
    play.create("a", "b")
    play.report("a", 0.1)
    play.save("a")  # after the first result
    play.report("a", 0.9)
    assert play.report("b", 0.3, 0.2) == []


def test_a_population_that_saves_nothing_says_so_with_a_decision_that_is_refused() -> None:
    play = Play(PBTScheduler(perturbation_interval=2))
    play.create("a", "b", "c")
    play.report("a", 0.9, 0.9)
    (decided,) = play.report("b", 0.1, 0.1)
    assert (decided.kind, decided.donor, decided.checkpoint) == ("exploit", "a", None)
    assert decided.reason == "report 2: it would continue from trial a, which saves nothing"
    assert play.refuse(decided) == []
    play.save("c")  # one trial saves, so the others may do so later
    assert play.report("b", 0.1, 0.1) == []


def test_a_silent_host_is_no_donor() -> None:
    play = population()
    play.silence("a")
    assert play.report("d", 0.1, 0.1) == []


def test_a_trial_without_a_number_is_the_worst() -> None:
    play = population()
    (decided,) = play.report("d", 0.9, math.nan)
    assert decided.reason.startswith("report 2: rank 4 of 4 with no number; trial a has")


def test_no_trial_is_replaced_before_half_of_them_were_compared() -> None:
    play = Play(PBTScheduler(perturbation_interval=1))
    play.create("a", "b", "c", "d", "e")
    play.report("a", 0.9)
    play.save("a")
    assert play.report("b", 0.1) == []
    assert said(play.report("c", 0.2)) == [] and said(play.report("b", 0.1)) == ["exploit b"]


def test_nothing_is_compared_before_the_burn_in() -> None:
    play = population(burn_in=5)
    assert play.report("d", 0.1, 0.1, 0.1, 0.1) == []


def test_parameters_meet_the_constraints() -> None:
    play = population()
    assert play.change_space(SPACE, "x > 0.59") == []
    assert play.report("d", 0.1, 0.1) == []  # no donor's own parameters meet the constraints
    play = population(resample_probability=0)
    play.change_space(SPACE, "x > 0.45")
    (decided,) = play.report("d", 0.1, 0.1)
    assert json.loads(decided.parameters or "")["x"] == 0.6
    play = population(resample_probability=0)
    play.change_space(SPACE, "x == 0.5")
    (decided,) = play.report("d", 0.1, 0.1)
    assert json.loads(decided.parameters or "")["x"] == 0.5


def test_mutations_name_what_is_changed() -> None:
    play = population(mutations={"own": ["z", "a", "y"]}, resample_probability=0)
    (decided,) = play.report("d", 0.1, 0.1)
    parameters = json.loads(decided.parameters or "")
    assert parameters["x"] == 0.5 and parameters["own"] in ("z", "y")


def test_a_trial_that_is_set_back_is_compared_again() -> None:
    play = population()
    play.roll_back("c", 1)
    assert play.report("c", 0.1) == [] and said(play.report("c", 0.1)) == ["exploit c"]


# ---- synchronous ------------------------------------------------------------------------------------------


def synchronous() -> Play:
    """Return an experiment with four trials, of which all but the last one wait for the others."""
    play = Play(PBTScheduler(perturbation_interval=2, synchronous=True, population_size=4))
    play.create("a", "b", "c", "d", parameters={"x": 0.5})
    for trial_id, value in (("a", 0.9), ("b", 0.8), ("c", 0.7)):
        (pause,) = play.report(trial_id, 0.0, value)
        assert pause.kind == "pause"
        play.save(trial_id)
        assert play.pause(trial_id) == []
    return play


def test_all_wait_for_each_other() -> None:
    play = synchronous()
    assert play.host.decided[0].reason == (
        "report 2: 1 of 4 trials of its population have come to be compared"
    )
    assert said(play.report("d", 0.1, 0.1)) == ["pause d"]
    decided = play.pause("d")
    assert said(decided) == ["continue a", "continue b", "continue c", "exploit d"]
    assert decided[0].reason == "report 2: the 4 trials of its population were compared"
    play.resume("a", "b", "c")
    play.begin_leg(decided[3], reports=2)
    assert said(play.report("d", 0.9, 0.9)) == ["pause d"]


def test_who_does_not_come_is_not_waited_for() -> None:
    for absent in ("end", "silence", "pause"):
        play = synchronous()
        decided = play.pause("d", by="user") if absent == "pause" else getattr(play, absent)("d")
        assert said(decided) == ["continue a", "continue b", "exploit c"]


def test_a_trial_that_cannot_be_paused_is_compared_while_it_runs() -> None:
    play = synchronous()
    (pause,) = play.report("d", 0.1, 0.1)
    assert said(play.refuse(pause)) == ["continue a", "continue b", "continue c", "exploit d"]


def test_a_refused_exploit_lets_the_trial_continue() -> None:
    play = synchronous()
    play.report("d", 0.1, 0.1)
    *_, exploit = play.pause("d")
    (again,) = play.refuse(exploit)
    assert said([again]) == ["exploit d"]
    (continued,) = play.refuse(again)
    assert continued.reason == "report 2: its exploit was refused: it cannot be"
    assert play.refuse(continued) == []


def test_a_trial_that_was_not_paused_in_time_continues() -> None:
    play = synchronous()
    assert said(play.report("d", 0.1, 1.0)) == ["pause d"]
    play.save("d")
    assert said(play.silence("d")) == ["continue a", "continue b", "continue c"]
    (continued,) = play.pause("d")
    assert continued.reason == "report 2: its population was compared while it was being paused"


def test_a_population_that_will_not_be_full_is_complete_without_more_trials() -> None:
    play = Play(PBTScheduler(perturbation_interval=1, synchronous=True, population_size=8))
    play.create("a", "b")
    for trial_id in ("a", "b"):
        play.report(trial_id, 0.5)
        play.pause(trial_id)
    assert said(play.drain()) == ["continue a", "continue b"]
    play.undrain()
    play.create("c")
    assert said(play.report("c", 0.5)) == ["pause c"] and play.pause("c") == []
    assert said(play.drain()) == ["continue c"]


def test_a_user_who_continues_a_waiting_trial_does_not_stop_the_comparison() -> None:
    play = synchronous()
    assert play.resume("a") == []
    play.report("d", 0.1, 0.1)
    assert said(play.pause("d")) == ["continue b", "continue c", "exploit d"]

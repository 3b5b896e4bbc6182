"""PBTReplay: a trial gets the parameters of a schedule, one set after the other."""

from __future__ import annotations

import json

from nnimgr.schedulers.pbt_replay import PBTReplayScheduler
from tests.schedulers.play import Play, said


def replay() -> Play:
    schedule = [
        {"reports": 0, "parameters": {"x": 1}},
        {"reports": 2, "parameters": {"x": 2}},
        {"reports": 4, "parameters": {"x": 3}},
    ]
    play = Play(PBTReplayScheduler(schedule))
    play.create("a", parameters={"x": 1})
    return play


def test_a_trial_saves_and_continues_with_the_next_parameters() -> None:
    play = replay()
    assert play.report("a", 0.1) == []
    (pause,) = play.report("a", 0.1)
    assert (pause.kind, pause.reason) == (
        "pause",
        "report 2: it saves its state for set 1 of the 2 sets of the schedule",
    )
    assert play.save("a") == []
    (decided,) = play.pause("a")
    assert (decided.kind, decided.donor, decided.checkpoint) == ("exploit", "a", (1, 1))
    assert json.loads(decided.parameters or "") == {"x": 2}
    assert decided.reason == "report 2: set 1 of the 2 sets of the schedule"
    play.begin_leg(decided, reports=2)
    assert play.report("a", 0.1) == [] and said(play.report("a", 0.1)) == ["pause a"]
    play.save("a")
    (decided,) = play.pause("a")
    assert json.loads(decided.parameters or "") == {"x": 3}
    play.begin_leg(decided, reports=4, leg=2)
    assert play.report("a", *[0.1] * 9) == []


def test_a_trial_that_cannot_be_paused_continues_when_it_has_saved() -> None:
    play = replay()
    (pause,) = play.report("a", 0.1, 0.1)
    assert play.refuse(pause) == [] and play.report("a", 0.1) == []
    (decided,) = play.save("a")
    assert (decided.kind, decided.checkpoint) == ("exploit", (1, 1))
    assert play.refuse(decided) == [] and play.report("a", 0.1) == []
    assert said(play.save("a")) == ["exploit a"]


def test_a_trial_that_paused_without_a_state_continues() -> None:
    play = replay()
    play.report("a", 0.1, 0.1)
    (continued,) = play.pause("a")
    assert continued.reason == ("report 2: it has saved no state with which its next parameters could begin")
    play.resume("a")
    assert play.report("a", 0.1) == [] and said(play.save("a")) == ["exploit a"]


def test_a_refused_set_lets_a_paused_trial_continue() -> None:
    play = replay()
    play.report("a", 0.1, 0.1)
    play.save("a")
    (decided,) = play.pause("a")
    (continued,) = play.refuse(decided)
    assert continued.reason == "report 2: its next parameters were refused: it cannot be"
    assert play.end("a") == []

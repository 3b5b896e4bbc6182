"""HyperBand: brackets, who waits for whom, and the reasons."""

from __future__ import annotations

from nnimgr.schedulers.hyperband import HyperBandScheduler
from tests.schedulers.play import Play, said


def bracket(count: int = 9) -> tuple[Play, list[str]]:
    """Return an experiment whose first trials all wait at the first rung, except the last one of them."""
    play = Play(HyperBandScheduler(max_budget=9))
    trials = [f"t{number}" for number in range(count)]
    play.create(*trials)
    for number, trial_id in enumerate(trials[:-1]):
        assert said(play.report(trial_id, number / 10)) == [f"pause {trial_id}"]
        play.pause(trial_id)
    return play, trials


def test_a_bracket_is_compared_when_its_last_trial_comes() -> None:
    play, _ = bracket()
    assert play.host.decided[0].reason == (
        "bracket 1, rung 1: 1 of 9 trials have reached it, of which the best 3 continue"
    )
    decided = play.report("t8", 0.45)
    assert said(decided) == [
        *("continue t7", "continue t6", "continue t5"),
        *("stop t8", "stop t4", "stop t3", "stop t2", "stop t1", "stop t0"),
    ]
    assert decided[0].reason == "bracket 1, rung 1: rank 1 of 9, the best 3 continue"
    assert decided[3].reason == "bracket 1, rung 1: rank 4 of 9, only the best 3 continue"
    assert decided[3].better == ("t5", "t6", "t7")
    assert play.resume("t7", "t6", "t5") == []


def test_a_fork_joins_no_bracket() -> None:
    play, _ = bracket()
    assert play.create("fork", reports=2) == []
    assert said(play.report("fork", *[0.9] * 6)) == []
    assert len(play.report("t8", 0.45)) == 9


def test_the_best_trials_go_on_to_the_end() -> None:
    play, _ = bracket()
    play.report("t8", 0.9)
    assert play.host.decided[-1].kind == "stop"
    play.resume("t7", "t6")
    for trial_id in ("t8", "t7"):
        assert said(play.report(trial_id, 0.5, 0.8)) == [f"pause {trial_id}"]
        play.pause(trial_id)
    assert said(play.report("t6", 0.5, 0.9)) == ["stop t8", "stop t7"]
    assert play.report("t6", *[0.9] * 20) == []  # the last rung is the trial's own end


def test_brackets_follow_one_another() -> None:
    play, _ = bracket()
    play.create(*[f"u{number}" for number in range(5)], *[f"v{number}" for number in range(3)], "w")
    assert play.report("u0", 0.5, 0.5) == []
    assert said(play.report("u0", 0.5)) == ["pause u0"]
    assert play.host.decided[-1].reason == (
        "bracket 2, rung 3: 1 of 5 trials have reached it, of which the best trial continues"
    )
    assert play.report("v0", *[0.1] * 20) == []  # bracket 3 compares nothing
    assert said(play.report("w", 0.1)) == ["pause w"]  # bracket 4 is as bracket 1


def test_a_bracket_that_will_not_be_full_is_complete_without_more_trials() -> None:
    play, _ = bracket(4)
    assert said(play.report("t3", 0.0)) == ["pause t3"]
    play.pause("t3")
    assert said(play.drain()) == ["continue t2", "stop t1", "stop t0", "stop t3"]
    play.undrain()
    play.create("u0")
    assert play.report("u0", 1.0, 1.0) == [] and said(play.report("u0", 1.0)) == ["pause u0"]


def test_a_trial_that_fails_is_not_waited_for() -> None:
    play, _ = bracket()
    assert said(play.end("t8"))[:3] == ["continue t7", "continue t6", "continue t5"]


def test_a_trial_that_ends_while_it_waits_takes_no_place() -> None:
    play, _ = bracket()
    assert play.end("t7", "USER_CANCELED") == []
    assert said(play.report("t8", 0.0))[:3] == ["continue t6", "continue t5", "continue t4"]


def test_a_silent_or_paused_trial_is_compared_when_it_comes() -> None:
    for absent in (Play.silence, lambda play, trial_id: play.pause(trial_id, by="user")):
        play, _ = bracket()
        assert said(absent(play, "t8"))[:3] == ["continue t7", "continue t6", "continue t5"]
        play.resume("t8")
        (late,) = play.report("t8", 0.45)
        assert (late.kind, late.reason) == (
            "stop",
            "bracket 1, rung 1: it came late with 0.45, and the worst of the 3 that continue has 0.5",
        )
        play, _ = bracket()
        absent(play, "t8")
        play.resume("t8")
        assert play.report("t8", 0.55, 0.0) == []
        assert said(play.report("t8", 0.0)) == ["pause t8"]


def test_a_silent_trial_that_is_heard_again_is_waited_for() -> None:
    play = Play(HyperBandScheduler(min_budget=2, max_budget=6))
    play.create("a", "b", "c")
    play.silence("c")
    assert play.report("c", 0.5) == []
    assert said(play.report("a", 0.1, 0.1)) == ["pause a"]
    assert said(play.report("b", 0.2, 0.2)) == ["pause b"]
    assert said(play.report("c", 0.3)) == ["stop b", "stop a"]


def test_a_trial_that_cannot_be_paused_runs_on_and_is_compared() -> None:
    play = Play(HyperBandScheduler(max_budget=9))
    trials = [f"t{number}" for number in range(9)]
    play.create(*trials)
    (pause,) = play.report("t0", 1.0)
    assert play.refuse(pause) == []
    assert play.report("t0", 0.9, 0.9, 0.9) == []
    for trial_id in trials[1:8]:
        play.report(trial_id, 0.5)
        play.pause(trial_id)
    decided = play.report("t8", 0.1)
    # t0 has come to the next rung meanwhile, where it waits for the others
    assert said(decided)[:3] == ["pause t0", "continue t1", "continue t2"]


def test_a_trial_that_cannot_continue_is_not_waited_for() -> None:
    play, _ = bracket()
    first, *_ = play.report("t8", 0.45)
    play.resume("t6", "t5")
    assert said(play.report("t6", 0.5, 0.5)) == ["pause t6"]
    assert play.refuse(first) == []
    assert said(play.report("t5", 0.4, 0.4)) == ["stop t5"]


def test_a_trial_that_is_to_continue_during_its_pause_continues_after_it() -> None:
    play = Play(HyperBandScheduler(min_budget=2, max_budget=4, eta=2))
    play.create("a", "b")
    assert said(play.report("a", 0.5, 0.5)) == ["pause a"]
    assert said(play.report("b", 0.1, 0.1)) == ["stop b"]
    (continued,) = play.pause("a")
    assert continued.reason == "bracket 1, rung 2: rank 1 of 2, the best trial continues"

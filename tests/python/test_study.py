"""Study against a real server: trials are asked for, run by the test, and told."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nni._running import wants_trial
from nnimgr import ArgumentError, AskedTrial, Ended, Error, LateResult, Run, Study, space, tune
from nnimgr.home import Home
from nnimgr.python.asked import takes_trial
from nnimgr.python.connection import Connection
from nnimgr.python.exchange import Exchange
from tests.python.messages import in_lines
from tests.python.test_running import until

SPACE = {"x": space.uniform(-5, 5)}
GRID = {"x": space.choice([0, 1, 2, 3])}

ASKS_AND_WAITS = """
from nnimgr import Study
from tests.python.messages import in_lines
study = Study.attach("shared")
trial = study.ask()
print(trial.id, flush=True)
input()
"""


@pytest.fixture
def study(port: int) -> Study:
    return Study(SPACE, minimize=True, name="shared", tuner="Random", server=port)


def square(parameters: dict[str, Any]) -> float:
    return float(parameters["x"] ** 2)


class Bell(Exception):
    pass


def test_an_interrupted_request_for_a_trial_loses_no_trial(port: int) -> None:
    study = Study(SPACE, minimize=True, name="one", tuner="Random", trials=3, at_once=1, server=port)

    def ring(number: int, frame: object) -> None:
        raise Bell

    before = signal.signal(signal.SIGALRM, ring)
    try:
        trial = study.ask()
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(Bell):
            study.ask()  # waits for the slot
    finally:
        signal.signal(signal.SIGALRM, before)
    trial.tell(1.0)
    waiting = Study.attach("one")
    second = waiting.ask()  # nobody has got it in the meantime
    second.tell(2.0)
    third = study.ask()
    third.tell(3.0)
    assert [second.number, third.number] == [1, 2]
    assert [each.value for each in study.results] == [1.0, 2.0, 3.0]


def test_trials_are_asked_for_and_told(study: Study) -> None:
    with study.ask() as trial:
        assert trial.number == 0 and -5 <= trial.params["x"] <= 5 and not trial.ended
        trial.report(9.0)
        trial.report(float("nan"))
        assert not trial.should_stop() and trial.reason == ""
        trial.tell(square(trial.params))
        trial.tell(square(trial.params))  # a repetition changes nothing
        with pytest.raises(LateResult, match=in_lines(r"already\. Its first result counts, and")):
            trial.tell(100.0)
    second, third = study.ask(2)
    assert study.tell([second, third], [1.0, 2.0]) == []
    (fourth,) = study.tell(study.ask(), 3.0, ask=1)
    fourth.tell({"default": 0.5, "loss": 7})
    values = [each.value for each in study.results]
    assert values == [square(trial.params), 1.0, 2.0, 3.0, 0.5]
    assert study.best_value == min(value for value in values if value is not None)
    assert study.best_params == study.best.parameters
    assert study.results.trials[0].curve() == [(0, 9.0)] and study.results.trials[4].result["loss"] == 7
    assert study.results.trials[0].reason == "its program has told the result"


def test_a_program_that_waits_for_its_own_results_is_told_so(
    port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = Study(SPACE, minimize=True, at_once=1, name="full", server=port)
    held = study.ask()
    call = Exchange.call
    refused: list[Any] = []

    def late(exchange: Exchange, **body: Any) -> Any:
        """Answer twice as a server does that has had no trial for ten seconds."""
        if len(refused) < 2:
            refused.append(body)
            return {"trials": [], "gone": [], "ended": None, "waiting": "1 of 1 slots busy"}
        if not held.ended:
            monkeypatch.setattr(Exchange, "call", call)
            held.tell(1.0)
        return call(exchange, **body)

    capsys.readouterr()
    monkeypatch.setattr(Exchange, "call", late)
    assert study.ask().number == 1
    assert " ".join(capsys.readouterr().err.split()) == (
        "INFO: Study full has no trial to give yet: 1 of 1 slots busy. "
        "This program has not told the result of 1 trial yet."
    )


def test_an_array_has_a_result_for_each_trial(study: Study) -> None:
    trials = study.ask(3)
    for wrong in (np.array([1.0, 2.0]), np.array(1.0), {"default": 1.0}):
        with pytest.raises(ArgumentError) as caught:
            study.tell(trials, wrong)
        told = "value: must be a list or an array with one result for each trial"
        assert caught.value.sentence == told
    with pytest.raises(ArgumentError, match="trial: must be a trial that ask"):
        study.tell(99, 3.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"optimize\(\) has no argument 'n_trials'; did you mean trials"):
        study.optimize(print, n_trials=3)  # type: ignore[call-arg]
    assert len(study.tell(trials, np.array([1.5, 2.5, 3.5]), ask=2)) == 2
    assert [each.value for each in study.results][:3] == [1.5, 2.5, 3.5]


def test_ends_without_a_result_have_their_reasons(study: Study) -> None:
    with pytest.raises(ValueError, match=in_lines("no good")), study.ask():
        raise ValueError("no good")
    with pytest.raises(KeyboardInterrupt), study.ask():
        raise KeyboardInterrupt
    with study.ask():
        pass
    with study.ask() as trial:
        trial.tell(float("inf"))
    with study.ask() as trial:
        trial.report(accuracy=0.5, default=2.0)
    with pytest.raises(ArgumentError), study.ask() as trial:
        trial.tell("bad")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="wrong"), study.ask():
        raise ValueError("the input is wrong:\n  row 1 is empty\n  row 2 is empty")
    assert [(each.status, each.reason) for each in study.results] == [
        ("FAILED", "ValueError: no good"),
        ("USER_CANCELED", "a user stopped it"),
        ("FAILED", "the program left the trial without a result: it did not call trial.tell(value)"),
        ("FAILED", "its result is inf, which is not a finite number"),
        ("SUCCEEDED", "its program has told the result"),
        ("FAILED", "ArgumentError: value: must be a number or a mapping with numbers, not 'bad'"),
        ("FAILED", "ValueError: the input is wrong: row 1 is empty"),
    ]
    assert study.best_value == 2.0
    with pytest.raises(ArgumentError, match=in_lines(r"value: must be a number or a mapping with numbers")):
        study.tell(study.ask(), "a")  # type: ignore[arg-type]


def test_numbers_that_are_not_finite_do_not_count_in_a_mapping_either(study: Study) -> None:
    with study.ask() as trial:
        trial.report({"default": float("nan"), "loss": 1.0})
        trial.tell(default=2.0, loss=float("inf"))
    with study.ask() as trial:
        trial.tell({"default": float("nan")})
    with study.ask() as trial:
        trial.tell(10**400)
    with pytest.raises(ArgumentError, match=in_lines("value: a value of type object cannot be stored")):
        study.ask().tell({"default": object()})
    good, bad, large = study.results.trials[:3]
    assert (good.value, good.result) == (2.0, {"default": 2.0, "loss": "Infinity"})
    assert good.curve() == [] and (bad.status, bad.value) == ("SUCCEEDED", None)
    assert (large.status, large.reason) == ("FAILED", "its result is inf, which is not a finite number")


def test_each_of_several_objectives_needs_a_number(port: int) -> None:
    study = Study(SPACE, maximize="acc", minimize="ms", name="two", tuner="Random", server=port)
    trial = study.ask()
    each = "must have a number for each objective"
    for wrong in (0.5, {"acc": 1}, {"acc": True, "ms": 1}):
        with pytest.raises(ArgumentError, match=in_lines(each)):
            trial.tell(wrong)
    trial.tell(acc=1.0, ms=2)
    study.tell(study.ask(), {"acc": float("nan"), "ms": 1})
    with study.ask() as last:
        last.report(0.5)
    whole, bad, short = study.results.trials[:3]
    assert (whole.status, whole.result) == ("SUCCEEDED", {"acc": 1.0, "ms": 2})
    assert (bad.status, bad.reason) == ("FAILED", "its result 'acc' is NaN, which is not a finite number")
    assert short.reason.startswith(f"its last report {each}, as {{'acc': 0.5, 'ms': 0.5}}, not 0.5")


def test_trials_of_a_call_with_a_late_result_come_with_the_next_call(study: Study) -> None:
    trial = study.ask()
    study.results.trials[trial.number].stop()
    assert trial.should_stop()
    with pytest.raises(LateResult):
        study.tell(trial, 1.0, ask=2)
    running = [each.number for each in study.results.trials if each.status == "RUNNING"]
    assert [each.number for each in study.ask(2)] == running == [1, 2]


def test_a_study_ends_although_its_last_trial_was_lost(port: int) -> None:
    study = Study(GRID, minimize=True, tuner="GridSearch", trials=2, lease=1, server=port)
    study.ask().tell(1.0)
    assert study.ask().number == 1  # the program forgets it, so its lease ends
    assert until(lambda: study.run.status == "DONE")
    with pytest.raises(Ended, match=in_lines(r"To continue it: study.run.update\(trials=...\) with larger")):
        study.ask()
    study.stop()
    with pytest.raises(Ended, match=in_lines(r"To continue it: study.run.resume\(\)")):
        study.ask()


def test_a_further_call_keeps_what_it_does_not_give(study: Study, port: int) -> None:
    study.run.update(at_once=3)
    again = Study(SPACE, minimize=True, name="shared", server=port)
    assert Connection(Home.find(), again.id).get()["limits"]["trialConcurrency"] == 3
    told = "lease, retries. It keeps its own"
    with pytest.warns(UserWarning, match=told):
        Study(SPACE, minimize=True, name="shared", tuner="Random", lease=120, retries=2, server=port)


def test_a_study_needs_a_name_or_none() -> None:
    with pytest.raises(ArgumentError, match=in_lines("name: must not be empty")):
        Study(SPACE, minimize=True, name="")


def test_value_may_be_the_name_of_a_metric(study: Study) -> None:
    with study.ask() as trial:
        trial.tell(value=0.5)
    with study.ask() as trial:
        trial.tell(value=0.5, ms=3)
    assert [each.value for each in study.results] == [0.5, 0.5]
    assert study.results.trials[1].result == {"default": 0.5, "value": 0.5, "ms": 3}


def test_a_trial_that_its_program_has_failed_is_not_repeated(port: int) -> None:
    study = Study(SPACE, minimize=True, trials=1, retries=3, server=port)
    study.ask().fail("diverged")
    assert until(lambda: study.run.status == "DONE")
    assert study.results.errors[0].reason == "diverged"


def test_a_function_that_returns_nothing_fails(study: Study) -> None:
    study.optimize(lambda params: None, trials=1)
    assert study.results.errors[0].reason == "the function returned None: return a number from the function"


def test_a_function_gets_the_trial_only_where_it_takes_it(study: Study) -> None:
    trials: list[AskedTrial] = []

    def scaled(params: dict[str, float], scale: float = 2.0) -> float:
        return params["x"] * scale

    def named(params: dict[str, float], trial: AskedTrial | None = None) -> float:
        assert trial is not None
        return params["x"]

    def second(params: dict[str, float], own: AskedTrial) -> float:
        trials.append(own)
        return params["x"]

    def with_data(data: float, params: dict[str, float]) -> float:
        return params["x"] * data

    def keyword(params: dict[str, float], *, data: float = 1.0, **more: float) -> float:
        return params["x"] * data

    for function in (scaled, named, second, functools.partial(with_data, 3.0), keyword):
        study.optimize(function, 1)
    factors = [each.value / each.parameters["x"] for each in study.results if each.value is not None]
    assert factors == pytest.approx([2.0, 1.0, 1.0, 3.0, 1.0])
    assert [trial.number for trial in trials] == [2]
    with pytest.raises(ArgumentError, match=in_lines(r"called as function\(params\): too many")):
        study.optimize(lambda: 1.0)
    with pytest.raises(ArgumentError, match=in_lines(r"called as function\(params, trial\): missing a req")):
        study.optimize(lambda params, trial, third: 1.0)
    assert len(study.results) == 5


@pytest.mark.parametrize(
    "function",
    [
        lambda params: 0.0,
        lambda params, scale=1.0: 0.0,
        lambda params, trial=None: 0.0,
        lambda params, own: 0.0,
        lambda params, *rest, **more: 0.0,
        functools.partial(lambda data, params: 0.0, 1.0),
    ],
)
def test_trials_of_studies_and_of_tune_get_the_same_arguments(function: Callable[..., float]) -> None:
    assert takes_trial(function) == wants_trial(function)


def test_a_function_is_optimized_to_the_limit(port: int) -> None:
    study = Study(GRID, minimize=True, tuner="GridSearch", trials=4, server=port)
    study.optimize(square, trials=3)
    assert len(study.results) == 3

    def unlucky(parameters: dict[str, Any], trial: AskedTrial) -> None:
        trial.report(parameters["x"])
        raise OSError("disk on fire")

    study.optimize(unlucky)
    assert [each.status for each in study.results] == ["SUCCEEDED"] * 3 + ["FAILED"]
    assert study.results.errors[0].reason == "OSError: disk on fire"
    with pytest.raises(Ended, match=in_lines("is DONE: 4 of 4 trials")):
        study.ask()
    study.run.update(trials=5)
    study.optimize(square)
    assert study.run.status == "DONE" and study.best_params == {"x": 0}
    told = r"optimize\(\) has run 0 of 2 trials, because experiment \w+ is DONE: the tuner has no more"
    with pytest.warns(UserWarning, match=told):
        study.optimize(square, trials=2)
    study.stop()
    with pytest.raises(Ended, match=in_lines("STOPPED")):
        study.optimize(square)


def test_programs_share_a_study_by_its_name(study: Study, port: int) -> None:
    same = Study(SPACE, minimize=True, name="shared", tuner="Random", server=port)
    assert same.id == study.id == Study.attach("shared").id
    first, second = study.ask(), same.ask()
    assert (first.number, second.number) == (0, 1)
    first.tell(1.0)
    second.tell(0.5)
    assert study.best_value == same.best_value == 0.5
    with pytest.raises(ArgumentError, match=in_lines("exists with another space")):
        Study(GRID, minimize=True, name="shared", server=port)


def test_a_program_that_is_killed_loses_only_its_trial(port: int) -> None:
    study = Study(SPACE, minimize=True, name="shared", tuner="Random", lease=1, server=port)
    program = subprocess.Popen(
        [sys.executable, "-c", ASKS_AND_WAITS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    trial_id = program.stdout.readline().strip()
    kept = study.ask()
    program.kill()
    program.communicate()
    lost = until(lambda: next(iter(study.results.errors), None))
    assert lost.id == trial_id
    assert lost.reason.endswith("the program that had asked for it did not answer for 1 s (the lease)")
    kept.tell(1.0)  # the thread has renewed its lease
    assert study.best_value == 1.0


def killed(port: int) -> None:
    server = Home.find().server_running(port)
    assert server is not None and server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    until(lambda: Home.find().server_running(port) is None)


def test_the_server_is_killed_between_ask_and_tell(study: Study, port: int) -> None:
    trial = study.ask()
    trial.report(2.0)
    killed(port)
    trial.report(1.0)
    killed(port)
    trial.tell(0.25)
    killed(port)
    study.optimize(square, trials=2)
    first, *others = study.results
    assert (first.id, first.value, first.curve()) == (trial.id, 0.25, [(0, 2.0), (1, 1.0)])
    assert first.attempt == 1 and [each.status for each in others] == ["SUCCEEDED"] * 2


def test_a_waiting_ask_survives_a_server_that_leaves(port: int) -> None:
    study = Study(SPACE, minimize=True, tuner="Random", at_once=1, server=port)
    first = study.ask()
    found: list[AskedTrial] = []
    asking = threading.Thread(target=lambda: found.append(study.ask()))
    asking.start()
    until(lambda: "no program asks" not in study.run.now)
    server = Home.find().server_running(port)
    assert server is not None and server.pid is not None
    os.kill(server.pid, signal.SIGTERM)
    until(lambda: Home.find().server_running(port) not in (None, server))
    first.tell(1.0)
    asking.join(60)
    assert [trial.number for trial in found] == [1]
    found[0].tell(2.0)
    assert [each.value for each in study.results] == [1.0, 2.0]


def test_a_trial_is_stopped_by_others(port: int) -> None:
    study = Study(
        GRID,
        maximize=True,
        tuner="GridSearch",
        assessor={"name": "Threshold", "classArgs": {"lower": 1}},
        server=port,
    )
    with study.ask() as trial:
        trial.report(0.0)
        assert until(trial.should_stop)
        trial.tell(7.0)  # its end stays as it is
    assert trial.reason.startswith("EARLY_STOPPED: ")
    canceled = study.ask()
    study.run.trials[canceled.number].stop()
    with pytest.raises(LateResult, match=in_lines(r"Trial 1 .* is USER_CANCELED: a user stopped it")):
        canceled.tell(1.0)
    assert [each.value for each in study.results] == [None, None]
    paused = study.ask()
    study.run.trials[paused.number].pause()
    with pytest.raises(LateResult, match=in_lines(r"Trial 2 .* was paused, so this result is not recorded")):
        paused.tell(1.0)


def test_an_experiment_that_runs_its_trials_is_no_study(port: int) -> None:
    tune("mine.py:square", GRID, minimize=True, trials=1, name="own", server=port, show="nothing")
    with pytest.raises(Error, match=in_lines(r"runs its trials itself.*nnimgr.Run.attach\('own'\)")):
        Study.attach("own")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Study(SPACE), "maximize, minimize: give one of them: maximize=True"),
        (lambda: Study(SPACE, minimize=True, lease=0.5), "lease: must be a whole number from 1 up, not 0.5"),
    ],
)
def test_arguments_are_checked_before_anything_starts(
    folder: Path, call: Callable[[], Study], sentence: str
) -> None:
    with pytest.raises(ArgumentError, match=in_lines(sentence)):
        call()
    assert not (folder.parent / "home").exists()


def test_nnictl_shows_a_study(study: Study) -> None:
    study.optimize(square, trials=2)
    shown = subprocess.run(
        [sys.executable, "-m", "nnimgr.cli.main", "trial", "ls", "shared"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert shown.count("SUCCEEDED") == 2
    assert Run.attach("shared").now.startswith("No trial is running; no program asks for a trial")
    study.ask().fail("out of luck")
    for ended in (False, True):
        if ended:
            study.stop()
        refused = subprocess.run(
            [
                sys.executable,
                "-m",
                "nnimgr.cli.main",
                "log",
                "trial",
                "shared",
                "-T",
                "2",
                "--file",
                "stderr",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert refused.returncode == 1
        assert "Trial 2 " in refused.stderr and "ran in a program of your own" in refused.stderr

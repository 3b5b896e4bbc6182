"""Objectives in a configuration, and the tuners that support them."""

from __future__ import annotations

import json

import pytest

from nnimgr.config import (
    ConfigError,
    check_config,
    read_canonical,
)
from tests.config.loading import MINIMAL, Faults, Load


def test_objectives_stay_in_their_order(load: Load) -> None:
    text = MINIMAL + "objectives: {b: minimize, a: maximize, default_: minimize}\n"
    config = load(text + "onFailure: value\nfailure_value: {a: 0, b: 9, default_: 1.5}\n").config
    assert list(config.objectives or ()) == ["b", "a", "default_"]
    assert config.optimize_mode == "minimize"
    assert config.limits().failure_value == {"a": 0, "b": 9, "default_": 1.5}
    again = read_canonical(json.loads(json.dumps(config.canonical())))
    assert again == config and list(again.objectives or ()) == ["b", "a", "default_"]
    assert check_config(again) == ()


def test_several_objectives_are_for_tuners_that_can(load: Load, faults: Faults) -> None:
    tpe = MINIMAL.replace("Random", "TPE")
    several = "objectives: {a: maximize, b: minimize}\n"
    (fault,) = faults(tpe + several)
    assert fault.startswith("exp.yml:6:3: tuner.name: TPE optimizes one objective; several can be given to")
    with pytest.raises(ConfigError, match="TPE optimizes one objective"):
        check_config(
            read_canonical({**load(tpe).config.canonical(), "objectives": {"a": "maximize", "b": "minimize"}})
        )
    assert load(tpe + "objectives: {a: maximize}\n").config.optimize_mode == "maximize"
    custom = MINIMAL.replace("name: Random", "className: mine.Mine")
    assert load(custom + several).config.objectives == {"a": "maximize", "b": "minimize"}


def test_the_tuner_must_want_what_the_objective_says(load: Load, faults: Faults) -> None:
    told = MINIMAL.replace("name: Random", "name: TPE\n  classArgs:\n    optimize_mode: minimize")
    assert faults(told + "objectives: {accuracy: maximize}\n") == [
        "exp.yml:8:5: tuner.classArgs.optimize_mode: is minimize, but 'objectives.accuracy' in line 11 is "
        "maximize; leave one of them out"
    ]
    assert load(told + "objectives: {loss: minimize}\n").config.optimize_mode == "minimize"


def test_a_goal_is_what_tuner_and_assessor_are_given(load: Load, faults: Faults) -> None:
    text = MINIMAL.replace("Random", "GridSearch") + "assessor: {name: Medianstop}\n"
    config = load(text + "goal: minimize\n").config
    assert (config.optimize_mode, config.stated_goal, config.goal_is_stated) == ("minimize", "minimize", True)
    told = text.replace("Medianstop", "Medianstop, classArgs: {optimize_mode: minimize}")
    assert load(told + "goal: minimize\n").warnings == ()
    assert faults(told + "goal: maximize\n") == [
        "exp.yml:9:42: assessor.classArgs.optimize_mode: is minimize, but 'goal' in line 10 is maximize; "
        "leave one of them out"
    ]
    assert faults(MINIMAL + "goal: minimize\nobjectives: {accuracy: maximize}\n") == [
        "exp.yml:10:14: objectives.accuracy: is maximize, but 'goal' in line 9 is minimize; leave one of "
        "them out"
    ]
    assert faults(MINIMAL + "goal: lowest\n") == [
        "exp.yml:9:1: goal: unknown value 'lowest' (valid: maximize, minimize)"
    ]


@pytest.mark.parametrize(
    ("tuner", "mode"), [("Random", "maximized"), ("GridSearch", "maximized"), ("TPE", "minimized")]
)
def test_without_a_goal_there_is_a_warning(load: Load, tuner: str, mode: str) -> None:
    loaded = load(MINIMAL.replace("Random", tuner))
    assert [str(warning) for warning in loaded.warnings] == [
        f"exp.yml:5:1: tuner: no goal is given, so results are {mode} (NNI's default for {tuner}); "
        'write "goal: minimize" or "goal: maximize"'
    ]
    assert not loaded.config.goal_is_stated
    mode = mode.replace("mized", "mize")
    told = MINIMAL.replace("Random", f"{tuner}\n  classArgs: {{optimize_mode: {mode}}}")
    if tuner != "GridSearch":  # it has no such argument
        assert load(told).warnings == ()


def test_an_assessor_that_wants_the_opposite_of_the_tuner_is_a_warning(load: Load) -> None:
    text = MINIMAL.replace("Random", "TPE\n  classArgs: {optimize_mode: minimize}")
    (warning,) = load(text + "assessor: {name: Medianstop}\n").warnings
    assert str(warning) == (
        "exp.yml:10:1: assessor: Medianstop expects results to be maximized, but TPE expects them to be "
        'minimized; write a goal, which the tuner and the assessor both follow: "goal: minimize"'
    )
    *_, warning = load(MINIMAL.replace("Random", "TPE") + "assessor: {name: Medianstop}\n").warnings
    assert str(warning).endswith(
        'write a goal, which the tuner and the assessor both follow: "goal: minimize" or "goal: maximize"'
    )


@pytest.mark.parametrize("mode", ["max", 3, "[a]", "null", "{b: 1}"])
def test_the_arguments_of_a_users_own_tuner_mean_what_it_wants(load: Load, mode: object) -> None:
    own = f"className: mine.Mine\n  classArgs: {{optimize_mode: {mode}}}"
    loaded = load(MINIMAL.replace("name: Random", own) + "assessor: {name: Medianstop}\n")
    assert (loaded.config.optimize_mode, loaded.config.goal_is_stated) == ("maximize", False)
    (warning,) = loaded.warnings
    assert warning.message.startswith("no goal is given, so results are ")

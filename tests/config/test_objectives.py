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
    assert fault.startswith("exp.yml:6:3: tuner.name: TPE optimises one objective; several can be given to")
    with pytest.raises(ConfigError, match="TPE optimises one objective"):
        check_config(
            read_canonical({**load(tpe).config.canonical(), "objectives": {"a": "maximize", "b": "minimize"}})
        )
    assert load(tpe + "objectives: {a: maximize}\n").config.optimize_mode == "maximize"
    custom = MINIMAL.replace("name: Random", "className: mine.Mine")
    assert load(custom + several).config.objectives == {"a": "maximize", "b": "minimize"}


def test_the_tuner_must_want_what_the_objective_says(load: Load, faults: Faults) -> None:
    told = MINIMAL.replace("name: Random", "name: TPE\n  classArgs:\n    optimize_mode: minimize")
    assert faults(told + "objectives: {accuracy: maximize}\n") == [
        "exp.yml:8:5: tuner.classArgs.optimize_mode: is minimize, but the objective accuracy is to be "
        "maximized; it can be left out"
    ]
    assert load(told + "objectives: {loss: minimize}\n").config.optimize_mode == "minimize"

"""Changes to the configuration of a running experiment."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nnimgr.config import ConfigError, ExperimentConfig, apply_update, apply_updates, read_canonical
from nnimgr.rules.terms import Plateau, StopWhen


@pytest.fixture
def config(tmp_path: Path) -> ExperimentConfig:
    return read_canonical(
        {
            "searchSpace": {"x": {"_type": "choice", "_value": [1, 2]}},
            "trialCommand": "true",
            "trialCodeDirectory": str(tmp_path),
            "experimentWorkingDirectory": str(tmp_path),
            "trialConcurrency": 2,
            "tuner": {"name": "Random"},
            "trainingService": {"platform": "local"},
        }
    )


def test_limits_change(config: ExperimentConfig) -> None:
    changed = apply_update(config, "trial_concurrency", value=5)
    changed = apply_update(changed, "maxTrialNumber", value=7)
    changed = apply_update(changed, "maxExperimentDuration", value="2h")
    changed = apply_update(changed, "maxTrialDuration", value=60)
    limits = changed.limits()
    assert (limits.trial_concurrency, limits.max_trial_number) == (5, 7)
    assert (limits.max_experiment_duration, limits.max_trial_duration) == (
        timedelta(hours=2),
        timedelta(minutes=1),
    )
    assert apply_update(changed, "maxTrialNumber", value=None).limits().max_trial_number is None
    assert config.limits().trial_concurrency == 2


def test_rules_change(config: ExperimentConfig) -> None:
    rules = {"Total_Trial_Time": "2h", "plateau": {"trials": 20, "improvement": 0.001}}
    changed = apply_update(config, "stop_when", value=rules)
    assert changed.limits().stop_when == StopWhen(
        total_trial_time=timedelta(hours=2), plateau=Plateau(trials=20, improvement=0.001)
    )
    assert read_canonical(changed.canonical()).limits() == changed.limits()
    assert changed.canonical()["stopWhen"]["totalTrialTime"] == "2h"
    assert apply_update(changed, "stopWhen", value=None).limits().stop_when == StopWhen()


def test_the_search_space_changes(config: ExperimentConfig) -> None:
    space = {"y": {"_type": "uniform", "_value": [0, 1]}}
    assert apply_update(config, "searchSpace", value=space).search_space == space


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("trialConcurrency", 0, "trialConcurrency: must be greater than 0, not 0"),
        ("trialConcurrency", 10**23, f"trialConcurrency: must be at most 99999, not {10**23}"),
        ("trialConcurrency", None, "trialConcurrency: cannot be empty"),
        ("maxTrialNumber", "x", "maxTrialNumber: must be a whole number, not 'x'"),
        ("maxTrialNumber", 1.5, "maxTrialNumber: must be a whole number, not 1.5"),
        ("maxExperimentDuration", "30", "maxExperimentDuration: '30' is not a number with one of the units"),
        ("maxExperimentDuration", "1s", "maxExperimentDuration: must be more than 5 s, because"),
        ("stopWhen", {"plateau": {"trials": 0}}, "stopWhen.plateau.trials: must be greater than 0, not 0"),
        ("stopWhen", {"failure": 2}, "stopWhen.failure: unknown field; did you mean 'failures'?"),
        ("stopWhen", 5, "stopWhen: must be a mapping of keys to values, not 5"),
        ("searchSpace", [], "searchSpace: must be a mapping of names to parameters"),
        ("searchSpace", {"x": {"_type": "bad", "_value": []}}, "searchSpace.x._type: must be one of"),
        ("maxTrialNumbr", 1, "maxTrialNumbr: unknown field; did you mean 'maxTrialNumber'?"),
        ("foo", 1, "foo: unknown field (valid: trialConcurrency, "),
        ("trial_command", "x", "trial_command: cannot be changed while an experiment runs"),
        ("assessor", {}, "assessor: cannot be changed while an experiment runs"),
    ],
)
def test_faults(config: ExperimentConfig, field: str, value: Any, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        apply_update(config, field, value=value, elapsed=timedelta(seconds=5))
    assert fault in str(caught.value)


def test_all_faults_of_a_search_space(config: ExperimentConfig) -> None:
    with pytest.raises(ConfigError) as caught:
        apply_update(config, "searchSpace", value={"x": 1, "y": {"_type": "choice", "_value": 2}})
    assert [problem.field for problem in caught.value.problems] == ["searchSpace.x", "searchSpace.y._value"]


def test_the_tuner_changes(config: ExperimentConfig, tmp_path: Path) -> None:
    """The new tuner is given by name, by import path or as a user's class, with its search space."""
    tuner = {"Class_Name": "nni.algorithms.hpo.tpe_tuner.TpeTuner", "class_args": {"seed": 1}}
    changed = apply_update(config, "tuner", value=tuner)
    assert (builtin := changed.tuner.builtin("tuner")) and builtin.name == "TPE"
    assert changed.tuner.class_args == {"seed": 1, "optimize_mode": config.optimize_mode}
    own = {"className": "mine.Mine", "codeDirectory": str(tmp_path), "classArgs": {"key": "${env:KEY}"}}
    assert apply_update(config, "tuner", value=own).tuner.class_args == {"key": "${env:KEY}"}
    space = {"sets": {"_type": "choice", "_value": [{"x": 1}]}}
    both = apply_updates(config, {"tuner": {"name": "Batch"}, "searchSpace": space})
    assert (both.tuner.name, both.search_space) == ("Batch", space)


@pytest.mark.parametrize(
    ("tuner", "fault"),
    [
        ({"name": "TPE", "className": "a.B"}, "tuner.name: give either 'name'"),
        ({"builtinTunerName": "TPE"}, "tuner.builtinTunerName: unknown field; did you mean 'name'?"),
        ({"name": "TPE", "clasArgs": {}}, "tuner.clasArgs: unknown field; did you mean 'classArgs'?"),
        ({"name": "TPE", "classArgs": {"seed": "x"}}, "tuner.classArgs.seed: the argument seed of TPE"),
        ({"name": "Batch"}, "tuner: Batch cannot search the experiment's search space: Batch needs"),
        ({"className": "mine.Mine", "codeDirectory": "."}, "tuner.codeDirectory: must be an absolute path"),
        (
            {"name": "ASHA", "classArgs": {"max_budget": 9}},
            "tuner: ASHA is an advisor and decides itself",
        ),
    ],
)
def test_faults_of_a_new_tuner(config: ExperimentConfig, tuner: Any, fault: str) -> None:
    space = {**config.search_space, "y": {"_type": "uniform", "_value": [0, 1]}}
    with pytest.raises(ConfigError) as caught:
        apply_update(config.model_copy(update={"search_space": space}), "tuner", value=tuner)
    assert fault in str(caught.value)


def test_a_new_tuner_must_serve_the_objectives(config: ExperimentConfig) -> None:
    several = config.model_copy(update={"objectives": {"accuracy": "maximize", "latency": "minimize"}})
    with pytest.raises(ConfigError, match=r"tuner\.name: TPE optimizes one objective; several can be"):
        apply_update(several, "tuner", value={"name": "TPE"})
    assert apply_update(several, "tuner", value={"name": "NSGA2"}).tuner.name == "NSGA2"
    one = config.model_copy(update={"objectives": {"latency": "minimize"}})
    with pytest.raises(ConfigError, match=r"is maximize, but 'objectives\.latency' is minimize"):
        apply_update(one, "tuner", value={"name": "TPE", "classArgs": {"optimize_mode": "maximize"}})

"""Reading of configurations by NNI's rules: spellings, defaults, and the resulting fields."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ValidationError

from nnimgr.config import (
    ConfigError,
    LogLevel,
    check_config,
    read_canonical,
)
from nnimgr.config.document import read_document
from nnimgr.config.model import AlgorithmConfig, ExperimentConfig
from nnimgr.rules.facts import OnFailure
from tests.config.loading import GOAL, MINIMAL, Faults, Load


def test_a_minimal_configuration_gets_nnis_defaults(load: Load, tmp_path: Path) -> None:
    loaded = load(MINIMAL + GOAL, NNIMGR_HOME=str(tmp_path / "home"))
    assert loaded.warnings == ()
    assert loaded.config.canonical() == {
        "experimentType": "hpo",
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
        "trialCommand": "python3 trial.py",
        "trialCodeDirectory": str(tmp_path),
        "trialConcurrency": 2,
        "useAnnotation": False,
        "debug": False,
        "logLevel": "info",
        "experimentWorkingDirectory": str(tmp_path / "home"),
        "goal": "maximize",
        "tuner": {"name": "Random"},
        "trainingService": {
            "platform": "local",
            "trialCommand": "python3 trial.py",
            "trialCodeDirectory": str(tmp_path),
            "debug": False,
            "maxTrialNumberPerGpu": 1,
            "reuseMode": False,
        },
        "multiPhase": False,
    }


FULL = """\
EXPERIMENT_NAME: the name
experiment_type: hpo
search_space:
  x: {_type: choice, _value: [null, 1, {trial_command: kept}]}
Trial_Command: ./run
trialCodeDirectory: code
trialconcurrency: 3
trialGpuNumber: 0
maxExperimentDuration: 0.5h
MAXTRIALNUMBER: 10
maxTrialDuration: 90
nniManagerIp: 10.0.0.1
debug: true
experimentWorkingDirectory: ~/work
tunerGpuIndices: "1,0"
tuner: {class_name: my.Tuner, codeDirectory: code, classArgs: {optimize_mode: minimize, Deep_Key: {a: null}}}
assessor: {NAME: medianstop, class_args: {start_step: 2}}
suggestionsAhead: 0
silentAfter: 1m
slotHeldFor: 5m
multi_phase: true
training_service:
  PLATFORM: local
  use_active_gpu: false
  max_trial_number_per_gpu: 2
  gpu_indices: "0, 1"
  trial_command: ./other
"""


def test_every_field_in_any_spelling(load: Load, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    config = load(FULL).config
    plain = config.canonical()
    assert plain["trainingService"] == {
        "platform": "local",
        "trialCommand": "./other",
        "trialCodeDirectory": str(code),
        "trialGpuNumber": 0,
        "debug": True,
        "useActiveGpu": False,
        "maxTrialNumberPerGpu": 2,
        "gpuIndices": [0, 1],
        "reuseMode": False,
    }
    assert plain["searchSpace"]["x"]["_value"] == [None, 1, {"trial_command": "kept"}]
    assert plain["tuner"]["classArgs"] == {"optimize_mode": "minimize", "Deep_Key": {"a": None}}
    assert plain["maxExperimentDuration"] == "0.5h"
    assert plain["maxTrialDuration"] == 90
    assert plain["logLevel"] == "debug"
    assert plain["tunerGpuIndices"] == [1, 0]
    assert plain["experimentWorkingDirectory"] == str(tmp_path / "work")
    assert config.members[0].job_command == "./other"
    assert config.trial_command == "./run"
    limits = config.limits()
    assert (limits.trial_concurrency, limits.max_trial_number, limits.suggestions_ahead) == (3, 10, 0)
    assert limits.max_experiment_duration == timedelta(minutes=30)
    assert limits.max_trial_duration == timedelta(seconds=90)
    assert limits.multi_phase is True
    assert (config.silence, config.limits().slot_held_for) == (timedelta(minutes=1), timedelta(minutes=5))


def test_the_canonical_form_loads_back_as_the_same(load: Load, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    config = load(FULL).config
    stored = json.loads(json.dumps(config.canonical(), allow_nan=False))
    (tmp_path / "code").rmdir()  # a stored configuration stays valid without its files
    again = read_canonical(stored)
    assert again == config
    assert again.canonical() == stored
    with pytest.raises(ConfigError, match=r"trialCodeDirectory: the directory .* does not exist"):
        check_config(again)


@pytest.mark.parametrize("field", ["trialCodeDirectory", "experimentWorkingDirectory"])
def test_a_relative_directory_from_a_client_is_refused(load: Load, field: str) -> None:
    stored = load(MINIMAL + GOAL).config.canonical()
    with pytest.raises(ConfigError, match=f"{field}: the directory 'some/where' must be an absolute path"):
        check_config(read_canonical({**stored, field: "some/where"}))


def test_null_is_not_set(load: Load) -> None:
    config = load(MINIMAL + "assessor: null\nmaxTrialNumber:\nlogLevel: ~\n").config
    assert (config.assessor, config.max_trial_number, config.log_level) == (None, None, LogLevel.INFO)


def test_keys_that_yaml_does_not_read_as_text(load: Load) -> None:
    loaded = load(
        MINIMAL.replace("name: Random", "className: my.Tuner\n  classArgs: {sizes: {1: a, null: b}}") + GOAL
    )
    assert loaded.config.tuner.class_args == {"sizes": {"1": "a", "null": "b"}}
    assert len(loaded.warnings) == 2


def test_a_command_of_the_training_service_will_do(load: Load) -> None:
    text = MINIMAL.replace("trialCommand: python3 trial.py\n", "") + "  trialCommand: ./it\n"
    config = load(text).config
    assert (config.trial_command, config.members[0].job_command) == ("./it", "./it")


def test_gpu_numbers(load: Load) -> None:
    def number(text: str) -> tuple[Any, tuple[str, ...]]:
        service = f"{{platform: local, useActiveGpu: false, {text}}}"
        loaded = load(MINIMAL.partition("trainingService")[0] + GOAL + f"trainingService: {service}\n")
        assert read_canonical(loaded.config.canonical()) == loaded.config
        return loaded.config.members[0].job_gpu_number, tuple(str(warning) for warning in loaded.warnings)

    assert number("trialGpuNumber: 2.0") == (2, ())
    assert type(number("trialGpuNumber: 2.0")[0]) is int
    assert number("trialGpuNumber: 0.25, gpuIndices: 3") == (0.25, ())
    found, (warning,) = number("gpuIndices: [0]")
    assert found is None and "gpuIndices: not used, because trialGpuNumber is 0 or not set" in warning


def test_what_becomes_of_failures(load: Load) -> None:
    limits = load(MINIMAL).config.limits()
    assert (limits.max_lost_attempts, limits.max_failed_attempts) == (3, 0)
    assert (limits.on_failure, limits.failure_value) == (OnFailure.SKIP, None)
    config = load(MINIMAL + "maxRetries: {user_error: 2}\nonFailure: value\nfailure_value: -1\n").config
    plain = config.canonical()
    assert plain["maxRetries"] == {"infrastructure": 3, "userError": 2}
    assert (plain["onFailure"], plain["failureValue"]) == ("value", -1)
    again = read_canonical(plain)
    assert again == config and again.limits().failure_value == -1.0
    limits = load(MINIMAL + "maxRetries: {outOfMemory: 2, preempted: 0}\n").config.limits()
    assert (limits.max_memory_attempts, limits.max_preempted_attempts) == (2, 0)
    assert (limits.max_lost_attempts, limits.max_failed_attempts) == (3, 0)
    limits = load(MINIMAL + "maxRetries: 5\nonFailure: penalty\n").config.limits()
    assert (limits.max_memory_attempts, limits.max_preempted_attempts) == (None, None)
    assert (limits.max_lost_attempts, limits.max_failed_attempts, limits.on_failure) == (5, 5, "penalty")


class _Far(BaseModel):
    platform: Literal["far"] = "far"


@pytest.mark.parametrize(
    ("lease", "silent_after", "seconds"),
    [("5m", None, 300), ("29s", None, None), (10, "10s", 10), (9, "2s", None), ("1m", "2m", None)],
)
def test_a_lease_is_no_shorter_than_silence(
    lease: str | int, silent_after: str | None, seconds: int | None
) -> None:
    def make() -> ExperimentConfig:
        return ExperimentConfig(
            search_space={},
            trial_command="true",
            trial_code_directory=Path("/"),
            trial_concurrency=1,
            experiment_working_directory=Path("/"),
            tuner=AlgorithmConfig(name="Random"),
            training_service=_Far(),
            lease=lease,
            silent_after=silent_after,
        )

    if seconds is None:
        with pytest.raises(ValidationError, match=r"must be at least (30|10|120) s: no shorter than"):
            make()
    else:
        assert make().lease_time == timedelta(seconds=seconds)


def test_a_line_without_a_colon_is_named(faults: Faults) -> None:
    assert faults("trialConcurrency: 1\ngoal maximize\ntuner: {name: Random}\n") == [
        "exp.yml:2:1: not YAML: after the field's name, ':' is missing"
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("trialConcurrency: 1\ngoal:maximize\n", "2:1: not YAML: a space is missing after 'goal:'"),
        ("a: 1\nb:c\nd: 2\n", "2:1: not YAML: a space is missing after 'b:'"),
        (
            "searchSpace:\n  lr: {}\n\n degree: {}\n",
            "4:2: not YAML: this line is indented by 1 space and the line before it by 2; fields beside "
            "each other need the same indentation",
        ),
        (
            "trialCommand: ./a\n  goal: maximize\n",
            "2:7: not YAML: this line is indented by 2 spaces and the line before it by 0; fields beside "
            "each other need the same indentation",
        ),
        ("goal maximize\na: 1\n", "1:1: not YAML: after the field's name, ':' is missing"),
        ("a: 1\u2028b: 2\x85c: echo: hello\n", "3:8: not YAML: a value that contains ': ' must be in quotes"),
        ("a: 1\rb:c\rd: 2\r", "2:1: not YAML: a space is missing after 'b:'"),
        (
            "searchSpace:\n  x: _type: uniform, _value: [0, 1]}\n",
            "2:11: not YAML: a '{' is missing before the '}' of this line",
        ),
        ("trialCommand: echo: hello\n", "1:19: not YAML: a value that contains ': ' must be in quotes"),
        ("a: {b: 1\nc: 2\n", "2:2: not YAML: after the '{' in line 1, a ',' or the '}' is missing"),
        ("a: [1, 2\nb: 3\n", "2:2: not YAML: after the '[' in line 1, a ',' or the ']' is missing"),
        ('a: "x\nb: 2\n', "1:4: not YAML: the quotation mark that ends this text is missing"),
        (
            "a:\n - b\n c: 1\n",
            "3:2: not YAML: a field cannot stand beside the entries of a list; check the indentation",
        ),
        (
            "a: @b\n",
            "1:4: not YAML: while scanning for the next token, found character '@' that cannot start any "
            "token",
        ),
    ],
)
def test_what_is_not_yaml_is_told_in_plain_words(faults: Faults, text: str, sentence: str) -> None:
    assert faults(text) == [f"exp.yml:{sentence}"]


def test_a_program_is_told_from_yaml_with_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("import nni\nprint('lr: ', nni.get_next_parameter()['lr'])\n")
    with pytest.raises(ConfigError) as refused:
        read_document(file)
    assert str(refused.value) == f"{file}: this is a Python program, and not a file with YAML or JSON"

"""Reading configurations: NNI's rules, and faults that name their place."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ValidationError

from nnimgr.config import (
    ConfigError,
    Loaded,
    LogLevel,
    Problem,
    ReferenceUnresolved,
    check_config,
    load_config,
    read_canonical,
    resolve_secrets,
)
from nnimgr.config.model import AlgorithmConfig, ExperimentConfig
from nnimgr.rules.facts import OnFailure

PLATFORMS = "(valid: frameworkcontroller, kubeflow, kubernetes, local, remote)"
MINIMAL = """\
searchSpace:
  x: {_type: uniform, _value: [0, 1]}
trialCommand: python3 trial.py
trialConcurrency: 2
tuner:
  name: Random
trainingService:
  platform: local
"""

OBJECTIVES = """\
objectives:
  a: maximize

  b: minimize
"""

Load = Callable[..., Loaded]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Load a text as ``exp.yml``, named as seen from its own directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    def load(text: str, **environ: str) -> Loaded:
        Path("exp.yml").write_text(text, encoding="utf-8")
        return load_config(Path("exp.yml"), environ=environ)

    return load


@pytest.fixture
def faults(load: Load) -> Callable[..., list[str]]:
    """The faults of a text, one line each."""

    def faults(text: str, **environ: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            load(text, **environ)
        return [str(problem) for problem in caught.value.problems]

    return faults


Faults = Callable[..., list[str]]


def test_a_minimal_configuration_gets_nnis_defaults(load: Load, tmp_path: Path) -> None:
    loaded = load(MINIMAL, NNIMGR_HOME=str(tmp_path / "home"))
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
    (tmp_path / "code").rmdir()  # a stored configuration outlives what it points at
    again = read_canonical(stored)
    assert again == config
    assert again.canonical() == stored
    with pytest.raises(ConfigError, match=r"trialCodeDirectory: the directory .* does not exist"):
        check_config(again)


def test_null_is_not_set(load: Load) -> None:
    config = load(MINIMAL + "assessor: null\nmaxTrialNumber:\nlogLevel: ~\n").config
    assert (config.assessor, config.max_trial_number, config.log_level) == (None, None, LogLevel.INFO)


def test_all_faults_come_at_once_and_in_order(faults: Faults, tmp_path: Path) -> None:
    text = """\
experimentName: 5
trialConcurency: 2
maxTrialNumber: -1
maxTrialDuration: "30"
logLevel: warn
trialCodeDirectory: nowhere
tuner:
  name: Randm
searchSpace:
  x:
    _type: unifrom
    _value: [0, 1]
trainingService:
  platform: locl
foo: 1
"""
    found = faults(text)
    assert [fault.split(": ")[1] for fault in found] == [
        "trialCommand",
        "experimentName",
        "trialConcurency",
        "maxTrialNumber",
        "maxTrialDuration",
        "logLevel",
        "trialCodeDirectory",
        "tuner.name",
        "searchSpace.x._type",
        "trainingService.platform",
        "foo",
    ]
    assert found[0] == "exp.yml: trialCommand: required, but not given"
    assert found[1] == "exp.yml:1:1: experimentName: must be text, not 5"
    assert found[2] == "exp.yml:2:1: trialConcurency: unknown field; did you mean 'trialConcurrency'?"
    assert found[3] == "exp.yml:3:1: maxTrialNumber: must be greater than 0, not -1"
    assert found[4] == (
        "exp.yml:4:1: maxTrialDuration: '30' is not a number with one of the units s, m, h, d; "
        "write 30s, 10m, 0.5h or 2d"
    )
    assert found[5] == (
        "exp.yml:5:1: logLevel: unknown value 'warn'; did you mean 'warning'? "
        "(valid: fatal, error, warning, info, debug, trace)"
    )
    assert found[6] == f"exp.yml:6:1: trialCodeDirectory: the directory {tmp_path}/nowhere does not exist"
    assert found[7].startswith("exp.yml:8:3: tuner.name: there is no built-in tuner 'Randm'")
    assert found[8].startswith("exp.yml:11:5: searchSpace.x._type: must be one of choice, randint")
    assert found[9] == (
        f"exp.yml:14:3: trainingService.platform: unknown platform 'locl'; did you mean 'local'? {PLATFORMS}"
    )
    assert found[10].startswith("exp.yml:15:1: foo: unknown field (valid: experimentName, ")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("trialConcurrency: 2.5", "must be a whole number, not 2.5"),
        ("trialConcurrency: 0", "must be greater than 0, not 0"),
        ("trialConcurrency: '2'", "must be a whole number, not '2'"),
        ("trialCommand: [a]", "must be text, not a list"),
        ("trialCommand: ''", "must not be empty"),
        ("tuner: Random", "tuner: must be a mapping of keys to values, not 'Random'"),
        ("tuner: {}", "give either 'name' (a built-in algorithm) or 'className' (a class of your own)"),
        ("tuner: {name: Random, className: a.B}", "give either 'name'"),
        ("tuner: {name: Random, codeDirectory: .}", "'codeDirectory' goes with 'className', not with 'name'"),
        ("tuner: {className: Tuner}", "className 'Tuner' is not of the form 'module.Class'"),
        ("tuner: {className: a.B, codeDirectory: nowhere}", "tuner.codeDirectory: the directory"),
        (
            "tuner: {name: Random, classArgs: 3}",
            "tuner.classArgs: must be a mapping of keys to values, not 3",
        ),
        ("tuner: {name: Random, clasArgs: {}}", "tuner.clasArgs: unknown field; did you mean 'classArgs'?"),
        ("tuner: {name: Random, classArgs: {sed: 1}}", "Random takes no argument 'sed'"),
        ("tuner: {name: Random, classArgs: {seed: .inf}}", "tuner.classArgs.seed: inf cannot stand here"),
        (
            "tuner: {name: Random, classArgs: {seed: 2020-01-01}}",
            "is read by YAML as a date; put it in quotes",
        ),
        ("tuner: {name: _none_}", "tuner: required, but not given"),
        (
            "trainingService: local",
            f"trainingService: must be a mapping with a platform {PLATFORMS}",
        ),
        ("trainingService: []", "trainingService: the list of training services is empty"),
        (
            "trainingService: {}",
            f"trainingService.platform: required, but not given {PLATFORMS}",
        ),
        (
            "trainingService: {platform: openpai}",
            f"NNI's platform 'openpai' cannot be used in this version {PLATFORMS}",
        ),
        ("trainingService: {platform: local, gpus: 1}", "trainingService.gpus: unknown field"),
        (
            "trainingService: {platform: local, reuseMode: 3}",
            "trainingService.reuseMode: must be true or false",
        ),
        (
            "trainingService: {platform: local, trialGpuNumber: x}",
            "trainingService.trialGpuNumber: 'x' is not a number of GPUs; write 0, 0.5 or 2",
        ),
        (
            "trainingService: {platform: local, trialGpuNumber: 0.5, useActiveGpu: true, "
            "maxTrialNumberPerGpu: 2}",
            "maxTrialNumberPerGpu: must be left out: trialGpuNumber 0.5, a part of a GPU, says already how",
        ),
        (
            "trainingService: {platform: local, trialGpuNumber: 3, useActiveGpu: true, gpuIndices: '0,1'}",
            "trainingService.gpuIndices: trialGpuNumber asks for 3, but here are 2",
        ),
        ("trainingService: {platform: local, trialGpuNumber: 1}", "useActiveGpu: must be true or false when"),
        (
            "trainingService: {platform: local, maxTrialNumberPerGpu: 2}",
            "maxTrialNumberPerGpu: needs trialGpuNumber",
        ),
        ("searchSpace: [1]", "searchSpace: must be a mapping of keys to values, not a list"),
        ("searchSpace:", "searchSpace: give either searchSpace or searchSpaceFile"),
        ("searchSpaceFile: none.json", "searchSpaceFile: the file"),
        ("searchSpaceFile: 3", "searchSpaceFile: "),
    ],
)
def test_faults(faults: Faults, change: str, fault: str) -> None:
    key = change.partition(":")[0]
    kept = [part for part in MINIMAL.replace("\n  ", "\x00").splitlines() if not part.startswith(f"{key}:")]
    text = "\n".join(kept).replace("\x00", "\n  ") + f"\n{change}\n"
    assert fault in "\n".join(faults(text))


@pytest.mark.parametrize(
    ("addition", "fault"),
    [
        (
            "useAnnotation: true",
            "useAnnotation: annotations in the trial's source are not supported since NNI 3.0",
        ),
        ("experimentType: nas", "experimentType: unknown value 'nas' (valid: hpo)"),
        (
            "assessor: {name: curvefit}",
            "assessor.name: there is no built-in assessor 'curvefit'; valid names are Medianstop",
        ),
        ("advisor: {name: Random}", "advisor: give either an advisor or a tuner, not both"),
        (
            "trial_concurrency: 3",
            "trialConcurrency: given twice, as 'trialConcurrency' and as 'trial_concurrency'",
        ),
        ("tunerGpuIndices: [0, 0]", "tunerGpuIndices: [0, 0] names a GPU twice"),
        ("maxExperimentDuration: 0s", "maxExperimentDuration: '0s' is not longer than zero"),
        ("trialGpuNumber: -1", "trialGpuNumber: must be at least 0, not -1"),
        ("trialGpuNumber: 1.5", "trialGpuNumber: must be a whole number, or below 1 for a part of a GPU"),
        ("maxRetries: soon", "maxRetries: must be a mapping of keys to values, not 'soon'"),
        ("maxRetries: {userError: -1}", "maxRetries.userError: must be at least 0, not -1"),
        ("onFailure: guess", "onFailure: unknown value 'guess' (valid: skip, penalty, value)"),
        ("onFailure: value", "'onFailure: value' and 'failureValue' go together: give both or neither"),
        ("failureValue: 1", "'onFailure: value' and 'failureValue' go together: give both or neither"),
        ("{onFailure: value, failureValue: .inf}"[1:-1].replace(", ", "\n"), "must be a finite number"),
        ("onFailure: value\nfailureValue: much", "failureValue: must be a finite number, not 'much'"),
        ("onFailure: value\nfailureValue: {a: 1}", "failureValue: must be a number where no objectives are"),
        (f"{OBJECTIVES}onFailure: value\nfailureValue: {{a: 1}}", "exp.yml:14:1: failureValue: has no value"),
        (
            f"{OBJECTIVES}onFailure: value\nfailureValue: {{a: 1, b: 2, c: 3}}",
            "exp.yml:14:28: failureValue.c: is no objective (valid: a, b)",
        ),
        ("objectives: accuracy", "exp.yml:9:1: objectives: must be a mapping of keys to values"),
        ("objectives: {}", "exp.yml:9:1: objectives: must name at least one objective"),
        ("objectives: {' ': maximize}", "an objective must have a name"),
        (
            "objectives: {accuracy: maximise}",
            "exp.yml:9:14: objectives.accuracy: unknown value 'maximise'; did you mean 'maximize'?",
        ),
        ("objectives: {accuracy: }", "objectives.accuracy: unknown value None (valid: maximize, minimize)"),
        ("objectives: {a: minimize, default: minimize}", "objectives.default: must stand first, if at all"),
        (
            "objectives: {a: minimize}\nassessor: {name: Random, classArgs:\n  {optimize_mode: maximize}}",
            "exp.yml:11:4: assessor.classArgs.optimize_mode: is maximize, but the objective a is to be mini",
        ),
        ("silentAfter: soon", "silentAfter: 'soon' is not a number with one of the units"),
        ("lease: never", "lease: 'never' is not a number with one of the units"),
        ("lease: 5m", "'lease' is for machines that can lose their server; a local trial runs beside it"),
        ("trainingServicePlatform: local", "this file is in NNI's first format"),
    ],
)
def test_faults_of_further_fields(faults: Faults, addition: str, fault: str) -> None:
    assert fault in "\n".join(faults(MINIMAL + addition + "\n"))


def test_other_top_levels_than_mappings(faults: Faults) -> None:
    assert faults("- a\n") == ["exp.yml:1:1: the file must hold a mapping of fields to values"]
    assert faults("") == ["exp.yml: the file must hold a mapping of fields to values"]


@pytest.mark.parametrize(
    ("advisor", "fault"),
    [
        (
            "{name: hyperband, classArgs: {R: 0}}",
            "tuner.classArgs.R: the argument R of Hyperband must be an integer of at least 1, not 0",
        ),
        (
            "{className: mine.Advisor, codeDirectory: .}",
            "advisor.className: 'mine.Advisor': advisors cannot be run yet; name a tuner",
        ),
    ],
)
@pytest.mark.parametrize("search_space", ["{}", "{x: {_type: uniform, _value: [0, 1]}}"])
def test_advisors_are_refused_in_one_sentence(
    faults: Faults, advisor: str, fault: str, search_space: str
) -> None:
    kept = MINIMAL.replace("\n  ", "\x00").splitlines()
    text = "\n".join(line for line in kept if not line.startswith(("tuner", "searchSpace")))
    text = text.replace("\x00", "\n  ")
    (found,) = faults(f"{text}\nadvisor: {advisor}\nsearchSpace: {search_space}\n")
    assert found.endswith(fault)


def test_an_advisor_becomes_the_tuner(load: Load) -> None:
    text = MINIMAL.replace("tuner:", "advisor:")
    assert load(text).config.tuner.name == "Random"


def test_an_assessor_beside_an_advisor_is_not_used(load: Load) -> None:
    text = MINIMAL + "assessor: {name: Medianstop}\n"
    assert load(text).warnings == ()
    loaded = load(text.replace("Random", "Hyperband"))
    assert [str(warning) for warning in loaded.warnings] == [
        "exp.yml:9:1: assessor: not used, since Hyperband is an advisor, which decides itself who goes on"
    ]
    (warning,) = check_config(loaded.config)
    assert warning.field == "assessor"


def test_a_parameter_that_an_advisor_adds_cannot_be_in_the_search_space(faults: Faults) -> None:
    text = MINIMAL.replace("Random", "ASHA").replace("  x:", "  TRIAL_BUDGET:")
    (found,) = faults(text)
    assert "TRIAL_BUDGET cannot be a parameter, since ASHA adds it to the parameters itself" in found


def test_a_search_space_file_is_json_or_yaml_and_wins(load: Load, tmp_path: Path) -> None:
    (tmp_path / "space.json").write_text('{"y": {"_type": "loguniform", "_value": [1e-5, 1]}}')
    loaded = load(MINIMAL + "searchSpaceFile: space.json\n")
    assert loaded.config.search_space == {"y": {"_type": "loguniform", "_value": [1e-5, 1]}}
    assert loaded.config.canonical()["searchSpaceFile"] == str(tmp_path / "space.json")
    assert [str(warning) for warning in loaded.warnings] == [
        "exp.yml:1:1: searchSpace: not used, since searchSpaceFile is given too"
    ]
    (tmp_path / "space.json").write_text("y: {_type: choice, _value: [a]}")
    assert load(MINIMAL + "searchSpaceFile: space.json\n").config.search_space["y"]["_value"] == ["a"]


def test_a_fault_in_a_search_space_file_points_there(faults: Faults, tmp_path: Path) -> None:
    space = tmp_path / "space.yml"
    space.write_text("a: {_type: choice, _value: [1]}\nb:\n  _type: uniform\n  _value: [1e-5, 1]\n")
    text = MINIMAL.replace(
        "searchSpace:\n  x: {_type: uniform, _value: [0, 1]}", "searchSpaceFile: space.yml"
    )
    (fault,) = faults(text)
    assert fault == (
        f"{space}:4:12: b._value[0]: the lower bound of uniform must be a number, not '1e-5'; "
        "YAML reads 1e-5 as text, write it with point and sign: 1.0e-5"
    )
    space.write_text("- 1\n")
    assert faults(text) == [f"{space}:1:1: the search space must be a mapping of names to parameters"]


def test_a_file_that_is_named_json_is_refused_as_json(faults: Faults, tmp_path: Path) -> None:
    space = tmp_path / "space.json"
    space.write_text('{\n\t"x": {"_type": "uniform", "_value": [0, 1]}\n\t"y": {}\n}')
    text = MINIMAL.replace(
        "searchSpace:\n  x: {_type: uniform, _value: [0, 1]}", "searchSpaceFile: space.json"
    )
    assert faults(text) == [f"{space}:3:2: not JSON: expecting ',' delimiter"]


def test_an_empty_search_space_is_a_mapping(load: Load) -> None:
    text = MINIMAL.replace("\n  x: {_type: uniform, _value: [0, 1]}", " {}")
    assert load(text).config.search_space == {}


def test_a_tuner_of_the_users_may_read_spaces_in_its_own_way(load: Load) -> None:
    text = MINIMAL.replace("name: Random", "className: my.Tuner").replace("uniform", "fractal")
    loaded = load(text)
    assert loaded.config.search_space["x"]["_type"] == "fractal"
    assert "searchSpace.x._type: must be one of" in str(loaded.warnings[0])


def test_keys_that_yaml_does_not_read_as_text(load: Load) -> None:
    loaded = load(
        MINIMAL.replace("name: Random", "className: my.Tuner\n  classArgs: {sizes: {1: a, null: b}}")
    )
    assert loaded.config.tuner.class_args == {"sizes": {"1": "a", "null": "b"}}
    assert len(loaded.warnings) == 2


def test_secrets_of_algorithms_stay_references(load: Load, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("from a file\n")
    arguments = '{key: "a ${env:KEY} b", nested: [{f: "${file:secret.txt}"}]}'
    text = MINIMAL.replace("name: Random", f"className: my.Tuner\n  classArgs: {arguments}")
    config = load(text, KEY="from the environment").config
    plain = config.canonical()["tuner"]["classArgs"]
    assert plain == {"key": "a ${env:KEY} b", "nested": [{"f": f"${{file:{tmp_path}/secret.txt}}"}]}
    used = resolve_secrets(plain, {"KEY": "from the environment"}, Path("/"))
    assert used == {"key": "a from the environment b", "nested": [{"f": "from a file"}]}
    with pytest.raises(ReferenceUnresolved, match="the environment variable KEY is not set"):
        resolve_secrets(plain, {}, Path("/"))


def test_references_that_lead_nowhere_are_faults(faults: Faults, tmp_path: Path) -> None:
    arguments = '\n    a: "${env:NONE}"\n    b: ["${file:none.txt}"]'
    text = MINIMAL.replace("name: Random", f"className: my.Tuner\n  classArgs:{arguments}")
    assert faults(text) == [
        "exp.yml:8:5: tuner.classArgs.a: the environment variable NONE is not set",
        f"exp.yml:9:9: tuner.classArgs.b[0]: the file {tmp_path}/none.txt cannot be read: "
        "No such file or directory",
    ]


def test_other_texts_are_resolved_when_read(load: Load, tmp_path: Path) -> None:
    text = MINIMAL + "experimentName: run of ${env:WHO}\nexperimentWorkingDirectory: ${env:WHO}/out\n"
    config = load(text, WHO="me").config
    assert config.experiment_name == "run of me"
    assert config.experiment_working_directory == tmp_path / "me" / "out"


def test_a_reference_in_the_trial_command_is_a_fault(faults: Faults) -> None:
    (fault,) = faults(MINIMAL.replace("trial.py", "trial.py ${env:KEY}"), KEY="x")
    assert fault == (
        "exp.yml:3:1: trialCommand: references are not replaced in the trial command: "
        "trials inherit your environment, so write $NAME instead of ${env:NAME}"
    )


def test_a_command_of_the_training_service_will_do(load: Load) -> None:
    text = MINIMAL.replace("trialCommand: python3 trial.py\n", "") + "  trialCommand: ./it\n"
    config = load(text).config
    assert (config.trial_command, config.members[0].job_command) == ("./it", "./it")


def test_problems_have_a_plain_form(load: Load) -> None:
    with pytest.raises(ConfigError) as caught:
        load(MINIMAL + "logLevel: warn\n")
    (problem,) = caught.value.problems
    expected: dict[str, Any] = {
        "message": "unknown value 'warn'",
        "field": "logLevel",
        "file": "exp.yml",
        "line": 9,
        "column": 1,
        "valid": ["fatal", "error", "warning", "info", "debug", "trace"],
        "nearest": "warning",
    }
    assert problem.plain() == expected


def test_a_problem_of_the_whole_text_has_an_empty_field() -> None:
    problem = Problem(message="it is empty")
    assert problem.plain() == {"message": "it is empty", "field": ""}
    assert Problem.of_plain(problem.plain()) == problem


@pytest.mark.parametrize("plain", [{}, {"trialConcurrency": 1}, {"tuner": 3, "trainingService": None}])
def test_a_canonical_form_with_faults(plain: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        read_canonical(plain)


def test_gpu_numbers(load: Load) -> None:
    def number(text: str) -> tuple[Any, tuple[str, ...]]:
        service = f"{{platform: local, useActiveGpu: false, {text}}}"
        loaded = load(MINIMAL.partition("trainingService")[0] + f"trainingService: {service}\n")
        assert read_canonical(loaded.config.canonical()) == loaded.config
        return loaded.config.members[0].job_gpu_number, tuple(str(warning) for warning in loaded.warnings)

    assert number("trialGpuNumber: 2.0") == (2, ())
    assert type(number("trialGpuNumber: 2.0")[0]) is int
    assert number("trialGpuNumber: 0.25, gpuIndices: 3") == (0.25, ())
    found, (warning,) = number("gpuIndices: [0]")
    assert found is None and "gpuIndices: not used, since trialGpuNumber is 0 or not given" in warning


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
    limits = load(MINIMAL + "maxRetries: 5\nonFailure: penalty\n").config.limits()
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


# ---- objectives -------------------------------------------------------------------------------------------


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

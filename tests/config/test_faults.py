"""Errors of a configuration: each names its place and a valid value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nnimgr.config import (
    ConfigError,
    Problem,
    read_canonical,
)
from tests.config.loading import MINIMAL, Faults, Load

PLATFORMS = "(valid: ask, frameworkcontroller, kubeflow, kubernetes, local, ray, remote, slurm)"


OBJECTIVES = """\
objectives:
  a: maximize

  b: minimize
"""


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
    assert (
        found[0]
        == "exp.yml: trialCommand: required, but not given; for example: trialCommand: python3 trial.py"
    )
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
        ("trialConcurrency: '2'", 'must be a whole number, not the text "2": remove the quotes'),
        ("trialCommand: [a]", "must be text, not a list"),
        ("trialCommand: ''", "must not be empty"),
        ("tuner: Random", "tuner: must be a mapping of keys to values, not 'Random'; write {name: Random}"),
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
        ("maxTrials: 5", "maxTrials: unknown field; did you mean 'maxTrialNumber'?"),
        ("num_trials: 5", "num_trials: unknown field; did you mean 'maxTrialNumber'?"),
        ("tuner: {name: Bayes}", "did you mean GP?"),
        (
            "tuner: {name: TPE, seed: 1}",
            "tuner.seed: is an argument of TPE: write it under classArgs, as in classArgs: {seed: 1}",
        ),
        (
            "assessor: {name: Medianstop, start_step: 3}",
            "assessor.start_step: is an argument of Medianstop: write it under classArgs, as in classArgs: ",
        ),
        ("scheduler: {name: ASHA, optimize_mode: minimize}", "is an argument of ASHA: write it under"),
        (
            "tuner: {className: a.B, epochs: 3}",
            "tuner.epochs: unknown field; arguments of the algorithm go under classArgs (valid: name, ",
        ),
        ("tuner: {name: Random, classArgs: {sed: 1}}", "Random takes no argument 'sed'"),
        ("tuner: {name: Random, classArgs: {seed: .inf}}", "tuner.classArgs.seed: inf is not allowed here"),
        (
            "tuner: {name: Random, classArgs: {seed: 2020-01-01}}",
            "is read by YAML as a date; put it in quotes",
        ),
        ("tuner: {name: _none_}", "tuner: required, but not given; for example: tuner: {name: TPE}"),
        (
            "trainingService: local",
            f"trainingService: must be a mapping with a platform {PLATFORMS}",
        ),
        ("trainingService: []", "trainingService: the list of training services is empty"),
        (
            "trainingService: {}",
            f"trainingService.platform: required, but not given {PLATFORMS}",
        ),
        ("trainingService: {platform: openpai}", "trainingService.host: required, but not given"),
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
            "maxTrialNumberPerGpu: remove it: trialGpuNumber 0.5 already says how",
        ),
        (
            "trainingService: {platform: local, trialGpuNumber: 3, useActiveGpu: true, gpuIndices: '0,1'}",
            "trainingService.gpuIndices: lists fewer GPUs (2) than trialGpuNumber (3)",
        ),
        (
            "trainingService: {platform: local, trialGpuNumber: 1}",
            "useActiveGpu: must be set to true or false if",
        ),
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
        ("trialGpuNumber: 1.5", "trialGpuNumber: must be a whole number, or a fraction below 1 of one GPU"),
        (
            "maxRetries: soon",
            "maxRetries: must be a whole number, or a mapping of causes to numbers, not 'soon'",
        ),
        ("maxRetries: {userError: -1}", "maxRetries.userError: must be at least 0, not -1"),
        ("maxRetries: {preempted: -1}", "maxRetries.preempted: must be at least 0, not -1"),
        ("onFailure: guess", "onFailure: unknown value 'guess' (valid: skip, penalty, value)"),
        ("onFailure: value", "'onFailure: value' and 'failureValue' go together: give both or neither"),
        ("failureValue: 1", "'onFailure: value' and 'failureValue' go together: give both or neither"),
        ("{onFailure: value, failureValue: .inf}"[1:-1].replace(", ", "\n"), "must be a finite number"),
        ("onFailure: value\nfailureValue: much", "failureValue: must be a finite number, not 'much'"),
        ("onFailure: value\nfailureValue: {a: 1}", "failureValue: must be a number where no objectives are"),
        (f"{OBJECTIVES}onFailure: value\nfailureValue: {{a: 1}}", "exp.yml:14:1: failureValue: has no value"),
        (
            f"{OBJECTIVES}onFailure: value\nfailureValue: {{a: 1, b: 2, c: 3}}",
            "exp.yml:14:28: failureValue.c: is not an objective (valid: a, b)",
        ),
        ("objectives: accuracy", "exp.yml:9:1: objectives: must be a mapping of keys to values"),
        ("objectives: {}", "exp.yml:9:1: objectives: must name at least one objective"),
        ("objectives: {' ': maximize}", "an objective must have a name"),
        (
            "objectives: {accuracy: maximise}",
            "exp.yml:9:14: objectives.accuracy: unknown value 'maximise'; did you mean 'maximize'?",
        ),
        ("objectives: {accuracy: }", "objectives.accuracy: unknown value None (valid: maximize, minimize)"),
        ("objectives: {a: minimize, default: minimize}", "objectives.default: must be the first objective"),
        (
            "objectives: {a: minimize}\nassessor: {name: Random, classArgs:\n  {optimize_mode: maximize}}",
            "exp.yml:11:4: assessor.classArgs.optimize_mode: is maximize, but 'objectives.a' in line 9 is ",
        ),
        ("silentAfter: soon", "silentAfter: 'soon' is not a number with one of the units"),
        ("lease: never", "lease: 'never' is not a number with one of the units"),
        (
            "lease: 5m",
            "'lease' is for trials on machines that can lose the connection to the server. Local trials",
        ),
        ("trainingServicePlatform: local", "trainingService is of the second format"),
    ],
)
def test_faults_of_further_fields(faults: Faults, addition: str, fault: str) -> None:
    assert fault in "\n".join(faults(MINIMAL + addition + "\n"))


def test_other_top_levels_than_mappings(faults: Faults) -> None:
    assert faults("- a\n") == ["exp.yml:1:1: the file must hold a mapping of fields to values"]
    assert faults("") == ["exp.yml: the file must hold a mapping of fields to values"]


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


@pytest.mark.parametrize(
    ("algorithm", "fields"),
    [
        ("tuner: {name: Random, classArgs: {sed: 1, seed: x, mode: max}}", ["mode", "sed", "seed"]),
        ("tuner: {name: TPE, classArgs: {tpe_args: {gama: 1, gamma: 0}, sed: 1}}", ["sed", "tpe_args"]),
        (
            "assessor: {name: Patient, classArgs: {wrapped: {name: Medianstop, classArgs: {a: 1, b: 1}}}}",
            ["wrapped.classArgs.a", "wrapped.classArgs.b"],
        ),
    ],
)
def test_all_wrong_arguments_are_shown_at_once(faults: Faults, algorithm: str, fields: list[str]) -> None:
    base = MINIMAL if "assessor" in algorithm else MINIMAL.replace("tuner:\n  name: Random\n", "")
    found = faults(f"{base}{algorithm}\n")
    assert all(f".classArgs.{field}" in " ".join(found) for field in fields)
    assert len(found) == len(fields) + ("tpe_args" in fields)

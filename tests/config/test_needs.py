"""Needs that are expressions over parameters, memory that grows, and priorities, in configurations."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from nnimgr.config import (
    ConfigError,
    ExperimentConfig,
    apply_update,
    load_config,
    read_canonical,
    refuse_needs,
)
from nnimgr.config.preview import preview
from nnimgr.config.trial_needs import sample_wants
from nnimgr.core.running.requests import changed_config
from nnimgr.rules.terms import MemoryGrowth
from tests.config.loading import GOAL
from training_services.placement.needs import Wants

SPACE = """\
searchSpace:
  model: {_type: choice, _value: [small, large]}
  layers: {_type: randint, _value: [1, 4]}
trialCommand: python3 trial.py
trialConcurrency: 2
"""
LOCAL = "trainingService: {platform: local, useActiveGpu: false}\n"
PODS = "trainingService: {platform: kubernetes, image: a%s}\n"
RANDOM = "tuner: {name: Random}\n"


def load(tmp_path: Path, more: str, *, service: str = LOCAL, tuner: str = RANDOM) -> ExperimentConfig:
    (tmp_path / "exp.yml").write_text(GOAL + SPACE + tuner + more + service)
    found = load_config(tmp_path / "exp.yml", environ={"HOME": str(tmp_path)})
    assert not found.warnings
    return found.config


def faults(tmp_path: Path, more: str, **how: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, more, **how)
    return [str(problem).removeprefix(f"{tmp_path}/") for problem in caught.value.problems]


def test_an_expression_stays_in_the_users_notation(tmp_path: Path) -> None:
    text = "{{ 2 if model == 'large' else 1 }}"
    found = load(tmp_path, f'trialGpuNumber: "{text}"\ntrialMemorySize: "{{{{ 2 * layers }}}}"\n')
    canonical = found.canonical()
    assert canonical["trialGpuNumber"] == canonical["trainingService"]["trialGpuNumber"] == text
    for config in (found, read_canonical(canonical)):
        (member,) = config.members
        assert (member.job_gpu_number, member.job_memory_size) == (None, None)
        assert member.own_needs is not None
        assert member.own_needs.gpus is not None and member.own_needs.cpus is None
    (seen,) = preview(found).members
    assert (seen.gpus, seen.cpus, seen.memory) == (text, None, "{{ 2 * layers }}")
    assert sample_wants(found.members[0]).gpus in (1, 2)


def test_plain_needs_have_no_functions(tmp_path: Path) -> None:
    (member,) = load(tmp_path, "trialGpuNumber: 1\ntrialCpuNumber: 0.5\ntrialMemorySize: 1mb\n").members
    assert member.own_needs is None
    assert sample_wants(member) == Wants(1, 0.5, 1)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ('trialGpuNumber: "{{ 1 if }}"', "8:1: trialGpuNumber: the expression cannot be read at its end"),
        ('trialGpuNumber: "{{ modle }}"', "8:1: trialGpuNumber: the search space has no parameter modle"),
        ('trialGpuNumber: "{{ modle }}"', "did you mean 'model'?"),
        ('trialGpuNumber: "{{ model }}"', "has no valid value for model = '"),
        (
            'trialGpuNumber: "{{ 2 - layers }}"',
            "has no valid value for layers = 3: must be at least 0, not -1",
        ),
        ('trialCpuNumber: "{{ layers > 1 }}"', "has no valid value for layers = "),
        ('trialCpuNumber: "{{ layers * 99999 }}"', "asks for up to 299997 CPUs, but this machine has"),
        ('trialMemorySize: "{{ layers * 99999999 }}"', "trialMemorySize: asks for up to 2.93e+05 GiB, but"),
        (
            "trialMemorySize: {start: 2gb, limit: 1gb}",
            "trialMemorySize.limit: 'limit' (1gb) must be more than",
        ),
        ("trialMemorySize: {start: 2gb}", "trialMemorySize.limit: required, but not given"),
        ("trialMemorySize: {start: 1gb, limit: 2gb, factor: 1}", "8:43: trialMemorySize.factor: must be at"),
        ("trialMemorySize: {start: 1gb, limit: 2gb, faktor: 2}", "trialMemorySize.faktor: unknown field"),
        (
            "trialMemorySize: {start: 1mb, limit: 999999tb}",
            "trialMemorySize.limit: asks for 1.024e+09 GiB, but",
        ),
        (
            "trialMemorySize: {start: '{{ layers }}', limit: 2gb}",
            "trialMemorySize.start: '{{ layers }}' is not",
        ),
        ("priority: high", "priority: must be a whole number, not 'high'"),
        ("priority: 1001", "priority: must be at most 1000"),
    ],
)
def test_errors_name_their_line(tmp_path: Path, more: str, sentence: str) -> None:
    (found,) = faults(tmp_path, more + "\n")
    assert sentence in found and found.startswith("exp.yml:8:")


def test_an_expression_needs_quotes(tmp_path: Path) -> None:
    (found,) = faults(tmp_path, "trialGpuNumber: {{ 2 if layers > 1 else 1 }}\n")
    assert found.endswith(
        '8:18: a list or a mapping cannot be a key; put an expression in quotes: "{{ ... }}"'
    )


def test_initial_sets_are_tried_too(tmp_path: Path) -> None:
    text = 'trialGpuNumber: "{{ 10 // (layers - 1) }}"\ninitialParameters: [{layers: 1}]\n'
    (found,) = faults(tmp_path, text)
    assert "has no valid value for layers = 1: a number is divided by zero" in found


def test_sets_that_do_not_meet_the_constraints_do_not_count(tmp_path: Path) -> None:
    load(tmp_path, 'trialGpuNumber: "{{ 6 // (layers - 1) }}"\nsearchSpaceConstraints: [layers > 1]\n')


def test_parameters_of_the_tuner_are_known_later(tmp_path: Path) -> None:
    hyperband = "tuner: {name: Hyperband, classArgs: {optimize_mode: maximize, R: 9, eta: 3}}\n"
    load(tmp_path, 'trialCpuNumber: "{{ 1 if TRIAL_BUDGET < 9 else 2 }}"\n', tuner=hyperband)


def test_a_training_service_may_have_its_own_expression(tmp_path: Path) -> None:
    service = 'trainingService: {platform: local, useActiveGpu: true, trialGpuNumber: "{{ layrs }}"}\n'
    (found,) = faults(tmp_path, "trialGpuNumber: 1\n", service=service)
    assert "trainingService.trialGpuNumber: the search space has no parameter layrs" in found
    own = load(tmp_path, "trialGpuNumber: 1\n", service=service.replace("layrs", "layers")).members[0]
    assert own.own_needs is not None and own.own_needs.gpus is not None


def test_memory_that_grows(tmp_path: Path) -> None:
    found = load(tmp_path, "trialMemorySize: {start: 4mb, factor: 1.5, limit: 32mb}\n")
    growth = MemoryGrowth(start=4, factor=1.5, limit=32)
    for config in (found, read_canonical(found.canonical())):
        assert config.limits().memory_growth == growth
        (member,) = config.members
        assert member.job_memory_size is None and sample_wants(member).memory == 4
    (seen,) = preview(found).members
    assert seen.memory == "4mb, 1.5 times as much after a lack of memory, up to 32mb"


def test_memory_that_grows_is_the_same_everywhere(tmp_path: Path) -> None:
    service = "trainingService: {platform: local, trialMemorySize: {start: 1mb, limit: 2mb}}\n"
    for more in ("", "trialMemorySize: 1mb\n", "trialMemorySize: {start: 1mb, limit: 3mb}\n"):
        (found,) = faults(tmp_path, more, service=service)
        assert "memory that grows is the same for all training services: give trialMemorySize only" in found
    assert load(tmp_path, "trialMemorySize: {start: 1mb, limit: 2mb}\n", service=service)


def test_gpus_of_an_expression_need_the_fields_of_gpus(tmp_path: Path) -> None:
    (found,) = faults(
        tmp_path, 'trialGpuNumber: "{{ layers }}"\n', service="trainingService: {platform: local}\n"
    )
    assert "useActiveGpu: must be set to true or false" in found
    load(
        tmp_path,
        'trialGpuNumber: "{{ layers }}"\n',
        service="trainingService: {platform: local, useActiveGpu: true, gpuIndices: [0], "
        "maxTrialNumberPerGpu: 2}\n",
    )


@pytest.mark.parametrize("need", ['"{{ layers }}"', "{start: 1gb, limit: 2gb}"])
def test_pods(tmp_path: Path, need: str) -> None:
    need = f"trialMemorySize: {need}\n"
    load(tmp_path, need, service=PODS % "")
    (found,) = faults(tmp_path, need, service=PODS % ", reuseMode: true")
    assert "trainingService.reuseMode: all trials of a pod that is used again have its resources" in found
    (found,) = faults(tmp_path, need, service=PODS % ", resources: {memory: 1Gi}")
    assert "resources.memory: all trials get this amount, so trialMemorySize has no effect" in found


def test_a_new_search_space_needs_the_names(tmp_path: Path) -> None:
    found = load(tmp_path, 'trialGpuNumber: "{{ layers }}"\n')
    refuse_needs(found)
    changed = {"searchSpace": {"depth": {"_type": "randint", "_value": [1, 4]}}}
    with pytest.raises(ConfigError, match="trialGpuNumber: the search space has no parameter layers"):
        changed_config(found, changed, elapsed=timedelta(0))


def test_a_priority_can_be_changed(tmp_path: Path) -> None:
    found = load(tmp_path, "priority: -3\n")
    assert (found.priority, found.canonical()["priority"]) == (-3, -3)
    assert apply_update(found, "priority", value=10).priority == 10
    assert apply_update(found, "priority", value=None).priority is None
    with pytest.raises(ConfigError, match="must be at most 1000"):
        apply_update(found, "priority", value=2000)


def test_a_priority_without_effect_is_a_warning(tmp_path: Path) -> None:
    text = GOAL + SPACE + RANDOM + "priority: 1\n" + PODS % ""
    (tmp_path / "exp.yml").write_text(text)
    (warning,) = load_config(tmp_path / "exp.yml", environ={"HOME": str(tmp_path)}).warnings
    assert str(warning).endswith(
        'priority: no effect: the platform "kubernetes" has a queue of its own; give priorityClass instead'
    )


def test_preemptible_is_refused_where_trials_cannot_be_stopped_for_others(tmp_path: Path) -> None:
    found = load(tmp_path, "preemptible: true\ntrialCpuNumber: 1\n")
    assert (found.preemptible, found.canonical()["preemptible"]) == (True, True)
    assert faults(tmp_path, "preemptible: true\n", service=PODS % "") == [
        'exp.yml:8:1: preemptible: not possible on the platform "kubernetes", which has a queue of its own: '
        "leave preemptible out, and give priorityClass: the cluster ends pods of a lower class for others"
    ]
    assert faults(tmp_path, "preemptible: true\n", service="trainingService: {platform: ask}\n")[0].endswith(
        'not possible on the platform "ask", which has a queue of its own: leave preemptible out'
    )
    assert faults(tmp_path, "trialCpuNumber: 1\nmultiPhase: true\npreemptible: true\n") == [
        "exp.yml:10:1: preemptible: not possible together with multiPhase, whose trials do not continue from "
        "checkpoints: leave one of them out"
    ]


def test_preemptible_without_effect_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "exp.yml").write_text(GOAL + SPACE + RANDOM + LOCAL + "preemptible: true\n")
    (warning,) = load_config(tmp_path / "exp.yml", environ={"HOME": str(tmp_path)}).warnings
    assert str(warning).endswith(
        "preemptible: no effect: the trials reserve nothing that other trials could need; give "
        "trialGpuNumber, trialCpuNumber or trialMemorySize"
    )


def test_errors_in_constraints_come_first(tmp_path: Path) -> None:
    text = 'trialGpuNumber: "{{ layrs }}"\nsearchSpaceConstraints: ["layrs > 1"]\n'
    (found,) = faults(tmp_path, text)
    assert "searchSpaceConstraints[0]" in found


def test_sets_of_batch(tmp_path: Path) -> None:
    space = "searchSpace: {s: {_type: choice, _value: [{gpus: 1}, {gpus: 3, more: 2}]}}\n"
    (tmp_path / "exp.yml").write_text(
        GOAL
        + space
        + SPACE.partition("trialCommand")[1]
        + SPACE.partition("trialCommand")[2]
        + 'tuner: {name: Batch}\ntrialGpuNumber: "{{ gpus - 2 }}"\n'
        + LOCAL
    )
    with pytest.raises(ConfigError, match="has no valid value for gpus = 1: must be at least 0, not -1"):
        load_config(tmp_path / "exp.yml", environ={"HOME": str(tmp_path)})

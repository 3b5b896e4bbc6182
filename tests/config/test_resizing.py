"""Which resources a scheduler may change, by the configuration."""

from __future__ import annotations

import pytest

from tests.config.loading import GOAL, MINIMAL, Faults, Load
from training_services.base import TrialJobSpec

RESOURCES = "scheduler: {name: Resources, classArgs: {total: {trialCpuNumber: 2}}}\n"


def test_a_plain_number_can_be_changed_for_each_job(load: Load) -> None:
    config = load(MINIMAL + GOAL + RESOURCES + "trialCpuNumber: 1\ntrialMemorySize: 1gb\n").config
    assert config.resizable == {"trialCpuNumber": 1, "trialMemorySize": 1024}
    assert config.limits().resizable == ("trialCpuNumber", "trialMemorySize")
    own = config.members[0].own_needs
    assert own is not None and own.cpus is not None and own.gpus is None
    job = TrialJobSpec(id="e-t-1", trial_id="t", attempt=1, sequence=0, parameter_text="{}")
    assert own.cpus(job) == 1
    more = TrialJobSpec(
        id="e-t-2", trial_id="t", attempt=2, sequence=0, parameter_text="{}", resources={"trialCpuNumber": 2}
    )
    assert own.cpus(more) == 2


@pytest.mark.parametrize(
    "text",
    [
        "trialCpuNumber: 1\n",
        "trialCpuNumber: 1\nscheduler: {name: ASHA}\n",
        "scheduler: {className: a.B, codeDirectory: .}\n",
    ],
)
def test_otherwise_all_jobs_need_the_same(load: Load, text: str) -> None:
    config = load(MINIMAL + GOAL + text).config
    assert config.resizable == {} and config.members[0].own_needs is None


@pytest.mark.parametrize("cpus", ["", 'trialCpuNumber: "{{ 1 if x > 0.5 else 2 }}"\n'])
def test_resources_needs_a_plain_number(faults: Faults, cpus: str) -> None:
    (found,) = faults(MINIMAL + GOAL + RESOURCES + cpus)
    assert (
        "scheduler.classArgs.total.trialCpuNumber: needs trialCpuNumber in the configuration as a plain "
        "number above 0, the same for all training services"
    ) in found


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ("{}", "total"),
        (
            "{total: {}}",
            "must be a mapping of trialGpuNumber, trialCpuNumber, trialMemorySize (MB) to",
        ),
        (
            "{total: {cpus: 1}}",
            "must be a mapping of trialGpuNumber, trialCpuNumber, trialMemorySize (MB) to",
        ),
        ("{total: {trialCpuNumber: 2}, most: 1}", "must be an integer of at least 2"),
    ],
)
def test_faults_of_the_arguments(faults: Faults, arguments: str, fault: str) -> None:
    text = f"trialCpuNumber: 1\nscheduler: {{name: Resources, classArgs: {arguments}}}\n"
    assert any(fault in found for found in faults(MINIMAL + GOAL + text))

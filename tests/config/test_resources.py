"""``trialCpuNumber`` and ``trialMemorySize``: NNI's units, and values that are refused before the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnimgr.config import ConfigError, ExperimentConfig, load_config, read_canonical
from tests.config.loading import MINIMAL
from trial_keeper.machine.capacity import capacity


def load(tmp_path: Path, more: str) -> ExperimentConfig:
    (tmp_path / "exp.yml").write_text(MINIMAL + more)
    return load_config(tmp_path / "exp.yml", environ={"HOME": str(tmp_path)}).config


def fault(tmp_path: Path, more: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, more)
    (problem,) = caught.value.problems
    return str(problem)


def test_units_are_those_of_nni(tmp_path: Path) -> None:
    found = load(tmp_path, "trialCpuNumber: 0.5\ntrial_memory_size: 0.5 GB\n")
    assert (found.members[0].job_cpu_number, found.members[0].job_memory_size) == (0.5, 512)
    canonical = found.canonical()
    assert canonical["trialMemorySize"] == canonical["trainingService"]["trialMemorySize"] == "0.5 GB"
    assert read_canonical(canonical).members[0].job_memory_size == 512
    assert load(tmp_path, "trialMemorySize: 64\n").members[0].job_memory_size == 64


def test_the_training_service_may_say_otherwise(tmp_path: Path) -> None:
    found = load(tmp_path, "  trialCpuNumber: 1\n  trialMemorySize: 1mb\ntrialCpuNumber: 2\n")
    assert (found.members[0].job_cpu_number, found.members[0].job_memory_size) == (1, 1)
    assert read_canonical(found.canonical()).members[0].job_cpu_number == 1


@pytest.mark.parametrize("number", ["0", "-1", "true", "two", ".nan"])
def test_odd_numbers_of_cpus_are_refused(tmp_path: Path, number: str) -> None:
    assert "trialCpuNumber" in fault(tmp_path, f"trialCpuNumber: {number}\n")


@pytest.mark.parametrize("size", ["0", "8 gallons", "true"])
def test_odd_amounts_of_memory_are_refused(tmp_path: Path, size: str) -> None:
    assert "trialMemorySize" in fault(tmp_path, f"trialMemorySize: {size}\n")


def test_what_this_machine_never_has_is_refused_where_there_is_no_other(tmp_path: Path) -> None:
    assert "asks for 99999 CPUs, but this machine has" in fault(tmp_path, "trialCpuNumber: 99999\n")
    assert "asks for 1024 GiB, but this machine has" not in fault(tmp_path, "trialMemorySize: 999 tb\n")
    here = int(capacity("/")["cpus"])
    gang = f"trialCpuNumber: {here}\ngang: {{nodes: 2, sameHost: true}}\n"
    assert f"asks for {2 * here} CPUs for 2 members, but this machine has {here}" in fault(tmp_path, gang)
    # Valid if it was stored on another machine.
    read_canonical({**load(tmp_path, "").canonical(), "trialCpuNumber": 99999})

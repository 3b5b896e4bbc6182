"""``trainingService`` as a list: NNI's hybrid mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnimgr.config import ConfigError, ExperimentConfig, load_config, read_canonical
from nnimgr.config.model import platform_of
from nnimgr.config.secrets import hide_secrets

HEAD = """\
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
trialCommand: python3 trial.py
trialConcurrency: 2
tuner: {name: Random}
trainingService:
"""
REMOTE = """\
- platform: remote
  trialCommand: python3 other.py
  trialCpuNumber: 2
  machineList: [{host: a, password: secret}]
"""


def load(tmp_path: Path, services: str) -> ExperimentConfig:
    (tmp_path / "exp.yml").write_text(HEAD + services)
    return load_config(tmp_path / "exp.yml", environ={"HOME": str(tmp_path)}).config


def faults(tmp_path: Path, services: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, services)
    return "\n".join(str(problem) for problem in caught.value.problems)


def test_each_member_may_say_otherwise(tmp_path: Path) -> None:
    found = load(tmp_path, "- platform: local\n" + REMOTE)
    assert found.platform == "hybrid"
    here, there = found.members
    assert (here.platform, here.job_command, here.job_cpu_number) == ("local", "python3 trial.py", None)
    assert (there.platform, there.job_command, there.job_cpu_number) == ("remote", "python3 other.py", 2)


def test_the_canonical_form_is_a_list_and_read_again(tmp_path: Path) -> None:
    found, secrets = hide_secrets(load(tmp_path, "- platform: local\n" + REMOTE))
    canonical = found.canonical()
    assert [service["platform"] for service in canonical["trainingService"]] == ["local", "remote"]
    assert canonical["trainingService"][0]["trialCommand"] == "python3 trial.py"
    assert platform_of(canonical) == "hybrid"
    assert "secret" not in str(canonical).replace("${secret:", "") and list(secrets.values()) == ["secret"]
    assert read_canonical(canonical).canonical() == canonical


def test_faults_name_the_member(tmp_path: Path) -> None:
    told = faults(tmp_path, "- platform: local\n  maxTrialNumberPerGpu: 0\n- platform: remote\n- {}\n")
    assert "trainingService[0].maxTrialNumberPerGpu: must be greater than 0" in told
    assert "trainingService[1].machineList: required, but not given" in told
    assert "trainingService[2].platform: required, but not given" in told
    assert "trainingService: the list of training services is empty" in faults(tmp_path, "  []\n")


def test_gpus_are_checked_for_each_member(tmp_path: Path) -> None:
    told = faults(tmp_path, "- platform: local\n  trialGpuNumber: 1\n" + REMOTE)
    assert "trainingService[0].useActiveGpu: must be set to true or false" in told


def test_a_machine_is_given_once(tmp_path: Path) -> None:
    told = faults(tmp_path, "- platform: local\n- platform: local\n" + REMOTE + REMOTE)
    assert "trainingService[1]: this machine is given by trainingService[0] already" in told
    assert "trainingService[3]: a is given by trainingService[2] already" in told


def test_a_list_of_one_stays_a_list(tmp_path: Path) -> None:
    canonical = load(tmp_path, "- platform: local\n").canonical()
    assert len(canonical["trainingService"]) == 1


def test_hybrid_is_no_platform_of_its_own(tmp_path: Path) -> None:
    assert "are given as a list" in faults(tmp_path, "  platform: hybrid\n")

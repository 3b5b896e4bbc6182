"""NNI's platforms that are not run: their fields are checked, and translated for a platform that is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from nnimgr.config.foreign import FOREIGN_PLATFORMS
from tests.config.loading import MINIMAL, Faults, Load

PAI = {
    "platform": "openpai",
    "host": "https://pai.lab.org",
    "username": "ann",
    "token": "a-secret-token",
    "trialCpuNumber": 2,
    "trialMemorySize": "8gb",
    "storageConfigName": "confignfs",
    "dockerImage": "lab/train:1",
    "localStorageMountPoint": "/mnt/nfs",
    "containerStorageMountPoint": "/mnt",
}
AML = {
    "platform": "aml",
    "subscriptionId": "1",
    "resourceGroup": "lab",
    "workspaceName": "lab",
    "computeTarget": "gpus",
    "maxTrialNumberPerGpu": 2,
}
DLC = {
    "platform": "dlc",
    "image": "lab/train:1",
    "podCount": 1,
    "ecsSpec": "ecs.c6.large",
    "region": "cn-hangzhou",
    "workspaceId": "7",
    "nasDataSourceId": "n",
    "accessKeyId": "an-id",
    "accessKeySecret": "a-secret-key",
    "localStorageMountPoint": "/mnt/nfs",
    "containerStorageMountPoint": "/mnt",
}
ADL = {
    "platform": "adl",
    "dockerImage": "lab/train:1",
    "namespace": "trials",
    "imagePullSecrets": [{"name": "registry"}],
    "nfs": {"server": "nas", "path": "/x", "containerMountPath": "/data"},
    "checkpoint": {"storageClass": "disk", "storageSize": "1Gi"},
}
YARN = {"platform": "paiYarn", "host": "10.0.0.1", "username": "ann", "token": "a-secret-token"}
DLTS = {"platform": "dlts", "dashboard": "http://lab", "dockerImage": "lab/train:1", "password": "a-secret"}


def written(service: dict[str, Any]) -> str:
    """The configuration with this training service."""
    return MINIMAL.partition("trainingService")[0] + yaml.safe_dump({"trainingService": service})


@pytest.mark.parametrize("service", [PAI, AML, DLC, ADL, YARN, DLTS], ids=lambda each: each["platform"])
def test_one_sentence_and_a_section_that_can_be_used(
    load: Load, faults: Faults, service: dict[str, Any]
) -> None:
    (fault,) = faults(written(service))
    sentence, section = fault.split(". Write instead:\n")
    assert f"trainingService.platform: NNI's platform {service['platform']!r} cannot be run: " in sentence
    assert "secret" not in fault
    given = yaml.safe_load(section)["trainingService"]
    if given["platform"] == "remote":
        assert given["machineList"][0]["user"] == "ann"
        given["machineList"] = [{"host": "10.0.0.7", "password": "x"}]
    assert load(written(given)).config.platform in sentence


def test_the_shared_fields_go_with_it(faults: Faults, tmp_path: Path) -> None:
    (fault,) = faults(written({**PAI, "trialCommand": "python3 other.py", "trialGpuNumber": 1}))
    assert yaml.safe_load(fault.partition("instead:\n")[2])["trainingService"] == {
        "platform": "kubernetes",
        "image": "lab/train:1",
        "trialCpuNumber": 2,
        "trialMemorySize": "8gb",
        "trialCommand": "python3 other.py",
        "trialGpuNumber": 1,
    }


def test_a_file_of_the_first_format_is_shown_whole(faults: Faults, tmp_path: Path) -> None:
    (tmp_path / "space.json").write_text('{"x": {"_type": "uniform", "_value": [0, 1]}}')
    text = """\
trialConcurrency: 1
trainingServicePlatform: pai
searchSpacePath: space.json
tuner: {builtinTunerName: Random}
trial:
  {command: python3 trial.py, codeDir: ., gpuNum: 0, cpuNum: 1, memoryMB: 512, image: lab/train,
   nniManagerNFSMountPath: /mnt, containerNFSMountPath: /mnt, paiStorageConfigName: nfs}
paiConfig: {userName: ann, token: a-secret-token, host: pai}
"""
    (fault,) = faults(text)
    assert fault.startswith("exp.yml:2:1: trainingServicePlatform: ")
    whole = yaml.safe_load(fault.partition("instead:\n")[2])
    assert (whole["trialCommand"], whole["trainingService"]["platform"]) == ("python3 trial.py", "kubernetes")


@pytest.mark.parametrize(
    ("service", "fault"),
    [
        ({**PAI, "tokn": "x"}, "trainingService.tokn: unknown field; did you mean 'token'?"),
        ({**PAI, "trialCpuNumber": "many"}, "trainingService.trialCpuNumber: "),
        ({**PAI, "openpaiConfig": {}, "openpaiConfigFile": "x"}, "give one of 'openpaiConfig' and "),
        ({**AML, "computeTarget": 3}, "trainingService.computeTarget: must be text, not 3"),
        ({**DLC, "podCount": 0}, "trainingService.podCount: must be greater than 0, not 0"),
    ],
)
def test_fields_are_checked(faults: Faults, service: dict[str, Any], fault: str) -> None:
    found = faults(written(service))
    assert any(fault in each for each in found)
    assert any("cannot be run" in each for each in found)


def test_every_platform_of_nni_is_known() -> None:
    assert set(FOREIGN_PLATFORMS) == {"openpai", "pai", "paiYarn", "aml", "dlc", "adl", "dlts"}

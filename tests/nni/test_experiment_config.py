"""NNI's configuration classes: canonical form, errors, files, and the fields that nnimgr added."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from nni.experiment.config import (
    AlgorithmConfig,
    CustomAlgorithmConfig,
    ExperimentConfig,
    InvalidConfig,
    K8sNfsConfig,
    KubeflowConfig,
    KubeflowRoleConfig,
    LocalConfig,
    NfsConfig,
    RemoteConfig,
    RemoteMachineConfig,
)
from nni.experiment.config.convert import to_v2
from nnimgr.config import load_text

SPACE = {"x": {"_type": "choice", "_value": [1, 2]}}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NNIMGR_HOME", raising=False)
    monkeypatch.chdir(tmp_path)


def canonical(**more: Any) -> dict[str, Any]:
    here = os.getcwd()
    return {
        "experimentType": "hpo",
        "searchSpace": SPACE,
        "trialCommand": "python main.py",
        "trialCodeDirectory": here,
        "trialConcurrency": 2,
        "useAnnotation": False,
        "debug": False,
        "logLevel": "info",
        "experimentWorkingDirectory": f"{here}/nni-experiments",
        "tuner": {"name": "random"},
        "trainingService": {
            "platform": "local",
            "trialCommand": "python main.py",
            "trialCodeDirectory": here,
            "debug": False,
            "maxTrialNumberPerGpu": 1,
            "reuseMode": False,
        },
        **more,
    }


def minimal() -> ExperimentConfig:
    return ExperimentConfig(
        search_space=SPACE,
        trial_command="python main.py",
        trial_concurrency=2,
        tuner=AlgorithmConfig(name="random"),
        training_service=LocalConfig(),
    )


def test_both_ways_to_write_a_configuration_give_nnis_canonical_form() -> None:
    config = ExperimentConfig("local")
    config.search_space = SPACE
    config.trial_command = "python main.py"
    config.trial_concurrency = 2
    assert config.tuner is not None
    config.tuner.name = "random"

    assert minimal().json() == canonical()
    assert config.json() == canonical(tuner={"name": "random", "classArgs": {}})
    assert config.canonical_copy().json() == config.json()


def test_a_dict_may_use_any_case_and_underscores() -> None:
    config = ExperimentConfig(
        searchSpace=SPACE,
        TRIALCOMMAND="python main.py",
        trial_concurrency=2,
        tuner={"Name": "random"},
        trainingService={"platform": "local", "use_active_gpu": True},
    )
    assert isinstance(config.training_service, LocalConfig)
    assert config.training_service.use_active_gpu is True
    assert config.json()["tuner"] == {"name": "random"}


def test_what_json_returns_is_what_the_server_reads(tmp_path: Path) -> None:
    config = minimal()
    config.max_trial_duration = "1.5h"
    config.goal = "minimize"
    loaded = load_text(json.dumps(config.json()), base=tmp_path)
    assert loaded.config.goal == "minimize"
    assert {**loaded.config.canonical(), "multiPhase": False} == {
        **canonical(maxTrialDuration="1.5h", goal="minimize", multiPhase=False),
        "trainingService": loaded.config.canonical()["trainingService"],
    }


def test_a_file_is_read_with_paths_relative_to_it(tmp_path: Path) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "space.json").write_text('{\t"x": {"_type": "choice", "_value": [1, 2]}}')
    (folder / "exp.yml").write_text(
        "searchSpaceFile: space.json\n"
        "trialCommand: python main.py\n"
        "trialCodeDirectory: .\n"
        "trialConcurrency: 2\n"
        "tunerGpuIndices: 0,1\n"
        "tuner: {className: mine.Tuner, codeDirectory: ., classArgs: {a_b: 1}}\n"
        "trainingService: {platform: local, gpu_indices: 3}\n"
    )
    found = ExperimentConfig.load(folder / "exp.yml").json()
    assert found["searchSpace"] == SPACE
    assert found["searchSpaceFile"] == str(folder / "space.json")
    assert found["trialCodeDirectory"] == str(folder)
    assert found["tunerGpuIndices"] == [0, 1]
    assert found["tuner"] == {
        "className": "mine.Tuner",
        "codeDirectory": str(folder),
        "classArgs": {"a_b": 1},
    }
    assert found["trainingService"]["gpuIndices"] == [3]
    assert found["trainingService"]["trialCodeDirectory"] == str(folder)


def test_remote_machines(tmp_path: Path) -> None:
    config = minimal()
    config.nni_manager_ip = "1.2.3.0"
    config.training_service = RemoteConfig(
        machine_list=[
            RemoteMachineConfig(host="a", user="u", password="secret", gpu_indices="0,1"),
            RemoteMachineConfig(host="b", user="u"),
        ]
    )
    service = config.json()["trainingService"]
    assert service["nniManagerIp"] == "1.2.3.0"
    usual = {"port": 22, "user": "u", "useActiveGpu": False, "maxTrialNumberPerGpu": 1}
    assert service["machineList"] == [
        {"host": "a", "password": "secret", "gpuIndices": [0, 1], **usual},
        {"host": "b", **usual},  # the default key is left out, because this user has none
    ]
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_rsa").touch()
    assert config.json()["trainingService"]["machineList"][1]["sshKeyFile"] == f"{tmp_path}/.ssh/id_rsa"


def test_a_job_of_kubeflow_has_its_command_in_its_roles() -> None:
    config = minimal()
    config.trial_command = None
    config.training_service = KubeflowConfig(
        operator="tf-operator",
        api_version="v1",
        storage=K8sNfsConfig(server="10.0.0.1", path="/data"),
        worker=KubeflowRoleConfig(
            replicas=2, command="python a.py", cpu_number=1, memory_size="1gb", code_directory="."
        ),
    )
    service = config.json()["trainingService"]
    assert service["trialCommand"] == ""
    assert service["namespace"] == "default"
    assert service["worker"]["dockerImage"] == "msranni/nni:latest"
    assert service["storage"] == {
        "storageType": "nfs",
        "storage": "nfs",
        "server": "10.0.0.1",
        "path": "/data",
    }


def test_shared_storage_and_several_training_services() -> None:
    config = ExperimentConfig(["local", "remote"])
    assert isinstance(config.training_service, list)
    assert [type(service).__name__ for service in config.training_service] == ["LocalConfig", "RemoteConfig"]
    config = minimal()
    config.shared_storage = NfsConfig(
        local_mount_point="mnt",
        remote_mount_point="/mnt/nfs",
        local_mounted="usermount",
        nfs_server="10.0.0.1",
        exported_directory="/data",
    )
    assert config.json()["sharedStorage"]["localMountPoint"] == f"{os.getcwd()}/mnt"


def test_names_that_do_not_exist_are_refused() -> None:
    config = minimal()
    with pytest.raises(AttributeError, match="trial_comand'; did you mean 'trial_command'"):
        config.trial_comand = "x"
    with pytest.raises(AttributeError, match=r"LocalConfig does not have field\(s\) gpus"):
        LocalConfig(gpus=1)
    with pytest.raises(ValueError, match="Bad training service platform: lokal"):
        ExperimentConfig("lokal")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"trial_concurrency": 0}, r"trial_concurrency \(0\) must be at least 1"),
        ({"trial_concurrency": "2"}, "type of trial_concurrency"),
        ({"tuner": None}, "tuner must be set"),
        ({"search_space": None}, "set search_space or search_space_file"),
        ({"max_trial_duration": "1 parsec"}, "has no unit"),
        ({"max_experiment_duration": "0s"}, "must be more than 0 s"),
        ({"log_level": "loud"}, "must be one of fatal"),
        ({"use_annotation": True}, "use_annotation is not supported"),
        ({"trial_command": None}, "trial_command is not set"),
        ({"tuner_gpu_indices": "0,0"}, "an index is given twice"),
        ({"trial_code_directory": "nowhere"}, "is not a directory"),
        ({"trial_gpu_number": 1}, "set use_active_gpu"),
        ({"advisor": AlgorithmConfig(name="BOHB")}, "either tuner or advisor"),
        ({"tuner": CustomAlgorithmConfig(class_name="m.C", code_directory="nowhere")}, "is not a directory"),
        ({"assessor": AlgorithmConfig(name="")}, "name is not set"),
    ],
)
def test_a_wrong_value_is_refused_with_its_field(changes: dict[str, Any], sentence: str) -> None:
    config = minimal()
    for name, value in changes.items():
        setattr(config, name, value)
    with pytest.raises(InvalidConfig, match=sentence):
        config.json()
    with pytest.raises(InvalidConfig, match=sentence):
        config.validate()


def test_the_first_format_is_converted() -> None:
    converted = to_v2(
        {
            "trialConcurrency": 2,
            "maxExecDuration": "1h",
            "maxTrialNum": 5,
            "trainingServicePlatform": "local",
            "searchSpacePath": "space.json",
            "tuner": {"builtinTunerName": "TPE", "classArgs": {"optimize_mode": "minimize"}},
            "trial": {"command": "python main.py", "codeDir": ".", "gpuNum": 0},
        }
    )
    found = ExperimentConfig(**converted)
    assert isinstance(found.training_service, LocalConfig)
    assert (found.max_experiment_duration, found.max_trial_number) == ("1h", 5)
    assert found.tuner is not None
    assert (found.tuner.name, found.tuner.class_args) == ("TPE", {"optimize_mode": "minimize"})

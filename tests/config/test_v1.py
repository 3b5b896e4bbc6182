"""NNI's first configuration format: what becomes of each field, and where errors in it are shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.config.loading import Faults, Load

V1 = """\
authorName: someone
experimentName: digits
trialConcurrency: 2
maxExecDuration: 1h
maxTrialNum: 10
trainingServicePlatform: local
searchSpacePath: space.json
useAnnotation: false
tuner:
  builtinTunerName: TPE
  classArgs:
    optimize_mode: maximize
trial:
  command: python3 trial.py
  codeDir: .
"""


def of(platform: str, *sections: str, trial: str = "", top: str = "") -> str:
    """The file for another platform. ``trial``: further fields of the trial."""
    text = V1.replace("Platform: local", f"Platform: {platform}") + trial
    return text + top + "".join(sections)


@pytest.fixture(autouse=True)
def space(tmp_path: Path) -> None:
    (tmp_path / "space.json").write_text('{"x": {"_type": "uniform", "_value": [0, 1]}}')


def second(load: Load, text: str) -> Any:
    """The file in the second format."""
    converted = load(text).converted
    assert converted is not None
    return yaml.safe_load(converted)


def test_fields_of_every_platform(load: Load, tmp_path: Path) -> None:
    loaded = load(
        V1 + "nniManagerIp: 10.0.0.1\nlogDir: logs\nlogLevel: debug\nmaxTrialDuration: 10m\ndebug: true\n"
    )
    config = loaded.config
    assert loaded.warnings == ()
    assert config.experiment_name == "digits"
    assert (config.trial_concurrency, config.max_trial_number) == (2, 10)
    assert (config.max_experiment_duration, config.max_trial_duration) == ("1h", "10m")
    assert config.search_space == {"x": {"_type": "uniform", "_value": [0, 1]}}
    assert config.search_space_file == tmp_path / "space.json"
    assert (config.trial_command, config.trial_code_directory) == ("python3 trial.py", tmp_path)
    assert config.experiment_working_directory == tmp_path / "logs"
    assert (config.nni_manager_ip, config.debug, config.log_level) == ("10.0.0.1", True, "debug")
    assert (config.tuner.name, config.tuner.class_args) == ("TPE", {"optimize_mode": "maximize"})
    assert (config.platform, config.multi_phase) == ("local", False)


def test_warnings_of_the_goal_name_no_field_of_the_second_format(load: Load) -> None:
    text = V1.replace("  classArgs:\n    optimize_mode: maximize\n", "")
    text += "assessor: {builtinAssessorName: Medianstop}\n"
    without, opposite = (str(warning) for warning in load(text).warnings)
    assert without.endswith(
        "(NNI's default for TPE); set optimize_mode, minimize or maximize, in classArgs of the tuner"
    )
    assert opposite.endswith("; set the same optimize_mode in classArgs of the tuner and of the assessor")


def test_the_second_format_of_a_file_is_shown_and_reads_the_same(load: Load) -> None:
    loaded = load(V1)
    assert loaded.converted is not None
    again = load(loaded.converted)
    assert (again.config, again.converted) == (loaded.config, None)


def test_multi_phase_becomes_ours(load: Load) -> None:
    assert load(V1 + "multiPhase: true\n").config.multi_phase
    assert "multiPhase" not in second(load, V1 + "multiPhase: false\n")


def test_classes_of_the_user_s_own(load: Load, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "mine.py").write_text("class Mine: pass\n")
    own = "  codeDir: own\n  classFileName: mine.py\n  className: Mine\n  gpuIndices: 0,1\n"
    config = load(V1.replace("  builtinTunerName: TPE\n", own) + "assessor:\n" + own).config
    for algorithm in (config.tuner, config.assessor):
        assert algorithm is not None
        assert (algorithm.class_name, algorithm.code_directory) == ("mine.Mine", tmp_path / "own")
    assert config.tuner_gpu_indices == [0, 1]


def test_an_advisor_becomes_the_tuner(load: Load) -> None:
    text = V1.replace("tuner:\n  builtinTunerName: TPE", "advisor:\n  builtinAdvisorName: Hyperband")
    assert load(text).config.tuner.name == "Hyperband"


def test_gpus_of_this_machine(load: Load) -> None:
    here = "localConfig: {gpuIndices: 0, maxTrialNumPerGpu: 2, useActiveGpu: true}\n"
    expected = {"platform": "local", "gpuIndices": 0, "maxTrialNumberPerGpu": 2, "useActiveGpu": True}
    assert second(load, of("local", here, trial="  gpuNum: 1\n"))["trainingService"] == expected
    idle = second(load, of("local", trial="  gpuNum: 1\n"))
    assert (idle["trialGpuNumber"], idle["trainingService"]["useActiveGpu"]) == (1, False)
    assert "useActiveGpu" not in second(load, of("local", trial="  gpuNum: 0\n"))["trainingService"]


def test_machines(load: Load, tmp_path: Path) -> None:
    (tmp_path / "key").touch()
    machines = """\
machineList:
  - {ip: 10.0.0.1, port: 2222, username: ann, passwd: open-sesame, gpuIndices: "0,1", useActiveGpu: true}
  - {ip: 10.0.0.2, username: ann, sshKeyPath: key, passphrase: secret-words, pythonPath: /opt/bin}
remoteConfig: {reuse: true}
"""
    loaded = load(of("remote", machines))
    service: Any = loaded.config.training_service
    assert service.reuse_mode is True
    first, other = service.machine_list
    assert (first.host, first.port, first.user, first.gpu_indices) == ("10.0.0.1", 2222, "ann", [0, 1])
    assert first.password.get_secret_value() == "open-sesame"
    assert (other.ssh_key_file, other.python_path) == (tmp_path / "key", "/opt/bin")
    assert other.ssh_passphrase.get_secret_value() == "secret-words"
    assert loaded.converted is not None
    assert "open-sesame" not in loaded.converted and "secret-words" not in loaded.converted


def test_kubeflow(load: Load) -> None:
    role = "{replicas: 1, command: python3 dist.py, gpuNum: 0, cpuNum: 1, memoryMB: 8192, image: lab/train}"
    text = of(
        "kubeflow",
        "kubeflowConfig: {operator: tf-operator, apiVersion: v1, nfs: {server: nas, path: /x}}\n",
        trial=f"  worker: {role}\n",
    ).replace("  command: python3 trial.py\n", "")
    expected = {
        "platform": "kubeflow",
        "operator": "tf-operator",
        "apiVersion": "v1",
        "storage": {"storageType": "nfs", "server": "nas", "path": "/x"},
        "worker": {
            "replicas": 1,
            "command": "python3 dist.py",
            "gpuNumber": 0,
            "cpuNumber": 1,
            "memorySize": 8192,
            "dockerImage": "lab/train",
            "codeDirectory": ".",
        },
    }
    assert second(load, text)["trainingService"] == expected
    config = load(text).config
    assert (config.platform, config.trial_command) == ("kubernetes", "python3 dist.py")


def test_framework_controller(load: Load) -> None:
    text = of(
        "frameworkcontroller",
        "frameworkcontrollerConfig: {serviceAccountName: worker, nfs: {server: nas, path: /x}}\n",
        trial=(
            "  taskRoles:\n"
            "  - name: worker\n    taskNum: 1\n    command: python3 run.py\n"
            "    gpuNum: 1\n    cpuNum: 1\n    memoryMB: 512\n    image: lab/train:1\n"
            "    frameworkAttemptCompletionPolicy: {minFailedTaskCount: 1, minSucceededTaskCount: 2}\n"
        ),
    ).replace("  command: python3 trial.py\n", "")
    service = second(load, text)["trainingService"]
    assert service["serviceAccountName"] == "worker"
    (role,) = service["taskRoles"]
    policy = {"minFailedTaskCount": 1, "minSucceedTaskCount": 2}
    assert role["frameworkAttemptCompletionPolicy"] == policy
    assert (role["name"], role["taskNumber"], role["memorySize"]) == ("worker", 1, 512)


def test_several_platforms(load: Load) -> None:
    text = of(
        "hybrid",
        "hybridConfig: {trainingServicePlatforms: [local, remote]}\n",
        "machineList: [{ip: 10.0.0.1, username: ann, passwd: x}]\n",
    )
    assert [each["platform"] for each in second(load, text)["trainingService"]] == ["local", "remote"]
    assert load(text).config.platform == "hybrid"


def test_fields_without_an_effect_are_named(load: Load) -> None:
    extra = "versionCheck: false\nlogCollection: http\nmultiThread: true\n"
    warnings = [str(each) for each in load(of("local", extra, trial="  cpuNum: 2\n")).warnings]
    assert [each.split(": ")[1] for each in warnings] == [
        *("versionCheck", "logCollection", "multiThread", "trial.cpuNum"),
    ]
    assert "exp.yml:17:1: versionCheck: has no effect" in warnings[0]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (V1.replace("Num: 10", "Num: -1"), "exp.yml:5:1: maxTrialNum: must be greater than 0, not -1"),
        (V1.replace("1h", "1x"), "exp.yml:4:1: maxExecDuration: '1x' is not a number"),
        (V1.replace("codeDir: .", "codeDir: none"), "exp.yml:15:3: trial.codeDir: the directory "),
        (
            V1.replace("  command: python3 trial.py\n", ""),
            "exp.yml:13:1: trial.command: required, but not given",
        ),
        (V1.replace("TPE", "TPF"), "exp.yml:10:3: tuner.builtinTunerName: "),
        (V1.replace("maximize", "max"), "exp.yml:12:5: tuner.classArgs.optimize_mode: "),
        (
            V1.replace("maxTrialNum:", "maxTrialNr:"),
            "exp.yml:5:1: maxTrialNr: unknown field; did you mean 'maxTrialNum'?",
        ),
        (
            V1.replace("codeDir", "codeDri"),
            "exp.yml:15:3: trial.codeDri: unknown field; did you mean 'codeDir'?",
        ),
        (
            V1.replace("Platform: local", "Platform: moon"),
            "trainingServicePlatform: unknown platform 'moon' (valid: local, ",
        ),
        (V1.replace("trial:", "trials:"), "trial: required, but not given"),
        (
            V1 + "trainingService: {platform: local}\n",
            "exp.yml:6:1: trainingServicePlatform: trainingService is of",
        ),
        (of("remote"), "machineList: required, but not given"),
        (of("remote", "machineList: 10.0.0.1\n"), "exp.yml:16:1: machineList: must be a list of mappings"),
        (
            of("remote", "machineList:\n  - {ip: 10.0.0.1, port: 99999}\n"),
            "exp.yml:17:20: machineList[0].port: must be less than 65536, not 99999",
        ),
        (of("remote", "machineList: [{ip: a, preCommand: x}]\n"), "machineList[0].preCommand: is not run"),
        (
            of("local", trial="  nasMode: classic_mode\n"),
            "trial.nasMode: 'classic_mode': searches for network",
        ),
        (
            V1.replace("useAnnotation: false", "useAnnotation: true"),
            "exp.yml:8:1: useAnnotation: annotations in",
        ),
        (
            V1.replace("builtinTunerName: TPE", "codeDir: .\n  className: Mine"),
            "tuner.classFileName: required, but not given",
        ),
        (
            V1.replace("builtinTunerName: TPE", "codeDir: .\n  className: Mine\n  classFileName: mine"),
            "exp.yml:12:3: tuner.classFileName: must be the name of a Python file",
        ),
        (
            of(
                "frameworkcontroller",
                "frameworkcontrollerConfig: {pvc: {path: /x}}\n",
                trial="  taskRoles: []\n",
            ),
            "frameworkcontrollerConfig.pvc: storage of the type pvc cannot be used",
        ),
    ],
)
def test_errors_name_the_user_s_own_fields(faults: Faults, text: str, fault: str) -> None:
    assert fault in "\n".join(faults(text))

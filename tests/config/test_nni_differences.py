"""The table of differences from NNI: the fields of a file that each entry names."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnimgr.config.nni_differences import TABLE, Difference, Entry, differences
from nnimgr.config.nni_file import NniFile

SPACE = "searchSpace: {x: {_type: uniform, _value: [0, 1]}}\n"
REST = "trialCommand: ./run\ntrialConcurrency: 1\n"
LOCAL = "trainingService: {platform: local}\n"
REMOTE = "trainingService: {platform: remote, machineList: [{host: gpu1, user: me}]}\n"
MAXIMIZE = "tuner: {name: Random}\ngoal: maximize\nfailFast: false\n"
V1 = """\
trialConcurrency: 1
searchSpacePath: space.json
trainingServicePlatform: local
tuner: {builtinTunerName: Random, classArgs: {optimize_mode: maximize}}
"""
V1_TRIAL = "trial: {command: ./run, codeDir: .}\n"
KUBEFLOW = """\
trainingService:
  platform: kubeflow
  operator: tf-operator
  apiVersion: v1
  storage: {storageType: nfs, server: nas, path: /export}
  worker: {command: ./run, codeDirectory: .}
"""
NFS = (
    "sharedStorage: {storageType: NFS, localMountPoint: /mnt, remoteMountPoint: /mnt, "
    "localMounted: nnimount, nfsServer: nas, exportedDirectory: /export}\n"
)


def tuner(name: str, arguments: str = "") -> str:
    return f"tuner: {{name: {name}, classArgs: {{optimize_mode: maximize{arguments}}}}}\n"


def assessor(name: str, arguments: str = "") -> str:
    return MAXIMIZE + f"assessor: {{name: {name}, classArgs: {{{arguments}}}}}\n"


def searched(name: str, spec: str) -> str:
    return f"searchSpace:\n  fits: {{_type: uniform, _value: [0, 1]}}\n  p: {spec}\n" + tuner(name)


def nested(spec: str) -> str:
    return f"{{_type: choice, _value: [{{_name: a, inner: {spec}}}]}}"


UNIFORM = "{_type: uniform, _value: [0, 1]}"
NAMED_FIELDS: dict[str, list[tuple[str, list[str]]]] = {
    "v1": [(V1 + V1_TRIAL, ["3 trainingServicePlatform"])],
    "v1 maxTrialDuration": [(V1 + V1_TRIAL + "maxTrialDuration: 1h\n", ["6 maxTrialDuration"])],
    "v1 multiPhase": [
        (V1 + V1_TRIAL + "multiPhase: true\n", ["6 multiPhase"]),
        (V1 + V1_TRIAL + "multiPhase: false\n", []),
    ],
    "v1 passphrase": [
        (
            V1.replace("local", "remote") + V1_TRIAL + "machineList:\n- ip: gpu1\n  passphrase: secret\n",
            ["8 machineList[0].passphrase"],
        )
    ],
    "v1 nasMode": [(V1 + "trial:\n  command: ./run\n  nasMode: oneshot_mode\n", ["7 trial.nasMode"])],
    "numbers in JSON": [
        (
            '{"searchSpace":\n{"x": {"_type": "uniform", "_value": [0,\n1e-05]}}, "trialCommand": "1e5"}',
            ["3 searchSpace.x._value[1]"],
        ),
        ("searchSpace: {x: {_type: uniform, _value: [0, 1e-05]}}\n", []),
    ],
    "logLevel fatal": [("logLevel: fatal\n", ["1 logLevel"]), ("log_level: error\n", [])],
    "output of trials": [
        (LOCAL + REST, ["2 trialCommand"]),
        (REMOTE + REST, []),
        (
            "trainingService:\n- platform: local\n  trialCommand: ./run\n",
            ["3 trainingService[0].trialCommand"],
        ),
    ],
    "several processes": [
        (LOCAL + "trialCommand: torchrun --nproc 2 a.py\n", ["2 trialCommand"]),
        (LOCAL + "trialCommand: ./torchrunner\n", []),
        (KUBEFLOW.replace("./run", "mpirun ./run"), ["6 trainingService.worker.command"]),
        (
            V1.replace("local", "frameworkcontroller") + "frameworkcontrollerConfig: {}\n"
            "trial:\n  taskRoles:\n  - {name: a, command: mpirun ./run}\n",
            ["8 trial.taskRoles[0].command"],
        ),
    ],
    "failFast": [(LOCAL, ["1 failFast (not given)"]), (MAXIMIZE, [])],
    "GPUs of trials": [
        (LOCAL + "trialGpuNumber: 2\n", ["2 trialGpuNumber"]),
        (LOCAL + "trialGpuNumber: 0\n", []),
        (KUBEFLOW + "trialGpuNumber: 2\n", []),
    ],
    "no goal": [
        ("tuner: {name: TPE}\n", ["1 goal (not given)"]),
        (tuner("TPE"), []),
        (MAXIMIZE, []),
        ("objectives: {loss: minimize}\ntuner: {name: TPE}\n", []),
    ],
    "conflicting goals": [
        ("tuner: {name: TPE}\nassessor: {name: Medianstop}\n", ["2 assessor"]),
        ("tuner: {name: GP}\nassessor: {name: Medianstop}\n", []),
        (assessor("Medianstop"), []),
        ("tuner: {name: BOHB, classArgs: {optimize_mode: minimize}}\nassessor: {name: Medianstop}\n", []),
    ],
    "TPE": [(tuner("tpe"), ["1 tuner.name"]), (MAXIMIZE, [])],
    "TPE defaults": [
        (tuner("TPE"), ["1 tuner.name"]),
        (tuner("TPE", ", tpe_args: {gamma: 0.2}"), ["1 tuner.classArgs.tpe_args"]),
        (
            tuner(
                "TPE",
                ", tpe_args: {gamma: 0.2, n_ei_candidates: 24, n_startup_jobs: 20, constant_liar_type: best}",
            ),
            [],
        ),
    ],
    "TPE nested": [
        (searched("TPE", nested(nested(UNIFORM))), ["3 searchSpace.p"]),
        (searched("TPE", nested(UNIFORM)), []),
    ],
    "TPE_legacy": [(tuner("TPE_legacy"), ["1 tuner.name"])],
    "Anneal": [(tuner("Anneal"), ["1 tuner.name"])],
    "Evolution": [(tuner("Evolution"), ["1 tuner.name"])],
    "GP": [(tuner("GP"), ["1 tuner.name"])],
    "GP space": [
        (searched("GP", "{_type: choice, _value: [relu, tanh]}"), ["3 searchSpace.p"]),
        (searched("GP", "{_type: normal, _value: [0, 1]}"), ["3 searchSpace.p"]),
        (searched("GP", "{_type: choice, _value: [1, 2]}"), []),
    ],
    "Metis": [(tuner("Metis"), ["1 tuner.name"])],
    "Metis space": [
        (searched("Metis", "{_type: loguniform, _value: [1, 2]}"), ["3 searchSpace.p"]),
        (searched("GP", "{_type: loguniform, _value: [1, 2]}"), []),
    ],
    "SMAC": [(tuner("SMAC"), ["1 tuner.name"])],
    "SMAC space": [
        (searched("SMAC", nested(UNIFORM)), ["3 searchSpace.p"]),
        (searched("SMAC", "{_type: choice, _value: [relu, tanh]}"), []),
    ],
    "PBT": [(tuner("PBT"), ["1 tuner.name"])],
    "Hyperband": [("advisor: {name: Hyperband}\n", ["1 advisor.name"])],
    "BOHB": [(tuner("BOHB"), ["1 tuner.name"])],
    "left out": [(tuner("PPO"), ["1 tuner.name"]), (tuner("DNGOTuner"), ["1 tuner.name"])],
    "class of NNI": [
        (
            "tuner:\n  className: nni.algorithms.hpo.tpe_tuner.TpeTuner\n",
            ["2 tuner.className"],
        ),
        ("tuner: {className: nni.algorithms.hpo.tpe_tuner.TpeTuner, codeDirectory: .}\n", []),
    ],
    "hyperopt class": [
        ("tuner:\n  className: nni.algorithms.hpo.hyperopt_tuner.HyperoptTuner\n", ["2 tuner.className"])
    ],
    "registered": [(tuner("Mine"), ["1 tuner.name"]), (tuner("PPO"), []), ("tuner: {name: _none_}\n", [])],
    "own advisor": [
        ("advisor: {className: mine.Advisor, codeDirectory: .}\n", ["1 advisor.className"]),
        ("tuner: {className: mine.Tuner, codeDirectory: .}\n", []),
    ],
    "assessor": [(assessor("Medianstop"), ["4 assessor.name"]), (MAXIMIZE, [])],
    "Curvefitting": [(assessor("Curvefitting"), ["4 assessor.name"]), (assessor("Medianstop"), [])],
    "hybrid": [("trainingService:\n- platform: local\n", ["1 trainingService"]), (LOCAL, [])],
    "reuseMode": [
        ("trainingService:\n  platform: local\n  reuse_mode: true\n", ["3 trainingService.reuse_mode"]),
        ("trainingService:\n  platform: local\n  reuse_mode: false\n", []),
    ],
    "remote machines": [(REMOTE, ["1 trainingService.platform"]), (LOCAL, [])],
    "remote trouble": [(REMOTE, ["1 trainingService.platform"]), (LOCAL, [])],
    "remote code": [
        (REMOTE, ["1 trainingService.platform"]),
        (REMOTE + "trialCodeDirectory: .\n", ["2 trialCodeDirectory"]),
        (LOCAL + "trialCodeDirectory: .\n", []),
    ],
    "host keys": [(REMOTE, ["1 trainingService.machineList[0].host"])],
    "default keys": [
        (REMOTE, ["1 trainingService.machineList[0].host"]),
        (REMOTE.replace("user: me", "password: a"), []),
        (REMOTE.replace("user: me", "sshKeyFile: a"), []),
    ],
    "secrets": [
        (REMOTE.replace("user: me", "password: a"), ["1 trainingService.machineList[0].password"]),
        (REMOTE.replace("user: me", 'password: "${env:A}"'), []),
    ],
    "nniManagerIp": [
        (REMOTE + "nniManagerIp: 10.0.0.1\n", ["2 nniManagerIp"]),
        (LOCAL + "nniManagerIp: 10.0.0.1\n", []),
    ],
    "as Jobs": [(KUBEFLOW, ["2 trainingService.platform"]), (LOCAL, [])],
    "several pods": [
        (KUBEFLOW, []),
        (KUBEFLOW + "  ps: {replicas: 1, command: ./run}\n", ["7 trainingService.ps"]),
        (
            V1.replace("local", "kubeflow") + "kubeflowConfig: {operator: tf-operator}\n"
            "trial:\n  worker: {command: ./run}\n  ps: {command: ./run}\n",
            ["8 trial.ps"],
        ),
        (KUBEFLOW.replace("codeD", "replicas: 2, codeD"), ["6 trainingService.worker.replicas"]),
    ],
    "unused fields of operators": [
        (KUBEFLOW, ["3 trainingService.operator", "4 trainingService.apiVersion"]),
        (
            "trainingService:\n  platform: frameworkcontroller\n  taskRoles:\n  - name: worker\n"
            "    frameworkAttemptCompletionPolicy: {minFailedTaskCount: 1}\n",
            ["5 trainingService.taskRoles[0].frameworkAttemptCompletionPolicy"],
        ),
    ],
    "NFS of operators": [(KUBEFLOW, ["5 trainingService.storage.storageType"])],
    "Azure of operators": [
        (KUBEFLOW.replace("nfs", "azureStorage"), ["5 trainingService.storage.storageType"]),
        (KUBEFLOW, []),
    ],
    "foreign platform": [("trainingService: {platform: aml}\n", ["1 trainingService.platform"]), (LOCAL, [])],
    "registered platform": [
        ("trainingService: {platform: mine}\n", ["1 trainingService.platform"]),
        ("trainingService: {platform: aml}\n", []),
        (LOCAL, []),
    ],
    "shared storage": [(NFS, ["1 sharedStorage"]), (LOCAL, [])],
    "Azure Blob": [
        (NFS.replace("NFS", "AzureBlob"), ["1 sharedStorage.storageType"]),
        (NFS, []),
    ],
    "nnimount": [(NFS, ["1 sharedStorage.localMounted"]), (NFS.replace("nnimount", "usermount"), [])],
    "fields for mounting": [(NFS, ["1 sharedStorage.nfsServer", "1 sharedStorage.exportedDirectory"])],
}
CASES = [(name, text, found) for name, cases in NAMED_FIELDS.items() for text, found in cases]


def of(tmp_path: Path, text: str) -> list[Difference]:
    file = tmp_path / "exp.yml"
    file.write_text(text, encoding="utf-8")
    return differences(NniFile(file))


def test_every_entry_has_a_case() -> None:
    assert [entry.name for entry in TABLE] == list(NAMED_FIELDS)
    assert {name for name, _, found in CASES if found} == set(NAMED_FIELDS)


@pytest.mark.parametrize(("name", "text", "found"), CASES)
def test_each_entry_names_its_fields(tmp_path: Path, name: str, text: str, found: list[str]) -> None:
    places = [each.place for each in of(tmp_path, text) if each.entry.name == name]
    assert [f"{place.line} {place.field}" for place in places] == found
    assert {place.file for place in places} <= {tmp_path / "exp.yml"}


def test_a_file_without_differences(tmp_path: Path) -> None:
    text = (
        SPACE
        + MAXIMIZE
        + "trialConcurrency: 1\nmaxTrialNumber: 3\ndebug: true\nexperimentWorkingDirectory: .\n"
    )
    assert of(tmp_path, text + "tunerGpuIndices: [0]\nuseAnnotation: false\n" + LOCAL) == []


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry.name)
def test_sentences_are_short(entry: Entry) -> None:
    for sentence in (entry.nni, entry.here, entry.todo):
        assert sentence[0].islower() or sentence.startswith("NNIMGR_")
        assert not sentence.endswith(".")
        assert len(sentence) <= 110


def test_a_parameter_of_a_file_of_its_own_is_named_there(tmp_path: Path) -> None:
    (tmp_path / "space.json").write_text('{"x":\n {"_type": "normal", "_value": [0, 1]}}')
    found = of(tmp_path, "searchSpaceFile: space.json\n" + tuner("GP"))
    places = [each.place for each in found if each.entry.name == "GP space"]
    assert [(place.file, place.line, place.field) for place in places] == [(tmp_path / "space.json", 1, "x")]


def test_a_sentence_has_the_value_and_the_place(tmp_path: Path) -> None:
    (found,) = [
        each
        for each in of(tmp_path, V1 + V1_TRIAL + "maxTrialDuration: 1h\n")
        if each.entry.name == "v1 maxTrialDuration"
    ]
    assert str(found) == (
        f"{tmp_path}/exp.yml:6: maxTrialDuration: NNI loses this field when it converts the file, so trials "
        "run without a limit; nnimgr stops a trial after 1h. "
        "To do: remove the field if trials may run longer."
    )
    assert found.needs_work


@pytest.mark.parametrize(
    "text",
    [
        "[]\n",
        "tuner: 3\ntrainingService: 4\nsearchSpace: 5\nsharedStorage: 6\nobjectives: [a]\ngoal: {}\n",
        "tuner: {name: 3, classArgs: 4}\ntrainingService: {platform: [1], machineList: {a: 1}}\n",
        "trainingService:\n- 3\n- platform: remote\n  machineList: [3, null]\n",
        "trainingServicePlatform: nowhere\ntrial: 3\nmachineList: 4\ntrainingService: 5\n",
        "trainingServicePlatform: remote\nmachineList: [3]\ntuner: []\n",
        "searchSpaceFile: /no/such/file\ntuner: {name: GP}\n",
        "searchSpaceFile: [1]\nsearchSpace: {1: 2}\ntuner: {name: GP}\n",
    ],
)
def test_files_with_errors_have_differences_too(tmp_path: Path, text: str) -> None:
    of(tmp_path, text)


def test_what_to_do_depends_on_the_format(tmp_path: Path) -> None:
    (tmp_path / "space.json").write_text(f'{{"x": {UNIFORM}}}')
    told = {}
    for version, text in (("v1", V1 + V1_TRIAL), ("v2", SPACE + REST + LOCAL + "tuner: {name: Random}\n")):
        file = tmp_path / f"{version}.yml"
        file.write_text(text.replace(", classArgs: {optimize_mode: maximize}", ""))
        told[version] = {found.entry.name: found.todo for found in differences(NniFile(file))}
    assert told["v1"]["no goal"] == "set optimize_mode, minimize or maximize, in classArgs of the tuner"
    assert told["v2"]["no goal"] == 'write "goal: minimize" or "goal: maximize"'
    assert told["v1"]["failFast"] == "nothing"

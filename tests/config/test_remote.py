"""``platform: remote`` in a file: NNI's fields, refused values, and secrets that are not stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnimgr.config import ConfigError, ExperimentConfig, load_config, read_canonical
from nnimgr.config.secrets import hide_secrets, reveal_secrets
from training_services.keepers.names import host_of
from training_services.machines.remote import RemoteConfig
from training_services.ssh.config import MachineConfig

HEAD = """
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
trialCommand: "true"
trialConcurrency: 1
maxTrialNumber: 1
tuner: {name: Random}
"""


def service(tmp_path: Path, body: str, *, more: str = "") -> RemoteConfig:
    return load(tmp_path, body, more=more).training_service  # type: ignore[return-value]


def load(
    tmp_path: Path, body: str, *, more: str = "", environ: dict[str, str] | None = None
) -> ExperimentConfig:
    file = tmp_path / "exp.yml"
    file.write_text(f"{HEAD}{more}trainingService:\n  platform: remote\n{body}")
    return load_config(file, environ=environ or {"HOME": str(tmp_path)}).config


def test_what_nni_takes_is_taken(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "one").touch()
    found = service(
        tmp_path,
        """
  reuseMode: false
  machine_list:
    - host: 10.0.0.1
      user: bob
      sshKeyFile: keys/one
      sshPassphrase: secret
      useActiveGpu: true
      maxTrialNumberPerGpu: 2
      gpuIndices: "0,1"
      pythonPath: /opt/conda/bin/
    - {host: "[fe80::1%eth0]", port: 2222, user: bob, password: secret}
""",
        more="trialGpuNumber: 1\n",
    )
    first, second = found.machine_list
    assert first.ssh_key_file == tmp_path / "keys" / "one"
    assert (first.keeper_id, first.address, first.title) == ("bob_10.0.0.1_22", "10.0.0.1:22", "bob@10.0.0.1")
    assert (first.gpu_indices, first.python_path) == ([0, 1], "/opt/conda/bin")
    assert (second.host, second.address) == ("fe80::1%eth0", "[fe80::1%eth0]:2222")
    assert second.keeper_id.startswith("bob_fe80--1-eth0_2222_")
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("  machineList: [{host: a, sshKeyFile: none}]", "machineList[0].sshKeyFile: the file "),
        ("  reuseMode: false", "trainingService.machineList: required, but not given"),
        ("  machineList: []", "trainingService.machineList: "),
        ("  machineList: [{user: bob}]", "trainingService.machineList[0].host: required, but not given"),
        (
            "  machineList: [{hots: a}]",
            "trainingService.machineList[0].hots: unknown field; did you mean 'host'?",
        ),
        (
            "  machineList: [{host: a, password: 12345}]",
            "machineList[0].password: must be text; put it in quotes",
        ),
        ("  machineList: [{host: a, port: 0}]", "machineList[0].port: must be greater than 0"),
        ("  machineList: [{host: a@b}]", "'a@b' is not the name or the address of a machine"),
        ('  machineList: [{host: a, pythonPath: "/x\'y"}]', "must be an absolute path on the machine"),
        (
            "  machineList: [{host: a}, {host: a}]",
            "machineList[1] and machineList[0] are the same machine, a",
        ),
        (
            "  machineList: [{host: a, maxTrialNumberPerGpu: 2}]",
            "[0].maxTrialNumberPerGpu: needs trialGpuNumber",
        ),
        ("  machineList: [{host: a, password: '${env:NOPE}'}]", "the environment variable NOPE is not set"),
        ("  hostKeyPolicy: maybe\n  machineList: [{host: a}]", "unknown value 'maybe'"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, body: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, body)
    assert sentence in str(caught.value)
    assert "12345" not in str(caught.value)


def test_secrets_leave_the_configuration_and_come_back(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PASS": "from-env"}
    body = "  machineList: [{host: a, password: in-plain}, {host: b, password: '${env:PASS}'}]"
    config, secrets = hide_secrets(load(tmp_path, body, environ=environ))
    canonical = config.canonical()
    assert "in-plain" not in str(canonical) and "from-env" not in str(canonical)
    assert secrets == {"trainingService.machineList[0].password": "in-plain"}
    again = read_canonical(canonical)
    assert hide_secrets(again) == (again, {})
    revealed = reveal_secrets(again.training_service, environ=environ, base=tmp_path, secrets=secrets)
    assert isinstance(revealed, RemoteConfig)
    passwords = [machine.password for machine in revealed.machine_list]
    assert [text.get_secret_value() for text in passwords if text is not None] == ["in-plain", "from-env"]


@pytest.mark.parametrize(
    ("host", "user", "shown"),
    [
        ("gpu1", None, "gpu1"),
        ("gpu-1.lab", "a_b", "gpu-1.lab"),
        ("10.0.0.7", "alice", "10.0.0.7"),
        ("fe80::1", "alice", "[fe80::1]"),
        ("gpu1", "b+c", "b-c_gpu1"),
        ("odd_host", None, "odd_host"),
    ],
)
def test_the_name_of_a_keeper_tells_its_host(host: str, user: str | None, shown: str) -> None:
    assert host_of(MachineConfig(host=host, user=user).keeper_id) == shown


def test_other_keepers_names_tell_no_host() -> None:
    assert [host_of(name) for name in ("local", "a_b", "pod-1")] == [None, None, None]


def test_a_tuner_with_checkpoints_needs_a_directory_that_all_machines_share(tmp_path: Path) -> None:
    machines = "  machineList: [{host: a, user: b, password: c}]\n"
    with pytest.raises(ConfigError) as caught:
        load_pbt(tmp_path, "{name: PBT}", machines)
    (problem,) = caught.value.problems
    assert str(problem).startswith(
        f"{tmp_path}/exp.yml:6:1: tuner: trials of PBT continue from checkpoints of earlier trials, but "
        "those on the "
        'platform "remote" do not share a disk: give classArgs.all_checkpoint_dir'
    )
    load_pbt(tmp_path, "{name: PBT, classArgs: {all_checkpoint_dir: /nfs/c}}", machines)


def load_pbt(tmp_path: Path, tuner: str, machines: str) -> None:
    file = tmp_path / "exp.yml"
    file.write_text(
        f"{HEAD.replace('{name: Random}', tuner)}trainingService:\n  platform: remote\n{machines}"
    )
    load_config(file, environ={"HOME": str(tmp_path)})

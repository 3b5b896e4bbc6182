"""Experiments on machines over SSH, as a user has them: nnictl, a real server, real OpenSSH servers."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import vandalism
from tests.e2e.product import Product, product
from tests.e2e.scene import eventually
from tests.processes import kill
from tests.sshd import NEEDS_SSHD, Machine, Site, site

pytestmark = pytest.mark.skipif(NEEDS_SSHD, reason="there is no sshd")

FAKE_TENSORBOARD = Path(__file__).parent.parent / "tensorboard" / "fake"
TRIAL = """
import nni, os, pathlib, time
value = nni.get_next_parameter()["x"]
nni.report_intermediate_result(value)
gate = pathlib.Path(os.environ["GATE"]) if "GATE" in os.environ else pathlib.Path(open("gate.txt").read())
while not gate.exists():
    time.sleep(0.02)
nni.report_intermediate_result(value)
nni.report_final_result(value)
"""


@dataclass
class Field:
    """A product, machines, and a gate that trials wait at."""

    product: Product
    site: Site
    gate: Path
    servers: list[subprocess.Popen[bytes]] = dataclasses.field(default_factory=list)

    def create(self, trial: str = TRIAL, **more: Any) -> str:
        code = self.product.directory / "code"
        code.mkdir()
        (code / "trial.py").write_text(trial)
        (code / "gate.txt").write_text(str(self.gate))
        service = {
            "platform": "remote",
            "machineList": [
                {"host": machine.address, "port": machine.port, "user": self.site.user}
                for machine in self.site.machines
            ],
            **more.pop("service", {}),
        }
        config = {
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
            "trialCommand": "python3 trial.py",
            "trialConcurrency": 4,
            "maxTrialNumber": 4,
            "tuner": {"name": "Random"},
            "trainingService": service,
            **more,
        }
        return self.product.create("code", config)

    def trials(self, experiment: str) -> list[dict[str, Any]]:
        return list(json.loads(self.product.nnictl("trial", "ls", experiment, "--json"))["trials"])

    def running(self, experiment: str, number: int) -> None:
        def look() -> bool:
            found = self.trials(experiment)
            return len([trial for trial in found if trial["status"] == "RUNNING"]) == number

        eventually(look, f"{number} running trials")

    def server(self) -> int:
        """The pid of the server that serves; 0: none has come so far."""
        file = self.product.home / ".nnimgr" / f"server-{self.product.port}.json"
        try:
            return int(json.loads(file.read_text())["pid"])
        except FileNotFoundError:
            return 0

    def kill_server(self) -> None:
        """Kill it, and have another."""
        pid = self.server()
        os.kill(pid, signal.SIGKILL)
        command = [sys.executable, "-m", "nnimgr.server.main", "serve", "--until-idle"]
        with open(self.product.directory / "server.log", "ab") as log:
            process = subprocess.Popen(
                [*command, "--port", str(self.product.port)],
                env=self.product.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.servers.append(process)
        eventually(lambda: self.server() not in (0, pid), "the next server")

    def keepers(self) -> list[int]:
        return [pid for machine in self.site.machines for pid in machine.keepers()]


@pytest.fixture
def field(tmp_path: Path) -> Iterator[Field]:
    with product("nnimgr-remote-") as made, site(tmp_path) as hosts:
        made.environ["HOME"] = str(hosts.home)
        made.environ.pop("SSH_AUTH_SOCK", None)
        for _ in range(2):
            hosts.machine()
        here = Field(made, hosts, tmp_path / "gate")
        yield here
        made.stop_all()
        for server in here.servers:
            server.wait(20)


def all_well(field: Field, experiment: str) -> None:
    field.gate.touch()
    profile = field.product.wait(experiment, limit_s=60)
    assert profile["counts"] == {"SUCCEEDED": 4}
    for trial in field.trials(experiment):
        assert (trial["attempt"], trial["intermediates"]) == (1, 2), trial


def test_an_experiment_runs_on_two_machines(field: Field) -> None:
    experiment = field.create()
    field.running(experiment, 4)
    for machine in field.site.machines:
        assert len(machine.connections()) == 1
        assert len(machine.keepers()) == 1
    all_well(field, experiment)
    eventually(lambda: not field.keepers(), "the end of the keepers")


def test_a_killed_server_takes_its_machines_up_again(field: Field) -> None:
    experiment = field.create()
    field.running(experiment, 4)
    keepers = field.keepers()
    field.kill_server()
    all_well(field, experiment)
    assert len(keepers) == 2


def test_stop_ends_all_there_and_detach_leaves_all(field: Field) -> None:
    experiment = field.create(service={"cleanUp": True})
    field.running(experiment, 4)
    field.product.nnictl("stop", experiment, "--detach")
    keepers = field.keepers()
    assert len(keepers) == 2
    field.product.nnictl("stop", experiment)
    eventually(lambda: not field.keepers(), "the end of the keepers")
    for machine in field.site.machines:
        assert not (machine.home / "nni-experiments" / experiment).exists()


def test_keepers_may_call_the_server_directly(field: Field) -> None:
    experiment = field.create(nniManagerIp="127.0.0.1")
    field.running(experiment, 4)
    manager = next(field.product.home.glob(f"{experiment}/keepers/*/manager.json"))
    assert manager.stat().st_mode & 0o777 == 0o600
    reach = json.loads(manager.read_text())
    assert reach["urls"][0].startswith("https://127.0.0.1:") and len(reach["fingerprint"]) == 64
    all_well(field, experiment)


def test_no_secret_is_stored_or_shown(field: Field) -> None:
    secret = "a-passphrase-nobody-needs"
    machine = field.site.machines[0]
    machines = [
        {
            "host": machine.address,
            "port": machine.port,
            "user": field.site.user,
            "sshKeyFile": str(field.site.key),
            "sshPassphrase": secret,
        }
    ]
    experiment = field.create(service={"machineList": machines})
    field.running(experiment, 4)
    assert secret not in field.product.nnictl("experiment", "show", experiment, "--json")
    for pid in [field.server(), *field.keepers()]:
        for name in ("cmdline", "environ"):
            assert secret.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
    holding = [
        file
        for file in field.product.home.rglob("*")
        if file.is_file() and secret.encode() in file.read_bytes()
    ]
    assert [file.name for file in holding] == ["environ.json"]
    assert holding[0].stat().st_mode & 0o777 == 0o600
    field.kill_server()
    all_well(field, experiment)
    field.product.nnictl("stop", experiment)
    field.product.nnictl("resume", experiment)  # in the environment of who resumes
    assert secret in holding[0].read_text()


def test_what_a_trial_writes_can_be_read_from_here(field: Field) -> None:
    experiment = field.create(trialCommand="echo hello; python3 trial.py", maxTrialNumber=1)
    field.running(experiment, 1)
    (trial,) = field.trials(experiment)
    said = field.product.nnictl("log", "trial", experiment, "-T", trial["id"], "--file", "stdout")
    assert said == "hello\n"
    field.gate.touch()
    assert field.product.wait(experiment, limit_s=60)["counts"] == {"SUCCEEDED": 1}
    eventually(lambda: not field.keepers(), "the end of the keepers")  # and nobody is left who would read it
    for do in (None, "stop", "view"):
        if do is not None:
            field.product.nnictl(do, experiment)
        said = field.product.nnictl("log", "trial", experiment, "-T", trial["id"], "--tail", "1")
        assert said == "hello\n"
        listed = field.product.nnictl("trial", "files", experiment, "-T", trial["id"])
        assert " stdout\n" in listed and "parameter.cfg\n" in listed
        get = ("trial", "get", experiment, "-T", trial["id"], "--file", "stdout", "--output", "-")
        got = field.product.nnictl(*get)
        assert got == "hello\n"
    token = (field.product.home / ".nnimgr" / "token").read_text().strip()
    url = f"http://127.0.0.1:{field.product.port}/api/v1/nni/trial-file/{trial['id']}"
    for name, text in (("stdout", "hello\n"), ("parameter.cfg", '"parameter_id"')):
        request = urllib.request.Request(f"{url}/{name}", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request) as answer:
            assert text in answer.read().decode()
    (shown,) = json.loads(field.product.nnictl("trial", "ls", experiment))
    host = shown["logPath"].partition(":")[0]
    (machine,) = (machine for machine in field.site.machines if machine.address == host)
    there = shown["logPath"].removeprefix(f"{host}:~/")
    assert (machine.home / there / "stdout").read_text() == "hello\n"
    assert field.product.nnictl("log", "trial", experiment) == f"id:{trial['id']} path:{host}:~/{there}\n"
    request = urllib.request.Request(
        url.replace("trial-file", "trial-jobs"), headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request) as answer:
        of_nni = json.load(answer)
    assert of_nni["logPath"] == shown["logPath"]
    assert f"/environments/{of_nni['envId']}/trials/" in shown["logPath"]
    for machine in field.site.machines:
        machine.stop()
    with pytest.raises(RuntimeError, match=f"~/nni-experiments/{experiment}/environments/.* on "):
        field.product.nnictl("trial", "files", experiment, "-T", trial["id"])


EVENTS = """
import os, pathlib
import nni
nni.get_next_parameter()
folder = pathlib.Path(os.environ["NNI_OUTPUT_DIR"], "tensorboard")
folder.mkdir()
(folder / "events").write_text("of " + os.environ["NNI_TRIAL_SEQ_ID"])
nni.report_final_result(1)
"""


def test_a_tensorboard_shows_the_files_of_all_machines(field: Field) -> None:
    field.product.environ["PYTHONPATH"] = str(FAKE_TENSORBOARD)
    experiment = field.create(EVENTS)
    assert field.product.wait(experiment, limit_s=60)["counts"] == {"SUCCEEDED": 4}
    field.product.nnictl("stop", experiment)  # a server that is started now has no other reason to stay
    task = json.loads(field.product.nnictl("tensorboard", "start", experiment, "--json"))
    token = (field.product.home / ".nnimgr" / "token").read_text().strip()
    request = urllib.request.Request(f"{task['url']}runs", headers={"Authorization": f"Bearer {token}"})

    def shown() -> dict[str, str]:
        with urllib.request.urlopen(request) as answer:
            return dict(json.load(answer))

    wanted = {
        f"{trial['sequence']}-{trial['id']}/events": f"of {trial['sequence']}"
        for trial in field.trials(experiment)
    }
    eventually(lambda: shown() == wanted, "the files of all trials")
    (listed,) = json.loads(field.product.nnictl("tensorboard", "list", experiment, "--json"))["tensorboards"]
    assert (listed["status"], listed["message"]) == ("RUNNING", None)
    field.product.nnictl("tensorboard", "stop", experiment)


def test_delete_removes_it_from_its_machines_too(field: Field) -> None:
    experiment = field.create(maxTrialNumber=1, trialConcurrency=1)
    field.running(experiment, 1)
    eventually(lambda: len(field.keepers()) == 2, "both keepers")
    ((trial),) = field.trials(experiment)
    busy = next(
        machine for machine in field.site.machines if trial["logPath"].startswith(f"{machine.address}:")
    )
    (idle,) = (machine for machine in field.site.machines if machine is not busy)
    folders = [machine.home / "nni-experiments" / experiment for machine in (busy, idle)]
    idle.stop()
    (stopped,) = json.loads(field.product.nnictl("stop", experiment, "--json"))["stopped"]
    (left,) = stopped["left"]
    assert f"{idle.address}" in left and f"~/nni-experiments/{experiment}/environments/" in left
    delete = ("experiment", "delete", experiment, "--yes")
    with pytest.raises(RuntimeError, match=f"is not deleted: ~/nni-experiments/{experiment}/") as refused:
        field.product.nnictl(*delete)
    assert f"nnictl experiment delete {experiment} --leave-unreachable" in str(refused.value)
    assert [folder.exists() for folder in folders] == [True, True]
    assert (field.product.home / experiment).exists()
    kill(*idle.keepers())
    told = json.loads(field.product.nnictl(*delete, "--leave-unreachable", "--json"))["deleted"]
    assert idle.address in told[0]["left"][0]
    assert [folder.exists() for folder in folders] == [False, True]
    assert not (field.product.home / experiment).exists()


@pytest.mark.parametrize("end", ["by itself", "by itself, without its keeper", "by a stop"])
def test_trials_that_spoil_one_another_end(field: Field, tmp_path: Path, end: str) -> None:
    records = tmp_path / "records"
    records.mkdir()
    experiment = field.create(
        vandalism.TRIAL,
        trialCommand=f"RECORDS={records} python3 trial.py",
        trialConcurrency=vandalism.TRIALS,
        maxTrialNumber=vandalism.TRIALS,
    )
    eventually(lambda: vandalism.all_have_spoiled(records), "the damage")
    if end == "by itself, without its keeper":
        kill(*field.keepers())
    if end == "by a stop":
        field.product.nnictl("stop", experiment)
    else:
        (records / "go").touch()
        field.product.wait(experiment, limit_s=vandalism.LIMIT_S)
        assert vandalism.unexplained(field.trials(experiment)) == []
    eventually(lambda: not vandalism.left(records), "the end of the processes")
    assert vandalism.started_once(records)


STEADY_TRIAL = """
import nni, time
nni.get_next_parameter()
for number in range(20):
    nni.report_intermediate_result(number)
    time.sleep(0.03)
nni.report_final_result(1)
"""


@pytest.mark.kill
def test_nothing_is_lost_whoever_is_killed(field: Field) -> None:
    dice = random.Random(7)
    experiment = field.create(STEADY_TRIAL, maxTrialNumber=40, trialConcurrency=6)

    def restart(machine: Machine) -> None:
        machine.stop()
        machine.start()

    def killing(find: Callable[[Machine], list[int]]) -> Callable[[Machine], None]:
        return lambda machine: kill(*find(machine))

    def kill_server(machine: Machine) -> None:
        field.kill_server()

    found_by = [Machine.keepers, Machine.attendants, Machine.connections]
    acts = [*map(killing, found_by), restart, kill_server]
    for _ in range(25):
        time.sleep(dice.uniform(0.05, 0.5))  # at any instant
        dice.choice(acts)(dice.choice(field.site.machines))
    assert field.product.wait(experiment, limit_s=90)["counts"] == {"SUCCEEDED": 40}
    found = [(trial["attempt"], trial["intermediates"]) for trial in field.trials(experiment)]
    assert found == [(1, 20)] * 40

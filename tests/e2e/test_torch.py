"""The example ``ddp`` with real torch: on one machine, on two that fail, and under a user's torchrun."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.remote import Field, field
from tests.e2e.scene import Scene, eventually
from tests.machines.bed import bed
from tests.machines.machine import kill
from tests.processes import Process, environ, of_home
from tests.server.harness import nothing_left, serving

EXAMPLE = Path(__file__).parents[2] / "examples" / "ddp"
EPOCHS = 20
LIMIT_S = 240


def _has_torch(python: str) -> bool:
    question = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    return subprocess.run([python, "-c", question], check=False, stderr=subprocess.DEVNULL).returncode == 0


PYTHON = os.environ.get("NNIMGR_TEST_TORCH", sys.executable)
pytestmark = pytest.mark.skipif(
    not _has_torch(PYTHON),
    reason="torch is not installed; NNIMGR_TEST_TORCH names a Python that has it",
)


def example(directory: Path, command: str, **changes: Any) -> dict[str, Any]:
    """Return the example's configuration, with this command in place of ``python3 train.py``, for one trial.

    The example is copied to the folder ``ddp`` of ``directory``.
    """
    code = directory / "ddp"
    shutil.copytree(EXAMPLE, code)
    config: dict[str, Any] = yaml.safe_load((code / "exp.yml").read_text())
    config["trialCommand"] = config["trialCommand"].replace("python3 train.py", command)
    config["trialCodeDirectory"] = str(code)
    return {**config, "maxTrialNumber": 1, "checkpoints": {"keep": "newest"}, **changes}


def create(here: Scene, config: dict[str, Any]) -> None:
    space = config.pop("searchSpace")
    body = here.body(config.pop("trialCommand"), **config)
    answer = here.server.call("POST", "/api/v1/experiments", {**body, "searchSpace": space})
    assert answer.status == 201, answer.body


def assert_one_curve(here: Scene, *, attempts: int) -> None:
    """The trial has succeeded, and each epoch was recorded once, in order."""
    (trial,) = here.done(LIMIT_S)
    assert (trial["status"], trial["attempt"]) == ("SUCCEEDED", attempts), trial["reason"]
    metrics = here.metrics(trial["id"])
    numbers = [each["sequence"] for each in metrics if each["type"] == "PERIODICAL"]
    assert numbers == list(range(EPOCHS))
    assert trial["finalValue"] > 0.8


def epochs(here: Scene) -> int:
    return sum(trial["intermediates"] for trial in here.trials())


def of_rank(processes: list[Process], rank: int) -> list[Process]:
    """Return those of the processes that run ``train.py`` as this rank."""
    mark = f"RANK={rank}".encode()
    return [each for each in processes if each.command.endswith("train.py") and mark in environ(each.pid)]


def test_a_killed_process_costs_no_epoch(tmp_path: Path) -> None:
    with nothing_left(tmp_path), serving(tmp_path) as server:
        here = Scene(server, tmp_path)
        create(here, example(tmp_path, f"{PYTHON} train.py"))
        eventually(lambda: epochs(here) > 2, "three epochs", LIMIT_S)
        assert kill(of_rank(of_home(server.home.path), 1))
        assert_one_curve(here, attempts=2)


@pytest.mark.skipif(os.geteuid() != 0, reason="machines with networks of their own need root")
def test_a_killed_process_and_a_lost_machine_cost_no_epoch(tmp_path: Path) -> None:
    with bed() as found:
        machines = [found.machine() for _ in range(2)]
        service = {
            "platform": "remote",
            "keepAliveInterval": 1,
            "machineList": [machine.entry() for machine in machines],
        }
        with field(tmp_path, found, machines, kind=Field) as here:
            gang = {"nodes": 2, "processes": 1}
            create(here, example(tmp_path, f"{PYTHON} train.py", gang=gang, trainingService=service))
            eventually(lambda: epochs(here) > 2, "three epochs", LIMIT_S)
            assert kill(of_rank([each for machine in machines for each in machine.processes()], 1))
            eventually(lambda: here.trials()[0]["attempt"] == 2, "the second attempt", LIMIT_S)
            known = epochs(here)
            eventually(lambda: epochs(here) > known, "another epoch", LIMIT_S)
            next(machine for machine in machines if of_rank(machine.processes(), 1)).reboot()
            assert_one_curve(here, attempts=3)


def test_the_users_torchrun_runs_on_each_member(tmp_path: Path) -> None:
    with nothing_left(tmp_path), serving(tmp_path) as server:
        here = Scene(server, tmp_path)
        torchrun = f"{PYTHON} -m torch.distributed.run --nproc-per-node 1 train.py"
        create(here, example(tmp_path, torchrun, gang={"nodes": 2, "sameHost": True}))
        assert_one_curve(here, attempts=1)

"""Machines that come and go, and several platforms at once: nnictl, a real server, real OpenSSH servers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.scene import eventually
from tests.e2e.test_remote import Field, all_well, field
from tests.sshd import NEEDS_SSHD

__all__ = ["field"]

pytestmark = pytest.mark.skipif(NEEDS_SSHD, reason="there is no sshd")


def machines(field: Field, experiment: str) -> dict[str, dict[str, Any]]:
    """By number of their machine; -1: this one."""
    listed = json.loads(field.product.nnictl("machine", "ls", experiment, "--json"))["machines"]
    numbers = {f"{each.address}:{each.port}": str(number) for number, each in enumerate(field.site.machines)}
    return {numbers.get(each["address"], "here"): each for each in listed}


def status(field: Field, experiment: str) -> dict[str, str]:
    return {name: machine["status"] for name, machine in machines(field, experiment).items()}


def of_machine(field: Field, number: int) -> dict[str, Any]:
    machine = field.site.machines[number]
    return {"host": machine.address, "port": machine.port, "user": field.site.user}


def test_machines_come_and_go_while_trials_run(field: Field) -> None:
    nnictl = field.product.nnictl
    experiment = field.create(service={"machineList": [of_machine(field, 0)]})
    field.running(experiment, 4)
    file = field.product.directory / "more.json"
    file.write_text(json.dumps({"machineList": [of_machine(field, 1)]}))
    assert "is being connected" in nnictl("machine", "add", experiment, "-f", str(file))
    eventually(lambda: status(field, experiment) == {"0": "connected", "1": "connected"}, "the second one")
    first = machines(field, experiment)["0"]
    assert len(first["trialIds"]) == 4 and first["cpus"] and first["keeperVersion"]
    assert first["name"] in nnictl("machine", "ls", experiment)
    told = nnictl("machine", "drain", first["name"], experiment)
    assert f"{first['name']} gets no more trials" in told
    field.kill_server()
    field.running(experiment, 4)
    eventually(lambda: status(field, experiment) == {"0": "draining", "1": "connected"}, "both again")
    nnictl("machine", "remove", first["name"], experiment, "--force")
    eventually(lambda: status(field, experiment) == {"1": "connected"}, "the end of the first one")
    eventually(lambda: not field.site.machines[0].keepers(), "the end of its keeper")
    field.running(experiment, 4)
    assert len(machines(field, experiment)["1"]["trialIds"]) == 4
    assert "parameter.cfg" in nnictl("trial", "files", experiment, "-T", "0", "--attempt", "1")
    field.gate.touch()
    assert field.product.wait(experiment, limit_s=60)["counts"] == {"SUCCEEDED": 4}
    assert {trial["attempt"] for trial in field.trials(experiment)} == {2}


def test_trials_run_here_and_there(field: Field) -> None:
    """NNI's hybrid mode."""
    services = [
        {"platform": "local"},
        {"platform": "remote", "machineList": [of_machine(field, 0), of_machine(field, 1)]},
    ]
    experiment = field.create(trainingService=services, trialCpuNumber=0.01)
    field.running(experiment, 4)
    found = machines(field, experiment)
    assert sorted(len(machine["trialIds"]) for machine in found.values()) == [1, 1, 2]
    assert found.keys() == {"here", "0", "1"}
    all_well(field, experiment)

"""Use of CPUs, memory and GPUs by machines and trials over time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.lab import EXPERIMENT, Lab
from training_services.base import ServiceUnavailable

FIRST = {"at": "2023-11-14T22:13:20.500000Z", "cpus": 1.25, "memoryMb": 900}


@pytest.fixture
async def trial(lab: Lab) -> str:
    """Start a trial, and return its address."""
    lab.life.start(0)
    await lab.runner.commit()
    return f"{EXPERIMENT}/trials/{lab.life.trial(0)}"


async def test_of_a_trial(lab: Lab, trial: str) -> None:
    assert (await lab.client.get(f"{trial}/usage")).json() == {"samples": []}
    lab.service.logs[lab.life.job(0), ".nni/usage"] = b"1700000000.5 1.25 900\n1700000010.5 0.00 901\n17000"
    found = (await lab.client.get(f"{trial}/usage?attempt=1")).json()["samples"]
    assert found[0] == FIRST | {"gpus": []}
    assert [sample["memoryMb"] for sample in found] == [900, 901]
    assert (await lab.client.get(f"{trial}/usage?attempt=2")).status_code == 404


@pytest.mark.parametrize(
    "line",
    [b"nan 1 1", b"1700000000 nan 1", b"1e300 1 1", b"1 1 1 0:x:1", b"1 1 1 0:1", "1 ² 1".encode(), b"\xff"],
)
async def test_lines_that_no_keeper_writes_are_left_out(lab: Lab, trial: str, line: bytes) -> None:
    lab.service.logs[lab.life.job(0), ".nni/usage"] = line + b"\n1700000000.5 1.25 900\n"
    assert len((await lab.client.get(f"{trial}/usage")).json()["samples"]) == 1


async def test_a_machine_that_cannot_be_asked_says_why(lab: Lab, trial: str) -> None:
    lab.service.refusal = ServiceUnavailable("keeper x was asked, but has not answered for 15 s")
    answer = await lab.client.get(f"{trial}/usage")
    assert answer.status_code == 503
    assert answer.json()["error"]["message"] == "keeper x was asked, but has not answered for 15 s"


async def test_keepers_are_listed(lab: Lab) -> None:
    answer = await lab.client.get(f"{EXPERIMENT}/keepers")
    assert answer.json() == {"keepers": [{"id": "local", "host": None}]}


async def test_of_this_machine(lab: Lab) -> None:
    address = f"{EXPERIMENT}/keepers/local/usage"
    unknown = await lab.client.get(f"{EXPERIMENT}/keepers/other/usage")
    assert unknown.status_code == 404
    assert unknown.json()["error"]["message"] == "There is no keeper other; the experiment has: local."
    assert (await lab.client.get(address)).json() == {"samples": []}
    folder = Path(lab.manager.folder) / "keeper"
    folder.mkdir()
    (folder / "usage").write_text("1700000000.5 1.25 900 0:40:3000 1:-:0\n")
    (found,) = (await lab.client.get(address)).json()["samples"]
    assert found == FIRST | {
        "gpus": [
            {"index": 0, "busyPercent": 40, "memoryMb": 3000},
            {"index": 1, "busyPercent": None, "memoryMb": 0},
        ]
    }

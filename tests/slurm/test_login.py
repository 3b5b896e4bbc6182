"""When squeue and scancel are run, without Slurm."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from training_services.addresses import NoDoors
from training_services.base import ExperimentContext
from training_services.placement.needs import Wants
from training_services.slurm import allocation, login
from training_services.slurm.allocation import SlurmAllocation
from training_services.slurm.commands import Commands, Outcome
from training_services.slurm.config import SlurmConfig
from training_services.slurm.login import Login
from training_services.slurm.site import Site

LINE = "7|nnimgr-e-p1|{}|None|1:00|main|1|n1|nnimgr db"


class _Slurm(Commands):
    """Commands of a cluster with one allocation, which is in this state."""

    key = title = "test"

    def __init__(self, state: str) -> None:
        self.state = state
        self.calls: list[str] = []

    async def run(self, *words: str, text: str = "") -> Outcome:
        self.calls.append(words[0])
        if words[0] == "sbatch":
            return Outcome(0, "7\n", "")
        return Outcome(0, LINE.format(self.state) if words[0] == "squeue" else "", "")


class _Watcher:
    partition: str | None = None
    in_doubt = False

    def __init__(self) -> None:
        self.pending = False
        self.looked = asyncio.Event()

    def seen(self) -> None:
        self.looked.set()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "FIRST_LOOK_S", 0.0)
    monkeypatch.setattr(login, "CANCEL_PAUSE_S", 0.0)
    monkeypatch.setattr(allocation, "LEAVE_S", 0.0)


async def test_squeue_runs_when_an_allocation_was_submitted() -> None:
    slurm, watcher = _Slurm("PENDING"), _Watcher()
    place = Login(slurm)
    place.add(watcher)
    for _ in range(10):
        await asyncio.sleep(0)
    assert slurm.calls == []
    watcher.pending = True
    await place.submit("script")
    async with asyncio.timeout(10):
        await watcher.looked.wait()
    assert slurm.calls == ["sbatch", "squeue"]
    await place.close()


async def test_squeue_runs_for_an_allocation_of_an_earlier_server(tmp_path: Path) -> None:
    slurm = _Slurm("RUNNING")
    place = Login(slurm)
    adopted = _allocation(tmp_path, place)
    await adopted.open()
    adopted.heard()  # so it is in no doubt
    other = _Watcher()
    place.add(other)
    async with asyncio.timeout(10):
        await other.looked.wait()
    assert adopted.left is not None and adopted.left <= timedelta(minutes=1)
    assert slurm.calls == ["squeue"]
    await adopted.close()
    await place.close()


def _allocation(directory: Path, place: Login) -> SlurmAllocation:
    config = SlurmConfig.model_validate({"timeLimit": "1h"})
    context = ExperimentContext(
        experiment_id="e",
        directory=directory,
        trial_command="true",
        trial_code_directory=directory,
        trial_gpu_number=None,
        python="python3",
        environ={},
    )
    site = Site(context, config, NoDoors(), place)
    site.database_id = "db"
    nothing = Wants(None, None, None)
    return SlurmAllocation(
        "e-p1", context=context, config=config, site=site, job_id=None, needs=lambda: nothing, wants=nothing,
        seen=lambda name: None, known=True, instance="slurm:7:x",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state", "canceled"), [("COMPLETED", []), ("RUNNING", ["scancel"])], ids=["gone", "there"]
)
async def test_only_an_allocation_that_stays_is_canceled(
    tmp_path: Path, state: str, canceled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "LOOK_S", 0.01)
    slurm = _Slurm(state)
    place = Login(slurm)
    leaving = _allocation(tmp_path, place)
    leaving.heard()
    await leaving.open()
    await leaving.end(told=True)
    assert [call for call in slurm.calls if call != "squeue"] == canceled
    await leaving.close()
    await place.close()

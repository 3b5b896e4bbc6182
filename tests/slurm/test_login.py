"""When squeue and scancel are run, without Slurm."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from tests.slurm.test_failures import until
from training_services.addresses import NoDoors
from training_services.base import Cause, ExperimentContext
from training_services.keepers.host import HostGone
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
        self.options: list[str] = []  # the last one of each squeue
        self.hides = False  # True: squeue shows nothing
        self.answers = asyncio.Event()  # without it, sbatch hangs
        self.answers.set()

    async def run(self, *words: str, text: str = "") -> Outcome:
        self.calls.append(words[0])
        if words[0] == "squeue":
            self.options.append(words[-1])
            if self.hides:
                return Outcome(0, "", "")
        if words[0] == "sbatch":
            await self.answers.wait()
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


def _allocation(
    directory: Path, place: Login, *, known: bool = True, job_id: str | None = None
) -> SlurmAllocation:
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
        "e-p1", context=context, config=config, site=site, job_id=job_id, needs=lambda: nothing,
        wants=nothing, seen=lambda name: None, vacated=lambda: False, known=known,
        instance="slurm:7:x" if known else None,
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


async def test_ones_own_jobs_are_found_in_all_partitions() -> None:
    slurm, watcher = _Slurm("PENDING"), _Watcher()
    watcher.partition, watcher.pending = "main", True
    place = Login(slurm)
    place.add(watcher)
    table = await place.fresh()
    assert slurm.options == ["--me", "--partition=main"]
    assert len(table.rows) == 1  # which both show
    await place.close()


async def test_an_allocation_that_is_given_up_is_canceled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "LOOK_S", 0.01)
    monkeypatch.setattr(allocation, "KNOWN_S", -1.0)
    slurm = _Slurm("PENDING")
    place = Login(slurm)
    made = _allocation(tmp_path, place, known=False)
    await made.write_manager({"urls": ["https://127.0.0.1:1"]})
    made.partition = None
    monkeypatch.setattr(slurm, "hides", True)
    await made.open()
    with pytest.raises(HostGone, match="Slurm no longer knows the allocation"):
        await made.keep()
    assert [call for call in slurm.calls if call != "squeue"] == ["sbatch", "scancel"]
    await made.close()
    await place.close()


async def test_a_submission_under_way_is_not_repeated(tmp_path: Path) -> None:
    slurm = _Slurm("PENDING")
    place = Login(slurm)
    made = _allocation(tmp_path, place, known=False)
    await made.write_manager({"urls": ["https://127.0.0.1:1"]})
    await made.open()
    slurm.answers.clear()
    for _ in range(2):
        keeping = asyncio.create_task(made.keep())
        await until(lambda: "sbatch" in slurm.calls)
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
    keeping = asyncio.create_task(made.keep())
    slurm.answers.set()
    await until(lambda: made.accepted)
    assert slurm.calls.count("sbatch") == 1
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await made.close()
    await place.close()


async def test_submissions_that_hang_leave_room_for_other_commands(tmp_path: Path) -> None:
    slurm = _Slurm("RUNNING")
    place = Login(slurm)
    slurm.answers.clear()
    submissions = [asyncio.create_task(place.submit("script")) for _ in range(login.SUBMISSIONS + 3)]
    await until(lambda: slurm.calls.count("sbatch") == login.SUBMISSIONS)
    place.add(_Watcher())
    assert len((await place.fresh()).rows) == 1
    assert slurm.calls.count("sbatch") == login.SUBMISSIONS
    slurm.answers.set()
    await asyncio.gather(*submissions)
    await place.close()


async def test_a_table_that_squeue_is_showing_is_new_enough_after_a_restart() -> None:
    slurm, watcher = _Slurm("RUNNING"), _Watcher()
    place = Login(slurm)
    opened = asyncio.get_running_loop().time()
    place.add(watcher, unknown=True)
    await watcher.looked.wait()
    assert await place.fresh(opened) is place.table
    assert slurm.calls == ["squeue"]
    await place.close()


async def test_a_call_of_the_keeper_ends_the_doubt_about_its_allocation(tmp_path: Path) -> None:
    slurm = _Slurm("SUSPENDED")
    place = Login(slurm)
    suspended = _allocation(tmp_path, place)
    await suspended.open()
    suspended.heard()
    keeping = asyncio.create_task(suspended.keep())
    await place.fresh()
    await until(lambda: suspended.doubt is not None)
    suspended.heard()
    assert suspended.doubt is None
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await suspended.close()
    await place.close()


async def test_an_allocation_of_its_own_that_fails_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "LOOK_S", 0.01)
    causes = {}
    for job_id in (None, "e-t1-1"):
        place = Login(_Slurm("FAILED"))
        made = _allocation(tmp_path, place, known=False, job_id=job_id)
        await made.write_manager({"urls": ["https://127.0.0.1:1"]})
        await made.open()
        with pytest.raises(HostGone, match="has ended with an error before its keeper had called") as gone:
            await made.keep()
        causes[job_id] = gone.value.cause
        await made.close()
        await place.close()
    assert causes == {None: Cause.USER_ERROR, "e-t1-1": Cause.INFRASTRUCTURE}

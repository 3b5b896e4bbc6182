"""Checkpoints that are copied from one real keeper to the server, and from there to another."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.training_services.hosting import serve
from tests.training_services.machines.local_platform import CONTINUE, PRELUDE
from tests.trial_keeper.harness import DEADLINE_S, oldest_python, wait_for
from training_services.base import (
    CheckpointKept,
    CheckpointLost,
    CheckpointReported,
    EndReason,
    ExperimentContext,
    HostVanished,
    JobEnded,
    JobEvent,
    JobNoted,
    JobPlaced,
    KeptCopy,
    MachineDrained,
    MachineGone,
    MachineRemoved,
    Origin,
    TrialJobSpec,
)
from training_services.checkpoint_store import CheckpointStore
from training_services.keepers import keeping
from training_services.keepers.gone import HostGone
from training_services.keepers.hub import KeeperHub
from training_services.keepers.jobs import StartOrder
from training_services.machines.local import LocalConfig, LocalKeeper
from training_services.machines.service import MachineService
from training_services.placement.ledger import Host, HostLedger
from training_services.testing import CoreDouble
from training_services.tools import ServiceTools
from trial_keeper.attempt import ending

TRIAL, JOB = "aaaa1", "contract-aaaa1-1"


class FarKeeper(LocalKeeper):
    """Keeper of this machine, with a folder of its own, that behaves as if it were on another machine."""

    beside_server = False

    def __init__(self, name: str, context: ExperimentContext, tools: ServiceTools) -> None:
        directory = context.directory.parent / name
        directory.mkdir(exist_ok=True)
        super().__init__(replace(context, directory=directory), LocalConfig(), tools)
        self.keeper_id = name
        self.host = Host(id=name, name=name)

    def start_order(self, job: TrialJobSpec, gpus: tuple[int, ...]) -> StartOrder:
        order = super().start_order(job, gpus)
        if "kept" in order.get("origin", {}):
            order["origin"]["kept"]["path"] = None
        return order


class Site:
    """Experiment on two machines. ``core`` has opened its service."""

    def __init__(self, directory: Path, tools: ServiceTools, **more: Any) -> None:
        self.directory = directory / "exp"
        self.context = ExperimentContext(
            experiment_id="contract",
            directory=self.directory,
            trial_command="bash ./trial.sh",
            trial_code_directory=directory,
            trial_gpu_number=None,
            python=oldest_python() or sys.executable,
            environ=dict(os.environ),
            **more,
        )
        (directory / "trial.sh").write_text(PRELUDE + CONTINUE)
        self.hosts = [FarKeeper(name, self.context, tools) for name in ("far1", "far2")]
        self.service = MachineService(self.context, tools, self.hosts)
        self.core = CoreDouble()

    def folder(self, keeper_id: str, attempt: int = 1) -> Path:
        trial = self.directory.parent / keeper_id / "trials" / TRIAL
        return trial if attempt == 1 else trial / f"attempt-{attempt}"

    async def save(self) -> Origin:
        """Run the first attempt, and return the checkpoint that it saves."""
        job_id = self.core.submit(TRIAL)
        saved = await self.core.seen(CheckpointReported, job_id)
        await self.core.seen(JobEnded, job_id)
        placed = await self.core.seen(JobPlaced, job_id)
        return Origin(
            attempt=1, number=1, keeper_id=placed.place.keeper_id, step=saved.step, position=2, reports=1
        )

    async def keep(self, origin: Origin) -> KeptCopy:
        self.service.keep_checkpoint(TRIAL, origin)
        kept = await self.core.seen(CheckpointKept, JOB)
        return KeptCopy(digest=kept.digest, size=kept.size)

    async def leave(self, origin: Origin) -> None:
        """Let no further attempt run on the machine of the checkpoint."""
        self.core.commit(MachineDrained(keeper_id=origin.keeper_id))

    async def go_on(self, origin: Origin, kept: KeptCopy | None) -> JobEnded:
        """Run the second attempt, which continues from the checkpoint."""
        return await self.core.seen(JobEnded, self.core.submit(TRIAL, attempt=2, origin=origin, kept=kept))


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    hub = KeeperHub()
    async with serve(hub) as doors:
        made = Site(tmp_path, ServiceTools(hub=hub, ledger=HostLedger(), doors=doors))
        await made.core.open(made.service)
        yield made
        await made.core.close(detach=False)


async def test_an_attempt_continues_on_another_machine(site: Site) -> None:
    origin = await site.save()
    kept = await site.keep(origin)
    store = site.directory / "checkpoints" / TRIAL / "1-1"
    assert (store / "files" / "value.bytes").read_text() == "1\n" and kept.size == 2
    await site.leave(origin)
    end = await site.go_on(origin, kept)
    assert (end.reason, end.exit_code, end.metrics) == (EndReason.EXITED, 0, 3)
    placed = await site.core.seen(JobPlaced, end.job_id)
    assert placed.place.keeper_id != origin.keeper_id
    assert [metric.value for metric in site.core.metrics(end.job_id)] == [2.0, 2.0]
    origins = site.directory.parent / placed.place.keeper_id / "keeper" / "origins"
    for _ in range(200):
        if not list(origins.glob("*/*")):
            break
        await asyncio.sleep(0.02)
    assert not list(origins.glob("*/*"))  # no attempt uses the fetched checkpoint any more


async def test_the_machine_that_has_the_files_is_preferred(site: Site) -> None:
    origin = await site.save()
    end = await site.go_on(origin, await site.keep(origin))
    assert (await site.core.seen(JobPlaced, end.job_id)).place.keeper_id == origin.keeper_id


async def test_a_job_that_waits_for_its_machine_leaves_when_its_checkpoint_was_copied(site: Site) -> None:
    origin = await site.save()
    await site.leave(origin)
    job_id = site.core.submit(TRIAL, attempt=2, origin=origin)
    assert not any(isinstance(fact, JobPlaced) for fact in site.core.of(job_id))
    await site.keep(origin)
    assert (await site.core.seen(JobPlaced, job_id)).place.keeper_id != origin.keeper_id
    assert (await site.core.seen(JobEnded, job_id)).exit_code == 0


@pytest.mark.parametrize("harm", ["missing", "shorter", "changed", "manifest"])
async def test_a_damaged_copy_is_lost_with_a_sentence(site: Site, harm: str) -> None:
    origin = await site.save()
    kept = await site.keep(origin)
    await site.leave(origin)
    store = site.directory / "checkpoints" / TRIAL / "1-1"
    file = store / "files" / "value.bytes"
    file.chmod(0o600)
    if harm == "missing":
        store.rename(store.with_name("away"))
    elif harm == "manifest":
        (store / "manifest.json").write_text('{"files": []}')
    else:
        file.write_text("" if harm == "shorter" else "9\n")
    end = await site.go_on(origin, kept)
    assert end.reason is EndReason.CHECKPOINT_LOST and end.message is not None
    lost = await site.core.seen(CheckpointLost, JOB)
    assert (lost.keeper_id, lost.reason) == (None, end.message)
    said = {"missing": "missing or damaged", "shorter": "0 bytes in place of 2", "changed": "hash of value"}
    assert said.get(harm, "the hash of its manifest is wrong") in lost.reason


async def test_files_that_are_missing_on_their_host_are_lost(site: Site) -> None:
    origin = await site.save()
    checkpoint = site.folder(origin.keeper_id) / "checkpoints" / "1"
    checkpoint.rename(checkpoint.with_name("away"))
    site.service.keep_checkpoint(TRIAL, origin)
    lost = await site.core.seen(CheckpointLost, JOB)
    assert lost.keeper_id == origin.keeper_id and "are missing or damaged" in lost.reason


async def test_files_that_were_cut_on_their_host_are_lost_and_not_copied(site: Site) -> None:
    origin = replace(await site.save(), size=2)
    file = site.folder(origin.keeper_id) / "checkpoints" / "1" / "value.bytes"
    file.chmod(0o600)
    file.write_text("1")
    site.service.keep_checkpoint(TRIAL, origin)
    lost = await site.core.seen(CheckpointLost, JOB)
    assert lost.keeper_id == origin.keeper_id
    assert lost.reason == (
        f"its files on {origin.keeper_id} are missing or damaged: they have 1 bytes in place of 2"
    )
    assert not list(site.directory.glob("checkpoints/*/*"))


async def test_an_attempt_does_not_start_from_files_that_were_cut(site: Site) -> None:
    origin = replace(await site.save(), size=2)
    file = site.folder(origin.keeper_id) / "checkpoints" / "1" / "value.bytes"
    file.chmod(0o600)
    file.write_text("1")
    end = await site.go_on(origin, None)
    assert end.reason is EndReason.CHECKPOINT_LOST and end.message is not None
    assert end.message.endswith("is damaged: its files have 1 bytes in place of 2")
    lost = await site.core.seen(CheckpointLost, JOB)
    assert (lost.keeper_id, lost.reason) == (origin.keeper_id, end.message)


async def test_an_attempt_uses_the_copy_in_place_of_files_that_were_cut(site: Site) -> None:
    origin = replace(await site.save(), size=2)
    kept = await site.keep(origin)
    file = site.folder(origin.keeper_id) / "checkpoints" / "1" / "value.bytes"
    file.chmod(0o600)
    file.write_text("")
    end = await site.go_on(origin, kept)
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    assert [metric.value for metric in site.core.metrics(end.job_id)] == [2.0, 2.0]


async def test_what_cannot_be_copied_stays_on_its_host(site: Site) -> None:
    origin = await site.save()
    (site.folder(origin.keeper_id) / "checkpoints" / "1" / "link").symlink_to("/etc/passwd")
    site.service.keep_checkpoint(TRIAL, origin)
    stays = f"checkpoint 1 stays on {origin.keeper_id}: it cannot be copied to the server: link is neither "
    note = JobNoted(job_id=JOB, note=f"{stays}a file nor a folder")
    await site.core.until(lambda: note in site.core.facts)  # a busy machine may cause other notes


@dataclass
class Gate:
    """Gate before the end of each copy. ``reached``: a copy waits there. ``open``: it may go on."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    open: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
async def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    found, loop, finish = Gate(), asyncio.get_running_loop(), CheckpointStore.finish

    def slowly(store: CheckpointStore, *arguments: Any) -> KeptCopy:
        loop.call_soon_threadsafe(found.reached.set)
        assert found.open.wait(DEADLINE_S)
        return finish(store, *arguments)

    monkeypatch.setattr(CheckpointStore, "finish", slowly)
    return found


async def test_a_copy_that_is_completed_when_its_trial_has_ended_is_removed(site: Site, gate: Gate) -> None:
    site.service.keep_checkpoint(TRIAL, await site.save())
    await asyncio.wait_for(gate.reached.wait(), DEADLINE_S)
    site.service.keep_checkpoint(TRIAL, None)
    gate.open.set()
    await site.core.close(detach=False)
    assert not list(site.directory.glob("checkpoints/*/*"))


async def test_a_copy_that_is_completed_after_its_replacement_was_canceled_is_removed(
    site: Site, gate: Gate
) -> None:
    origin = await site.save()
    site.service.keep_checkpoint(TRIAL, origin)
    await asyncio.wait_for(gate.reached.wait(), DEADLINE_S)
    site.service.keep_checkpoint(TRIAL, replace(origin, number=2))
    site.service.keep_checkpoint(TRIAL, None)
    gate.open.set()
    await site.core.close(detach=False)
    assert not list(site.directory.glob("checkpoints/*/*"))


async def test_a_copy_that_is_ordered_again_while_it_is_made_stays(site: Site, gate: Gate) -> None:
    origin = await site.save()
    site.service.keep_checkpoint(TRIAL, origin)
    await asyncio.wait_for(gate.reached.wait(), DEADLINE_S)
    site.service.keep_checkpoint(TRIAL, replace(origin, number=2))
    site.service.keep_checkpoint(TRIAL, origin)
    gate.open.set()
    await site.core.seen(CheckpointKept, JOB)
    site.service.keep_checkpoint(TRIAL, None)
    await site.core.close(detach=False)
    assert (site.directory / "checkpoints" / TRIAL / "1-1" / "manifest.json").exists()


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first copy fail at its end."""
    finish = CheckpointStore.finish

    def once(store: CheckpointStore, *arguments: Any) -> KeptCopy:
        monkeypatch.setattr(CheckpointStore, "finish", finish)
        raise OSError(errno.ENOSPC, "the disk is full")

    monkeypatch.setattr(CheckpointStore, "finish", once)


async def unfinished(site: Site, origin: Origin) -> Path:
    """Let a transfer fail. Return the folder with what it has left."""
    site.service.keep_checkpoint(TRIAL, origin)
    for _ in range(1000):
        if any("disk is full" in sentence for sentence in site.service.notices().values()):
            break
        await asyncio.sleep(0.01)
    part = site.directory / "checkpoints" / TRIAL / ".part-1-1"
    assert part.exists()
    return part


async def test_what_a_failed_transfer_has_left_is_removed_when_a_newer_one_replaces_it(
    site: Site, full_disk: None
) -> None:
    origin = await site.save()
    saved = site.folder(origin.keeper_id) / "checkpoints"
    shutil.copytree(saved / "1", saved / "2")
    part = await unfinished(site, origin)
    await site.keep(replace(origin, number=2))
    assert [path.name for path in part.parent.iterdir()] == ["1-2"]


async def test_what_a_failed_transfer_has_left_is_removed_when_its_files_are_lost(
    site: Site, full_disk: None
) -> None:
    origin = await site.save()
    part = await unfinished(site, origin)
    saved = site.folder(origin.keeper_id) / "checkpoints" / "1"
    saved.rename(saved.with_name("away"))
    site.service._keeping.heard(origin.keeper_id)
    await site.core.seen(CheckpointLost, JOB)
    await site.core.close(detach=False)
    assert not part.exists()


async def test_a_removed_machine_leaves_after_its_checkpoint_was_copied(site: Site) -> None:
    origin = await site.save()
    site.service.keep_checkpoint(TRIAL, origin)
    site.core.commit(MachineRemoved(keeper_id=origin.keeper_id))
    await site.core.until(lambda: any(isinstance(fact, MachineGone) for fact in site.core.facts))
    kinds = [type(fact) for fact in site.core.facts]
    assert kinds.index(CheckpointKept) < kinds.index(MachineGone)


async def test_a_host_that_shuts_down_is_left_when_its_checkpoint_was_copied(site: Site, gate: Gate) -> None:
    origin = await site.save()
    seat = site.service._seats[origin.keeper_id]
    site.service.keep_checkpoint(TRIAL, origin)
    await asyncio.wait_for(gate.reached.wait(), DEADLINE_S)
    directory = site.folder(origin.keeper_id).parents[1] / "keeper"
    ending.prepare(str(directory), {"NNIMGR_POD_WHOLE_GRACE_S": "3600"})
    ending.order(str(directory))
    await asyncio.to_thread(wait_for, lambda: seat.link.ending, "the keeper, which says that it shuts down")
    assert seat.obstacle() == f"waits: {origin.keeper_id} is shutting down" and seat.absence() is None
    log = directory / "keeper.log"
    assert site.service.needs_files(origin.keeper_id) and "leaves" not in log.read_text()
    gate.open.set()
    await site.core.seen(CheckpointKept, JOB)
    await asyncio.to_thread(wait_for, lambda: "leaves: the host is about" in log.read_text(), "the keeper")
    assert not site.service.needs_files(origin.keeper_id)
    assert "the server copies checkpoints from this host" in log.read_text()


async def uncommitted_copy(site: Site, origin: Origin, monkeypatch: pytest.MonkeyPatch) -> CheckpointKept:
    """Copy the checkpoint, and return the fact about the copy, which the core does not get."""
    made: asyncio.Future[CheckpointKept] = asyncio.get_running_loop().create_future()

    def put(events: Sequence[JobEvent]) -> None:
        for event in events:
            if isinstance(event, CheckpointKept):
                made.set_result(event)

    monkeypatch.setattr(site.service._keeping, "_put", put)
    site.service.keep_checkpoint(TRIAL, origin)
    return await asyncio.wait_for(made, DEADLINE_S)


async def test_a_host_is_needed_until_the_copy_of_its_checkpoint_is_committed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = await site.save()
    kept = await uncommitted_copy(site, origin, monkeypatch)
    assert site.service.needs_files(origin.keeper_id)
    site.service.committed([kept])
    assert not site.service.needs_files(origin.keeper_id)


async def test_a_host_is_not_needed_for_a_copy_that_nobody_records(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = await site.save()
    await uncommitted_copy(site, origin, monkeypatch)
    site.service.keep_checkpoint(TRIAL, None)
    await asyncio.sleep(0)
    assert not site.service.needs_files(origin.keeper_id)


@pytest.mark.parametrize("trial_id", [TRIAL, "bbbb2"])
async def test_a_removed_machine_stays_for_the_next_order_of_the_same_turn(
    site: Site, monkeypatch: pytest.MonkeyPatch, trial_id: str
) -> None:
    origin = await site.save()
    seat = site.service._seats[origin.keeper_id]
    kept = await uncommitted_copy(site, origin, monkeypatch)
    site.core.commit(MachineRemoved(keeper_id=origin.keeper_id))
    if trial_id != TRIAL:
        site.service.keep_checkpoint(TRIAL, None)
    site.service.keep_checkpoint(trial_id, replace(origin, number=0))  # before the checkpoint that was copied
    site.service.committed([kept])
    await asyncio.sleep(0)
    assert not seat.link.leaving


async def test_what_was_not_copied_before_its_host_ended_is_lost_with_a_sentence(
    site: Site, gate: Gate
) -> None:
    origin = await site.save()
    site.service.keep_checkpoint(TRIAL, origin)
    await asyncio.wait_for(gate.reached.wait(), DEADLINE_S)
    site.service.host_gone(site.service._seats[origin.keeper_id], HostGone("the pod was deleted"))
    gate.open.set()
    lost = await site.core.seen(CheckpointLost, JOB)
    assert lost.keeper_id == origin.keeper_id
    assert lost.reason == (
        f"it was not copied to the server before {origin.keeper_id} ended: the pod was deleted"
    )
    kinds = [type(fact) for fact in site.core.facts]
    assert HostVanished in kinds and CheckpointKept not in kinds


async def test_a_machine_that_does_not_answer_gives_its_checkpoint_up(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = await site.save()
    monkeypatch.setattr(keeping.Keeping, "leave", _hasty(keeping.Keeping.leave))
    seat = site.service._seats[origin.keeper_id]
    monkeypatch.setattr(seat, "absence", lambda: "the machine is silent")
    site.service.keep_checkpoint(TRIAL, origin)
    site.core.commit(MachineRemoved(keeper_id=origin.keeper_id))
    lost = await site.core.seen(CheckpointLost, JOB)
    assert lost.reason == f"it could not be copied from {origin.keeper_id}: the machine is silent"
    await site.core.until(lambda: any(isinstance(fact, MachineGone) for fact in site.core.facts))


def _hasty(leave: object) -> object:
    def soon(self: keeping.Keeping, keeper_id: str, limit_s: float = 0.0) -> None:
        leave(self, keeper_id, 0.05)  # type: ignore[operator]

    return soon

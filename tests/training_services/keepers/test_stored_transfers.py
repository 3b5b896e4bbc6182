"""Checkpoints that real keepers save, that a storage gets, and that come back from there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.training_services.hosting import serve
from tests.training_services.keepers.test_transfers import JOB, TRIAL, Site
from training_services.base import (
    CheckpointsPruned,
    CheckpointStored,
    EndReason,
    JobPlaced,
)
from training_services.keepers.hub import KeeperHub
from training_services.machines.local import LocalConfig, LocalKeeper
from training_services.machines.service import MachineService
from training_services.placement.ledger import HostLedger
from training_services.testing import CoreDouble
from training_services.tools import ServiceTools
from trial_keeper.machine.disk import remove


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    (tmp_path / "storage").mkdir()
    hub = KeeperHub()
    async with serve(hub) as doors:
        tools = ServiceTools(hub=hub, ledger=HostLedger(), doors=doors)
        made = Site(tmp_path, tools, checkpoint_storage=f"file://{tmp_path}/storage")
        await made.core.open(made.service)
        yield made
        await made.core.close(detach=False)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


async def test_an_attempt_continues_from_the_storage_after_the_servers_copies_are_lost(site: Site) -> None:
    origin = await site.save()
    kept = await site.keep(origin)
    await site.core.seen(CheckpointStored, JOB)
    copies, storage = site.directory / "checkpoints", site.directory.parent / "storage" / "contract"
    assert files(copies) == files(storage) == [f"{TRIAL}/1-1/files/value.bytes", f"{TRIAL}/1-1/manifest.json"]
    remove(str(copies))
    await site.leave(origin)
    end = await site.go_on(origin, kept)
    assert (end.reason, end.exit_code, end.metrics) == (EndReason.EXITED, 0, 3)
    assert (await site.core.seen(JobPlaced, end.job_id)).place.keeper_id != origin.keeper_id
    assert [metric.value for metric in site.core.metrics(end.job_id)] == [2.0, 2.0]
    assert files(copies) == files(storage)
    site.core.commit(CheckpointsPruned(job_id=JOB, keeper_id=None, up_to=1))
    await site.core.close(detach=False)
    assert not (storage / TRIAL).exists()


async def test_the_servers_own_machine_is_copied_and_stored_at_the_end(tmp_path: Path) -> None:
    hub = KeeperHub()
    (tmp_path / "storage").mkdir()
    async with serve(hub) as doors:
        tools = ServiceTools(hub=hub, ledger=HostLedger(), doors=doors)
        site = Site(tmp_path, tools, checkpoint_storage=f"file://{tmp_path}/storage")
        site.directory.mkdir()
        service = MachineService(site.context, tools, [LocalKeeper(site.context, LocalConfig(), tools)])
        site.service = service
        core = site.core = CoreDouble()
        await core.open(service)
        origin = await site.save()
        service.keep_checkpoint(TRIAL, origin)
        await service.close(detach=False)  # at once, before the facts about the copy are committed
        core.service = None
    stored = files(tmp_path / "storage" / "contract")
    assert stored == [f"{TRIAL}/1-1/files/value.bytes", f"{TRIAL}/1-1/manifest.json"]

"""What lists of machines show of allocations."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.slurm.cluster import SlurmCluster
from tests.slurm.platform import SlurmPlatform
from tests.slurm.test_failures import WAIT, only_job, until
from tests.training_services.machines.local_platform import REPORT
from training_services.base import JobEnded, JobStarted, MachineStatus
from training_services.slurm import login
from training_services.slurm.allocation import pilot_of
from training_services.testing import CoreDouble


@pytest.fixture
async def platform(
    tmp_path: Path, slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SlurmPlatform]:
    monkeypatch.setattr(login, "LOOK_S", 1.0)
    made = SlurmPlatform(tmp_path, slurm)
    yield made
    await made.close()


async def test_an_allocation_shows_its_number_its_node_its_time_and_its_trials(
    platform: SlurmPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, service = CoreDouble(), platform.make()
    await core.open(service)
    platform.script("aaaa1", REPORT + WAIT)
    job_id = core.submit("aaaa1")
    await core.seen(JobStarted, job_id)
    number = only_job(platform)
    await until(lambda: " on n" in service.machines()[0].name)
    (machine,) = service.machines()
    assert re.fullmatch(rf"allocation {number} on n[12]", machine.name)
    assert (machine.status, machine.reason) == (MachineStatus.CONNECTED, None)
    assert (machine.job_ids, machine.cpus) == ((job_id,), 1)
    assert machine.ends_at is not None
    left = machine.ends_at - datetime.now(UTC)
    assert timedelta(minutes=5) < left < timedelta(minutes=11)

    (seat,) = service._seats.values()
    pilot_of(seat)._limit.correct(asyncio.get_running_loop().time(), timedelta(0))
    (machine,) = service.machines()
    assert machine.status is MachineStatus.DRAINING
    assert machine.reason is not None and machine.reason.endswith("because its time limit is near")
    await core.close(detach=False)


async def test_an_allocation_that_waits_says_why(platform: SlurmPlatform) -> None:
    full = ("--job-name=full", "--nodes=2", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 1000")
    other = platform.cluster.run("sbatch", "--parsable", *full).stdout.strip()
    await platform.cluster.until("RUNNING")
    core, service = CoreDouble(), platform.make()
    await core.open(service)
    platform.script("aaaa1", REPORT)
    job_id = core.submit("aaaa1")
    await until(lambda: "waits in partition main" in str([each.reason for each in service.machines()]))
    (machine,) = service.machines()
    assert machine.status is MachineStatus.CONNECTING
    assert (machine.job_ids, machine.ends_at) == ((), None)
    number = only_job(platform)
    assert machine.name == f"allocation {number}"
    assert machine.reason is not None and machine.reason.startswith(
        f"allocation {number} waits in partition main"
    )
    platform.cluster.run("scancel", other)
    assert (await core.seen(JobEnded, job_id)).exit_code == 0
    await core.close(detach=False)

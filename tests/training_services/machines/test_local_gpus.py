"""Tests of this machine's GPUs: which trials get them, and which trials wait."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.training_services.machines.local_platform import LocalPlatform, opened_platform
from training_services.base import (
    JobEnded,
    JobPlaced,
    JobStarted,
    JobWaiting,
)
from training_services.placement.ledger import Host, HostLedger, Need, Waits
from training_services.placement.lines import FIRST
from training_services.testing import Behaviour, CoreDouble


@pytest.fixture
async def platform(tmp_path: Path) -> AsyncIterator[LocalPlatform]:
    async with opened_platform(LocalPlatform, tmp_path) as platform:
        yield platform


async def test_gpus_are_given_one_by_one(platform: LocalPlatform) -> None:
    platform.give_gpus(2, 0, 1)
    core = CoreDouble()
    await core.open(platform.make())
    for trial in ("aaaa1", "bbbb2"):
        platform.behave(trial, Behaviour.REPORTS_LATER)
    first = core.submit("aaaa1")
    await core.seen(JobStarted, first)
    assert (await core.seen(JobPlaced, first)).place.gpus == (0, 1)
    second = core.submit("bbbb2")
    waits = await core.seen(JobWaiting, second)
    assert waits.reason == (
        "waits for 2 GPUs on this machine: GPU 0 is used by experiment contract trial aaaa1, "
        "GPU 1 by experiment contract trial aaaa1"
    )
    platform.release("aaaa1")
    await core.seen(JobStarted, second)
    platform.release("bbbb2")
    await core.seen(JobEnded, second)
    await core.close(detach=False)


async def test_a_gpu_that_others_use_is_given_when_they_have_left(platform: LocalPlatform) -> None:
    gpus = platform.give_gpus(1, 0)
    gpus.compute({os.getpid(): 0})
    core = CoreDouble()
    await core.open(platform.make())
    platform.behave("aaaa1", Behaviour.REPORTS)
    job_id = core.submit("aaaa1")
    taken = f"waits for 1 GPU on this machine: GPU 0 is used by process {os.getpid()}"
    await core.waits(job_id, taken)
    gpus.are()
    await core.waits(job_id, "waits for 1 GPU on this machine: GPU 0 has vanished")
    assert core.service is not None
    assert core.service.notices() == {"gpus local": "GPU 0 of this machine has vanished"}
    gpus.are(0)
    await core.waits(job_id, taken)
    assert core.service.notices() == {}
    gpus.compute({})
    await core.seen(JobEnded, job_id)
    await core.close(detach=False)


@pytest.mark.parametrize("why", ["it is cancelled", "it could not be started"])
async def test_gpus_are_kept_for_a_job_only_as_long_as_it_waits_for_them(
    platform: LocalPlatform, why: str
) -> None:
    platform.give_gpus(2, 0, 1)
    core = CoreDouble()
    await core.open(platform.make())
    host = Host(id="local", name="this machine")
    ledger = platform.tools.ledger

    def other(trial: str) -> Need:
        return Need(experiment_id="other", job_id=f"other-{trial}-1", gpus=1)

    platform.behave("aaaa1", Behaviour.REPORTS)
    ledger.hold(other("a"), host, (0,))
    job_id = core.submit("aaaa1")
    waits = "waits for 2 GPUs on this machine: GPU 0 is used by experiment other trial a, GPU 1 is free"
    await core.waits(job_id, waits)
    assert isinstance(ledger.place(other("b"), host), Waits)
    if why == "it is cancelled":
        core.cancel(job_id)
    else:
        shutil.rmtree(platform.code)
        ledger.hold(other("c"), host, (0,))
        ledger.release("local", "other-c-1")  # the release makes the ledger ask the waiting experiment
    assert ledger.place(other("b"), host) == (1,)
    core.cancel(job_id)
    await core.close(detach=False)


async def test_without_the_tool_only_jobs_that_need_gpus_wait(platform: LocalPlatform) -> None:
    platform.gpu_number = 0.5
    (platform.directory / "python3").symlink_to(sys.executable)
    platform.environ["PATH"] = f"{platform.directory}:/nowhere"
    core = CoreDouble()
    await core.open(platform.make())
    job_id = core.submit("aaaa1")
    trouble = "cannot be read: there is no nvidia-smi on the PATH"
    await core.waits(job_id, f"waits for 0.5 of a GPU on this machine, whose GPUs {trouble}")
    assert core.service is not None
    assert core.service.notices() == {"gpus local": f"the GPUs of this machine {trouble}"}
    core.cancel(job_id)
    await core.close(detach=False)


async def test_fractions_share_a_gpu_and_a_reopened_service_knows_who_has_it(
    platform: LocalPlatform,
) -> None:
    platform.give_gpus(0.5, 0)
    core = CoreDouble()
    await core.open(platform.make())
    trials = ("aaaa1", "bbbb2", "cccc3")
    for trial in trials:
        platform.behave(trial, Behaviour.REPORTS_LATER)
    first, second = (core.submit(trial) for trial in trials[:2])
    await core.seen(JobStarted, first)
    await core.seen(JobStarted, second)
    await core.close(detach=True)
    platform.tools = replace(platform.tools, ledger=HostLedger())  # as after a restart of the server
    await core.open(platform.make())
    third = core.submit("cccc3")
    await core.waits(
        third,
        "waits for 0.5 of a GPU on this machine: "
        "GPU 0 is used by experiment contract trial aaaa1 and experiment contract trial bbbb2",
    )
    platform.release("bbbb2")
    await core.seen(JobStarted, third)
    platform.release("aaaa1")
    platform.release("cccc3")
    for job_id in (first, third):
        await core.seen(JobEnded, job_id)
    await core.close(detach=False)


async def test_who_waits_far_behind_is_told_only_that(platform: LocalPlatform) -> None:
    platform.give_gpus(1, 0)
    core = CoreDouble()
    await core.open(platform.make())
    trials = [f"aaaa{number}" for number in range(FIRST + 3)]
    for trial in trials[:2]:
        platform.behave(trial, Behaviour.REPORTS_LATER)
    first, second, *others = (core.submit(trial) for trial in trials)
    behind = "waits for 1 GPU on this machine, behind other trials of its experiment"
    by = "waits for 1 GPU on this machine: GPU 0 is used by experiment contract trial "
    await core.seen(JobStarted, first)
    platform.release("aaaa0")
    await core.seen(JobStarted, second)
    for job_id in others[:FIRST]:
        await core.waits(job_id, f"{by}aaaa1")
    await core.waits(others[-1], behind)
    for job_id in others:
        core.cancel(job_id)
    platform.release("aaaa1")
    await core.seen(JobEnded, second)
    await core.close(detach=False)

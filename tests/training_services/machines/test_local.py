"""Tests of the local platform with real keepers, shims and trials."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.training_services.machines.local_platform import LocalPlatform, opened_platform
from training_services.addresses import Reach
from training_services.base import (
    EndReason,
    JobEnded,
    JobLost,
    JobStarted,
    JobWaiting,
    KeeperBound,
    KeeperEnrolled,
    KeeperHeard,
    KeeperSilent,
    KnownKeepers,
)
from training_services.keepers import lease, upkeep
from training_services.keepers.hub import KeeperDesk
from training_services.machines.local import LocalConfig, LocalKeeper
from training_services.machines.process import WatchedProcess
from training_services.machines.service import MachineService
from training_services.placement import obstacles
from training_services.testing import Behaviour, CoreDouble, TrainingServiceContract


@pytest.fixture
async def platform(tmp_path: Path) -> AsyncIterator[LocalPlatform]:
    async with opened_platform(LocalPlatform, tmp_path) as platform:
        yield platform


class TestLocalService(TrainingServiceContract):
    """Contract of all training services, with ``platform`` from above."""


async def test_a_killed_keeper_is_started_again_and_nothing_is_lost(platform: LocalPlatform) -> None:
    core = CoreDouble()
    await core.open(platform.make())
    platform.behave("aaaa1", Behaviour.REPORTS_LATER)
    job_id = core.submit("aaaa1")
    await core.seen(JobStarted, job_id)
    await platform.kill_keeper()
    platform.release("aaaa1")
    end = await core.seen(JobEnded, job_id)
    assert (end.exit_code, end.metrics) == (0, 3)
    assert [metric.position for metric in core.metrics(job_id)] == [0, 1, 2]
    await core.close(detach=False)
    assert platform.keeper() is None


class ByPort(LocalKeeper):
    """Keeper that is given a port, as keepers of earlier versions were."""

    async def reach(self) -> Reach:
        return await self._tools.doors.network("127.0.0.1")


async def test_a_keeper_that_was_told_a_port_is_told_one_until_it_ends(platform: LocalPlatform) -> None:
    def told() -> str:
        manager = json.loads((platform.keeper_directory / "manager.json").read_text())
        return str(manager["urls"][0]).partition(":")[0]

    core = CoreDouble()
    context = platform.context()
    keeper = ByPort(context, LocalConfig(), platform.tools)
    await core.open(MachineService(context, platform.tools, [keeper]))
    platform.behave("aaaa1", Behaviour.REPORTS_LATER)
    job_id = core.submit("aaaa1")
    await core.seen(JobStarted, job_id)
    await core.close(detach=True)
    await core.open(platform.make())
    platform.release("aaaa1")
    assert (await core.seen(JobEnded, job_id)).metrics == 3
    assert told() == "https"
    await platform.kill_keeper()
    platform.behave("bbbb2", Behaviour.REPORTS)
    await core.seen(JobEnded, core.submit("bbbb2"))
    assert told() == "http+unix"
    await core.close(detach=False)


async def test_a_directory_made_anew_loses_its_jobs(platform: LocalPlatform) -> None:
    core = CoreDouble()
    await core.open(platform.make())
    platform.behave("aaaa1", Behaviour.SLEEPS)
    job_id = core.submit("aaaa1")
    await core.seen(JobStarted, job_id)
    await core.close(detach=True)
    await platform.kill_keeper()
    platform.keeper_directory.rename(platform.directory / "old")
    await core.open(platform.make())
    assert "recreated" in (await core.seen(JobLost, job_id)).reason
    assert sum(isinstance(fact, KeeperEnrolled) for fact in core.facts) == 2
    bound = [fact for fact in core.facts if isinstance(fact, KeeperBound)]
    assert len({fact.instance for fact in bound}) == 2
    platform.behave("bbbb2", Behaviour.REPORTS)
    await core.seen(JobEnded, core.submit("bbbb2"))
    await core.close(detach=False)
    platform.kill_trials()  # no keeper would end the lost trial


async def test_the_trial_finds_what_nni_gives_it(platform: LocalPlatform) -> None:
    platform.give_gpus(1, 0, 1)
    platform.config = LocalConfig(gpu_indices=[1])
    platform.environ.update(REUSE_MODE="true", MULTI_PHASE="true")
    core = CoreDouble()
    await core.open(platform.make())
    platform.script("aaaa1", 'pwd; env; cat "$NNI_SYS_DIR/parameter.cfg"')
    job_id = core.submit("aaaa1")
    await core.seen(JobEnded, job_id)
    assert core.service is not None
    text = b"".join(
        [chunk async for chunk in core.service.read_log(job_id, "stdout", follow=False, keeper_id="local")]
    ).decode()
    lines = text.splitlines()
    trial = platform.directory / "contract" / "trials" / "aaaa1"
    assert lines[0] == str(platform.code)
    assert text.endswith(core.spec("aaaa1").parameter_text)
    for line in (
        "NNI_PLATFORM=local",
        "NNIMGR_PLATFORM=local",
        "NNI_EXP_ID=contract",
        "NNI_TRIAL_JOB_ID=aaaa1",
        "NNI_TRIAL_SEQ_ID=0",
        f"NNI_CODE_DIR={platform.code}",
        f"NNI_SYS_DIR={trial}",
        f"NNI_OUTPUT_DIR={trial}",
        "CUDA_VISIBLE_DEVICES=1",
        "CUDA_DEVICE_ORDER=PCI_BUS_ID",
    ):
        assert line in lines
    assert not any(line.startswith(("REUSE_MODE=", "MULTI_PHASE=")) for line in lines)
    await core.close(detach=False)


async def test_a_waiting_job_can_be_cancelled(platform: LocalPlatform) -> None:
    service = platform.make()
    await service.open(KnownKeepers(db_id="d", m_epoch=1))
    service.adopted()
    job = CoreDouble().spec("aaaa1")
    waits = service.submit_trial_job(job)
    assert (
        isinstance(waits, JobWaiting)
        and waits.reason == "waits until nnimgr's keeper on this machine has started"
    )
    order = service.cancel_trial_job(job.id, grace=timedelta(0))
    assert order is not None and order.cmd_seq is None
    assert service.cancel_trial_job(job.id, grace=timedelta(0)) is None
    await service.close(detach=False)


async def test_a_silent_keeper_is_noticed_and_heard_again(platform: LocalPlatform) -> None:
    platform.silent_after = timedelta(milliseconds=300)
    core = CoreDouble()
    await core.open(platform.make())
    await core.until(lambda: any(isinstance(fact, KeeperBound) for fact in core.facts))
    keeper = platform.keeper()
    assert keeper is not None
    keeper.send(signal.SIGSTOP)
    try:
        await core.until(lambda: any(isinstance(fact, KeeperSilent) for fact in core.facts))
        silent = next(fact for fact in core.facts if isinstance(fact, KeeperSilent))
        assert silent.reason.startswith("the keeper on this machine has not called for 0.3 s")
    finally:
        keeper.send(signal.SIGCONT)
        keeper.close()
    platform.behave("aaaa1", Behaviour.REPORTS)
    await core.seen(JobEnded, core.submit("aaaa1"))
    assert any(isinstance(fact, KeeperHeard) for fact in core.facts)
    await core.close(detach=False)


async def test_a_keeper_that_was_silent_before_a_restart_is_heard_after_it(platform: LocalPlatform) -> None:
    platform.silent_after = timedelta(milliseconds=300)
    core = CoreDouble()
    await core.open(platform.make())
    platform.behave("aaaa1", Behaviour.REPORTS_LATER)
    job_id = core.submit("aaaa1")
    await core.seen(JobStarted, job_id)
    keeper = platform.keeper()
    assert keeper is not None
    keeper.send(signal.SIGSTOP)
    try:
        await core.until(lambda: isinstance(core.facts[-1], KeeperSilent))
        await core.close(detach=True)
        platform.silent_after = timedelta(seconds=30)
        await core.open(platform.make())
    finally:
        keeper.send(signal.SIGCONT)
        keeper.close()
    await core.until(lambda: any(isinstance(fact, KeeperHeard) for fact in core.facts))
    platform.release("aaaa1")
    await core.seen(JobEnded, job_id)
    await core.close(detach=False)


async def test_a_call_is_held_for_less_than_the_silence_that_would_be_told(platform: LocalPlatform) -> None:
    core = CoreDouble()
    for silent_after, wait_s in ((3, 1.5), (24, 14.0), (100, 20.0)):
        platform.silent_after = timedelta(seconds=silent_after)
        await core.open(platform.make())
        await core.until(lambda: any(isinstance(fact, KeeperBound) for fact in core.facts))
        token = json.loads((platform.keeper_directory / "manager.json").read_text())["token"]
        desk = platform.tools.hub.find("contract", "local", token=token)
        assert isinstance(desk, KeeperDesk) and desk.wait_s == wait_s
        await core.close(detach=False)


async def test_without_the_code_jobs_are_adopted_and_stopped_and_new_ones_wait(
    platform: LocalPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(obstacles, "LOOK_AGAIN_S", 0.05)
    core = CoreDouble()
    await core.open(platform.make())
    platform.behave("aaaa1", Behaviour.SLEEPS)
    platform.behave("bbbb2", Behaviour.REPORTS)
    running = core.submit("aaaa1")
    await core.seen(JobStarted, running)
    await core.close(detach=True)
    elsewhere = platform.code.rename(platform.directory / "elsewhere")
    await core.open(platform.make())
    core.cancel(running)
    assert (await core.seen(JobEnded, running)).reason is EndReason.STOPPED
    assert platform.processes("aaaa1") == 0
    waiting = core.submit("bbbb2")
    reason = (await core.seen(JobWaiting, waiting)).reason
    assert reason == f"waits for the trial code's directory {platform.code}, which is missing"
    elsewhere.rename(platform.code)
    assert (await core.seen(JobEnded, waiting)).exit_code == 0
    await core.close(detach=False)


async def test_a_missing_interpreter_is_waited_for(
    platform: LocalPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(obstacles, "LOOK_AGAIN_S", 0.05)
    interpreter = platform.directory / "python"
    platform.python = str(interpreter)
    core = CoreDouble()
    await core.open(platform.make())
    platform.behave("aaaa1", Behaviour.REPORTS)
    job_id = core.submit("aaaa1")
    waits = await core.seen(JobWaiting, job_id)
    assert waits.reason == f"waits for the Python interpreter {interpreter}, which is missing"
    interpreter.symlink_to(sys.executable)
    assert (await core.seen(JobEnded, job_id)).exit_code == 0
    await core.close(detach=False)


async def test_a_keeper_that_cannot_work_says_why(
    platform: LocalPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "PAUSES_S", (0.01, 0.01))
    wake = platform.directory / "contract" / "keeper" / "wake"
    wake.mkdir(parents=True)  # the keeper fails as it does on a full disk
    core = CoreDouble()
    await core.open(platform.make())
    platform.behave("aaaa1", Behaviour.REPORTS)
    job_id = core.submit("aaaa1")
    error = (
        f"the keeper has ended; the end of its log: IsADirectoryError: [Errno 21] Is a directory: '{wake}'"
    )
    start = "waits until nnimgr's keeper on this machine has started"
    await core.waits(job_id, f"{start}: nnimgr's keeper could not be started on this machine: {error}")
    wake.rmdir()
    assert (await core.seen(JobEnded, job_id)).exit_code == 0
    await core.close(detach=False)


async def test_a_keeper_that_has_not_come_so_far_as_to_be_found_is_ended_too(platform: LocalPlatform) -> None:
    started = platform.directory / "started"
    os.mkfifo(started)
    interpreter = platform.directory / "python"
    interpreter.write_text(
        f'#!/bin/sh\n[ "$3" = -c ] && exec {sys.executable} "$@"\necho $$ > {started}\nexec sleep 1000\n'
    )
    interpreter.chmod(0o755)
    platform.python = str(interpreter)
    core = CoreDouble()
    await core.open(platform.make())
    keeper = WatchedProcess(int(await asyncio.to_thread(started.read_text)))
    try:
        await core.close(detach=False)
        async with asyncio.timeout(10):
            await keeper.ended()
    finally:
        with contextlib.suppress(ProcessLookupError):
            keeper.send(signal.SIGKILL)
        keeper.close()


async def test_a_planted_link_is_not_read(platform: LocalPlatform, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    trial = tmp_path / "contract" / "trials" / "aaaa1"
    trial.mkdir(parents=True)
    (trial / "stdout").symlink_to(tmp_path / "secret")
    os.mkfifo(trial / "stderr")
    core = CoreDouble()
    await core.open(service := platform.make())
    for name in ("stdout", "stderr"):
        with pytest.raises(FileNotFoundError, match=name):
            await anext(service.read_log("contract-aaaa1-1", name, follow=False, keeper_id="local"))
    await core.close(detach=False)


async def test_metrics_arrive_once_and_in_order_however_often_the_keeper_dies(
    platform: LocalPlatform,
) -> None:
    core = CoreDouble()
    await core.open(platform.make())
    piece = 'for i in $(seq {0} {1}); do report PERIODICAL "$i" "$i"; done\n'
    piece += 'until read -r word < "$0.gate"; do :; done\n'  # the end of the previous release may come late
    script = "".join(piece.format(first, first + 299) for first in (0, 300, 600))
    platform.script("aaaa1", script.replace("$0", "$NNI_TRIAL_JOB_ID"))
    job_id = core.submit("aaaa1")
    for first in (0, 300, 600):
        await core.until(lambda known=first: len(core.metrics(job_id)) > known)  # type: ignore[misc]
        await platform.kill_keeper()
        platform.release("aaaa1")
    await core.seen(JobEnded, job_id)
    assert [metric.value for metric in core.metrics(job_id)] == list(range(900))
    await core.close(detach=False)


def test_the_configuration_takes_what_nni_takes() -> None:
    assert LocalConfig(gpu_indices="0, 2").gpu_indices == [0, 2]  # type: ignore[arg-type]
    assert LocalConfig(gpu_indices=3).gpu_indices == [3]  # type: ignore[arg-type]
    assert LocalConfig.model_validate({"maxTrialNumberPerGpu": 2, "reuseMode": True}).reuse_mode
    for bad in ({"gpuIndices": [1, 1]}, {"gpuIndices": "a"}, {"maxTrialNumberPerGpu": 0}, {"nonsense": 1}):
        with pytest.raises(ValidationError):
            LocalConfig.model_validate(bad)


@pytest.mark.parametrize("killed", [False, True])
async def test_what_is_cut_off_has_ended_by_its_lease_when_it_is_given_up(
    platform: LocalPlatform, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    monkeypatch.setattr(lease, "LEASE_KILL_S", 3.0)
    platform.lease = timedelta(seconds=2)
    platform.behave("aaaa1", Behaviour.SLEEPS)
    core = CoreDouble()
    await core.open(platform.make())
    job = core.submit("aaaa1")
    await core.seen(JobStarted, job)
    (desk,) = platform.tools.hub._desks.values()
    desk.close()  # from now on the desk refuses calls
    with monkeypatch.context() as patch:
        if killed:
            patch.setattr(LocalKeeper, "keep", _never)
            await platform.kill_keeper()
        lost = await core.seen(JobLost, job)
        assert "longer than its lease (2 s)" in lost.reason and platform.processes("aaaa1") == 0
    desk.open = True
    if not killed:  # the keeper's report of the old attempt comes too late, and it runs the next attempt
        await core.seen(JobStarted, core.submit("aaaa1", attempt=2))
        assert not any(isinstance(fact, JobEnded) for fact in core.of(job))
        assert core.cancel("contract-aaaa1-2") is not None
        await core.seen(JobEnded, "contract-aaaa1-2")
    await core.close(detach=False)


async def _never(self: LocalKeeper) -> None:
    await asyncio.get_running_loop().create_future()

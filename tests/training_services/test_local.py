"""The local platform with real keepers, shims and trials."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.gpus import ScriptedGpus
from tests.training_services.hosting import serve
from training_services import keeper_queue, keeper_seat
from training_services.base import (
    EndReason,
    ExperimentContext,
    JobEnded,
    JobLost,
    JobPlaced,
    JobStarted,
    JobWaiting,
    KeeperBound,
    KeeperEnrolled,
    KeeperHeard,
    KeeperSilent,
    KnownKeepers,
)
from training_services.keeper_host import Reach
from training_services.keeper_hub import KeeperDesk, KeeperHub
from training_services.keeper_service import ServiceTools
from training_services.local import LocalConfig, LocalKeeper, LocalService
from training_services.machine_service import MachineService
from training_services.placement import Host, HostLedger, Need, Waits
from training_services.process import WatchedProcess, lock_holder
from training_services.testing import Behaviour, ContractPlatform, CoreDouble, TrainingServiceContract

PRELUDE = """
report() {
    body='{"parameter_id": 0, "trial_job_id": "'$NNI_TRIAL_JOB_ID'", "type": "'$1'", "sequence": '$2
    body="$body, \\"value\\": \\"$3\\"}"
    printf 'ME%06d%s\\n' $((${#body} + 1)) "$body" >> "$NNI_SYS_DIR/.nni/metrics"
}
"""
REPORT = """
echo hello
report PERIODICAL 0 1
report PERIODICAL 1 2
report FINAL 0 3
"""
SCRIPTS = {
    Behaviour.REPORTS: REPORT,
    Behaviour.REPORTS_LATER: 'read -r word < "$NNI_TRIAL_JOB_ID.gate"\n' + REPORT,
    Behaviour.SLEEPS: "setsid sleep 1000 &\nsleep 1000\n",
}


class LocalPlatform(ContractPlatform):
    def __init__(self, directory: Path, tools: ServiceTools) -> None:
        self.directory = directory
        self.code = directory / "code"
        self.code.mkdir()
        self.tools = tools
        self.config = LocalConfig()
        self.gpu_number: float | None = None
        self.silent_after = timedelta(seconds=30)
        self.lease: timedelta | None = None
        self.environ = {**os.environ}
        self.python = sys.executable

    def make(self) -> LocalService:
        return LocalService(self.context(), self.config, self.tools)

    def context(self) -> ExperimentContext:
        (self.directory / "contract").mkdir(exist_ok=True)
        return ExperimentContext(
            experiment_id="contract",
            directory=self.directory / "contract",
            trial_command=". ./$NNI_TRIAL_JOB_ID.sh",
            trial_code_directory=self.code,
            trial_gpu_number=self.gpu_number,
            python=self.python,
            environ=self.environ,
            silent_after=self.silent_after,
            lease=self.lease,
        )

    def give_gpus(self, number: float, *indices: int) -> ScriptedGpus:
        """Each trial asks for so many of these."""
        self.gpu_number = number
        gpus = ScriptedGpus(self.directory, *indices)
        self.environ.update(gpus.environ)
        return gpus

    def behave(self, trial_id: str, behaviour: Behaviour) -> None:
        self.script(trial_id, SCRIPTS[behaviour])

    def script(self, trial_id: str, body: str) -> None:
        (self.code / f"{trial_id}.sh").write_text(PRELUDE + body)
        os.mkfifo(self.code / f"{trial_id}.gate")

    def release(self, trial_id: str) -> None:
        (self.code / f"{trial_id}.gate").write_text("go\n")

    def processes(self, trial_id: str) -> int:
        return len(self._pids(f"/{trial_id}\0"))

    def kill_trials(self) -> None:
        for pid in self._pids("/"):
            os.kill(pid, signal.SIGKILL)

    def _pids(self, tail: str) -> list[int]:
        mark = f"\0NNI_SYS_DIR={self.directory}/contract/trials{tail}".encode()
        found = [process for process in Path("/proc").glob("[0-9]*/environ") if mark in _content(process)]
        return [int(process.parent.name) for process in found]

    @property
    def keeper_directory(self) -> Path:
        return self.directory / "contract" / "keeper"

    def keeper(self) -> WatchedProcess | None:
        return lock_holder(self.keeper_directory / "lock")

    async def kill_keeper(self) -> None:
        keeper = self.keeper()
        assert keeper is not None
        keeper.send(signal.SIGKILL)
        await keeper.ended()
        keeper.close()


@pytest.fixture
async def platform(tmp_path: Path) -> AsyncIterator[LocalPlatform]:
    hub = KeeperHub()
    async with serve(hub) as doors:
        local = LocalPlatform(tmp_path, ServiceTools(hub=hub, ledger=HostLedger(), doors=doors))
        yield local
    if (keeper := local.keeper()) is not None:  # only after a failure
        keeper.close()
        await local.kill_keeper()
        local.kill_trials()


class TestLocalService(TrainingServiceContract):
    """The contract, with ``platform`` from above."""


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
    """A keeper that is told a port, as keepers of earlier versions were."""

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
    assert "anew" in (await core.seen(JobLost, job_id)).reason
    assert sum(isinstance(fact, KeeperEnrolled) for fact in core.facts) == 2
    bound = [fact for fact in core.facts if isinstance(fact, KeeperBound)]
    assert len({fact.instance for fact in bound}) == 2
    platform.behave("bbbb2", Behaviour.REPORTS)
    await core.seen(JobEnded, core.submit("bbbb2"))
    await core.close(detach=False)
    platform.kill_trials()  # nobody knows the lost one any more


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
        ledger.release("local", "other-c-1")  # whoever waits is asked
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
    trials = [f"aaaa{number}" for number in range(keeper_queue.FIRST + 3)]
    for trial in trials[:2]:
        platform.behave(trial, Behaviour.REPORTS_LATER)
    first, second, *others = (core.submit(trial) for trial in trials)
    behind = "waits for 1 GPU on this machine, behind other trials of its experiment"
    by = "waits for 1 GPU on this machine: GPU 0 is used by experiment contract trial "
    await core.seen(JobStarted, first)
    platform.release("aaaa0")
    await core.seen(JobStarted, second)
    for job_id in others[: keeper_queue.FIRST]:
        await core.waits(job_id, f"{by}aaaa1")
    await core.waits(others[-1], behind)
    for job_id in others:
        core.cancel(job_id)
    platform.release("aaaa1")
    await core.seen(JobEnded, second)
    await core.close(detach=False)


async def test_a_waiting_job_can_be_cancelled(platform: LocalPlatform) -> None:
    service = platform.make()
    await service.open(KnownKeepers(db_id="d", m_epoch=1))
    service.adopted()
    job = CoreDouble().spec("aaaa1")
    waits = service.submit_trial_job(job)
    assert isinstance(waits, JobWaiting) and waits.reason == "waits for the keeper on this machine"
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
        assert silent.reason.startswith("no word from the keeper on this machine for 0.3 s")
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
    monkeypatch.setattr(keeper_queue, "LOOK_AGAIN_S", 0.05)
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
    monkeypatch.setattr(keeper_queue, "LOOK_AGAIN_S", 0.05)
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
    piece = 'for i in $(seq {0} {1}); do report PERIODICAL "$i" "$i"; done; read -r word < "$0.gate"\n'
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


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("killed", [False, True])
async def test_what_is_cut_off_has_ended_by_its_lease_when_it_is_given_up(
    platform: LocalPlatform, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    monkeypatch.setattr(keeper_seat, "LEASE_KILL_S", 1.0)
    platform.lease = timedelta(seconds=2)
    platform.behave("aaaa1", Behaviour.SLEEPS)
    core = CoreDouble()
    await core.open(platform.make())
    job = core.submit("aaaa1")
    await core.seen(JobStarted, job)
    (desk,) = platform.tools.hub._desks.values()
    desk.close()  # from now on it refuses
    with monkeypatch.context() as patch:
        if killed:
            patch.setattr(LocalKeeper, "keep", _never)
            await platform.kill_keeper()
        lost = await core.seen(JobLost, job)
        assert "its lease (2 s) is over" in lost.reason and platform.processes("aaaa1") == 0
    desk.open = True
    if not killed:  # what it reports then is too late, and it goes on with the next attempt
        await core.seen(JobStarted, core.submit("aaaa1", attempt=2))
        assert not any(isinstance(fact, JobEnded) for fact in core.of(job))
        assert core.cancel("contract-aaaa1-2") is not None
        await core.seen(JobEnded, "contract-aaaa1-2")
    await core.close(detach=False)


async def _never(self: LocalKeeper) -> None:
    await asyncio.get_running_loop().create_future()

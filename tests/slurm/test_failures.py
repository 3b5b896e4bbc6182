"""What Slurm does to allocations: no command runs twice, and what a trial has reported stays."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.slurm.cluster import SlurmCluster
from tests.slurm.platform import SlurmPlatform
from tests.training_services.machines.local_platform import REPORT
from training_services.base import (
    Cause,
    JobEnded,
    JobLost,
    JobStarted,
    JobWaiting,
    MachineStatus,
    MetricReported,
)
from training_services.slurm import allocation, login
from training_services.testing import CoreDouble

WAIT = "\nsleep 1000\n"


@pytest.fixture
async def platform(tmp_path: Path, slurm: SlurmCluster) -> AsyncIterator[SlurmPlatform]:
    made = SlurmPlatform(tmp_path, slurm)
    yield made
    await made.close()
    slurm.run("scancel", "--me", check=False)  # what a failed test has left


def with_ran(platform: SlurmPlatform, body: str) -> str:
    """A trial that notes each of its runs in a file."""
    return f'echo "$NNI_TRIAL_JOB_ID" >> {platform.shared}/ran\n{body}'


def ran(platform: SlurmPlatform) -> list[str]:
    path = platform.shared / "ran"
    return path.read_text().split() if path.exists() else []


async def begun(core: CoreDouble, platform: SlurmPlatform) -> str:
    """Run a trial that reports all its results, and then waits. It takes a second to end."""
    await core.open(platform.make())
    platform.script("aaaa1", with_ran(platform, "trap 'sleep 1; exit 143' TERM\n" + REPORT + WAIT))
    job_id = core.submit("aaaa1")
    for _ in range(3):
        await core.seen(MetricReported, job_id)
    await until(lambda: len(core.metrics(job_id)) == 3)
    return job_id


async def until(true: Callable[[], bool]) -> None:
    for _ in range(30_000):
        if true():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it has not come about")


def only_job(platform: SlurmPlatform) -> str:
    lines = platform.cluster.run("squeue", "-h", "-o", "%i %k").stdout.splitlines()
    (job_id,) = [line.split()[0] for line in lines if line.endswith(platform.run)]
    return job_id


def cancel_jobs_of_other_tests(platform: SlurmPlatform) -> None:
    """A controller that was killed may not have saved their ends, and notices them only after minutes."""
    lines = platform.cluster.run("squeue", "-h", "-o", "%i %k").stdout.splitlines()
    others = [line.split()[0] for line in lines if not line.endswith(platform.run)]
    if others:
        platform.cluster.run("scancel", *others)


async def test_a_canceled_allocation_loses_no_report(platform: SlurmPlatform) -> None:
    core = CoreDouble()
    job_id = await begun(core, platform)
    platform.cluster.run("scancel", only_job(platform))
    lost = await core.seen(JobLost, job_id)
    assert lost.cause is Cause.PREEMPTED
    assert [metric.value for metric in core.metrics(job_id)] == [1.0, 2.0, 3.0]
    await until(lambda: platform.processes("aaaa1") == 0)
    await core.close(detach=False)


async def test_the_signal_before_the_time_limit_ends_trials_in_time(platform: SlurmPlatform) -> None:
    core = CoreDouble()
    job_id = await begun(core, platform)
    # what Slurm does itself signalBefore the time limit
    platform.cluster.run("scancel", "--batch", "--signal=USR1", only_job(platform))
    lost = await core.seen(JobLost, job_id)
    early = "its host was stopped: Slurm has ended its allocation early, as by scancel or for a preemption"
    assert (lost.cause, lost.reason) == (Cause.PREEMPTED, early)
    assert len(core.metrics(job_id)) == 3
    await core.close(detach=False)


async def test_a_suspended_allocation_is_named(
    platform: SlurmPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocation, "QUIET_S", 1.0)
    monkeypatch.setattr(login, "LOOK_S", 1.0)
    core = CoreDouble()
    service = platform.make()
    await core.open(service)
    platform.script("aaaa1", with_ran(platform, REPORT + WAIT))
    job_id = core.submit("aaaa1")
    await until(lambda: len(core.metrics(job_id)) == 3)
    number = only_job(platform)
    platform.cluster.run("scontrol", "suspend", number)
    await until(lambda: f"Slurm has suspended allocation {number}" in str(service.notices()))
    (machine,) = service.machines()
    assert (machine.status, machine.ends_at is None) == (MachineStatus.DRAINING, False)
    platform.cluster.run("scontrol", "resume", number)
    await until(lambda: not service.notices())
    assert ran(platform) == ["aaaa1"]
    await core.close(detach=False)


async def test_a_preempted_trial_is_tried_again_in_another_allocation(platform: SlurmPlatform) -> None:
    core = CoreDouble()
    job_id = await begun(core, platform)
    urgent = (
        "--job-name=urgent",
        "-p",
        "urgent",
        "--nodes=2",
        "--exclusive",
        "-o",
        "/dev/null",
        "--wrap",
        "sleep 2",
    )
    platform.cluster.run("sbatch", *urgent)
    lost = await core.seen(JobLost, job_id)
    assert lost.cause is Cause.PREEMPTED
    platform.script("bbbb2", with_ran(platform, REPORT))
    again = core.submit("bbbb2")
    assert (await core.seen(JobEnded, again)).exit_code == 0
    assert ran(platform) == ["aaaa1", "bbbb2"]
    await core.close(detach=False)


async def test_a_failed_node_makes_room_for_another_allocation(
    tmp_path: Path, slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "LOOK_S", 1.0)
    monkeypatch.setattr(allocation, "SURVIVED_S", 2.0)
    platform = SlurmPlatform(tmp_path, slurm, maxAllocations=1)
    core = CoreDouble()
    job_id = await begun(core, platform)
    node = slurm.run("squeue", "-h", "-o", "%N", "-j", only_job(platform)).stdout.strip()
    slurm.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
    try:
        assert (await core.seen(JobLost, job_id)).cause is Cause.PREEMPTED
        platform.script("bbbb2", with_ran(platform, REPORT))
        again = core.submit("bbbb2")
        assert (await core.seen(JobEnded, again)).exit_code == 0
        assert ran(platform) == ["aaaa1", "bbbb2"]
        await core.close(detach=False)
    finally:
        slurm.run("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
        await platform.close()


async def test_nothing_runs_twice_when_the_controller_is_killed(
    platform: SlurmPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm launches the script of a young job again, although it must not be requeued."""
    monkeypatch.setattr(login, "LOOK_S", 1.0)
    platform.lease = timedelta(seconds=30)  # the controller may forget the job, and end it
    core = CoreDouble()
    await core.open(platform.make())
    platform.script("aaaa1", with_ran(platform, "sleep 8\n" + REPORT))
    job_id = core.submit("aaaa1")
    await core.seen(JobStarted, job_id)
    platform.cluster.kill_controller()
    platform.cluster.start_controller()
    cancel_jobs_of_other_tests(platform)
    await until(lambda: any(isinstance(fact, JobEnded | JobLost) for fact in core.of(job_id)))
    assert ran(platform) == ["aaaa1"]
    await core.close(detach=False)
    await asyncio.to_thread(platform.cluster.wait_for_nodes)
    assert ran(platform) == ["aaaa1"]


def wrapped(platform: SlurmPlatform, body: str) -> None:
    """Put another sbatch before the real one on the PATH."""
    folder = platform.directory / "bin"
    folder.mkdir()
    (folder / "sbatch").write_text(f"#!/bin/sh\nPATH=${{PATH#*:}}\n{body}")
    (folder / "sbatch").chmod(0o755)
    platform.environ["PATH"] = f"{folder}:{platform.environ['PATH']}"


LOST_ANSWER = """
sbatch "$@" > /dev/null
echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2
exit 1
"""


async def test_an_allocation_whose_answer_was_lost_is_looked_up(
    platform: SlurmPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "LOOK_S", 1.0)
    wrapped(platform, LOST_ANSWER)
    core = CoreDouble()
    await core.open(platform.make())
    platform.script("aaaa1", with_ran(platform, REPORT))
    job_id = core.submit("aaaa1")
    assert (await core.seen(JobEnded, job_id)).exit_code == 0
    names = platform.cluster.run("squeue", "-h", "-t", "all", "-o", "%k").stdout.split("\n")
    assert sum(name.endswith(platform.run) for name in names) == 1
    await core.close(detach=False)


async def test_what_the_cluster_refuses_fails_with_its_sentence(tmp_path: Path, slurm: SlurmCluster) -> None:
    platform = SlurmPlatform(tmp_path, slurm, partition="nowhere")
    core = CoreDouble()
    await core.open(platform.make())
    platform.script("aaaa1", REPORT)
    job_id = core.submit("aaaa1")
    waiting = await core.seen(JobWaiting, job_id)
    assert waiting.reason
    end = await core.seen(JobEnded, job_id)
    assert end.cause is Cause.USER_ERROR
    assert end.message is not None and "invalid partition specified: nowhere" in end.message
    await core.close(detach=False)
    await platform.close()


async def test_a_full_cluster_says_why_a_trial_waits(
    platform: SlurmPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "LOOK_S", 1.0)
    full = (
        "--job-name=full",
        "--nodes=2",
        "--exclusive",
        "-o",
        "/dev/null",
        "--wrap",
        f"sleep 1000 # {os.getpid()}",
    )
    other = platform.cluster.run("sbatch", "--parsable", *full).stdout.strip()
    await platform.cluster.until("RUNNING")
    core = CoreDouble()
    await core.open(platform.make())
    platform.script("aaaa1", REPORT)
    job_id = core.submit("aaaa1")

    def told() -> bool:
        waits = [fact.reason for fact in core.of(job_id) if isinstance(fact, JobWaiting)]
        return any("waits in partition main: the nodes that it needs are in use" in why for why in waits)

    await until(told)
    platform.cluster.run("scancel", other)
    assert (await core.seen(JobEnded, job_id)).exit_code == 0
    await core.close(detach=False)

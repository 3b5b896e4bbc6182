"""What happens to a real Ray: nothing runs twice, nothing is left, and everything is told."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.ray.cluster import RayCluster
from tests.ray.platform import RayPlatform
from tests.training_services.machines.local_platform import REPORT
from training_services.base import Cause, JobEnded, JobLost
from training_services.ray import allocation, cluster
from training_services.testing import CoreDouble, core_double
from trial_keeper.machine import procs

# A trial with a child that ignores SIGTERM in a session of its own.
HIDING = f"{REPORT}setsid sh -c \"trap '' TERM; sleep 1000\" &\nsleep 1000\n"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "QUIET_S", 2.0)
    monkeypatch.setattr(allocation, "NODE_S", 3.0)
    monkeypatch.setattr(cluster, "LOOK_S", 0.5)
    monkeypatch.setattr(core_double, "DEADLINE_S", 240.0)


@pytest.fixture
async def platform(tmp_path: Path, ray: RayCluster) -> AsyncIterator[RayPlatform[RayCluster]]:
    made = RayPlatform(tmp_path, ray)
    yield made
    await made.close()


async def until(true: Callable[[], bool]) -> None:
    for _ in range(12_000):
        if true():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it has not come about")


def counted(platform: RayPlatform[RayCluster], trial_id: str, body: str) -> None:
    """Let a trial note each of its runs in a file."""
    platform.script(trial_id, f'echo "$NNI_TRIAL_JOB_ID" >> {platform.shared}/ran\n{body}')


async def begun(core: CoreDouble, platform: RayPlatform[RayCluster]) -> str:
    await core.open(platform.make())
    counted(platform, "aaaa1", HIDING)
    job_id = core.submit("aaaa1")
    await until(lambda: len(core.metrics(job_id)) == 3)
    return job_id


async def lost(core: CoreDouble, platform: RayPlatform[RayCluster], job_id: str) -> JobLost:
    """Wait until the trial is lost and nothing of it runs. Then run another one, and close the experiment."""
    found = await core.seen(JobLost, job_id)
    await until(lambda: platform.processes("aaaa1") == 0)
    counted(platform, "bbbb2", REPORT)
    ended = await core.seen(JobEnded, core.submit("bbbb2"))
    assert ended.exit_code == 0
    assert (platform.shared / "ran").read_text().split() == ["aaaa1", "bbbb2"]
    assert len(core.metrics(job_id)) == 3
    await core.close(detach=False)
    return found


def supervisor(platform: RayPlatform[RayCluster]) -> int:
    """Return the parent of the only job's own process."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if b"guard" in words and str(platform.directory).encode() in b" ".join(words):
                above = procs.ancestors(int(folder.name))[0]
                if b"JobSupervisor" in Path(f"/proc/{above}/cmdline").read_bytes():
                    return above
    raise AssertionError("there is no supervisor")


async def test_nothing_outlives_the_supervisor_of_a_job(platform: RayPlatform[RayCluster]) -> None:
    core = CoreDouble()
    job_id = await begun(core, platform)
    os.kill(supervisor(platform), signal.SIGKILL)
    assert (await lost(core, platform, job_id)).cause is Cause.INFRASTRUCTURE


async def test_a_stopped_job_loses_no_report(platform: RayPlatform[RayCluster]) -> None:
    core = CoreDouble()
    job_id = await begun(core, platform)
    [ray_id] = [name for name, status in platform.cluster.jobs().items() if status == "RUNNING"]
    platform.cluster.ask("POST", f"/api/jobs/{ray_id}/stop")
    assert (await lost(core, platform, job_id)).cause is Cause.PREEMPTED


async def test_another_cluster_takes_the_place_of_a_killed_one(
    platform: RayPlatform[RayCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocation, "NODE_S", 600.0)  # the trial is not lost before another cluster is there
    core = CoreDouble()
    service = platform.make()
    await core.open(service)
    counted(platform, "aaaa1", HIDING)
    job_id = core.submit("aaaa1")
    await until(lambda: len(core.metrics(job_id)) == 3)
    platform.cluster.kill("raylet/raylet")
    await until(lambda: any("its node has died" in text for text in service.notices().values()))
    platform.cluster.kill()
    await until(lambda: "does not answer" in service.notices().get("ray", ""))
    await asyncio.to_thread(platform.cluster.start)
    await lost(core, platform, job_id)

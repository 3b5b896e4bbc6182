"""What may happen to allocations: nothing runs twice, nothing is left, and everything is told.

The cluster is a stand-in for Ray's dashboard, whose jobs are real processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.ray.fake import FakeRay
from tests.ray.platform import RayPlatform
from tests.training_services.machines.local_platform import REPORT
from tests.trial_keeper.harness import oldest_python
from training_services.base import Cause, JobEnded, JobLost, JobStarted, JobWaiting, MetricReported
from training_services.ray import allocation, cluster
from training_services.testing import CoreDouble

WAIT = REPORT + "\nsleep 1000\n"
LOOK = "GET /api/version"  # with which every look at a job begins
HIDING = "setsid sh -c \"trap '' TERM; sleep 1000\" &\n" + WAIT


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at silent keepers soon, and at the cluster often."""
    monkeypatch.setattr(allocation, "QUIET_S", 0.3)
    monkeypatch.setattr(allocation, "EXPLAIN_S", 0.0)
    monkeypatch.setattr(cluster, "LOOK_S", 0.1)


@pytest.fixture
def ray(tmp_path: Path) -> Iterator[FakeRay]:
    with FakeRay(tmp_path) as found:
        yield found


@pytest.fixture
async def platform(tmp_path: Path, ray: FakeRay) -> AsyncIterator[RayPlatform[FakeRay]]:
    made = RayPlatform(tmp_path, ray)
    yield made
    await made.close()


async def until(true: Callable[[], bool]) -> None:
    for _ in range(6000):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it has not come about")


def counted(platform: RayPlatform[FakeRay], trial_id: str, body: str) -> None:
    """Let a trial note each of its runs in a file."""
    platform.script(trial_id, f'echo "$NNI_TRIAL_JOB_ID" >> {platform.shared}/ran\n{body}')


def ran(platform: RayPlatform[FakeRay]) -> list[str]:
    path = platform.shared / "ran"
    return path.read_text().split() if path.exists() else []


async def begun(core: CoreDouble, platform: RayPlatform[FakeRay], body: str = WAIT) -> str:
    """Run a trial that reports all its results, and then waits."""
    await core.open(platform.make())
    counted(platform, "aaaa1", body)
    job_id = core.submit("aaaa1")
    await until(lambda: len(core.metrics(job_id)) == 3)
    return job_id


async def again(core: CoreDouble, platform: RayPlatform[FakeRay]) -> None:
    """Run another trial, which ends well, and close the experiment."""
    counted(platform, "bbbb2", REPORT)
    job_id = core.submit("bbbb2")
    assert (await core.seen(JobEnded, job_id)).exit_code == 0
    assert ran(platform) == ["aaaa1", "bbbb2"]
    await core.close(detach=False)


def told(core: CoreDouble, job_id: str, part: str) -> bool:
    return any(isinstance(fact, JobWaiting) and part in fact.reason for fact in core.of(job_id))


async def test_a_submission_whose_answer_is_lost_runs_once(
    platform: RayPlatform[FakeRay], ray: FakeRay
) -> None:
    ray.swallow = 1
    core = CoreDouble()
    await core.open(platform.make())
    counted(platform, "aaaa1", REPORT)
    assert (await core.seen(JobEnded, core.submit("aaaa1"))).exit_code == 0
    assert (len(ray.jobs_of), ran(platform)) == (1, ["aaaa1"])
    await core.close(detach=False)


async def test_nothing_outlives_the_supervisor_of_a_job(platform: RayPlatform[FakeRay], ray: FakeRay) -> None:
    core = CoreDouble()
    job_id = await begun(core, platform, HIDING)
    [ray_id] = ray.jobs_of
    ray.kill_supervisor(ray_id)
    lost = await core.seen(JobLost, job_id)
    assert lost.cause is Cause.INFRASTRUCTURE
    assert "has failed: Job supervisor actor died" in lost.reason
    await until(lambda: platform.processes("aaaa1") == 0)
    assert len(core.metrics(job_id)) == 3
    await again(core, platform)


async def test_a_stopped_job_loses_no_report(platform: RayPlatform[FakeRay], ray: FakeRay) -> None:
    core = CoreDouble()
    job_id = await begun(core, platform, HIDING)
    [ray_id] = ray.jobs_of
    ray.answer("POST", f"/api/jobs/{ray_id}/stop", b"", "Bearer secret")
    lost = await core.seen(JobLost, job_id)
    assert lost.cause is Cause.PREEMPTED
    await until(lambda: platform.processes("aaaa1") == 0)
    await again(core, platform)


async def test_a_dead_node_is_no_proof_for_a_while(
    platform: RayPlatform[FakeRay], ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = CoreDouble()
    service = platform.make()
    await core.open(service)
    counted(platform, "aaaa1", WAIT)
    job_id = core.submit("aaaa1")
    await core.seen(MetricReported, job_id)
    [ray_id] = ray.jobs_of
    ray.kill_supervisor(ray_id, node=True)
    await until(lambda: any("its node has died" in text for text in service.notices().values()))
    assert not any(isinstance(fact, JobLost) for fact in core.of(job_id))
    monkeypatch.setattr(allocation, "NODE_S", 0.5)
    assert (await core.seen(JobLost, job_id)).cause is Cause.INFRASTRUCTURE
    await again(core, platform)


async def test_a_job_of_a_dead_node_has_ended_although_ray_says_that_it_runs(
    platform: RayPlatform[FakeRay], ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocation, "NODE_S", 0.5)
    core = CoreDouble()
    job_id = await begun(core, platform)
    ray.node_dead = True
    [job] = ray.jobs_of.values()
    assert job.process is not None
    with ray.unchanged(job):
        job.process.kill()
        assert "has died" in (await core.seen(JobLost, job_id)).reason
    ray.node_dead = False
    await again(core, platform)


async def test_another_cluster_takes_the_place_of_a_lost_one(
    platform: RayPlatform[FakeRay], ray: FakeRay
) -> None:
    core = CoreDouble()
    service = platform.make()
    await core.open(service)
    counted(platform, "aaaa1", WAIT)
    job_id = core.submit("aaaa1")
    await core.seen(MetricReported, job_id)
    ray.away = True
    ray.end_all()
    await until(lambda: "does not answer" in service.notices().get("ray", ""))
    assert "(since " in service.notices()["ray"]
    assert not any(isinstance(fact, JobLost) for fact in core.of(job_id))
    ray.restart()
    assert "so it was restarted" in (await core.seen(JobLost, job_id)).reason
    await until(lambda: "ray" not in service.notices())
    await until(lambda: platform.processes("aaaa1") == 0)  # a process that was killed may take its time
    await again(core, platform)


async def test_trials_run_on_without_the_dashboard(platform: RayPlatform[FakeRay], ray: FakeRay) -> None:
    core = CoreDouble()
    service = platform.make()
    await core.open(service)
    counted(platform, "aaaa1", f"{REPORT}read -r _ < {platform.shared}/aaaa1.gate\n")
    job_id = core.submit("aaaa1")
    await core.seen(JobStarted, job_id)
    ray.away = True
    await until(lambda: "ray" in service.notices())
    platform.release("aaaa1")
    assert (await core.seen(JobEnded, job_id)).exit_code == 0
    ray.away = False
    await until(lambda: "ray" not in service.notices())
    await core.close(detach=False)


async def test_a_pending_job_says_why(tmp_path: Path, ray: FakeRay) -> None:
    platform = RayPlatform(tmp_path, ray, cpus=8)
    ray.full = True
    core = CoreDouble()
    await core.open(platform.make())
    counted(platform, "aaaa1", REPORT)
    job_id = core.submit("aaaa1")
    await until(lambda: told(core, job_id, "is pending: no node has 8 CPU; the most that one has is 4 CPU"))
    [ray_id] = ray.jobs_of
    ray.full = False
    ray.fail(ray_id, "JOB_SUPERVISOR_ACTOR_START_TIMEOUT", "900 seconds")  # another job is submitted
    assert (await core.seen(JobEnded, job_id)).exit_code == 0
    assert len(ray.jobs_of) == 2
    await core.close(detach=False)
    await platform.close()


async def test_a_node_that_cannot_reach_the_server_says_so(
    platform: RayPlatform[FakeRay], ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = CoreDouble()
    await core.open(platform.make())
    ray.full = True
    counted(platform, "aaaa1", REPORT)
    job_id = core.submit("aaaa1")
    await until(lambda: bool(ray.jobs_of))
    [job] = ray.jobs_of.values()
    job.body["entrypoint"] = "echo 'nnimgr: the server at 10.0.0.1 cannot be reached from n1'; sleep 1000"
    ray.begin()
    await until(lambda: told(core, job_id, "the server at 10.0.0.1 cannot be reached from n1"))
    await core.close(detach=False)


async def test_what_ray_rejects_fails_with_its_sentence(platform: RayPlatform[FakeRay], ray: FakeRay) -> None:
    ray.refuse = "Traceback\nTypeError: runtime_env keys must be strings"
    core = CoreDouble()
    await core.open(platform.make())
    job_id = core.submit("aaaa1")
    end = await core.seen(JobEnded, job_id)
    assert end.cause is Cause.USER_ERROR
    assert end.message is not None
    assert "Ray rejects the allocation: TypeError: runtime_env keys must be strings" in end.message
    await core.close(detach=False)


async def test_a_cluster_without_a_token_is_refused(tmp_path: Path) -> None:
    with FakeRay(tmp_path, token=None) as ray:
        platform = RayPlatform(tmp_path, ray, token="unused", insecure=False)
        core = CoreDouble()
        await core.open(platform.make())
        job_id = core.submit("aaaa1")
        await until(lambda: told(core, job_id, "needs no token, so everybody who reaches it can"))
        assert not ray.jobs_of
        await core.close(detach=False)
        await platform.close()


async def test_a_wrong_token_is_told(tmp_path: Path, ray: FakeRay) -> None:
    platform = RayPlatform(tmp_path, ray, token="wrong")
    core = CoreDouble()
    await core.open(platform.make())
    job_id = core.submit("aaaa1")
    await until(lambda: told(core, job_id, "does not accept the token (status 403)"))
    await core.close(detach=False)
    await platform.close()


async def test_no_variable_of_ray_reaches_a_trial(platform: RayPlatform[FakeRay]) -> None:
    core = CoreDouble()
    await core.open(platform.make())
    platform.script("aaaa1", f"env > {platform.shared}/env\n{REPORT}")
    await core.seen(JobEnded, core.submit("aaaa1"))
    names = {line.partition("=")[0] for line in (platform.shared / "env").read_text().splitlines()}
    assert "NNI_TRIAL_JOB_ID" in names
    assert not [name for name in names if name.startswith("RAY_")]
    await core.close(detach=False)


async def test_nodes_may_have_an_old_python(tmp_path: Path, ray: FakeRay) -> None:
    python = oldest_python()
    if python is None:
        pytest.skip("no Python 3.8 here")
    platform = RayPlatform(tmp_path, ray, python=python)
    core = CoreDouble()
    await core.open(platform.make())
    counted(platform, "aaaa1", REPORT)
    assert (await core.seen(JobEnded, core.submit("aaaa1"))).exit_code == 0
    await core.close(detach=False)
    await platform.close()


async def test_a_job_is_looked_at_only_while_its_keeper_is_silent(
    tmp_path: Path, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocation, "QUIET_S", 1000.0)
    monkeypatch.setattr(cluster, "LOOK_S", 1000.0)
    platform = RayPlatform(tmp_path, ray, cpus=2)
    core = CoreDouble()
    await begun(core, platform)
    before = 0
    for number in range(4):
        counted(platform, f"cccc{number}", REPORT)
        await core.seen(JobEnded, core.submit(f"cccc{number}"))
        if number == 0:  # a look that had begun before the keeper's first call has asked this long since
            before = ray.requests.count(LOOK)
    assert ray.requests.count(LOOK) == before > 0
    await core.close(detach=False)
    await platform.close()

"""The service against a scripted API server, its pods' keepers played by the test."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.fake_api import NAMESPACE, FakeApi, Reply
from tests.training_services.fleet import FakeMachine
from training_services.addresses import NoDoors, Reach
from training_services.allocations import insistence
from training_services.base import (
    Cause,
    EndReason,
    ExperimentContext,
    JobEnded,
    JobLost,
    JobPlaced,
    JobStarted,
    JobWaiting,
    KeeperEnrolled,
    KeeperGone,
    OwnNeeds,
)
from training_services.keepers.hub import KeeperHub
from training_services.kubernetes import pod as pods
from training_services.kubernetes.config import KubernetesConfig
from training_services.kubernetes.service import KubernetesService
from training_services.kubernetes.site import Site
from training_services.placement.ledger import HostLedger
from training_services.testing import CoreDouble
from training_services.tools import ServiceTools

SECRET = OWNER = "nnimgr-contract"
LIMIT_S = 60.0


class OpenDoors(NoDoors):
    async def network(self, address: str) -> Reach:
        return Reach((f"https://{address}:1",), "f" * 64)


class Lab:
    """One experiment on the scripted cluster; ``core`` is its core."""

    def __init__(self, directory: Path, fake: FakeApi, **settings: Any) -> None:
        self.fake = fake
        self.hub = KeeperHub()
        self.tools = ServiceTools(hub=self.hub, ledger=HostLedger(), doors=OpenDoors())
        self.core = CoreDouble()
        (directory / "code").mkdir()
        self.context = ExperimentContext(
            experiment_id="contract",
            directory=directory / "contract",
            trial_command="true",
            trial_code_directory=directory / "code",
            trial_gpu_number=None,
            python="python",
            environ={},
            nni_manager_ip="10.0.0.1",
        )
        self.config = KubernetesConfig.model_validate(
            {"image": "python:3", "kubeconfig": Path(fake.kubeconfig(directory)), **settings}
        )

    async def open(self) -> None:
        await self.core.open(KubernetesService(self.context, self.config, self.tools))

    def entries(self) -> dict[str, str]:
        """What the keepers' Secret holds."""
        found = self.fake.object("secrets", SECRET).get("data") or {}
        return {key: base64.b64decode(value).decode() for key, value in found.items()}

    async def until(self, true: Callable[[], object]) -> None:
        """Looked at whenever something has changed in the cluster."""

        def wait() -> bool:
            with self.fake.cond:
                return bool(self.fake.cond.wait_for(true, LIMIT_S))

        assert await asyncio.to_thread(wait), "it has not come about"

    async def made(self, job: str) -> None:
        await self.until(lambda: job in {each["metadata"]["name"] for each in self.fake.objects("jobs")})

    async def keeper(self, job: str) -> FakeMachine:
        """The keeper in the Job's pod, which runs and has called."""
        await self.made(job)
        self.fake.run(job)
        keeper = FakeMachine(job)
        await self.greet(keeper)
        return keeper

    async def greet(self, keeper: FakeMachine) -> None:
        """The keeper's first call."""
        await keeper.write_manager(json.loads(self.entries()[keeper.keeper_id]))
        await keeper.speak(self.hub)

    async def start(self, trial: str) -> tuple[str, FakeMachine]:
        """Submit a trial, and run it."""
        job = self.core.submit(trial)
        keeper = await self.keeper(job)
        await self.run(job, keeper)
        return job, keeper

    async def run(self, job: str, keeper: FakeMachine) -> None:
        await self.core.seen(JobPlaced, job)
        await keeper.poll()
        assert job in keeper.running

    async def finish(self, job: str, keeper: FakeMachine) -> None:
        """The trial ends, its keeper leaves, and so does the pod."""
        await keeper.finish(job)
        await self.core.seen(JobEnded, job)
        async with asyncio.timeout(LIMIT_S):
            while not keeper.left:
                await keeper.poll()
                await asyncio.sleep(0)  # for the service, in whose process this is
        self.fake.finish(job)
        await self.core.until(lambda: KeeperGone(keeper_id=job) in self.core.facts)

    def waits(self, job: str) -> list[str]:
        """Why the job was said to wait, one after the other."""
        return [fact.reason for fact in self.core.of(job) if isinstance(fact, JobWaiting)]


def terminated(reason: str) -> dict[str, Any]:
    state = {"terminated": {"exitCode": 137, "reason": reason}}
    return {"phase": "Failed", "containerStatuses": [{"name": "trial", "state": state}]}


@pytest.fixture
async def lab(tmp_path: Path, fake: FakeApi) -> AsyncIterator[Lab]:
    made = Lab(tmp_path, fake)
    yield made
    if made.core.service is not None:
        await made.core.close(detach=True)
    made.hub.close()


async def test_a_trial_costs_few_requests_and_leaves_no_key_behind(lab: Lab) -> None:
    await lab.open()
    first, keeper = await lab.start("first")
    await lab.finish(first, keeper)
    before = len(lab.fake.requests)
    trials = [f"t{number:02}" for number in range(30)]
    jobs = [lab.core.submit(trial) for trial in trials]
    keepers = {job: await lab.keeper(job) for job in jobs}
    assert lab.entries().keys() == {*jobs}, "of the first one nothing is left"
    for job, keeper in keepers.items():
        await lab.run(job, keeper)
    for job, keeper in keepers.items():
        await lab.finish(job, keeper)
    asked = lab.fake.requests[before:]
    assert len(asked) <= 4 * len(jobs)
    assert {(each.verb, each.resource) for each in asked} <= {("create", "jobs"), ("patch", "secrets")}
    assert sorted(each.body["metadata"]["name"] for each in asked if each.verb == "create") == sorted(jobs)
    tokens = {json.loads(text)["token"] for text in map(str, lab.entries().values())}
    manifests = json.dumps(lab.fake.objects("jobs"))
    assert len(tokens) == 30 and not any(token in manifests for token in tokens)
    await lab.core.close(detach=False)
    assert lab.fake.objects("secrets") == []


async def test_why_a_pod_waits_is_said_once_for_each_change(lab: Lab) -> None:
    await lab.open()
    job = lab.core.submit("aaaa1")
    await lab.made(job)

    def pend(message: str) -> None:
        condition = {"type": "PodScheduled", "status": "False", "message": message}
        lab.fake.set_pod(job, {"phase": "Pending", "conditions": [condition]}, node=None)

    for message in ("0/1 nodes are available", "0/2 nodes are available"):
        for _ in range(3):
            pend(message)
        await lab.core.until(lambda message=message: message in lab.waits(job)[-1])  # type: ignore[misc]
    said = [reason for reason in lab.waits(job) if "nodes are" in reason]
    assert said == [
        "waits: no node accepts the pod: 0/1 nodes are available",
        "waits: no node accepts the pod: 0/2 nodes are available",
    ]
    await lab.run(job, await lab.keeper(job))


async def test_refusals_and_broken_watches_are_outlived(lab: Lab) -> None:
    lab.fake.fail("list", "jobs", Reply(429, "TooManyRequests", "later", retry_after="0"))
    lab.fake.cut("create", "configmaps")
    lab.fake.fail("create", "jobs", Reply(429, "TooManyRequests", "later", retry_after="0"))
    lab.fake.fail("patch", "secrets", Reply(500, "InternalError", "no luck"))
    await lab.open()
    job, keeper = await lab.start("aaaa1")
    lab.fake.expire_watches()
    lab.fake.compact()
    await lab.finish(job, keeper)
    other, keeper = await lab.start("bbbb2")
    lab.fake.remove("pods", lab.fake.pod_of(other)["metadata"]["name"])
    lost = await lab.core.seen(JobLost, other)
    assert lost.reason.startswith(f"the pod {other}-") and lost.reason.endswith(" was deleted")
    assert len(lab.fake.objects("jobs")) == 2


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (terminated("OOMKilled"), Cause.OUT_OF_MEMORY),
        ({"phase": "Failed", "reason": "Preempting"}, Cause.PREEMPTED),
        ({"phase": "Failed", "reason": "DeadlineExceeded"}, Cause.TIMEOUT),
        ({"phase": "Failed", "reason": "Evicted"}, Cause.INFRASTRUCTURE),
        ({"phase": "Failed", "reason": "NodeLost"}, Cause.INFRASTRUCTURE),
    ],
)
async def test_the_end_of_a_pod_has_a_cause(lab: Lab, status: dict[str, Any], cause: Cause) -> None:
    await lab.open()
    job, _ = await lab.start("aaaa1")
    lab.fake.set_pod(job, status)
    failed = cause in (Cause.OUT_OF_MEMORY, Cause.TIMEOUT)
    end = await (lab.core.seen(JobEnded, job) if failed else lab.core.seen(JobLost, job))
    assert end.cause is cause


async def test_a_pod_has_the_resources_of_its_own_trial(lab: Lab) -> None:
    """Also if the server dies before the pod was created."""
    own = OwnNeeds(memory=lambda job: 512 if job.trial_id == "aaaa1" else 1024)
    lab.context = replace(lab.context, own_needs=own, trial_cpu_number=2)
    await lab.open()
    jobs = [lab.core.submit("aaaa1")]
    await lab.made(jobs[0])
    with lab.fake.hold("create", "jobs"):
        jobs.append(lab.core.submit("bbbb2"))
        await lab.core.close(detach=True)
    await lab.open()
    await lab.made(jobs[1])
    for job, memory in zip(jobs, ("512Mi", "1024Mi"), strict=True):
        (container,) = lab.fake.object("jobs", job)["spec"]["template"]["spec"]["containers"]
        assert container["resources"]["limits"] == {"cpu": "2", "memory": memory}


async def test_a_cluster_that_answers_late_holds_up_jobs_only(lab: Lab) -> None:
    with lab.fake.hold("list", "pods"):
        await lab.open()
        job = lab.core.submit("aaaa1")
        await asyncio.to_thread(lab.fake.wait_for, "list", "pods")
        assert lab.fake.asked("create", "jobs") == []
        assert [detail.job_id for detail in await _service(lab).list_trial_jobs()] == [job]
    await lab.run(job, await lab.keeper(job))


@pytest.mark.parametrize("spoken", [True, False], ids=["its keeper has called", "its pod is on its way"])
async def test_after_a_restart_nothing_is_made_twice(lab: Lab, spoken: bool) -> None:
    await lab.open()
    if spoken:
        job, keeper = await lab.start("aaaa1")
    else:
        job = lab.core.submit("aaaa1")
        await lab.made(job)
    entry = lab.entries()[job]
    await lab.core.close(detach=True)
    await lab.open()
    if spoken:
        keeper.epoch += 1
        await keeper.poll()
    else:
        keeper = await lab.keeper(job)
        await lab.run(job, keeper)
    await lab.finish(job, keeper)
    end = await lab.core.seen(JobEnded, job)
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    created = [each for each in lab.fake.asked("create", "jobs")]
    assert len(created) == 1 and len(lab.fake.objects("pods")) == 1
    assert sum(isinstance(fact, JobStarted) for fact in lab.core.of(job)) == 1
    enrolled = [fact for fact in lab.core.facts if isinstance(fact, KeeperEnrolled)]
    assert len(enrolled) == 1 and lab.entries()[job] == entry, "no pod has to learn another token"


async def test_a_pod_that_was_replaced_while_no_server_ran_is_gone(lab: Lab) -> None:
    await lab.open()
    job = lab.core.submit("aaaa1")
    await lab.made(job)
    pod = lab.fake.run(job)
    keeper = FakeMachine(job)
    keeper.instance = f"{pod['metadata']['uid']}.1"
    await lab.greet(keeper)
    await lab.run(job, keeper)
    await lab.core.close(detach=True)
    name = pod["metadata"]["name"]
    lab.fake.remove("pods", name)
    labels = {key: pod["metadata"][key] for key in ("labels", "ownerReferences") if key in pod["metadata"]}
    lab.fake.put("pods", {**pod, "metadata": {"name": f"{name}-2", **labels}})
    await lab.open()
    lost = await lab.core.seen(JobLost, job)
    assert lost.reason == f"the pod of {job} was deleted while no server looked"


@pytest.mark.parametrize("database", [None, "another"])
@pytest.mark.parametrize(
    ("resource", "name", "kind"), [("jobs", "contract-aaaa1-1", "Job"), ("configmaps", OWNER, "ConfigMap")]
)
async def test_what_belongs_to_something_else_is_left_alone(
    lab: Lab, resource: str, name: str, kind: str, database: str | None
) -> None:
    labels = {"nnimgr.io/experiment": "contract", "nnimgr.io/database": database} if database else {}
    lab.fake.makes_pods = False
    lab.fake.put(resource, {"metadata": {"name": name, "labels": labels}})
    await lab.open()
    job = lab.core.submit("aaaa1")
    await lab.core.waits(
        job,
        f"waits: {kind} {name} in namespace {NAMESPACE} does not belong to this experiment: "
        "create the experiment with another --id, or in another namespace",
    )
    lab.fake.makes_pods = True
    lab.fake.remove(resource, name)
    await lab.run(job, await lab.keeper(job))


async def test_the_secret_of_another_experiment_is_left_alone(lab: Lab) -> None:
    labels = {"nnimgr.io/experiment": "contract", "nnimgr.io/database": "another"}
    for resource, name in (("configmaps", OWNER), ("secrets", SECRET)):
        lab.fake.put(resource, {"metadata": {"name": name, "labels": labels}})
    await lab.open()
    await lab.core.waits(
        lab.core.submit("aaaa1"),
        f"waits: ConfigMap {OWNER} in namespace {NAMESPACE} does not belong to this experiment: "
        "create the experiment with another --id, or in another namespace",
    )
    await lab.core.close(detach=False)
    assert [each["metadata"]["name"] for each in lab.fake.objects("secrets")] == [SECRET]


async def test_a_deleted_secret_is_made_again_for_pods_that_wait_for_it(lab: Lab) -> None:
    await lab.open()
    job = lab.core.submit("aaaa1")
    await lab.made(job)
    before = lab.entries()
    lab.fake.remove("secrets", SECRET)
    pod = str(lab.fake.set_pod(job, {"phase": "Pending"}, node="node-1")["metadata"]["name"])
    missing = f'MountVolume.SetUp failed for volume "nnimgr-manager" : secret "{SECRET}" not found'
    lab.fake.warn("Pod", pod, "FailedMount", missing)
    await lab.until(lambda: lab.fake.objects("secrets") and lab.entries() == before)
    await lab.run(job, await lab.keeper(job))


async def test_a_stop_names_the_pods_that_could_not_be_deleted(lab: Lab) -> None:
    lab.fake.fail("delete", "jobs", Reply(403, "Forbidden", "you may not delete jobs"), times=10**4)
    await lab.open()
    job = lab.core.submit("aaaa1")
    await lab.made(job)
    lab.core.cancel(job)
    await lab.core.until(lambda: KeeperGone(keeper_id=job) in lab.core.facts)
    (left,) = await lab.core.close(detach=False)
    assert job in left and left.endswith("you may not delete jobs")


async def test_an_error_that_is_over_does_not_hide_why_a_pod_waits(lab: Lab) -> None:
    lab.fake.fail("create", "jobs", Reply(403, "Forbidden", "not allowed"))
    await lab.open()
    job = lab.core.submit("aaaa1")
    await lab.core.until(lambda: any("not allowed" in reason for reason in lab.waits(job)))
    await lab.made(job)
    condition = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
    lab.fake.set_pod(job, {"phase": "Pending", "conditions": [condition]}, node=None)
    await lab.core.waits(job, "waits: no node accepts the pod: 0/1 nodes are available")


async def test_a_pod_that_does_not_reach_the_server_is_quoted(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def words(*_: object) -> str:
        return "sync failed: connection refused"

    monkeypatch.setattr(pods, "MUTE_S", 0.05)
    monkeypatch.setattr(Site, "last_words", words)
    await lab.open()
    job = lab.core.submit("aaaa1")
    await lab.made(job)
    name = lab.fake.run(job)["metadata"]["name"]
    await lab.core.waits(
        job,
        f"waits for the keeper in its pod {name}, which has not reached this server (pods have to reach "
        "it at the address nniManagerIp); its last output: sync failed: connection refused",
    )
    await lab.run(job, await lab.keeper(job))


def _service(lab: Lab) -> KubernetesService:
    assert isinstance(lab.core.service, KubernetesService)
    return lab.core.service


@pytest.mark.parametrize("given_up", [False, True])
async def test_a_stopped_trial_whose_keeper_does_not_obey_loses_its_pod(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, given_up: bool
) -> None:
    """Also when the core has given it up meanwhile, since nothing was heard of it."""
    monkeypatch.setattr(insistence, "INSIST_S", -4.99)  # after the grace of the contract, 5 s
    await lab.open()
    job, _ = await lab.start("aaaa1")
    lab.core.cancel(job)
    if given_up:
        lab.core.commit(JobLost(job_id=job, reason="it may still run on its machine"))
    await lab.until(lambda: not any(each["metadata"]["name"] == job for each in lab.fake.objects("jobs")))
    await lab.core.until(lambda: KeeperGone(keeper_id=job) in lab.core.facts)
    assert any(isinstance(fact, JobLost) for fact in lab.core.of(job))


async def test_a_pod_that_other_containers_keep_is_deleted_after_its_trial(
    tmp_path: Path, fake: FakeApi
) -> None:
    sidecar = {"spec": {"containers": [{"name": "sidecar", "image": "logs"}]}}
    lab = Lab(tmp_path, fake, podTemplate=sidecar)
    try:
        await lab.open()
        job, keeper = await lab.start("aaaa1")
        await keeper.finish(job)
        await lab.core.seen(JobEnded, job)
        async with asyncio.timeout(LIMIT_S):
            while not keeper.left:
                await keeper.poll()
                await asyncio.sleep(0)  # for the service, in whose process this is
        ended = {"name": "trial", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
        lab.fake.set_pod(job, {"phase": "Running", "containerStatuses": [ended]})
        await lab.until(lambda: not any(each["metadata"]["name"] == job for each in lab.fake.objects("jobs")))
        await lab.core.until(lambda: KeeperGone(keeper_id=job) in lab.core.facts)
        await lab.core.close(detach=False)
    finally:
        lab.hub.close()

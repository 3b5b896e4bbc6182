"""Following Jobs and pods: the scripted API server's faults, and the real cluster's ways."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any

import pytest

from tests.kubernetes.conftest import BUSYBOX, RealCluster
from tests.kubernetes.fake_api import NAMESPACE, FakeApi, Reply
from training_services.kubernetes import client
from training_services.kubernetes.client import JOBS, PODS, Cluster
from training_services.kubernetes.sighting import Cause, Over, Phase, Sighting
from training_services.kubernetes.syntax import EXPERIMENT_LABEL
from training_services.kubernetes.watch import JobWatch

EXPERIMENT = "e1"
LABELS = {EXPERIMENT_LABEL: EXPERIMENT}
LIMIT_S = 90.0
REAL_LIMIT_S = 180.0
FAST: dict[str, Any] = {"watch_s": 1, "first_pause_s": 0.01}


class Followed:
    """A watch, and what it has called ``changed`` with."""

    def __init__(self, cluster: Cluster, namespace: str = NAMESPACE, **options: Any) -> None:
        self.calls: list[list[str]] = []
        self.troubles: list[str | None] = []
        self._news = asyncio.Event()
        self.watch = JobWatch(cluster, namespace, EXPERIMENT, self._changed, **options)

    def _changed(self, names: Collection[str]) -> None:
        self.calls.append(sorted(names))
        self.troubles.append(self.watch.trouble)
        self._news.set()

    async def until(self, true: Callable[[], object], limit_s: float = LIMIT_S) -> None:
        """Looked at after each call. Raises TimeoutError."""
        async with asyncio.timeout(limit_s):
            while not true():
                self._news.clear()
                await self._news.wait()

    async def sighting(
        self, job: str, wanted: Callable[[Sighting], object], limit_s: float = LIMIT_S
    ) -> Sighting:
        def found() -> bool:
            sighting = self.watch.sighting(job)
            return sighting is not None and bool(wanted(sighting))

        await self.until(found, limit_s)
        sighting = self.watch.sighting(job)
        assert sighting is not None
        return sighting


@pytest.fixture
async def followed(fake: FakeApi, connected: Cluster) -> AsyncIterator[Followed]:
    made = Followed(connected, **FAST)
    yield made
    await made.watch.close()


def job(name: str, labels: dict[str, str] = LABELS, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": labels}, "spec": {"restartPolicy": "Never", **spec}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {"backoffLimit": 0, "template": template},
    }


async def test_a_job_is_followed_from_its_pod_to_its_end(fake: FakeApi, followed: Followed) -> None:
    fake.put("jobs", job("early"))
    await followed.watch.open()
    assert followed.watch.known
    assert followed.watch.trouble is None
    assert (await followed.sighting("early", lambda at: at.pod)).phase is Phase.PENDING
    fake.put("jobs", job("late"))
    fake.put("jobs", job("foreign", {EXPERIMENT_LABEL: "e2"}))
    await followed.sighting("late", lambda at: at.pod and at.uid)
    fake.run("late")
    running = await followed.sighting("late", lambda at: at.phase is Phase.RUNNING)
    assert (running.node, running.waiting, running.over) == ("node-1", None, None)
    fake.finish("late", 3)
    over = (await followed.sighting("late", lambda at: at.over)).over
    assert over == Over(Cause.FAILED, f"the pod {running.pod} on node-1 ended with exit code 3", 3)
    fake.remove("jobs", "late")
    assert (await followed.sighting("late", lambda at: at.uid is None)).over == over, "the first end stays"
    assert followed.watch.sighting("foreign") is None
    assert ["late"] in followed.calls


async def test_a_job_without_a_pod_says_why_whichever_stream_comes_first(
    fake: FakeApi, followed: Followed
) -> None:
    fake.makes_pods = False
    await followed.watch.open()
    message = 'Error creating: pods "j-8x2lq" is forbidden: exceeded quota: q, limited: pods=0'
    for name in ("early", "late"):
        if name == "late":
            fake.put("jobs", job(name))
        fake.warn("Job", name, "FailedCreate", message)
        if name == "early":
            fake.put("jobs", job(name))
        sighting = await followed.sighting(name, lambda at: "quota" in (at.waiting or ""))
        assert sighting.waiting == "the cluster cannot create the pod: exceeded quota: q, limited: pods=0"


async def test_a_warning_that_is_not_repeated_is_over(
    fake: FakeApi, followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training_services.kubernetes.watch.NOTE_S", 0.2)
    await followed.watch.open()
    fake.put("jobs", job("j"))
    pod = fake.set_pod("j", {"phase": "Pending", "containerStatuses": []}, node="node-1")["metadata"]["name"]
    fake.warn("Pod", pod, "FailedMount", 'configmap "data" not found')
    held_up = f'the pod {pod} cannot be set up: configmap "data" not found'
    await followed.sighting("j", lambda at: at.waiting == held_up)
    later = await followed.sighting("j", lambda at: at.waiting != held_up)
    assert later.waiting == "the pod is being set up on node-1"


async def test_a_deleted_pod_is_over_whatever_replaces_it(fake: FakeApi, followed: Followed) -> None:
    await followed.watch.open()
    fake.put("jobs", job("j"))
    fake.run("j")
    pod = await followed.sighting("j", lambda at: at.phase is Phase.RUNNING)
    fake.remove("pods", str(pod.pod))
    replacement = fake.object("jobs", "j")
    fake._make_pod(replacement, NAMESPACE)
    fake.run("j")
    over = await followed.sighting("j", lambda at: at.over)
    assert (over.pod, over.over) == (pod.pod, Over(Cause.DELETED, f"the pod {pod.pod} was deleted"))


async def test_what_went_while_nobody_watched_is_gone_after_listing_again(
    fake: FakeApi, followed: Followed
) -> None:
    await followed.watch.open()
    for name in ("stays", "goes"):
        fake.put("jobs", job(name))
        fake.run(name)
        await followed.sighting(name, lambda at: at.phase is Phase.RUNNING)
    fake.stop()
    await followed.until(lambda: followed.watch.trouble)
    fake.remove("jobs", "goes")
    fake.put("jobs", job("comes"))
    fake.compact()
    fake.start()
    await followed.sighting("goes", lambda at: at.over and at.over.cause is Cause.DELETED)
    await followed.sighting("comes", lambda at: at.pod)
    stays = followed.watch.sighting("stays")
    assert stays is not None
    assert (stays.phase, stays.over) == (Phase.RUNNING, None)
    await followed.until(lambda: followed.watch.trouble is None)
    assert all("too old" not in (trouble or "") for trouble in followed.troubles)


async def test_an_api_server_that_is_away_is_told_with_the_time_and_found_again(
    fake: FakeApi, followed: Followed
) -> None:
    fake.stop()
    await followed.watch.open()
    assert not followed.watch.known
    trouble = followed.watch.trouble or ""
    assert trouble.startswith("the cluster has not answered since 20")
    assert trouble.endswith(f"the Kubernetes API server at {fake.url} cannot be reached: connection refused")
    fake.put("jobs", job("j"))
    fake.start()
    await followed.until(lambda: followed.watch.known and followed.watch.trouble is None)
    await followed.sighting("j", lambda at: at.pod)


async def test_a_version_that_is_too_old_leads_to_a_new_list(fake: FakeApi, followed: Followed) -> None:
    await followed.watch.open()
    await asyncio.to_thread(fake.wait_for, "watch", "pods")
    lists = len(fake.asked("list", "pods"))
    fake.expire_watches()
    await asyncio.to_thread(fake.wait_for, "list", "pods", count=lists + 1)
    fake.put("jobs", job("j"))
    fake.run("j")
    await followed.sighting("j", lambda at: at.phase is Phase.RUNNING)
    assert not any(followed.troubles) and followed.watch.trouble is None, "that is no trouble"


async def test_a_watch_whose_time_is_over_goes_on_without_a_new_list(
    fake: FakeApi, followed: Followed
) -> None:
    await followed.watch.open()
    fake.put("jobs", job("j"))
    await followed.sighting("j", lambda at: at.pod)
    before = len(fake.asked("watch", "pods"))
    watches = await asyncio.to_thread(fake.wait_for, "watch", "pods", count=before + 1)
    assert int(watches[-1].query["resourceVersion"]) > int(watches[0].query["resourceVersion"])
    assert len(fake.asked("list", "pods")) == 1
    fake.run("j")
    await followed.sighting("j", lambda at: at.phase is Phase.RUNNING)


async def test_a_watch_that_has_fallen_silent_is_found_out(
    fake: FakeApi, followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "WATCH_SLACK_S", 0.2)
    await followed.watch.open()
    fake.put("jobs", job("j"))
    await followed.sighting("j", lambda at: at.pod)
    fake.freeze()
    fake.run("j")
    await followed.sighting("j", lambda at: at.phase is Phase.RUNNING)
    assert len(fake.asked("list", "pods")) == 1


async def test_an_experiment_is_followed_without_the_right_to_read_events(
    fake: FakeApi, followed: Followed
) -> None:
    fake.fail("list", "events", Reply(403, "Forbidden", "no events for you"), times=10**4)
    await followed.watch.open()
    fake.put("jobs", job("j"))
    await followed.sighting("j", lambda at: at.pod)
    assert followed.watch.trouble is None


async def test_a_right_that_was_revoked_is_trouble_until_it_is_back(
    fake: FakeApi, followed: Followed
) -> None:
    await followed.watch.open()
    fake.fail("watch", "pods", Reply(403, "Forbidden", "no pods for you"))
    await asyncio.to_thread(fake.wait_for, "watch", "pods")
    fake.drop_watches()
    refusal = "does not allow watching pods in namespace"
    await followed.until(lambda: any(refusal in (trouble or "") for trouble in followed.troubles))
    await followed.until(lambda: followed.watch.trouble is None)


async def test_objects_that_make_no_sense_do_not_end_the_watch(fake: FakeApi, followed: Followed) -> None:
    await followed.watch.open()
    await asyncio.to_thread(fake.wait_for, "watch", "pods")
    fake.send({"type": "MODIFIED", "object": {"status": [], "metadata": {"labels": 3}}})
    fake.put("jobs", job("j"))
    await followed.sighting("j", lambda at: at.pod)


async def test_a_slow_list_leaves_what_is_known_as_it_is(fake: FakeApi, followed: Followed) -> None:
    await followed.watch.open()
    fake.put("jobs", job("j"))
    fake.run("j")
    await followed.sighting("j", lambda at: at.phase is Phase.RUNNING)
    with fake.hold("list", "pods"):
        fake.compact()
        fake.drop_watches()
        await asyncio.to_thread(fake.wait_for, "list", "pods", count=2)
        sighting = followed.watch.sighting("j")
        assert sighting is not None
        assert sighting.over is None
    fake.finish("j")
    await followed.sighting("j", lambda at: at.over and at.over.cause is Cause.COMPLETED)


# The real cluster.


def real(name: str, command: list[str], *, image: str = BUSYBOX, **container: Any) -> dict[str, Any]:
    trial = {
        "name": "trial",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        **container,
    }
    return job(name, containers=[trial], terminationGracePeriodSeconds=1)


async def test_a_real_cluster_says_why_a_job_waits_and_how_it_ended(cluster: RealCluster) -> None:
    followed = Followed(cluster.cluster, cluster.namespace)
    await followed.watch.open()
    secret = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "nosuch", "key": "k"}}}
    jobs = {
        "fine": real("fine", ["true"]),
        "fails": real("fails", ["sh", "-c", "exit 3"]),
        "no-command": real("no-command", ["/nosuch"]),
        "no-image": real("no-image", ["true"], image="localhost/nosuch:1", imagePullPolicy="Never"),
        "no-secret": real("no-secret", ["true"], env=[secret]),
        "too-big": real("too-big", ["true"], resources={"limits": {"cpu": "1000"}}),
        "deleted": real("deleted", ["sleep", "600"]),
    }
    for body in jobs.values():
        await cluster.cluster.create(JOBS, cluster.namespace, body)

    async def waits(name: str, text: str) -> None:
        await followed.sighting(name, lambda at: text in (at.waiting or ""), REAL_LIMIT_S)

    async def ends(name: str, cause: Cause, text: str, *codes: int | None) -> None:
        over = (await followed.sighting(name, lambda at: at.over, REAL_LIMIT_S)).over
        assert over is not None
        assert over.cause is cause and over.exit_code in codes, over
        assert text in over.reason

    running = await followed.sighting("deleted", lambda at: at.phase is Phase.RUNNING, REAL_LIMIT_S)
    assert await cluster.cluster.delete(PODS, cluster.namespace, str(running.pod))
    await waits("no-image", "the image localhost/nosuch:1 is not on ")
    await waits("no-secret", '(CreateContainerConfigError): secret "nosuch" not found')
    await waits("too-big", "nodes are available: ")
    await ends("fine", Cause.COMPLETED, "completed", 0)
    await ends("fails", Cause.FAILED, "ended with exit code 3", 3)
    await ends("no-command", Cause.NEVER_RAN, "/nosuch", 128)
    await ends("deleted", Cause.DELETED, f"the pod {running.pod}", 137, None)  # whichever is told first
    await followed.watch.close()


async def _refuses_pods(cluster: RealCluster) -> None:
    """Return once the namespace's quota holds: pods that come before the API server knows it are let in."""
    pod = {"metadata": {"name": "p"}, "spec": real("p", ["true"])["spec"]["template"]["spec"]}
    async with asyncio.timeout(REAL_LIMIT_S):
        while True:
            try:
                await cluster.cluster.create(PODS, cluster.namespace, pod, dry_run=True)
            except client.ApiError as refused:
                if "exceeded quota" in str(refused):
                    return
            await asyncio.sleep(0.1)


async def test_a_real_quota_is_told(cluster: RealCluster) -> None:
    quotas = client.Resource("resourcequotas", "/api/v1")
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    await cluster.cluster.create(quotas, cluster.namespace, quota)
    await _refuses_pods(cluster)
    followed = Followed(cluster.cluster, cluster.namespace)
    await followed.watch.open()
    await cluster.cluster.create(JOBS, cluster.namespace, real("j", ["true"]))
    waiting = await followed.sighting("j", lambda at: "quota" in (at.waiting or ""), REAL_LIMIT_S)
    assert waiting.waiting == (
        "the cluster cannot create the pod: "
        "exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0"
    )
    await followed.watch.close()


async def test_a_real_dry_run_and_a_real_refusal(cluster: RealCluster) -> None:
    body = real("dry", ["true"])
    made = await cluster.cluster.create(JOBS, cluster.namespace, body, dry_run=True)
    assert made["spec"]["parallelism"] == 1
    assert await cluster.cluster.get(JOBS, cluster.namespace, "dry") is None
    body["metadata"]["name"] = "Not_Valid"
    with pytest.raises(
        client.ApiError, match=r'has refused creating jobs in .*"Not_Valid" is invalid'
    ) as caught:
        await cluster.cluster.create(JOBS, cluster.namespace, body, dry_run=True)
    assert caught.value.status == 422

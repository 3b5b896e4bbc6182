"""Gangs whose members are pods, against a scripted API server; the test plays the pods' keepers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nnimgr.needs import needs_of_roles
from tests.kubernetes.fake_api import FakeApi
from tests.kubernetes.test_service import Lab, terminated
from tests.training_services.fleet import FakeMachine
from training_services.allocations import gangs, insistence
from training_services.base import (
    Cause,
    EndReason,
    Gang,
    GangGathered,
    GangRole,
    JobEnded,
    JobLost,
    JobPlaced,
    KeeperGone,
    MemberEnded,
    MemberLost,
    StopOrdered,
)
from training_services.kubernetes.names import job_of_pod, pod_name

JOB, MEMBER = "contract-aaaa1-1", "contract-aaaa1-1.1"
PODS = ("contract-aaaa1-1", "contract-aaaa1-1-m1")
LACK = "0/1 nodes are available: 1 Insufficient cpu"


@pytest.fixture
async def lab(tmp_path: Path, fake: FakeApi) -> AsyncIterator[Lab]:
    made = Lab(tmp_path, fake)
    made.context = replace(made.context, gang=Gang(processes=None, max_restarts=0, nodes=2))
    yield made
    if made.core.service is not None:
        await made.core.close(detach=True)
    made.hub.close()


def pend(lab: Lab, pod: str) -> None:
    """Let no node accept the pod."""
    condition = {"type": "PodScheduled", "status": "False", "message": LACK}
    lab.fake.set_pod(pod, {"phase": "Pending", "conditions": [condition]}, node=None)


def schedule(lab: Lab, pod: str) -> None:
    """Let the pod have a node, where it does not run yet."""
    lab.fake.set_pod(pod, {"phase": "Pending"})


def made(lab: Lab) -> list[str]:
    return [asked.body["metadata"]["name"] for asked in lab.fake.asked("create", "jobs")]


async def gone(lab: Lab, *pods: str) -> None:
    """Wait until the pods are removed, and the core has heard of it."""
    await lab.until(lambda: not {each["metadata"]["name"] for each in lab.fake.objects("jobs")} & {*pods})
    await lab.core.until(lambda: all(KeeperGone(keeper_id=pod) in lab.core.facts for pod in pods))


async def leave(lab: Lab, keeper: FakeMachine) -> None:
    """Let the keeper leave as soon as it is asked to, and its pod end."""
    async with asyncio.timeout(20):
        while not keeper.left:
            await keeper.poll()
            await asyncio.sleep(0)  # for the service, in whose process this is
    lab.fake.finish(keeper.keeper_id)
    await lab.core.until(lambda: KeeperGone(keeper_id=keeper.keeper_id) in lab.core.facts)


async def placed(lab: Lab) -> tuple[JobPlaced, FakeMachine, FakeMachine]:
    """Submit a gang, and let both members start."""
    await lab.open()
    lab.core.submit("aaaa1")
    keepers = [await lab.keeper(pod) for pod in PODS]
    fact = await lab.core.seen(JobPlaced, JOB)
    for keeper in keepers:
        await keeper.poll()
    return fact, keepers[0], keepers[1]


def test_pods_are_named_after_members() -> None:
    assert [pod_name(job) for job in (JOB, MEMBER)] == [*PODS]
    assert [job_of_pod("contract", pod) for pod in PODS] == [JOB, MEMBER]
    assert job_of_pod("my-exp", "my-exp-abcde-12-m3") == "my-exp-abcde-12.3"
    assert job_of_pod("My.Exp", pod_name("My.Exp-abcde-1.1")) is None


async def test_nothing_starts_before_all_pods_are_there(lab: Lab) -> None:
    await lab.open()
    lab.core.submit("aaaa1")
    leader = await lab.keeper(PODS[0])
    await leader.poll()
    assert not leader.running
    member = await lab.keeper(PODS[1])
    fact = await lab.core.seen(JobPlaced, JOB)
    hosts = [lab.fake.pod_of(pod)["status"]["podIP"] for pod in PODS]
    assert [fact.place.address, *(each.place.address for each in fact.members)] == hosts
    for number, (job, keeper) in enumerate(zip((JOB, MEMBER), (leader, member), strict=True)):
        await keeper.poll()
        gang = keeper.bodies["start", job]["gang"]
        assert (gang["job"], gang["member"], gang["hosts"]) == (JOB, number, hosts)
        assert len(gang["key"]) == 64
    labels = lab.fake.object("jobs", PODS[1])["metadata"]["labels"]
    assert (labels["nnimgr.io/trial"], labels["nnimgr.io/attempt"]) == ("aaaa1", "1")


async def test_a_gang_waits_until_the_addresses_of_its_pods_are_known(lab: Lab) -> None:
    await lab.open()
    lab.core.submit("aaaa1")
    await lab.keeper(PODS[0])
    running = {"phase": "Running", "containerStatuses": [{"name": "trial", "state": {"running": {}}}]}
    await lab.made(PODS[1])
    member = FakeMachine(PODS[1])
    lab.fake.set_pod(PODS[1], running)
    await lab.core.until(lambda: any("2 are running" in reason for reason in lab.waits(JOB)))
    await lab.greet(member)
    assert not any(isinstance(fact, JobPlaced) for fact in lab.core.of(JOB))
    lab.fake.set_pod(PODS[1], {**running, "podIP": "10.1.7.7"})
    fact = await lab.core.seen(JobPlaced, JOB)
    assert fact.members[0].place.address == "10.1.7.7"


async def test_what_a_gang_waits_for_is_said(lab: Lab) -> None:
    await lab.open()
    lab.core.submit("aaaa1")
    assert lab.waits(JOB) == ["waits for 2 pods: 0 are running"]
    await lab.keeper(PODS[0])
    await lab.made(PODS[1])
    pend(lab, PODS[1])
    await lab.core.waits(JOB, f"waits for 2 pods: 1 is running; no node accepts the pod: {LACK}")


async def test_a_gang_gets_its_pods_when_the_gangs_before_it_have_nodes(lab: Lab) -> None:
    await lab.open()
    lab.core.submit("aaaa1")
    other = lab.core.submit("bbbb2")
    assert lab.waits(other) == ["waits until the pods of other trials of its experiment have nodes"]
    for pod in PODS:
        await lab.made(pod)
        schedule(lab, pod)
    for pod in ("contract-bbbb2-1", "contract-bbbb2-1-m1"):
        await lab.made(pod)
    assert sorted(made(lab)) == sorted([*PODS, "contract-bbbb2-1", "contract-bbbb2-1-m1"])
    await lab.core.waits(other, "waits for 2 pods: 0 are running; the pod waits for a node")


async def test_a_gang_gives_back_what_another_one_may_need(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gangs, "FIRST_BACK_S", 0.01)
    monkeypatch.setattr(gangs, "LAST_BACK_S", 0.02)
    await lab.open()
    lab.core.submit("aaaa1")
    other = lab.core.submit("bbbb2")
    for pod in PODS:
        await lab.made(pod)
        pend(lab, pod)
    schedule(lab, PODS[0])
    lost = await lab.core.seen(JobLost, JOB)
    monkeypatch.undo()  # the other gang has the usual time
    assert lost.cause is Cause.PREEMPTED
    assert lost.reason.startswith("gave its pods back so that others can start: 0 are running; ")
    await gone(lab, *PODS)
    for pod in (other, f"{other}-m1"):
        await lab.keeper(pod)
    await lab.core.seen(JobPlaced, other)


async def test_a_gang_without_nodes_takes_nothing_from_others_and_waits(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gangs, "FIRST_BACK_S", 0.0)
    monkeypatch.setattr(gangs, "LAST_BACK_S", 0.0)
    await lab.open()
    lab.core.submit("aaaa1")
    for pod in PODS:
        await lab.made(pod)
        pend(lab, pod)
    await lab.core.waits(JOB, f"waits for 2 pods: 0 are running; no node accepts the pod: {LACK}")
    await asyncio.sleep(0)
    assert not any(isinstance(fact, JobLost) for fact in lab.core.of(JOB))


async def test_a_gang_may_begin_with_the_pods_that_have_nodes(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gangs, "SETTLE_S", 0.01)
    gang = Gang(processes=None, max_restarts=0, nodes=3, least_nodes=2)
    lab.context = replace(lab.context, gang=gang)
    await lab.open()
    lab.core.submit("aaaa1")
    third = f"{PODS[0]}-m2"
    await lab.made(third)
    pend(lab, third)
    for pod in PODS:
        await lab.keeper(pod)
    fact = await lab.core.seen(JobPlaced, JOB)
    assert [fact.place.keeper_id, *(each.place.keeper_id for each in fact.members)] == [*PODS]
    await gone(lab, third)
    assert any(reason.startswith("waits for 2 to 3 pods: ") for reason in lab.waits(JOB))


async def test_a_gang_that_is_taken_back_leaves_no_pod(lab: Lab) -> None:
    await lab.open()
    lab.core.submit("aaaa1")
    leader = await lab.keeper(PODS[0])
    await lab.made(PODS[1])
    assert lab.core.cancel(JOB) == StopOrdered(job_id=JOB, cmd_seq=None, grace=timedelta(seconds=5))
    await gone(lab, PODS[1])
    await leave(lab, leader)


@pytest.mark.parametrize("failed", [False, True])
async def test_a_gang_that_loses_a_pod_before_its_start_leaves_none(lab: Lab, failed: bool) -> None:
    await lab.open()
    lab.core.submit("aaaa1")
    leader = await lab.keeper(PODS[0])
    await lab.made(PODS[1])
    lab.fake.set_pod(PODS[1], terminated("Error") if failed else {"phase": "Failed", "reason": "Evicted"})
    if failed:
        end = await lab.core.seen(JobEnded, JOB)
        assert (end.reason, end.cause) == (EndReason.NEVER_STARTED, Cause.USER_ERROR)
    else:
        assert "was evicted" in (await lab.core.seen(JobLost, JOB)).reason
    await leave(lab, leader)


async def test_a_lost_pod_is_a_lost_member(lab: Lab) -> None:
    _, leader, _ = await placed(lab)
    lab.fake.remove("pods", lab.fake.pod_of(PODS[1])["metadata"]["name"])
    lost = await lab.core.seen(MemberLost, JOB)
    assert lost.member == 1 and lost.reason.endswith(" was deleted")
    assert lab.core.cancel(JOB) is not None
    await leader.poll()
    await lab.core.seen(MemberEnded, JOB)
    lab.core.commit(JobLost(job_id=JOB, reason=lost.reason))
    await leave(lab, leader)
    await gone(lab, PODS[1])
    assert len(made(lab)) == 2


async def test_a_member_whose_keeper_does_not_obey_loses_its_pod(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(insistence, "INSIST_S", -4.99)  # after the grace
    await placed(lab)
    assert lab.core.service is not None
    lab.core.commit(lab.core.service.stop_members(JOB, (1,), grace=timedelta(seconds=5)))
    await gone(lab, PODS[1])
    assert (await lab.core.seen(MemberLost, JOB)).member == 1


@pytest.mark.parametrize("when", ["made", "called", "offered"])
async def test_a_kill_of_the_server_before_the_start_makes_nothing_twice(lab: Lab, when: str) -> None:
    await lab.open()
    lab.core.submit("aaaa1", withhold=True)
    for pod in PODS:
        await lab.made(pod)
    keepers: list[FakeMachine] = []
    if when != "made":
        keepers = [await lab.keeper(PODS[0])]
    if when == "offered":
        keepers.append(await lab.keeper(PODS[1]))
        await lab.core.offered(JOB)
    await lab.core.close(detach=True)
    lab.core.withheld.clear()
    await lab.open()
    for keeper in keepers:
        await lab.greet(keeper)
    for pod in PODS[len(keepers) :]:
        keepers.append(await lab.keeper(pod))
    await lab.core.seen(JobPlaced, JOB)
    for job, keeper in zip((JOB, MEMBER), keepers, strict=True):
        await keeper.poll()
        assert keeper.commands == [("start", job)]
    assert sorted(made(lab)) == sorted(PODS)


async def test_the_next_server_knows_the_addresses_without_the_cluster(lab: Lab) -> None:
    """The start of a member that has not arrived yet is sent again."""
    await lab.open()
    lab.core.submit("aaaa1")
    keepers = [await lab.keeper(pod) for pod in PODS]
    fact = await lab.core.seen(JobPlaced, JOB)
    await lab.core.close(detach=True)
    with lab.fake.hold("list", "pods"):
        await lab.open()
        for keeper in keepers:
            keeper.epoch += 1
            await keeper.poll()
    hosts = [fact.place.address, fact.members[0].place.address]
    assert all(hosts) and keepers[1].bodies["start", MEMBER]["gang"]["hosts"] == hosts
    assert lab.core.service is not None
    assert isinstance(lab.core.service.gather(JOB), GangGathered)


async def test_processes_are_counted_where_the_cluster_gives_the_gpus(lab: Lab) -> None:
    gang = Gang(processes="gpu", max_restarts=0, nodes=2)
    lab.context = replace(lab.context, gang=gang, trial_gpu_number=4)
    _, leader, _ = await placed(lab)
    body: Any = leader.bodies["start", JOB]
    assert body["gang"]["processes"] == "4" and "CUDA_VISIBLE_DEVICES" not in body["environment"]


async def test_pods_of_different_roles_have_their_own_images_needs_and_commands(lab: Lab) -> None:
    roles = (
        GangRole(name="master", cpus=2, command="./lead"),
        GangRole(name="worker", image="lab/w", memory=512),
    )
    gang = Gang(processes=None, max_restarts=0, nodes=2, roles=roles)
    own = needs_of_roles(gang, None, gpus=None, cpus=1.0, memory=None)
    lab.context = replace(lab.context, gang=gang, own_needs=own, trial_cpu_number=1)
    _, *keepers = await placed(lab)
    containers = []
    for pod in PODS:
        (container,) = lab.fake.object("jobs", pod)["spec"]["template"]["spec"]["containers"]
        containers.append((container["image"], container["resources"]["limits"]))
    assert containers == [("python:3", {"cpu": "2"}), ("lab/w", {"cpu": "1", "memory": "512Mi"})]
    bodies: list[Any] = [
        keeper.bodies["start", job] for job, keeper in zip((JOB, MEMBER), keepers, strict=True)
    ]
    assert [body["command"] for body in bodies] == ["./lead", "true"]
    assert {body["environment"]["NNIMGR_GANG_ROLES"] for body in bodies} == {"master:1,worker:1"}

"""Running gangs that get more pods, against a scripted API server; the test plays the pods' keepers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.kubernetes.fake_api import FakeApi
from tests.kubernetes.test_gang_pods import JOB, MEMBER, PODS, gone, leave, made, pend
from tests.kubernetes.test_service import Lab, terminated
from tests.training_services.fleet import FakeMachine
from training_services.allocations import gangs, more_members
from training_services.base import CheckpointReported, Gang, JobLost, JobPlaced, MemberEnded, RoomForMembers
from training_services.kubernetes.service import KubernetesService

NEXT = "contract-aaaa1-2"
LATER = timedelta(minutes=10)


@pytest.fixture
async def lab(tmp_path: Path, fake: FakeApi, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Lab]:
    """A gang of two or three members."""
    monkeypatch.setattr(gangs, "SETTLE_S", 0.0)
    monkeypatch.setattr(more_members, "ASK_S", 0.0)
    found = Lab(tmp_path, fake)
    gang = Gang(processes=None, max_restarts=0, nodes=3, least_nodes=2, hold_more=LATER)
    found.context = replace(found.context, gang=gang)
    yield found
    if found.core.service is not None:
        await found.core.close(detach=True)
    found.hub.close()


def save(lab: Lab) -> None:
    lab.core.commit(CheckpointReported(job_id=JOB, position=0, number=1, step=1, files=1, size=1))


async def running(lab: Lab) -> list[FakeMachine]:
    """Let the gang begin with two members, because no node accepts the third pod."""
    await lab.open()
    lab.core.submit("aaaa1")
    third = f"{PODS[0]}-m2"
    await lab.made(third)
    pend(lab, third)
    keepers = [await lab.keeper(pod) for pod in PODS]
    await lab.core.seen(JobPlaced, JOB)
    for keeper in keepers:
        await keeper.poll()
    await gone(lab, third)
    return keepers


async def another(lab: Lab, number: int = 1) -> str:
    """Wait until so many pods for more members were asked for. Return the name of the last one."""
    await lab.until(lambda: len(_others(lab)) == number)
    return _others(lab)[-1]


def _others(lab: Lab) -> list[str]:
    return [name for name in made(lab) if "-x" in name]


async def room(lab: Lab, *members: int) -> None:
    """Wait until this was reported of the gang's possible number of members, one after the other."""

    def told() -> list[int]:
        return [fact.members for fact in lab.core.of(JOB) if isinstance(fact, RoomForMembers)]

    await lab.core.until(lambda: len(told()) >= len(members))
    assert told() == [*members]


async def end(lab: Lab, keepers: list[FakeMachine]) -> None:
    """Let the attempt end, and its pods leave."""
    for job, keeper in zip((JOB, MEMBER), keepers, strict=True):
        await keeper.finish(job)
    await lab.core.until(lambda: sum(isinstance(fact, MemberEnded) for fact in lab.core.of(JOB)) == 2)
    lab.core.commit(JobLost(job_id=JOB, reason="stopped"))
    for keeper in keepers:
        await leave(lab, keeper)


async def test_the_next_attempt_takes_over_the_pod_that_was_there_for_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    keepers = await running(lab)
    monkeypatch.setattr(gangs, "SETTLE_S", 600.0)
    await room(lab, 2)
    assert _others(lab) == [], "nothing is asked for before the trial has a checkpoint"
    save(lab)
    pod = await another(lab)
    assert pod.startswith(f"{NEXT}-m2-x")
    third = await lab.keeper(pod)
    await room(lab, 2, 3)
    await end(lab, keepers)
    lab.core.submit("aaaa1", attempt=2)
    others = [await lab.keeper(name) for name in (NEXT, f"{NEXT}-m1")]
    fact = await lab.core.seen(JobPlaced, NEXT)
    assert [each.place.keeper_id for each in fact.members] == [f"{NEXT}-m1", pod]
    await third.poll()
    assert third.bodies["start", f"{NEXT}.2"]["gang"]["member"] == 2
    assert len(made(lab)) == 6 and not others[0].left


async def test_an_attempt_that_was_to_have_more_members_and_has_not_stays_as_it_is(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    keepers = await running(lab)
    monkeypatch.setattr(gangs, "SETTLE_FOR_FEWER_S", 0.0)  # SETTLE_S does not count after a growth
    monkeypatch.setattr(gangs, "SETTLE_S", 600.0)
    save(lab)
    pod = await another(lab)
    await lab.keeper(pod)
    await room(lab, 2, 3)
    await end(lab, keepers)
    lab.core.submit("aaaa1", attempt=2, seats=PODS)
    await lab.made(NEXT)
    pend(lab, NEXT)
    await lab.keeper(f"{NEXT}-m1")
    fact = await lab.core.seen(JobPlaced, NEXT)
    assert [each.place.keeper_id for each in fact.members] == [pod]
    assert isinstance(lab.core.service, KubernetesService)
    queue = lab.core.service._queue
    assert isinstance(queue, gangs.GangAllocations)
    lab.core.commit(CheckpointReported(job_id=NEXT, position=0, number=1, step=1, files=1, size=1))
    assert queue._more._next() is None, "else it would be ended again and again"


async def test_other_trials_come_first(lab: Lab) -> None:
    await running(lab)
    save(lab)
    keeper = await lab.keeper(await another(lab))
    await room(lab, 2, 3)
    other = lab.core.submit("bbbb2")
    await leave(lab, keeper)
    await room(lab, 2, 3, 2)
    for pod in (other, f"{other}-m1"):  # with them the other gang begins, without waiting for a third pod
        assert len(_others(lab)) == 1
        await lab.keeper(pod)
    await lab.core.seen(JobPlaced, other)
    assert (await another(lab, 2)) != keeper.keeper_id


async def test_a_pod_that_fails_is_asked_for_again_later(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(more_members, "AGAIN_S", 0.0)
    await running(lab)
    save(lab)
    pod = await another(lab)
    await lab.keeper(pod)
    await room(lab, 2, 3)
    lab.fake.set_pod(pod, terminated("Error"))
    await room(lab, 2, 3, 2)
    assert (await another(lab, 2)) != pod


async def test_a_pod_that_is_not_used_is_given_back(lab: Lab) -> None:
    assert lab.context.gang is not None
    lab.context = replace(lab.context, gang=replace(lab.context.gang, hold_more=timedelta(0)))
    await running(lab)
    save(lab)
    keeper = await lab.keeper(await another(lab))
    await leave(lab, keeper)
    await room(lab, 2, 3, 2)
    assert len(_others(lab)) == 1


async def test_no_pod_stays_after_a_trial_that_does_not_continue(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(more_members, "NEXT_ATTEMPT_S", 0.0)
    keepers = await running(lab)
    save(lab)
    keeper = await lab.keeper(await another(lab))
    await room(lab, 2, 3)
    await end(lab, keepers)
    await leave(lab, keeper)


async def test_the_next_server_asks_for_another_pod(lab: Lab) -> None:
    keepers = await running(lab)
    save(lab)
    keeper = await lab.keeper(await another(lab))
    await room(lab, 2, 3)
    await lab.core.close(detach=True)
    await lab.open()
    for each in (*keepers, keeper):
        await lab.greet(each)
    await leave(lab, keeper)
    await room(lab, 2, 3, 2)
    save(lab)
    assert (await another(lab, 2)) != keeper.keeper_id

"""Gangs whose number of members may vary, with keepers: who gives up members, and where they continue."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.training_services.fleet import FakeMachine, Fleet
from training_services.base import (
    CheckpointReported,
    FewerMembersWanted,
    Gang,
    JobEnded,
    JobPlaced,
    JobWaiting,
    PreemptionWanted,
    member_id_of,
)

FIRST, SECOND = "contract-aaaaa-1", "contract-bbbbb-1"


async def opened(directory: Path, machines: int = 4, least: int = 2, most: int = 4, **context: Any) -> Fleet:
    gang = Gang(processes=None, max_restarts=0, nodes=most, least_nodes=least)
    names = [FakeMachine(f"m{number}") for number in range(machines)]
    fleet = Fleet(directory, *names, gang=gang, trial_cpu_number=8, **context)
    await fleet.open()
    return fleet


def saves(fleet: Fleet, job_id: str) -> None:
    fleet.core.commit(
        CheckpointReported(job_id=job_id, position=0, number=1, step=1, size=1, files=1, asked=False)
    )


def places(fleet: Fleet, job_id: str) -> list[str]:
    (placed,) = [fact for fact in fleet.core.of(job_id) if isinstance(fact, JobPlaced)]
    return [placed.place.keeper_id, *(each.place.keeper_id for each in placed.members)]


def wanted(fleet: Fleet) -> list[FewerMembersWanted]:
    return [fact for fact in fleet.core.facts if isinstance(fact, FewerMembersWanted)]


def submit(fleet: Fleet, trial_id: str, attempt: int, **more: Any) -> str:
    """Submit an attempt as the core does after a previous one."""
    service = fleet.core.service
    assert service is not None
    job = replace(fleet.core.spec(trial_id, attempt=attempt), has_saved=True, **more)
    fleet.core.commit(service.submit_trial_job(job))
    return job.id


async def poll(fleet: Fleet) -> None:
    for machine in fleet.machines.values():
        await machine.poll()


async def test_a_gang_with_a_checkpoint_gives_up_members_for_another_trial(tmp_path: Path) -> None:
    fleet = await opened(tmp_path)
    fleet.core.submit("aaaaa")
    await poll(fleet)
    fleet.core.submit("bbbbb")
    assert places(fleet, FIRST) == ["m0", "m1", "m2", "m3"] and not wanted(fleet)
    saves(fleet, FIRST)
    await fleet.core.seen(FewerMembersWanted, FIRST)
    assert wanted(fleet) == [FewerMembersWanted(job_id=FIRST, leaving=(2, 3), by="contract")]
    waiting = [fact.reason for fact in fleet.core.of(SECOND) if isinstance(fact, JobWaiting)]
    assert waiting[-1].endswith("; experiment contract trial aaaaa continues with fewer members to make room")
    await fleet.core.close(detach=True)


async def test_the_trial_that_waited_gets_no_more_than_the_least_number(tmp_path: Path) -> None:
    fleet = await opened(tmp_path)
    fleet.core.submit("aaaaa")
    await poll(fleet)
    fleet.core.submit("bbbbb")
    saves(fleet, FIRST)
    await fleet.core.seen(FewerMembersWanted, FIRST)
    for number, machine in enumerate(fleet.machines.values()):
        await machine.finish(member_id_of(FIRST, number))
    await fleet.core.seen(JobPlaced, SECOND)
    assert sorted(places(fleet, SECOND)) == ["m2", "m3"]
    again = submit(fleet, "aaaaa", 2, seats=("m0", "m1"), most_members=2)
    assert places(fleet, again) == ["m0", "m1"]
    await fleet.core.close(detach=True)


async def test_members_continue_where_they_were_and_in_their_order(tmp_path: Path) -> None:
    fleet = await opened(tmp_path, machines=4, most=3)
    again = submit(fleet, "aaaaa", 2, seats=("m3", "m1"))
    assert places(fleet, again) == ["m3", "m1", "m0"]
    await fleet.core.close(detach=True)


async def test_a_limit_of_the_members_holds(tmp_path: Path) -> None:
    fleet = await opened(tmp_path)
    again = submit(fleet, "aaaaa", 2, seats=("m2", "m1", "m0"), most_members=3)
    assert places(fleet, again) == ["m2", "m1", "m0"]
    await fleet.core.close(detach=True)


async def test_after_a_restart_of_the_server_members_are_given_up_too(tmp_path: Path) -> None:
    fleet = await opened(tmp_path)
    fleet.core.submit("aaaaa")
    await poll(fleet)
    saves(fleet, FIRST)
    await fleet.core.close(detach=True)
    await fleet.open()
    fleet.core.submit("bbbbb")
    await fleet.core.seen(FewerMembersWanted, FIRST)
    await fleet.core.close(detach=True)


async def test_a_gang_of_a_higher_priority_has_trials_stopped_on_several_machines(tmp_path: Path) -> None:
    low = Fleet(
        tmp_path,
        *(FakeMachine(f"m{number}") for number in range(3)),
        experiment_id="low",
        trial_cpu_number=8,
        preemptible=True,
    )
    gang = Gang(processes=None, max_restarts=0, nodes=2)
    high = Fleet(
        tmp_path,
        *(FakeMachine(f"m{number}") for number in range(3)),
        experiment_id="high",
        trial_cpu_number=8,
        priority=1,
        gang=gang,
    )
    high.tools, high.hub = low.tools, low.hub
    for each in (low, high):
        await each.open()
    jobs = [low.core.submit(f"{letter}aaaa") for letter in "xyz"]
    await poll(low)
    waits = high.core.submit("aaaaa")
    (fact,) = high.core.of(waits)
    assert isinstance(fact, JobWaiting)
    assert fact.reason.endswith("; trials of experiment low are being stopped to make room")
    await low.core.until(lambda: sum(isinstance(each, PreemptionWanted) for each in low.core.facts) == 2)
    stopped = [each.job_id for each in low.core.facts if isinstance(each, PreemptionWanted)]
    assert set(stopped) < set(jobs)
    for job_id in stopped:
        low.core.cancel(job_id)
    await poll(low)
    for job_id in stopped:
        await low.core.seen(JobEnded, job_id)
    await high.core.seen(JobPlaced, waits)
    for each in (low, high):
        await each.core.close(detach=True)

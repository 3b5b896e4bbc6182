"""Gangs in a keeper service: their members are started, told, stopped and taken over on several machines."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.training_services.fleet import Fleet, named
from training_services.base import (
    CheckpointKept,
    Gang,
    GangGathered,
    JobEnded,
    JobNoted,
    JobPlaced,
    JobWaiting,
    KeptCopy,
    MemberEnded,
    MetricReported,
    Origin,
    RoomForMembers,
    StopOrdered,
)
from training_services.placement.needs import Need, Waits
from training_services.testing import CoreDouble

GRACE = timedelta(seconds=5)
JOB, MEMBER = "contract-aaaaa-1", "contract-aaaaa-1.1"


async def opened(
    directory: Path, machines: int = 2, nodes: int = 2, least: int | None = None, **context: Any
) -> Fleet:
    gang = Gang(processes=None, max_restarts=0, nodes=nodes, least_nodes=least)
    fleet = Fleet(directory, *named(machines), gang=gang, **context)
    await fleet.open()
    return fleet


def payload(value: float) -> bytes:
    fields = {"parameter_id": 0, "trial_job_id": "aaaaa", "type": "PERIODICAL", "sequence": 0}
    return json.dumps({**fields, "value": str(value)}).encode()


def placed_of(core: CoreDouble) -> JobPlaced:
    (placed,) = [fact for fact in core.of(JOB) if isinstance(fact, JobPlaced)]
    return placed


async def test_all_members_are_placed_in_one_fact_and_started_after_it(tmp_path: Path) -> None:
    fleet = await opened(tmp_path)
    job = fleet.core.submit("aaaaa")
    placed = placed_of(fleet.core)
    assert job == JOB and len(placed.members) == 1
    assert {placed.place.keeper_id, placed.members[0].place.keeper_id} == {"worker-1", "worker-2"}
    for machine in fleet.machines.values():
        await machine.poll()
    assert [list(machine.running) for machine in fleet.machines.values()] == [[JOB], [MEMBER]]
    await fleet.core.close(detach=True)


async def test_the_members_of_an_attempt_have_a_secret_that_the_next_server_knows(tmp_path: Path) -> None:
    fleet = await opened(tmp_path)
    fleet.core.submit("aaaaa")
    fleet.core.submit("bbbbb")
    one, two = fleet.machines.values()
    key = one.ordered[JOB].line_key
    assert len(key) == 64 and two.ordered[MEMBER].line_key == key
    assert one.ordered["contract-bbbbb-1"].line_key not in ("", key)
    assert one.manager is not None and key not in str(one.manager) and key not in repr(one.ordered)
    await fleet.core.close(detach=True)
    one.ordered.clear()
    two.ordered.clear()
    await fleet.open()
    assert (one.ordered[JOB].line_key, two.ordered[MEMBER].line_key) == (key, key)
    await fleet.core.close(detach=True)


async def test_a_gang_waits_for_all_its_machines_and_says_so(tmp_path: Path) -> None:
    fleet = await opened(tmp_path, machines=3, trial_cpu_number=8)
    fleet.core.submit("aaaaa")
    second = fleet.core.submit("bbbbb")
    (waiting,) = fleet.core.of(second)
    assert isinstance(waiting, JobWaiting)
    assert waiting.reason.startswith(
        "waits for 2 hosts with 8 CPUs each: 1 is free; waits for 8 CPUs on worker-1"
    )
    third = fleet.core.submit("ccccc")
    assert fleet.core.of(third) == [
        JobWaiting(job_id=third, reason="waits behind other trials of its experiment")
    ]
    await fleet.core.close(detach=True)


async def test_a_gang_begins_with_the_members_that_have_room(tmp_path: Path) -> None:
    fleet = await opened(tmp_path, machines=3, nodes=4, least=2, trial_cpu_number=8)
    fleet.core.submit("aaaaa")
    assert len(placed_of(fleet.core).members) == 2
    second = fleet.core.submit("bbbbb")
    (waiting,) = fleet.core.of(second)
    assert isinstance(waiting, JobWaiting)
    assert waiting.reason.startswith("waits for at least 2 hosts with 8 CPUs each: 0 are free; ")
    await fleet.core.close(detach=True)


def rooms(fleet: Fleet) -> list[int]:
    """Return the numbers of members that were reported for the gang, in order."""
    return [fact.members for fact in fleet.core.of(JOB) if isinstance(fact, RoomForMembers)]


async def test_room_for_more_members_is_reported_when_it_comes_and_when_it_goes(tmp_path: Path) -> None:
    fleet = Fleet(
        tmp_path,
        *named(3),
        gang=Gang(processes=None, max_restarts=0, nodes=3, least_nodes=2),
        trial_cpu_number=8,
    )
    other = Need(experiment_id="y", job_id="y-other-1", gpus=None, cpus=8)
    third = fleet.machines["worker-3"].host
    fleet.tools.ledger.hold(other, third, ())
    await fleet.open()
    fleet.core.submit("aaaaa")
    assert len(placed_of(fleet.core).members) == 1
    fleet.tools.ledger.release(third.id, other.job_id)
    await fleet.core.until(lambda: rooms(fleet)[-1:] == [3])
    fleet.tools.ledger.hold(other, third, ())
    await fleet.core.until(lambda: rooms(fleet)[-1:] == [2])
    fleet.tools.ledger.release(third.id, other.job_id)
    await fleet.core.until(lambda: rooms(fleet)[-1:] == [3])
    assert fleet.core.submit("bbbbb") not in fleet.tools.ledger.use(third.id).held  # it waits
    await fleet.core.until(lambda: rooms(fleet)[-1:] == [0])
    await fleet.core.close(detach=True)


async def test_a_machine_for_which_another_experiment_waits_is_no_room(tmp_path: Path) -> None:
    fleet = await opened(tmp_path, machines=3, nodes=4, least=2, trial_cpu_number=4)
    ledger, third = fleet.tools.ledger, fleet.machines["worker-3"].host
    busy = Need(experiment_id="y", job_id="y-busy-1", gpus=None, cpus=8)
    ledger.hold(busy, third, ())
    fleet.core.submit("aaaaa")
    ledger.release(third.id, busy.job_id)
    await fleet.core.until(lambda: rooms(fleet)[-1:] == [3])
    whole = Need(experiment_id="y", job_id="y-whole-1", gpus=None, cpus=8)
    ledger.hold(replace(whole, job_id="y-small-1", cpus=4), third, ())
    assert isinstance(ledger.place(whole, third), Waits)
    await fleet.core.until(lambda: rooms(fleet)[-1:] == [2])
    await fleet.core.close(detach=True)


async def test_a_gang_begins_when_all_machines_are_connected_that_may_take_a_member(tmp_path: Path) -> None:
    gang = Gang(processes=None, max_restarts=0, nodes=4, least_nodes=2)
    fleet = Fleet(tmp_path, *named(3), gang=gang)
    await fleet.open("worker-1", "worker-2")
    fleet.core.submit("aaaaa")
    (waiting,) = fleet.core.of(JOB)
    assert isinstance(waiting, JobWaiting)
    assert waiting.reason == "waits until worker-3 can be reached: 2 members have room now"
    await fleet.machines["worker-3"].speak(fleet.hub)
    await fleet.core.seen(JobPlaced, JOB)
    assert len(placed_of(fleet.core).members) == 2
    await fleet.core.close(detach=True)


async def test_an_attempt_with_one_member_is_a_job_like_any_other(tmp_path: Path) -> None:
    fleet = await opened(tmp_path, machines=1, nodes=3, least=1)
    fleet.core.submit("aaaaa")
    assert placed_of(fleet.core).members == ()
    (machine,) = fleet.machines.values()
    await machine.poll()
    await machine.finish(JOB)
    await fleet.core.seen(JobEnded, JOB)
    assert not fleet.tools.ledger.use(machine.host.id).jobs
    await fleet.core.close(detach=True)


async def test_members_elsewhere_wait_for_the_copy_of_the_checkpoint(tmp_path: Path) -> None:
    fleet = await opened(tmp_path)
    origin = Origin(attempt=1, number=4, keeper_id="worker-1")
    job = fleet.core.submit("aaaaa", attempt=2, origin=origin, copy_comes=True)
    (waits,) = fleet.core.of(job)
    reason = "waits until the trial's checkpoint has been copied to the server, for all members"
    assert isinstance(waits, JobWaiting) and waits.reason == reason
    fleet.core.commit(CheckpointKept(job_id=JOB, number=4, digest="0" * 64, size=8))
    await fleet.core.seen(JobPlaced, job)
    for number, machine in enumerate(fleet.machines.values()):
        await machine.poll()
        (part,) = machine.ordered.values()
        assert (part.member, part.origin) == (number, origin)
        assert part.kept == KeptCopy(digest="0" * 64, size=8)
    never = fleet.core.submit("bbbbb", attempt=2, origin=origin)  # no copy is to be made
    assert isinstance(fleet.core.of(never)[-1], JobPlaced)
    await fleet.core.close(detach=True)


async def test_only_the_leader_is_heard(tmp_path: Path) -> None:
    fleet = await opened(tmp_path)
    fleet.core.submit("aaaaa")
    one, two = fleet.machines.values()
    for machine in (one, two):
        await machine.poll()
    await one.report({JOB: [payload(1.0)]})
    await two.report({MEMBER: [payload(9.0), payload(9.5)]})
    await two.finish(MEMBER)
    await fleet.core.seen(MemberEnded, JOB)
    metrics = [fact for fact in fleet.core.of(JOB) if isinstance(fact, MetricReported)]
    assert [metric.value for metric in metrics] == [1.0]
    (note,) = [fact for fact in fleet.core.of(JOB) if isinstance(fact, JobNoted)]
    assert note.note == "2 reports of member 1 are not recorded: only rank 0 reports."
    await fleet.core.close(detach=True)


async def started(directory: Path) -> Fleet:
    """Return a fleet with a gang whose members both run."""
    fleet = await opened(directory)
    fleet.core.submit("aaaaa")
    for machine in fleet.machines.values():
        await machine.poll()
    return fleet


async def test_members_are_told_when_all_are_there(tmp_path: Path) -> None:
    fleet = await started(tmp_path)
    service = fleet.core.service
    assert service is not None
    gathered = service.gather(JOB)
    assert gathered == GangGathered(job_id=JOB, orders=(2,))
    two = fleet.machines["worker-2"]
    await two.poll()
    assert "update" not in [kind for kind, _ in two.commands]
    fleet.core.commit(gathered)
    await two.poll()
    assert ("update", MEMBER) in two.commands
    await fleet.core.close(detach=True)


UNREACHED = {"cause": "infrastructure", "unreached": True}


async def test_machines_that_could_not_reach_each_other_get_no_gang_together(tmp_path: Path) -> None:
    fleet = await started(tmp_path)
    one, two = fleet.machines.values()
    await two.finish(MEMBER, code=2, **UNREACHED)
    ended = await fleet.core.seen(MemberEnded, JOB)
    assert isinstance(ended, MemberEnded) and ended.unreached
    await one.finish(JOB)
    fleet.core.submit("aaaaa", attempt=2)
    (waiting,) = [fact for fact in fleet.core.of("contract-aaaaa-2") if isinstance(fact, JobWaiting)]
    assert waiting.reason.startswith(
        "waits for 2 hosts that reach each other: worker-1 and worker-2 could not reach each other, and"
    )
    await fleet.core.close(detach=True)


async def test_other_machines_are_taken_after_members_could_not_reach_each_other(tmp_path: Path) -> None:
    fleet = await opened(tmp_path, machines=3)
    fleet.core.submit("aaaaa")
    one, two, _ = fleet.machines.values()
    for machine in (one, two):
        await machine.poll()
    await two.finish(MEMBER, code=2, **UNREACHED)
    await fleet.core.seen(MemberEnded, JOB)
    await one.finish(JOB)
    fleet.core.submit("aaaaa", attempt=2)
    (placed,) = [fact for fact in fleet.core.of("contract-aaaaa-2") if isinstance(fact, JobPlaced)]
    places = {placed.place.keeper_id, placed.members[0].place.keeper_id}
    assert "worker-3" in places and places != {"worker-1", "worker-2"}
    await fleet.core.close(detach=True)


async def test_a_stop_goes_to_the_leader_and_then_to_the_others(tmp_path: Path) -> None:
    fleet = await started(tmp_path)
    service = fleet.core.service
    assert service is not None
    assert fleet.core.cancel(JOB) == StopOrdered(job_id=JOB, cmd_seq=2, grace=GRACE)
    stopped = service.stop_members(JOB, (1,), grace=GRACE)
    assert stopped is not None and stopped.orders == ((1, 2),)
    fleet.core.commit(stopped)
    for machine in fleet.machines.values():
        await machine.poll()
    await fleet.core.until(lambda: len([e for e in fleet.core.of(JOB) if isinstance(e, MemberEnded)]) == 2)
    await fleet.core.close(detach=True)


async def test_a_member_is_not_stopped_before_its_start_is_committed(tmp_path: Path) -> None:
    """A stop before that would withdraw the start without a fact, and the trial would wait for ever."""
    fleet = await opened(tmp_path)
    fleet.core.submit("aaaaa", withhold=True)
    await fleet.core.offered(JOB)
    placed, service = fleet.core.withheld.pop(JOB), fleet.core.service
    assert service is not None and service.stop_members(JOB, (1,), grace=GRACE) is None
    fleet.core.commit(placed)
    stopped = service.stop_members(JOB, (1,), grace=GRACE)
    assert stopped is not None and stopped.orders == ((1, 2),)
    fleet.core.commit(stopped)
    two = fleet.machines["worker-2"]
    await two.poll()
    assert two.commands == [("start", MEMBER), ("stop", MEMBER)]
    await fleet.core.seen(MemberEnded, JOB)
    await fleet.core.close(detach=True)


async def test_a_stop_after_the_end_of_the_leader_needs_no_command(tmp_path: Path) -> None:
    fleet = await started(tmp_path)
    await fleet.machines["worker-1"].finish(JOB)
    await fleet.core.seen(MemberEnded, JOB)
    assert fleet.core.cancel(JOB) == StopOrdered(job_id=JOB, cmd_seq=0, grace=GRACE)
    await fleet.core.close(detach=True)


async def test_starts_that_are_not_committed_are_withdrawn_together(tmp_path: Path) -> None:
    fleet = await opened(tmp_path, trial_cpu_number=8)
    fleet.core.submit("aaaaa", withhold=True)
    await fleet.core.offered(JOB)
    assert fleet.core.cancel(JOB) == StopOrdered(job_id=JOB, cmd_seq=None, grace=GRACE)
    for machine in fleet.machines.values():
        await machine.poll()
        assert not machine.running and not fleet.tools.ledger.use(machine.host.id).jobs
    await fleet.core.close(detach=True)

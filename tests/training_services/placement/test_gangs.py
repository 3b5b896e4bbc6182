"""Placement of gangs: all members at once or none, and no two gangs that block each other."""

from __future__ import annotations

import random

import pytest

from training_services.base import JobRejected
from training_services.placement.gang import Between, GangWants, Refused, why_gang_waits
from training_services.placement.ledger import Capacity, Gpu, GpuReading, Host, HostLedger, Need, Waits

HOSTS = [Host(id=name, name=name) for name in ("ash", "elm", "oak")]
TWO = GangWants(least=2, most=2)


def made(*, gpus: int = 1, hosts: int = 3) -> HostLedger:
    """Return a ledger of hosts with so many idle GPUs each."""
    ledger = HostLedger()
    for host in HOSTS[:hosts]:
        ledger.told(host.id, Capacity(cpus=8, memory=16384))
        ledger.read(host.id, None, GpuReading(tuple(Gpu(index=index) for index in range(gpus))))
    return ledger


def need(job: str, experiment: str = "x", *, gpus: float | None = 1, arrival: int = 0) -> Need:
    return Need(experiment_id=experiment, job_id=f"{experiment}-{job}-1", gpus=gpus, arrival=arrival)


def together(one: Host, other: Host) -> None:
    """All hosts reach each other."""


def place(
    ledger: HostLedger, wanted: Need, wants: GangWants = TWO, hosts: int = 3, between: Between = together
) -> list[tuple[str, tuple[int, ...]]] | Refused:
    found = ledger.place_gang(wants, [(wanted, host) for host in HOSTS[:hosts]], between)
    return found if isinstance(found, Refused) else [(HOSTS[index].id, gpus) for index, gpus in found]


def held(ledger: HostLedger) -> dict[str, str]:
    return {job: host.id for host in HOSTS for job in ledger.use(host.id).held}


def test_each_member_gets_a_host_of_its_own() -> None:
    ledger = made()
    assert place(ledger, need("aaaaa")) == [("ash", (0,)), ("elm", (0,))]
    assert held(ledger) == {"x-aaaaa-1": "ash", "x-aaaaa-1.1": "elm"}


def test_a_gang_that_waits_holds_nothing() -> None:
    ledger = made()
    place(ledger, need("aaaaa"))
    refused = place(ledger, need("bbbbb"))
    assert isinstance(refused, Refused) and refused.free == 1
    assert set(held(ledger)) == {"x-aaaaa-1", "x-aaaaa-1.1"}
    said = why_gang_waits(TWO, refused, (), seats=3).reason
    assert said.startswith(
        "waits for 2 hosts with 1 GPU each: 1 is free; waits for 1 GPU on ash: GPU 0 is used"
    )


def test_a_gang_that_holds_several_parts_of_a_machine_is_named_once() -> None:
    ledger = made(hosts=1)
    for member in ("x-aaaaa-1", "x-aaaaa-1.1"):
        ledger.hold(Need(experiment_id="x", job_id=member, gpus=None, cpus=4), HOSTS[0], ())
    waits = ledger.place(Need(experiment_id="x", job_id="x-bbbbb-1", gpus=None, cpus=1), HOSTS[0])
    assert isinstance(waits, Waits) and waits.reason == (
        "waits for 1 CPU on ash, which has 8 CPUs: 8 CPUs are used by experiment x trial aaaaa"
    )


UP_TO_THREE = GangWants(least=2, most=3)


def test_a_gang_gets_as_many_members_as_have_room() -> None:
    ledger = made()
    ledger.place(need("small", "y"), HOSTS[0])
    assert place(ledger, need("aaaaa"), UP_TO_THREE) == [("elm", (0,)), ("oak", (0,))]
    ledger.release("ash", "y-small-1")
    for host, job in (("elm", "x-aaaaa-1"), ("oak", "x-aaaaa-1.1")):
        ledger.release(host, job)
    assert place(ledger, need("bbbbb"), UP_TO_THREE) == [("ash", (0,)), ("elm", (0,)), ("oak", (0,))]


def test_a_gang_without_room_for_the_least_members_waits_and_holds_nothing() -> None:
    ledger = made()
    for number, host in enumerate(HOSTS[:2]):
        ledger.place(need(f"small{number}", "y"), host)
    refused = place(ledger, need("aaaaa"), UP_TO_THREE)
    assert isinstance(refused, Refused) and set(held(ledger)) == {"y-small0-1", "y-small1-1"}
    said = why_gang_waits(UP_TO_THREE, refused, (), seats=3).reason
    assert said.startswith("waits for at least 2 hosts with 1 GPU each: 1 is free; waits for 1 GPU on ash")


def test_members_beside_each_other_are_as_many_as_have_room() -> None:
    ledger = made(gpus=3, hosts=1)
    ledger.place(need("small", "y"), HOSTS[0])
    wants = GangWants(least=1, most=4, same_host=True, alone=True)
    assert place(ledger, need("aaaaa"), wants, hosts=1) == [("ash", (1,)), ("ash", (2,))]
    refused = place(ledger, need("bbbbb"), wants, hosts=1)
    assert isinstance(refused, Refused)
    said = why_gang_waits(wants, refused, (), seats=1).reason
    assert said.startswith("waits for at least 1 place with 1 GPU each: 0 are free")


def test_members_may_share_a_host_if_that_is_allowed() -> None:
    ledger = made(gpus=3, hosts=1)
    wants = GangWants(least=3, most=3, same_host=True, alone=True)
    assert place(ledger, need("aaaaa"), wants, hosts=1) == [("ash", (0,)), ("ash", (1,)), ("ash", (2,))]
    refused = place(ledger, need("bbbbb"), wants, hosts=1)
    assert isinstance(refused, Refused)
    said = why_gang_waits(wants, refused, (), seats=1).reason
    assert said.startswith("waits for 3 places with 1 GPU each: 0 are free")


def test_small_jobs_of_other_experiments_leave_a_waiting_gang_its_hosts() -> None:
    """Experiment y runs on one host; its next jobs must not take the hosts that the gang of x waits for."""
    ledger = made(hosts=2)
    small = need("small", "y")
    assert ledger.place(small, HOSTS[0]) == (0,)
    assert isinstance(place(ledger, need("aaaaa"), hosts=2), Refused)
    assert not isinstance(ledger.place(need("later", "y"), HOSTS[1]), tuple)
    ledger.release("ash", small.job_id)
    assert not isinstance(ledger.place(need("later", "y"), HOSTS[0]), tuple)
    assert place(ledger, need("aaaaa"), hosts=2) == [("ash", (0,)), ("elm", (0,))]


def test_what_is_too_large_for_the_hosts_is_rejected() -> None:
    ledger = made()
    asked = need("aaaaa", gpus=None)
    large = Need(experiment_id="x", job_id=asked.job_id, gpus=None, cpus=16)
    ledger.told("ash", Capacity(cpus=32, memory=16384))
    refused = place(ledger, large)
    assert isinstance(refused, Refused)
    with pytest.raises(JobRejected) as raised:
        why_gang_waits(TWO, refused, (), seats=3)
    assert str(raised.value) == (
        "The trial needs 2 hosts with 16 CPUs each, but only 1 of its 3 machines is large enough. The trial "
        "asks for 16 CPUs, but elm has 8."
    )


def test_members_that_do_not_fit_on_the_only_host_together_are_rejected() -> None:
    ledger = made(hosts=1)
    large = Need(experiment_id="x", job_id="x-aaaaa-1", gpus=None, cpus=6)
    with pytest.raises(JobRejected) as raised:
        place(ledger, large, GangWants(least=2, most=2, same_host=True, alone=True), hosts=1)
    assert "asks for 12 CPUs, but ash has 8" in str(raised.value)


def test_too_few_machines_are_waited_for() -> None:
    refused = place(made(hosts=1), need("aaaaa"), hosts=1)
    assert isinstance(refused, Refused)
    said = why_gang_waits(TWO, refused, (), seats=1).reason
    assert said == "waits for 2 hosts: the experiment has 1 machine left. See: nnictl machine add"


def test_a_bound_leader_is_placed_first_or_nobody() -> None:
    ledger = made()
    ledger.place(need("small", "y"), HOSTS[0])
    assert isinstance(place(ledger, need("aaaaa"), GangWants(least=2, most=2, bound=True)), Refused)
    ledger.withdraw("x")
    assert place(ledger, need("bbbbb", "z")) == [("elm", (0,)), ("oak", (0,))]


@pytest.mark.parametrize("seed", range(20))
def test_gangs_of_two_experiments_never_block_each_other(seed: int) -> None:
    """Both always ask again; each gets its hosts in the end, and nothing is held in between."""
    draw = random.Random(seed)
    ledger = made()
    running: list[str] = []
    placed = {"x": 0, "y": 0}
    for turn in range(200):
        name = draw.choice("xy")
        found = place(ledger, need(f"t{turn:04}", name, arrival=turn))
        members = [job for job in held(ledger) if job not in running]
        if isinstance(found, Refused):
            assert not members
        else:
            assert len(members) == 2
            placed[name] += 1
            running += members
        if running and draw.random() < 0.7:
            whole = draw.choice([job for job in running if "." not in job])
            for job in [each for each in running if each.partition(".")[0] == whole]:
                ledger.release(held(ledger)[job], job)
                running.remove(job)
    assert min(placed.values()) > 20

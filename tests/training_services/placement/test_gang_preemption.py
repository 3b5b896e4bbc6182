"""Room for waiting gangs: gangs give up members, jobs of a lower priority are stopped, or nothing happens."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from training_services.base import job_of_member, member_id_of
from training_services.placement.gang import GangWants, Refused
from training_services.placement.ledger import HostLedger
from training_services.placement.needs import Capacity, Gpu, GpuReading, Host, Need, Waits
from training_services.placement.preemption import Preemptible
from training_services.placement.spares import Shrinkable

HOSTS = [Host(id=name, name=name) for name in ("ash", "elm", "oak", "fir")]
WAITS = Waits("waits")
TWO = GangWants(least=2, most=2)
WIDE = GangWants(least=2, most=4)


@dataclass
class Site:
    """Four machines with two GPUs each, and experiments whose jobs are placed by the test."""

    ledger: HostLedger = field(default_factory=HostLedger)
    stopped: list[str] = field(default_factory=list)
    shrunk: list[tuple[str, tuple[int, ...], str]] = field(default_factory=list)
    fixed: set[str] = field(default_factory=set)  # jobs that can neither be stopped nor give up members

    def __post_init__(self) -> None:
        for host in HOSTS:
            self.ledger.told(host.id, Capacity(8, 1024))
            self.ledger.read(host.id, None, GpuReading((Gpu(index=0), Gpu(index=1))))

    def experiment(
        self, name: str, priority: int = 0, *, preemptible: bool = False, least: int | None = None
    ) -> None:
        self.ledger.prioritise(name, priority)
        self.ledger.listen(name, lambda hosts: None, experiment_id=name)
        if preemptible:
            self.ledger.preempt(name, Preemptible(self._can, lambda job_id, by: self.stopped.append(job_id)))
        if least is not None:
            gangs = Shrinkable(least, self._can, lambda *order: self.shrunk.append(order))
            self.ledger.preemption.spares.allow(name, gangs)

    def _can(self, job_id: str) -> bool:
        return job_of_member(job_id)[0] not in self.fixed

    def runs(self, job: str, host: Host, gpus: float = 2) -> None:
        assert isinstance(self.ledger.place(need(job, gpus), host), tuple)

    def gang_runs(self, job: str, wants: GangWants) -> list[str]:
        """Place a gang. Return its machines."""
        found = self.ledger.place_gang(wants, [(need(job), host) for host in HOSTS], None)
        assert not isinstance(found, Refused)
        hosts = [HOSTS[index].id for index, _ in found]
        members = {member_id_of(job, number): host for number, host in enumerate(hosts)}
        self.ledger.preemption.spares.placed(need(job).experiment_id, job, members)
        return hosts

    def waits(self, job: str, wants: GangWants = TWO, hosts: list[Host] = HOSTS, *, gpus: float = 2) -> str:
        """Ask for places of a gang in vain, and make room. Return why it waits."""
        asked = [(need(job, gpus), host) for host in hosts]
        assert isinstance(self.ledger.place_gang(wants, asked, None), Refused)
        name = need(job).experiment_id
        return self.ledger.gang_preemption.make_room(name, wants, asked, None, WAITS).reason

    def small_waits(self, job: str, host: Host) -> str:
        assert isinstance(self.ledger.place(need(job), host), Waits)
        return self.ledger.preemption.make_room(need(job).experiment_id, 0, WAITS, jobs=1).reason


def need(job: str, gpus: float = 2) -> Need:
    return Need(experiment_id=job.split("-")[0], job_id=job, gpus=gpus)


@pytest.fixture
def site() -> Site:
    site = Site()
    site.experiment("low", preemptible=True)
    site.experiment("high", 2)
    return site


def test_jobs_are_stopped_on_as_many_machines_as_the_gang_needs(site: Site) -> None:
    for number, host in enumerate(HOSTS):
        site.runs(f"low-t{number}-1", host)
    said = "waits; trials of experiment low are being stopped to make room"
    assert site.waits("high-x-1") == said
    assert site.stopped == ["low-t0-1", "low-t1-1"]
    assert site.waits("high-x-1") == said and len(site.stopped) == 2


def test_machines_with_few_jobs_to_stop_come_first(site: Site) -> None:
    for host in HOSTS[:2]:
        site.runs(f"low-a{host.id}-1", host, 1)
        site.runs(f"low-b{host.id}-1", host, 1)
    for host in HOSTS[2:]:
        site.runs(f"low-c{host.id}-1", host)
    site.waits("high-x-1")
    assert sorted(site.stopped) == ["low-cfir-1", "low-coak-1"]


def test_nothing_is_stopped_if_not_all_members_would_have_room(site: Site) -> None:
    site.experiment("other")  # may not be stopped
    site.runs("low-a-1", HOSTS[0])
    for host in HOSTS[1:]:
        site.runs(f"other-{host.id}-1", host)
    assert site.waits("high-x-1") == "waits"
    assert site.stopped == []


def test_a_machine_with_room_is_used(site: Site) -> None:
    for number, host in enumerate(HOSTS[:3]):
        site.runs(f"low-t{number}-1", host)
    site.waits("high-x-1")
    assert len(site.stopped) == 1


@pytest.mark.parametrize(("members", "stopped"), [(2, ["low-a-1"]), (3, [])])
def test_a_machine_with_room_for_some_of_the_members_gets_room_for_the_others(
    site: Site, members: int, stopped: list[str]
) -> None:
    site.runs("low-a-1", HOSTS[0], 1)
    site.waits("high-x-1", GangWants(least=members, most=4, same_host=True), HOSTS[:1], gpus=1)
    assert site.stopped == stopped


def test_equal_priorities_are_left_alone(site: Site) -> None:
    for number, host in enumerate(HOSTS):
        site.runs(f"low-t{number}-1", host)
    site.ledger.prioritise("high", 0)
    assert site.waits("high-x-1") == "waits"
    assert site.stopped == []


def test_a_gang_is_stopped_as_a_whole_and_once(site: Site) -> None:
    site.gang_runs("low-g-1", GangWants(least=4, most=4))
    site.waits("high-x-1")
    assert site.stopped == ["low-g-1"]


def test_members_are_given_up_before_anybody_is_stopped(site: Site) -> None:
    site.experiment("wide", 1, preemptible=True, least=2)
    site.gang_runs("wide-g-1", GangWants(least=2, most=3))
    site.runs("low-a-1", HOSTS[3])
    said = site.waits("high-x-1")
    assert site.shrunk == [("wide-g-1", (2,), "high")] and site.stopped == ["low-a-1"]
    assert said == (
        "waits; trials of experiment low are being stopped, and experiment wide trial g continues with fewer "
        "members to make room"
    )


def test_a_gang_of_an_equal_priority_gives_up_members_down_to_the_least_number(site: Site) -> None:
    site.experiment("wide", 0, least=2)
    site.experiment("peer")
    assert len(site.gang_runs("wide-g-1", WIDE)) == 4
    said = site.waits("peer-x-1")
    assert site.shrunk == [("wide-g-1", (2, 3), "peer")]
    assert said == "waits; experiment wide trial g continues with fewer members to make room"
    assert site.waits("peer-x-1") == said and len(site.shrunk) == 1


@pytest.mark.parametrize("wants", [GangWants(least=3, most=3), GangWants(least=3, most=4)])
def test_a_gang_gives_up_nothing_if_that_is_not_enough(site: Site, wants: GangWants) -> None:
    site.experiment("wide", 0, least=2)
    site.experiment("peer")
    site.gang_runs("wide-g-1", WIDE)
    assert site.waits("peer-x-1", wants) == "waits"
    assert site.shrunk == []


def test_a_gang_of_a_higher_priority_or_without_a_checkpoint_gives_up_nothing(site: Site) -> None:
    site.experiment("wide", 1, least=2)
    site.experiment("peer")
    site.gang_runs("wide-g-1", WIDE)
    assert site.waits("peer-x-1") == "waits"
    site.ledger.prioritise("wide", 0)
    site.fixed.add("wide-g-1")
    assert site.waits("peer-x-1") == "waits"
    site.fixed.clear()
    site.waits("peer-x-1")
    assert len(site.shrunk) == 1


def test_another_trial_of_the_same_experiment_gets_room(site: Site) -> None:
    site.experiment("wide", 0, least=2)
    site.gang_runs("wide-g-1", WIDE)
    site.waits("wide-x-1", WIDE)
    assert site.shrunk == [("wide-g-1", (2, 3), "wide")]


def test_a_single_job_gets_the_place_of_a_member_on_its_machine(site: Site) -> None:
    site.experiment("wide", 0, least=2)
    site.experiment("peer")
    hosts = site.gang_runs("wide-g-1", WIDE)
    site.small_waits("peer-x-1", HOSTS[1])
    assert site.shrunk == [("wide-g-1", (hosts.index("elm"),), "peer")]


def test_a_single_job_does_not_get_the_place_of_the_leader(site: Site) -> None:
    site.experiment("wide", 0, least=2)
    site.experiment("peer")
    hosts = site.gang_runs("wide-g-1", WIDE)
    leader = next(host for host in HOSTS if host.id == hosts[0])
    assert site.small_waits("peer-x-1", leader) == "waits"
    assert site.shrunk == []


def test_the_next_attempt_is_known_before_others_get_more_than_the_least_number(site: Site) -> None:
    site.experiment("wide", 0, least=2)
    site.experiment("peer")
    site.gang_runs("wide-g-1", WIDE)
    site.waits("peer-x-1")
    spares = site.ledger.preemption.spares
    assert site.ledger.is_contended("peer", HOSTS)
    for heard in (False, True):
        for number, host in enumerate(HOSTS):
            site.ledger.release(host.id, member_id_of("wide-g-1", number), heard=heard)
    assert spares.is_shrinking
    assert [bool(site.ledger.use(host.id).held) for host in HOSTS] == [True, True, False, False]
    site.ledger.free_kept("wide-g-2")
    assert not spares.is_shrinking and not any(site.ledger.use(host.id).held for host in HOSTS)


def test_places_that_are_kept_come_free_when_the_experiment_is_closed(site: Site) -> None:
    site.experiment("wide", 0, least=2)
    site.experiment("peer")
    site.gang_runs("wide-g-1", WIDE)
    site.waits("peer-x-1")
    for number, host in enumerate(HOSTS):
        site.ledger.release(host.id, member_id_of("wide-g-1", number))
    site.ledger.ignore("wide")
    assert not any(site.ledger.use(host.id).held for host in HOSTS)


@pytest.mark.parametrize("seed", range(50))
def test_whatever_is_stopped_gives_the_gang_room_and_none_of_it_is_left_out(seed: int) -> None:
    draw = random.Random(seed)
    site = Site()
    for name in ("a", "b"):
        site.experiment(name, draw.randrange(3), preemptible=draw.random() < 0.8)
    site.experiment("wide", draw.randrange(3), least=draw.choice([1, 2]), preemptible=draw.random() < 0.3)
    site.experiment("high", 2)
    if draw.random() < 0.7:
        site.gang_runs("wide-g-1", GangWants(least=1, most=draw.choice([2, 3, 4])))
    for number in range(draw.randrange(10)):
        name, host, gpus = draw.choice("ab"), draw.choice(HOSTS), draw.choice([1, 2])
        if isinstance(site.ledger.place(need(f"{name}-t{number}-1", gpus), host), Waits):
            site.ledger.withdraw(name)
    wants = GangWants(least=(least := draw.choice([1, 2, 3])), most=draw.choice([least, 4]))
    asked = [(need("high-x-1"), host) for host in HOSTS]
    if not isinstance(site.ledger.place_gang(wants, asked, None), Refused):
        return
    site.ledger.gang_preemption.make_room("high", wants, asked, None, WAITS)
    gone = [each for each in _held(site) if _goes(site, each)]
    assert bool(gone) == _has_room(site, wants.least, gone)
    for left in gone:
        if job_of_member(left)[0] not in site.stopped or not left.startswith("wide-"):  # else others go, too
            assert not _has_room(site, wants.least, [each for each in gone if each != left])


def _held(site: Site) -> list[str]:
    return [job_id for host in HOSTS for job_id in site.ledger.use(host.id).held]


def _has_room(site: Site, least: int, gone: list[str]) -> bool:
    """Return whether so many machines are empty without these jobs."""
    return sum(not set(site.ledger.use(host.id).held) - set(gone) for host in HOSTS) >= least


def _goes(site: Site, job_id: str) -> bool:
    whole, number = job_of_member(job_id)
    given_up = any(whole == job and number in leaving for job, leaving, _ in site.shrunk)
    return given_up or whole in site.stopped

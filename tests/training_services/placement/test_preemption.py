"""Tests of running jobs that are stopped for waiting jobs of experiments with a higher priority."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.training_services.fleet import FakeMachine, Fleet
from training_services.base import JobEnded, JobPlaced, JobWaiting, Origin, PreemptionWanted
from training_services.placement import preemption
from training_services.placement.ledger import HostLedger
from training_services.placement.needs import Capacity, Gpu, GpuReading, Host, Need, Waits
from training_services.placement.preemption import Preemptible

WAITS = Waits("waits")
M1, M2 = Host(id="m1", name="m1"), Host(id="m2", name="m2")


@dataclass
class Site:
    """Machines of 8 CPUs, and experiments whose jobs are placed by the test."""

    ledger: HostLedger = field(default_factory=HostLedger)
    stopped: list[tuple[str, str]] = field(default_factory=list)  # job, and the experiment that needs it
    silent: set[str] = field(default_factory=set)  # jobs whose keeper is silent

    def __post_init__(self) -> None:
        for host in (M1, M2):
            self.ledger.told(host.id, Capacity(8, 1024))

    def experiment(self, name: str, priority: int = 0, *, preemptible: bool = True) -> None:
        self.ledger.prioritise(name, priority)
        self.ledger.listen(name, lambda hosts: None, experiment_id=name)
        if preemptible:
            self.ledger.preempt(name, Preemptible(self.can_stop, self.stop))

    def can_stop(self, job_id: str) -> bool:
        return job_id not in self.silent

    def stop(self, job_id: str, by: str) -> None:
        self.stopped.append((job_id, by))

    def runs(self, job: str, cpus: float, host: Host = M1) -> None:
        assert self.ledger.place(need(job, cpus), host) == ()

    def waits(self, job: str, cpus: float, *hosts: Host, jobs: int = 1) -> str:
        """Ask the machines for places in vain, and make room. Return why the job waits."""
        name, _, _ = job.split("-")
        for host in hosts or (M1,):
            assert isinstance(self.ledger.place(need(job, cpus), host), Waits)
        return self.ledger.preemption.make_room(name, 0, WAITS, jobs=jobs).reason

    def take_stopped(self) -> list[str]:
        jobs, self.stopped = [job.split("-")[1] for job, _ in self.stopped], []
        return jobs


def need(job: str, cpus: float, gpus: float | None = None) -> Need:
    return Need(experiment_id=job.split("-")[0], job_id=job, gpus=gpus, cpus=cpus)


@pytest.fixture
def site() -> Site:
    site = Site()
    site.experiment("low")
    site.experiment("high", 2, preemptible=False)
    return site


def test_the_job_that_was_placed_last_makes_room(site: Site) -> None:
    for name in ("a", "b", "c", "d"):
        site.runs(f"low-{name}-1", 2)
    assert site.waits("high-x-1", 2) == ("waits; trials of experiment low are being stopped to make room")
    assert site.stopped == [("low-d-1", "high")]


def test_no_more_jobs_are_stopped_than_necessary(site: Site) -> None:
    site.runs("low-a-1", 2)
    site.runs("low-b-1", 4)
    site.runs("low-c-1", 1)  # 1 CPU is free
    site.waits("high-x-1", 4)
    assert site.take_stopped() == ["b"]  # c was placed later, but its end is of no use
    for _ in range(3):
        site.waits("high-x-1", 4)
    assert site.take_stopped() == []
    site.ledger.release("m1", "low-b-1")
    assert site.ledger.place(need("high-x-1", 4), M1) == ()


def test_the_lowest_priority_comes_first(site: Site) -> None:
    site.experiment("middle", 1)
    site.runs("low-a-1", 4)
    site.runs("middle-b-1", 4)
    site.waits("high-x-1", 4)
    assert site.take_stopped() == ["a"]
    site.waits("high-x-1", 4, jobs=2)
    assert site.take_stopped() == ["b"]


def test_equal_or_higher_priorities_are_left_alone(site: Site) -> None:
    site.experiment("equal", 2)
    site.experiment("higher", 3)
    site.runs("equal-a-1", 4)
    site.runs("higher-b-1", 4)
    assert site.waits("high-x-1", 4) == "waits"
    site.experiment("equal", 1)
    site.waits("high-x-1", 4)
    assert site.take_stopped() == ["a"]


def test_experiments_that_do_not_allow_it_are_left_alone(site: Site) -> None:
    site.experiment("other", -1, preemptible=False)
    site.runs("other-a-1", 5)
    site.runs("low-b-1", 3)
    assert site.waits("high-x-1", 4) == "waits"  # the end of b would not be enough
    assert site.waits("high-x-1", 3) != "waits"
    assert site.take_stopped() == ["b"]


def test_jobs_that_end_anyway_are_enough(site: Site) -> None:
    site.runs("low-a-1", 4)
    site.runs("low-b-1", 4)
    site.ledger.preemption.stopping("m1", "low-a-1")  # by a user
    assert site.waits("high-x-1", 4) == "waits"
    site.waits("high-x-1", 4, jobs=2)
    assert site.take_stopped() == ["b"]


def test_room_is_made_for_each_waiting_job(site: Site) -> None:
    for name in ("a", "b", "c", "d"):
        site.runs(f"low-{name}-1", 2)
    site.waits("high-x-1", 2, jobs=3)
    assert site.take_stopped() == ["d", "c", "b"]
    for name in ("d", "c"):
        site.ledger.release("m1", f"low-{name}-1")
        assert site.ledger.place(need(f"high-{name}-1", 2), M1) == ()
    site.waits("high-y-1", 2, jobs=2)  # one job waits that is new
    assert site.take_stopped() == ["a"]


def test_a_large_job_makes_room_for_several(site: Site) -> None:
    site.runs("low-a-1", 4)
    site.runs("low-b-1", 4)
    site.waits("high-x-1", 2, jobs=2)
    assert site.take_stopped() == ["b"]


def test_the_machine_with_the_fewest_victims_is_chosen(site: Site) -> None:
    for name in ("a", "b"):
        site.runs(f"low-{name}-1", 4, M1)
    site.runs("low-c-1", 8, M2)
    site.waits("high-x-1", 8, M1, M2)
    assert site.take_stopped() == ["c"]


def test_a_few_machines_are_compared(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemption, "MOST_COMPARED", 1)
    for name in ("a", "b"):
        site.runs(f"low-{name}-1", 4, M1)
    site.runs("low-c-1", 8, M2)
    site.waits("high-x-1", 8, M1, M2)
    assert site.take_stopped() == ["b", "a"]


def test_room_for_many_jobs_is_made_step_by_step(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemption, "MOST_AT_ONCE", 2)
    for name in ("a", "b", "c", "d"):
        site.runs(f"low-{name}-1", 2)
    site.waits("high-x-1", 2, jobs=3)
    assert site.take_stopped() == ["d", "c"]
    site.ledger.release("m1", "low-d-1")
    site.runs("high-x-1", 2)
    site.waits("high-y-1", 2, jobs=2)
    assert site.take_stopped() == ["b"]


def test_only_jobs_on_the_right_gpu_are_stopped(site: Site) -> None:
    site.ledger.read("m1", "low", GpuReading((Gpu(index=0), Gpu(index=1))))
    for name in ("a", "b"):
        assert site.ledger.place(need(f"low-{name}-1", 0, gpus=1), M1) == ((0,) if name == "a" else (1,))
    first = Host(id="m1", name="m1", gpu_indices=(0,))
    assert isinstance(site.ledger.place(need("high-x-1", 0, gpus=1), first), Waits)
    site.ledger.preemption.make_room("high", 0, WAITS, jobs=1)
    assert site.take_stopped() == ["a"]


def test_room_that_others_have_taken_is_made_again(site: Site) -> None:
    site.experiment("highest", 3)
    site.runs("low-a-1", 4)
    site.runs("low-b-1", 4)
    site.waits("high-x-1", 4)
    assert site.take_stopped() == ["b"]
    site.ledger.release("m1", "low-b-1")
    site.runs("highest-y-1", 4)
    site.waits("high-x-1", 4)
    assert site.take_stopped() == ["a"]


def test_a_job_that_waits_no_longer_stops_nobody(site: Site) -> None:
    site.runs("low-a-1", 4)
    site.runs("low-b-1", 4)
    site.waits("high-x-1", 4, jobs=2)
    assert site.take_stopped() == ["b", "a"]
    site.ledger.withdraw("high")
    assert site.ledger.preemption.make_room("high", 0, WAITS, jobs=1) == WAITS
    told = site.waits("high-y-1", 4)  # what is being freed suffices
    assert told == "waits; trials of experiment low are being stopped to make room"
    assert site.take_stopped() == []


def test_a_silent_machine_is_left_alone(site: Site) -> None:
    site.runs("low-a-1", 8)
    site.silent.add("low-a-1")
    assert site.waits("high-x-1", 8) == "waits"
    site.silent.clear()
    site.waits("high-x-1", 8)
    assert site.take_stopped() == ["a"]


def test_the_room_of_an_ended_job_is_offered_to_its_experiment_first(site: Site) -> None:
    offers: list[str] = []
    site.ledger.listen("low", lambda hosts: offers.append("low"), experiment_id="low")
    site.runs("high-x-1", 8)
    site.waits("low-a-1", 8)
    assert site.ledger.release("m1", "high-x-1", heard=False)
    site.waits("low-a-1", 8)
    site.runs("high-y-1", 8)  # comes with the commit of the end
    offers.clear()
    assert not site.ledger.release("m1", "high-x-1") and offers
    site.waits("low-a-1", 8)
    site.ledger.release("m1", "high-y-1", heard=False)
    site.ledger.release("m1", "high-y-1")
    site.runs("low-a-1", 8)


def test_nothing_is_kept_for_an_experiment_that_is_closed(site: Site) -> None:
    site.runs("high-x-1", 8)
    site.waits("low-a-1", 8)
    site.ledger.release("m1", "high-x-1", heard=False)
    offers: list[str] = []
    site.ledger.listen("low", lambda hosts: offers.extend(hosts or ()), experiment_id="low")
    site.ledger.ignore("high")
    assert offers == ["m1"]
    site.runs("low-a-1", 8)


def test_an_experiment_that_is_closed_is_not_waited_for(site: Site) -> None:
    site.experiment("middle", 1)
    site.runs("low-a-1", 4)
    site.runs("middle-b-1", 4)
    site.waits("high-x-1", 4)
    assert site.take_stopped() == ["a"]
    site.ledger.ignore("low")  # its jobs run on
    site.waits("high-x-1", 4)
    assert site.take_stopped() == ["b"]


def test_an_experiment_that_is_opened_again_makes_room(site: Site) -> None:
    site.runs("low-a-1", 8)
    site.waits("high-x-1", 8)
    assert site.take_stopped() == ["a"]
    site.ledger.ignore("low")  # before the stop was committed
    assert site.waits("high-x-1", 8) == "waits"
    site.experiment("low")
    site.waits("high-x-1", 8)
    assert site.take_stopped() == ["a"]


# ---- with queues and keepers ------------------------------------------------------------------------------


@dataclass
class Shared:
    """Two experiments on one machine of 8 CPUs, each of whose jobs needs 4 CPUs."""

    low: Fleet
    high: Fleet

    async def obey(self) -> list[str]:
        """Stop the jobs of ``low`` that have to make room, as the core does. Return their trials."""
        core = self.low.core
        known = {fact.job_id for fact in core.facts if isinstance(fact, JobEnded)}
        wanted = [fact for fact in core.facts if isinstance(fact, PreemptionWanted)]
        jobs = [fact.job_id for fact in wanted if fact.job_id not in known]
        for job_id in jobs:
            core.cancel(job_id)
        await self.low.machines["m"].poll()
        for job_id in jobs:
            await core.seen(JobEnded, job_id)
        return [job_id.split("-")[1] for job_id in jobs]


def runs(fleet: Fleet, job_id: str) -> bool:
    return any(isinstance(fact, JobPlaced) for fact in fleet.core.of(job_id))


def reason(fleet: Fleet, job_id: str) -> str:
    last = fleet.core.of(job_id)[-1]
    assert isinstance(last, JobWaiting), last
    return last.reason


async def wanted(fleet: Fleet, *trials: str) -> None:
    for trial in trials:
        await fleet.core.seen(PreemptionWanted, f"low-{trial}-1")
    assert sum(isinstance(fact, PreemptionWanted) for fact in fleet.core.facts) == len(trials)


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Shared]:
    low = Fleet(tmp_path, FakeMachine("m"), experiment_id="low", trial_cpu_number=4, preemptible=True)
    high = Fleet(tmp_path, FakeMachine("m"), experiment_id="high", trial_cpu_number=4, priority=1)
    high.tools, high.hub = low.tools, low.hub
    for each in (low, high):
        await each.open()
    yield Shared(low, high)
    for each in (low, high):
        await each.core.close(detach=True)


async def test_the_next_attempt_waits_behind_the_higher_priority(shared: Shared) -> None:
    low, high = shared.low, shared.high
    for trial in ("aaaaa", "bbbbb"):
        low.core.submit(trial)
    jobs = [high.core.submit(trial) for trial in ("xxxxx", "yyyyy")]
    assert reason(high, jobs[0]).endswith("; trials of experiment low are being stopped to make room")
    await wanted(low, "bbbbb", "aaaaa")
    await low.machines["m"].poll()
    assert await shared.obey() == ["bbbbb", "aaaaa"]
    for job_id in jobs:
        await high.core.seen(JobPlaced, job_id)
    again = low.core.submit("bbbbb", attempt=2)
    assert not runs(low, again)
    await high.machines["m"].poll()
    await high.machines["m"].finish(jobs[0])
    await low.core.seen(JobPlaced, again)


async def test_a_job_that_waits_for_its_checkpoint_gets_room(shared: Shared) -> None:
    low, high = shared.low, shared.high
    for trial in ("aaaaa", "bbbbb"):
        low.core.submit(trial)
    origin = Origin(attempt=1, number=1, keeper_id="m")
    jobs = [high.core.submit(trial, attempt=2, origin=origin) for trial in ("xxxxx", "yyyyy")]
    for job_id in jobs:
        assert reason(high, job_id).endswith("; trials of experiment low are being stopped to make room")
    await wanted(low, "bbbbb", "aaaaa")
    await low.machines["m"].poll()
    await shared.obey()
    for job_id in jobs:
        await high.core.seen(JobPlaced, job_id)


async def test_a_restarted_server_decides_again(shared: Shared) -> None:
    low, high = shared.low, shared.high
    for trial in ("aaaaa", "bbbbb"):
        low.core.submit(trial)
    await low.machines["m"].poll()
    low.core.commits = False  # the server crashes before it commits
    job_id = high.core.submit("xxxxx")
    await restart(shared)
    await wanted(low, "bbbbb")
    low.core.cancel("low-bbbbb-1")
    await restart(shared)  # the stop is committed now, so that no other job has to make room
    assert not any(isinstance(fact, PreemptionWanted) for fact in low.core.taken)
    await low.machines["m"].poll()
    await high.core.seen(JobPlaced, job_id)
    await wanted(low, "bbbbb")


async def restart(shared: Shared) -> None:
    """Close both services, and open them again with an empty ledger, as after a crash of the server."""
    for each in (shared.low, shared.high):
        await each.core.close(detach=True)
    ledger = HostLedger()
    ledger.expect(["low", "high"])
    for each in (shared.low, shared.high):
        object.__setattr__(each.tools, "ledger", ledger)
        await each.core.open(each.make())
    for each in (shared.low, shared.high):
        await each.machines["m"].speak(each.hub)

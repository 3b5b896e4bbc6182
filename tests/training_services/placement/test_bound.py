"""Tests of jobs that wait for the machine that has their checkpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.training_services.fleet import FakeMachine, Fleet, named
from training_services.base import JobPlaced, JobRejected, JobWaiting, Origin
from training_services.placement import bound

HAS_IT = "; worker-1 has the trial's checkpoint"


def continues(fleet: Fleet, trial: str, machine: str) -> str:
    """Submit a job that continues from a checkpoint on this machine, and return its id."""
    origin = Origin(attempt=1, number=1, keeper_id=machine, position=2, reports=1)
    return fleet.core.submit(trial, attempt=2, origin=origin)


def reason(fleet: Fleet, job_id: str) -> str:
    last = fleet.core.of(job_id)[-1]
    assert isinstance(last, JobWaiting), last
    return last.reason


def is_placed(fleet: Fleet, job_id: str) -> bool:
    return any(isinstance(fact, JobPlaced) for fact in fleet.core.of(job_id))


async def finish(fleet: Fleet, name: str, job_id: str) -> None:
    await fleet.machines[name].poll()
    await fleet.machines[name].finish(job_id)


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    """One experiment on two machines, each of which has room for one trial at a time."""
    fleet = Fleet(tmp_path, *named(2), trial_cpu_number=8)
    await fleet.open()
    yield fleet
    await fleet.core.close(detach=True)


async def test_a_job_goes_to_the_machine_that_has_its_checkpoint(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, *named(3), trial_cpu_number=1)
    await fleet.open()
    for number in range(4):
        continues(fleet, f"t{number:04}", "worker-2")
    assert [len(fleet.jobs(name)) for name in fleet.machines] == [0, 4, 0]
    assert len(fleet.jobs("worker-2")) == 4
    await fleet.core.close(detach=True)


async def test_a_busy_machine_is_waited_for_while_others_are_free(fleet: Fleet) -> None:
    running = continues(fleet, "aaaa1", "worker-1")
    waiting = continues(fleet, "bbbb2", "worker-1")
    assert reason(fleet, waiting) == (
        "waits for 8 CPUs on worker-1, which has 8 CPUs: 8 CPUs are used by experiment contract trial "
        f"aaaa1{HAS_IT}"
    )
    elsewhere = fleet.core.submit("cccc3")
    assert fleet.jobs("worker-2") == ["cccc3"] and is_placed(fleet, elsewhere)
    await finish(fleet, "worker-1", running)
    assert fleet.jobs("worker-1") == ["bbbb2"] and is_placed(fleet, waiting)


async def test_a_job_with_a_checkpoint_comes_before_those_that_can_go_anywhere(fleet: Fleet) -> None:
    running, other = fleet.core.submit("aaaa1"), fleet.core.submit("bbbb2")
    first = fleet.core.submit("cccc3")
    machine = "worker-1" if fleet.jobs("worker-1") == ["aaaa1"] else "worker-2"
    bound_job = continues(fleet, "dddd4", machine)
    await finish(fleet, machine, running)
    assert fleet.jobs(machine) == ["dddd4"] and is_placed(fleet, bound_job)
    assert not is_placed(fleet, first)
    await finish(fleet, "worker-2" if machine == "worker-1" else "worker-1", other)
    assert is_placed(fleet, first)


async def test_jobs_of_one_machine_are_placed_in_order(fleet: Fleet) -> None:
    jobs = [continues(fleet, trial, "worker-1") for trial in ("aaaa1", "bbbb2", "cccc3")]
    assert reason(fleet, jobs[1]) == reason(fleet, jobs[2])
    await finish(fleet, "worker-1", jobs[0])
    assert fleet.jobs("worker-1") == ["bbbb2"]
    assert "8 CPUs are used by experiment contract trial bbbb2" in reason(fleet, jobs[2])
    await finish(fleet, "worker-1", jobs[1])
    assert fleet.jobs("worker-1") == ["cccc3"]


async def test_only_the_first_waiting_jobs_of_a_machine_hear_a_new_reason(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bound, "FIRST", 2)
    jobs = [continues(fleet, f"t{number:04}", "worker-1") for number in range(5)]
    await finish(fleet, "worker-1", jobs[0])
    told = [job_id for job_id in jobs[2:] if "t0001; " in reason(fleet, job_id)]
    assert told == jobs[2:4]


async def test_a_machine_that_is_away_is_waited_for_and_comes_back(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, *named(2), trial_cpu_number=8)
    fleet.machines["worker-2"].unreachable = "no route to host"
    await fleet.open("worker-1")
    waiting = continues(fleet, "aaaa1", "worker-2")
    assert reason(fleet, waiting).startswith("waits until nnimgr's keeper on worker-2 has started")
    assert reason(fleet, waiting).endswith(HAS_IT.replace("worker-1", "worker-2"))
    elsewhere = fleet.core.submit("bbbb2")
    assert fleet.jobs("worker-1") == ["bbbb2"] and is_placed(fleet, elsewhere)
    fleet.machines["worker-2"].unreachable = None
    await fleet.machines["worker-2"].speak(fleet.hub)
    await fleet.core.seen(JobPlaced, waiting)
    assert fleet.jobs("worker-2") == ["aaaa1"]
    await fleet.core.close(detach=True)


async def test_a_machine_that_the_experiment_does_not_have_is_waited_for(fleet: Fleet) -> None:
    waiting = continues(fleet, "aaaa1", "worker-9")
    assert reason(fleet, waiting) == (
        "waits until the trial's checkpoint has been copied from its machine, which takes no more trials"
    )
    assert is_placed(fleet, fleet.core.submit("bbbb2"))


async def test_a_job_that_its_machine_can_never_run_is_rejected(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, FakeMachine("small", cpus=4), FakeMachine("large", cpus=8), trial_cpu_number=8)
    await fleet.open()
    with pytest.raises(JobRejected):
        continues(fleet, "aaaa1", "small")
    await fleet.core.close(detach=True)


async def test_a_waiting_job_can_be_withdrawn(fleet: Fleet) -> None:
    jobs = [continues(fleet, trial, "worker-1") for trial in ("aaaa1", "bbbb2", "cccc3")]
    for withdrawn in (jobs[1], continues(fleet, "dddd4", "worker-9")):
        order = fleet.core.cancel(withdrawn)
        assert order is not None and order.cmd_seq is None
        assert fleet.core.cancel(withdrawn) is None
    await finish(fleet, "worker-1", jobs[0])
    assert fleet.jobs("worker-1") == ["cccc3"]
    assert not is_placed(fleet, jobs[1])


# ---- other experiments of the server ----------------------------------------------------------------------


@dataclass
class Shared:
    """Three machines of two experiments: one whose trials need a machine each, and one with small trials."""

    large: Fleet
    small: Fleet

    async def fill(self) -> None:
        """Fill all machines with small trials."""
        for number in range(12):
            self.small.core.submit(f"s{number:04}")
        assert {len(self.small.jobs(name)) for name in self.small.machines} == {4}

    async def free(self, name: str, jobs: int) -> None:
        """Let small trials on this machine end."""
        for each in self.small.jobs(name)[:jobs]:
            await finish(self.small, name, f"contract-{each}-1")


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Shared]:
    large = Fleet(tmp_path, *named(3), trial_cpu_number=8)
    small = Fleet(tmp_path, *named(3), trial_cpu_number=2)
    small.tools, small.hub = large.tools, large.hub
    object.__setattr__(small.context, "experiment_id", "small")
    for each in (large, small):
        await each.open()
    yield Shared(large, small)
    for each in (large, small):
        await each.core.close(detach=True)


async def test_what_is_kept_for_a_job_is_free_when_the_job_is_withdrawn(shared: Shared) -> None:
    await shared.fill()
    waiting = continues(shared.large, "aaaa1", "worker-1")
    await shared.free("worker-1", 1)
    next_one = shared.small.core.submit("s0012")
    assert "kept for experiment contract trial aaaa1" in reason(shared.small, next_one)
    shared.large.core.cancel(waiting)
    await shared.small.core.seen(JobPlaced, next_one)


async def test_what_is_kept_stays_kept_when_other_jobs_of_the_experiment_are_placed(shared: Shared) -> None:
    """The last job that can go anywhere leaves the queue, while another job waits for its machine."""
    await shared.fill()
    waiting = continues(shared.large, "aaaa1", "worker-1")
    anywhere = shared.large.core.submit("bbbb2")
    await shared.free("worker-1", 1)
    next_one = shared.small.core.submit("s0012")
    await shared.free("worker-2", 4)
    await shared.large.core.seen(JobPlaced, anywhere)
    await shared.free("worker-3", 1)
    assert (await shared.small.core.seen(JobPlaced, next_one)).place.keeper_id == "worker-3"
    assert len(shared.small.jobs("worker-1")) == 3 and not is_placed(shared.large, waiting)


async def test_a_job_keeps_nothing_on_machines_that_it_cannot_use(shared: Shared) -> None:
    """A job that could go anywhere has waited for all machines, before it got a place on one of them."""
    await shared.fill()
    anywhere = shared.large.core.submit("bbbb2")
    await shared.free("worker-2", 4)
    await shared.large.core.seen(JobPlaced, anywhere)
    waiting = continues(shared.large, "aaaa1", "worker-1")
    await shared.free("worker-3", 1)
    await shared.small.core.seen(JobPlaced, shared.small.core.submit("s0012"))
    assert not is_placed(shared.large, waiting)


async def test_what_only_other_jobs_could_use_is_free_when_they_are_withdrawn(shared: Shared) -> None:
    await shared.fill()
    waiting = continues(shared.large, "aaaa1", "worker-1")
    anywhere = shared.large.core.submit("bbbb2")
    await shared.free("worker-3", 1)
    next_one = shared.small.core.submit("s0012")
    assert "kept for experiment contract" in reason(shared.small, next_one)
    shared.large.core.cancel(anywhere)
    await shared.small.core.seen(JobPlaced, next_one)
    assert not is_placed(shared.large, waiting)


async def test_nothing_is_kept_on_a_machine_that_takes_no_jobs_now(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shared.fill()
    waiting = continues(shared.large, "aaaa1", "worker-1")
    monkeypatch.setattr(shared.large.machines["worker-1"], "obstacle", lambda: "its disk is full")
    await shared.free("worker-1", 1)
    await shared.small.core.seen(JobPlaced, shared.small.core.submit("s0012"))
    assert reason(shared.large, waiting) == f"its disk is full{HAS_IT}"

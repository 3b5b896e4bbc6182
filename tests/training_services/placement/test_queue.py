"""Tests of jobs on several machines: where each goes, why it waits, and the cost of the choice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.training_services.fleet import FakeMachine, Fleet, named
from training_services.base import JobPlaced, JobRejected, JobWaiting
from training_services.keepers.seat import KeeperSeat
from training_services.placement import choice as keeper_choice
from training_services.placement.queue import JobQueue


def trial(number: int) -> str:
    return f"t{number:04}"


async def submit(fleet: Fleet, *numbers: int) -> list[str]:
    return [fleet.core.submit(trial(number)) for number in numbers]


def last_reason(fleet: Fleet, job_id: str) -> str:
    last = fleet.core.of(job_id)[-1]
    assert isinstance(last, JobWaiting), last
    return last.reason


async def test_the_least_loaded_machine_is_taken(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, FakeMachine("small", cpus=2), FakeMachine("large", cpus=6))
    await fleet.open()
    await submit(fleet, *range(16))
    assert (len(fleet.jobs("small")), len(fleet.jobs("large"))) == (4, 12)
    await fleet.machines["small"].poll()
    await fleet.machines["small"].finish(f"contract-{fleet.jobs('small')[0]}-1")
    await submit(fleet, 16)
    assert len(fleet.jobs("small")) == 4
    await fleet.core.close(detach=True)


async def test_the_first_machine_that_is_there_does_not_take_all(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, *named(4))
    fleet.machines["worker-4"].unreachable = "no route to host"
    await fleet.open("worker-1")
    jobs = await submit(fleet, *range(8))
    await fleet.core.seen(JobPlaced, jobs[1])
    assert len(fleet.jobs("worker-1")) == 2
    assert last_reason(fleet, jobs[-1]) == (
        "waits until nnimgr's keeper on worker-2 has started; "
        "or until nnimgr's keeper on worker-3 has started; "
        "or until nnimgr's keeper on worker-4 has started: there is no connection to worker-4: no route to "
        "host; "
        "and 1 more machine is busy or unavailable"
    )
    await fleet.machines["worker-2"].speak(fleet.hub)
    await fleet.core.until(lambda: len(fleet.jobs("worker-2")) == 2)
    await fleet.machines["worker-3"].speak(fleet.hub)
    await fleet.core.until(lambda: all(any(isinstance(f, JobPlaced) for f in fleet.core.of(j)) for j in jobs))
    assert sorted(len(fleet.jobs(name)) for name in fleet.machines) == [0, 2, 3, 3]
    await fleet.core.close(detach=True)


async def test_cpus_and_memory_are_counted(tmp_path: Path) -> None:
    fleet = Fleet(
        tmp_path, *named(2), trial_cpu_number=3, trial_memory_size=6144
    )  # two jobs fit on 8 CPUs and in 16 GB
    await fleet.open()
    jobs = await submit(fleet, *range(6))
    assert [len(fleet.jobs(name)) for name in fleet.machines] == [2, 2]
    first, second = (
        f"3 CPUs are used by experiment contract trial {each}" for each in fleet.jobs("worker-1")
    )
    reason = last_reason(fleet, jobs[4])
    assert f"waits for 3 CPUs on worker-1, which has 8 CPUs: 2 CPUs are free, {first}, {second}" in reason
    assert "waits for 6 GiB of memory on worker-1, which has 16 GiB of memory: 4 GiB of memory" in reason
    await fleet.machines["worker-2"].poll()
    ended = fleet.jobs("worker-2")[0]
    await fleet.machines["worker-2"].finish(f"contract-{ended}-1")
    await fleet.core.seen(JobPlaced, jobs[4])
    assert trial(4) in fleet.jobs("worker-2")
    assert len(fleet.core.of(jobs[5])) and isinstance(fleet.core.of(jobs[5])[-1], JobWaiting)
    await fleet.core.close(detach=True)


async def test_a_job_that_is_too_large_for_all_is_rejected_once_all_have_spoken(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, FakeMachine("a", cpus=4), FakeMachine("b", cpus=6), trial_cpu_number=8)
    await fleet.open("a")
    (job,) = await submit(fleet, 1)
    assert last_reason(fleet, job) == "waits until nnimgr's keeper on b has started"
    await fleet.machines["b"].speak(fleet.hub)
    await fleet.core.until(lambda: not isinstance(fleet.core.of(job)[-1], JobWaiting))
    told = "The trial asks for 8 CPUs, but the largest of its 2 machines, b, has 6."
    assert fleet.core.of(job)[-1].message == told  # type: ignore[union-attr]
    with pytest.raises(JobRejected, match="largest of its 2 machines, b"):
        await submit(fleet, 2)
    await fleet.core.close(detach=True)


async def test_what_others_hold_counts(tmp_path: Path) -> None:
    """Experiments of one server take each other's trials into account."""
    fleet = Fleet(tmp_path, FakeMachine("a", cpus=4), trial_cpu_number=3)
    other = Fleet(tmp_path, FakeMachine("a", cpus=4), trial_cpu_number=2)
    other.tools, other.hub = fleet.tools, fleet.hub
    object.__setattr__(other.context, "experiment_id", "other")
    await fleet.open()
    await other.open()
    await submit(fleet, 1)
    (waits,) = [other.core.submit(trial(1))]
    expected = "waits for 2 CPUs on a, which has 4 CPUs: 1 CPU is free, 3 CPUs are used by experiment "
    expected += "contract trial t0001"
    assert last_reason(other, waits) == expected
    await fleet.machines["a"].poll()
    await fleet.machines["a"].finish("contract-t0001-1")
    await other.core.seen(JobPlaced, waits)
    for each in (fleet, other):
        await each.core.close(detach=True)


async def test_who_needs_a_whole_machine_has_its_turn(tmp_path: Path) -> None:
    """Small trials of another experiment must not take every part that becomes free."""
    small = Fleet(tmp_path, FakeMachine("a", cpus=4), trial_cpu_number=1)
    large = Fleet(tmp_path, FakeMachine("a", cpus=4), trial_cpu_number=4)
    large.tools, large.hub = small.tools, small.hub
    object.__setattr__(large.context, "experiment_id", "large")
    await small.open()
    await large.open()
    await submit(small, *range(6))
    (job,) = [large.core.submit(trial(9))]
    await small.machines["a"].poll()
    for number in range(4):
        await small.machines["a"].finish(f"contract-{trial(number)}-1")
    await large.core.seen(JobPlaced, job)
    assert not small.jobs("a")
    kept = "4 CPUs are kept for experiment contract trial t0009, whose turn it is"
    reasons = [fact.reason for fact in small.core.facts if isinstance(fact, JobWaiting)]
    assert any(kept in reason for reason in reasons), reasons
    for each in (small, large):
        await each.core.close(detach=True)


async def test_a_sentence_names_few_machines(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, *named(20), trial_cpu_number=8)
    await fleet.open()
    jobs = await submit(fleet, *range(21))
    reason = last_reason(fleet, jobs[-1])
    assert reason.count("for 8 CPUs on") == keeper_choice.MOST_NAMED
    assert reason.endswith("; and 17 more machines are busy or unavailable")
    await fleet.core.close(detach=True)


async def test_machines_that_refuse_are_not_asked_again_for_each_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work per event must not grow with the number of machines or waiting jobs."""
    fleet = Fleet(tmp_path, *named(100), trial_cpu_number=4)
    await fleet.open()
    asked: Counter[str] = Counter()
    ask = JobQueue._ask

    def count(self: JobQueue[KeeperSeat], job: object, seat: KeeperSeat) -> object:
        asked[seat.id] += 1
        return ask(self, job, seat)  # type: ignore[arg-type]

    monkeypatch.setattr(JobQueue, "_ask", count)
    await submit(fleet, *range(200))
    assert asked.total() == 200
    asked.clear()
    jobs = await submit(fleet, *range(200, 300))
    assert asked.total() == 100  # each machine was asked once, for the first waiting job
    machine = fleet.machines["worker-50"]
    await machine.poll()
    asked.clear()
    for number in range(10):
        await machine.finish(f"contract-{fleet.jobs('worker-50')[0]}-1")
        await fleet.core.seen(JobPlaced, jobs[number])
        await machine.poll()
    assert set(asked) == {"worker-50"} and asked.total() <= 40
    await fleet.core.close(detach=True)

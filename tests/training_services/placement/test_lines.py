"""Tests of jobs of one experiment that need different things: who waits for what, and who goes first."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.training_services.fleet import FakeMachine, Fleet, named
from training_services.base import (
    JobEnded,
    JobPlaced,
    JobRejected,
    JobWaiting,
    Origin,
    OwnNeeds,
    TrialJobSpec,
)
from training_services.placement import lines
from training_services.placement.needs import Gpu, GpuReading, Wants
from training_services.placement.queue import LATER, JobQueue


def cpus_of(job: TrialJobSpec) -> float:
    cpus: float = json.loads(job.parameter_text)["parameters"]["cpus"]
    if cpus <= 0:
        raise JobRejected(f"trialCpuNumber is {cpus}")
    return cpus


OWN = OwnNeeds(cpus=cpus_of)


def fleet_of(directory: Path, *machines: FakeMachine) -> Fleet:
    return Fleet(directory, *machines, own_needs=OWN)


def submit(fleet: Fleet, trial: str, cpus: float) -> str:
    return fleet.core.submit(trial, parameters=json.dumps({"cpus": cpus}))


def runs(fleet: Fleet, job_id: str) -> bool:
    return any(isinstance(fact, JobPlaced) for fact in fleet.core.of(job_id))


def reason(fleet: Fleet, job_id: str) -> str:
    last = fleet.core.of(job_id)[-1]
    assert isinstance(last, JobWaiting), last
    return last.reason


async def end(fleet: Fleet, machine: str, trial: str) -> None:
    await fleet.machines[machine].poll()
    await fleet.machines[machine].finish(f"contract-{trial}-1")
    await fleet.core.seen(JobEnded, f"contract-{trial}-1")


def where(fleet: Fleet, trial: str) -> str:
    return next(name for name in fleet.machines if trial in fleet.jobs(name))


async def test_a_job_that_fits_nowhere_does_not_hold_up_others(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, FakeMachine("a", cpus=4), FakeMachine("b", cpus=4))
    await fleet.open()
    for trial in ("aaaa1", "bbbb2"):
        submit(fleet, trial, 3)
    large = submit(fleet, "large", 4)
    assert reason(fleet, large).startswith("waits for 4 CPUs on a, which has 4 CPUs: 1 CPU is free")
    assert runs(fleet, submit(fleet, "cccc3", 1))  # on the machine where nothing is kept for the large one
    behind = submit(fleet, "dddd4", 1)
    assert "kept for experiment contract trial large, whose turn it is" in reason(fleet, behind)
    assert "1 CPU is used by experiment contract trial cccc3" in reason(fleet, behind)
    await fleet.core.close(detach=True)


async def test_a_large_job_is_not_passed_by_for_ever(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, *named(1))
    await fleet.open()
    small = [submit(fleet, f"t{number:04}", 1) for number in range(8)]
    large = submit(fleet, "large", 8)
    later = [submit(fleet, f"u{number:04}", 1) for number in range(8)]
    for number in range(8):
        assert not runs(fleet, large)
        await end(fleet, "worker-1", f"t{number:04}")
    assert runs(fleet, large) and all(runs(fleet, job) for job in small)
    assert not any(runs(fleet, job) for job in later)
    assert reason(fleet, later[-1]).startswith("waits for 1 CPU on worker-1")
    await end(fleet, "worker-1", "large")
    assert all(runs(fleet, job) for job in later)
    await fleet.core.close(detach=True)


async def test_what_was_kept_is_free_when_the_job_is_withdrawn(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, FakeMachine("a", cpus=4))
    await fleet.open()
    submit(fleet, "aaaa1", 3)
    large, small = submit(fleet, "large", 4), submit(fleet, "small", 1)
    assert not runs(fleet, small)
    fleet.core.cancel(large)
    await fleet.core.seen(JobPlaced, small)
    await fleet.core.close(detach=True)


async def test_what_was_kept_is_free_also_if_its_line_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MOST_LINES", 2)
    fleet = fleet_of(tmp_path, FakeMachine("a", cpus=4), FakeMachine("b", cpus=2))
    await fleet.open()
    submit(fleet, "aaaa1", 3)
    large = submit(fleet, "large", 4)
    for number, cpus in enumerate((0.5, 0.25, 1.25)):
        assert runs(fleet, submit(fleet, f"t{number:04}", cpus))
    small, later = submit(fleet, "small", 1), submit(fleet, "later", 2)
    assert not runs(fleet, small) and reason(fleet, later) == LATER
    fleet.core.cancel(large)  # its line makes room for that of the last job
    await fleet.core.seen(JobPlaced, small)
    await fleet.core.close(detach=True)


async def test_the_machine_where_something_is_kept_changes_when_it_leaves(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, FakeMachine("a", cpus=4), FakeMachine("b", cpus=4))
    await fleet.open()
    for trial in ("aaaa1", "bbbb2"):
        submit(fleet, trial, 3)
    submit(fleet, "large", 4)
    seats = fleet.core.service._seats  # type: ignore[union-attr]
    fleet.core.service._queue.remove(seats["a"])  # type: ignore[union-attr]
    small = submit(fleet, "small", 1)
    assert reason(fleet, small) == (
        "waits for 1 CPU on b, which has 4 CPUs: 3 CPUs are used by experiment contract trial "
        f"{fleet.jobs('b')[0]}, 4 CPUs are kept for experiment contract trial large, whose turn it is"
    )
    await fleet.core.close(detach=True)


async def test_a_need_that_is_not_valid_ends_only_its_own_trial(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, *named(1))
    await fleet.open()
    with pytest.raises(JobRejected, match="trialCpuNumber is -1"):
        submit(fleet, "wrong", -1)
    assert runs(fleet, submit(fleet, "right", 1))
    await fleet.core.close(detach=True)


async def test_a_job_that_is_too_large_ends_and_others_run(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, FakeMachine("a", cpus=4))
    await fleet.open()
    with pytest.raises(JobRejected, match="asks for 5 CPUs, but a has 4"):
        submit(fleet, "large", 5)
    assert runs(fleet, submit(fleet, "small", 4))
    await fleet.core.close(detach=True)


async def test_needs_are_the_same_after_a_restart(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, FakeMachine("a", cpus=4))
    await fleet.open()
    submit(fleet, "aaaa1", 3)
    large, small = submit(fleet, "large", 4), submit(fleet, "small", 1)
    await fleet.core.close(detach=True)
    await fleet.core.open(fleet.make())
    await fleet.machines["a"].speak(fleet.hub)
    held = fleet.tools.ledger.use("a").held
    assert {job_id: each.cpus for job_id, each in held.items()} == {"contract-aaaa1-1": 3}
    assert not runs(fleet, large) and not runs(fleet, small)
    await end(fleet, "a", "aaaa1")
    await fleet.core.seen(JobPlaced, large)
    assert not runs(fleet, small)
    await fleet.core.close(detach=True)


async def test_each_group_of_machines_may_need_something_else(tmp_path: Path) -> None:
    """In a list of training services, each may have needs of its own."""
    plain = FakeMachine("a", cpus=4, wants=Wants(None, 2, None))
    fleet = fleet_of(tmp_path, plain, FakeMachine("b", cpus=4))
    await fleet.open()
    for number in range(3):
        submit(fleet, f"t{number:04}", 4)
    assert (len(fleet.jobs("a")), len(fleet.jobs("b"))) == (2, 1)
    await fleet.core.close(detach=True)


async def test_jobs_that_wait_find_new_machines_with_other_needs(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, FakeMachine("a", cpus=1))
    await fleet.open()
    submit(fleet, "aaaa1", 1)
    waiting = [submit(fleet, f"t{number:04}", 1) for number in range(3)]
    machine = FakeMachine("b", cpus=8, wants=Wants(None, 2, None, OwnNeeds()))
    fleet.machines["b"] = machine
    service = fleet.core.service
    seat = await service._join(machine)  # type: ignore[union-attr]
    service._begin(seat)  # type: ignore[union-attr]
    await machine.speak(fleet.hub)
    for job in waiting:
        await fleet.core.seen(JobPlaced, job)
    await fleet.core.close(detach=True)


async def test_a_job_with_a_checkpoint_keeps_its_machine_from_smaller_jobs(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, FakeMachine("a", cpus=4), FakeMachine("b", cpus=4))
    await fleet.open()
    for trial in ("aaaa1", "bbbb2"):
        submit(fleet, trial, 3)
    origin = Origin(attempt=1, number=1, keeper_id="a")
    bound = fleet.core.submit("bound", attempt=2, origin=origin, parameters='{"cpus": 4}')
    assert runs(fleet, submit(fleet, "small", 1)) and where(fleet, "small") == "b"
    assert not runs(fleet, submit(fleet, "other", 1))
    fleet.core.cancel(bound)
    await fleet.core.seen(JobPlaced, "contract-other-1")
    await fleet.core.close(detach=True)


async def test_the_cost_of_an_event_does_not_grow_with_the_number_of_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MOST_LINES", 4)
    fleet = fleet_of(tmp_path, FakeMachine("a", cpus=100))
    await fleet.open()
    submit(fleet, "first", 100)
    jobs = [submit(fleet, f"t{number:04}", 50 + number) for number in range(10)]
    assert [reason(fleet, job) == LATER for job in jobs] == [False] * 4 + [True] * 6
    equal = submit(fleet, "equal", 50)  # it waits behind the others, although others need the same
    assert reason(fleet, equal) == LATER
    asked = 0
    ask: Any = JobQueue._ask

    def count(self: object, job: object, seat: object) -> object:
        nonlocal asked
        asked += 1
        return ask(self, job, seat)

    monkeypatch.setattr(JobQueue, "_ask", count)
    order = ["first"]
    while order:
        await end(fleet, "a", order.pop())
        order = fleet.jobs("a")
    placed = [fact.job_id.split("-")[1] for fact in fleet.core.facts if isinstance(fact, JobPlaced)]
    assert placed == ["first", *(f"t{number:04}" for number in range(10)), "equal"]
    assert asked <= 11 * 3 * 4
    await fleet.core.close(detach=True)


@pytest.mark.parametrize("seed", range(20))
async def test_every_job_has_its_turn(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of any size come and go at random: all of them run, and nothing waits beside a free machine."""
    monkeypatch.setattr(lines, "MOST_LINES", 3)
    draw = Random(seed)
    fleet = fleet_of(tmp_path, FakeMachine("a", cpus=4), FakeMachine("b", cpus=6))
    await fleet.open()
    waiting: dict[str, float] = {}
    passed: dict[str, int] = {}
    number = 0
    for step in range(200):
        running = _running(fleet)
        if step < 120 and (draw.random() < 0.5 or not running):
            trial, cpus = f"t{number:04}", draw.choice([1, 1, 2, 3, 4, 6])
            number += 1
            submit(fleet, trial, cpus)
            waiting[trial] = cpus
        elif running:
            name, trial = draw.choice(running)
            await end(fleet, name, trial)
        for trial in [trial for trial in waiting if runs(fleet, f"contract-{trial}-1")]:
            passed |= {other: passed.get(other, 0) + 1 for other in waiting if other < trial}
            del waiting[trial]
        _nothing_waits_in_vain(fleet, waiting)
        _no_event_was_missed(fleet)
    assert not waiting and not _running(fleet)
    assert max(passed.values(), default=0) < 25
    await fleet.core.close(detach=True)


def _running(fleet: Fleet) -> Sequence[tuple[str, str]]:
    return [(name, trial) for name in fleet.machines for trial in fleet.jobs(name)]


def _nothing_waits_in_vain(fleet: Fleet, waiting: dict[str, float]) -> None:
    """Check that the first job that waits fits on no machine."""
    if not waiting:
        return
    cpus = next(iter(waiting.values()))
    for name in fleet.machines:
        use = fleet.tools.ledger.use(name)
        assert use.capacity is not None
        assert cpus > use.capacity.cpus - sum(each.cpus for each in use.held.values())


def _no_event_was_missed(fleet: Fleet) -> None:
    """Check that no job starts when all machines are asked again although nothing has happened."""
    ledger = fleet.tools.ledger
    before = [ledger.use(name).jobs for name in fleet.machines]
    fleet.core.service._queue.reasons_changed()  # type: ignore[union-attr]
    assert [ledger.use(name).jobs for name in fleet.machines] == before


async def test_a_higher_priority_is_asked_first(tmp_path: Path) -> None:
    low = Fleet(tmp_path, FakeMachine("a", cpus=4), trial_cpu_number=4)
    high = Fleet(tmp_path, FakeMachine("a", cpus=4), trial_cpu_number=4, priority=10)
    high.tools, high.hub = low.tools, low.hub
    object.__setattr__(high.context, "experiment_id", "high")
    await low.open()
    await high.open()
    for number in range(3):
        low.core.submit(f"t{number:04}")
    job = high.core.submit("high1")
    next_one = high.core.submit("high2")
    await end(low, "a", "t0000")
    await high.core.seen(JobPlaced, job)
    low.core.service.prioritise(20)  # type: ignore[union-attr]
    await high.machines["a"].poll()
    await high.machines["a"].finish("contract-high1-1")
    await low.core.seen(JobPlaced, "contract-t0001-1")
    assert not runs(high, next_one)
    for each in (low, high):
        await each.core.close(detach=True)


def test_equal_needs_are_one_line() -> None:
    spec = TrialJobSpec(
        id="x-aaaa1-1", trial_id="aaaa1", attempt=1, sequence=0, parameter_text='{"parameters": {"cpus": 2}}'
    )
    wants = Wants(1, None, 512, OWN)
    assert wants.of_job(spec) == Wants(1, 2, 512) == wants.of_job(replace(spec, id="x-bbbb2-1"))
    assert wants.uses_gpus and not Wants(None, 1, None, OWN).uses_gpus
    assert Wants(None, 1, None, OwnNeeds(gpus=cpus_of)).uses_gpus


@pytest.mark.parametrize("seed", range(8))
async def test_experiments_share_machines(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of three experiments come, end, are canceled and change their priority at random.

    No job misses an event, and in the end only jobs wait that need more GPUs than a machine has.
    """
    monkeypatch.setattr(lines, "MOST_LINES", 3)
    draw, number = Random(seed), 0
    fleets = [_sharing(tmp_path, name) for name in ("contract", "other", "third")]
    for fleet in fleets:
        fleet.tools, fleet.hub = fleets[0].tools, fleets[0].hub
        await fleet.open()
        _read_gpus(fleet)
    for step in range(400):
        fleet = draw.choice(fleets)
        queue = _queue_of(fleet)
        act, running = draw.random(), _running(fleet)
        if step < 150 and (act < 0.5 or not running):
            number += 1
            _submit_any(fleet, f"t{number:04}", draw)
        elif act < 0.58 and step < 300 and (waiting := list(queue)):
            fleet.core.cancel(draw.choice(waiting))
        elif act < 0.62:
            fleet.core.service.prioritise(draw.choice([0, 0, 1]))  # type: ignore[union-attr]
        elif running:
            await _end_any(fleet, *draw.choice(running))
            _read_gpus(fleet)
        for each in fleets:
            _no_event_was_missed(each)
    for fleet in fleets:
        assert not _running(fleet)
        assert all(", which has" in reason(fleet, job) for job in _queue_of(fleet))
        await fleet.core.close(detach=True)


def _sharing(directory: Path, name: str) -> Fleet:
    """Return an experiment on three machines, whose jobs need any number of CPUs and GPUs."""
    machines = [FakeMachine(host, cpus=cpus) for host, cpus in (("a", 4), ("b", 6), ("c", 8))]
    fleet = Fleet(directory, *machines, own_needs=OwnNeeds(cpus=cpus_of, gpus=gpus_of))
    object.__setattr__(fleet.context, "experiment_id", name)
    return fleet


def gpus_of(job: TrialJobSpec) -> float:
    gpus: float = json.loads(job.parameter_text)["parameters"]["gpus"]
    return gpus


def _queue_of(fleet: Fleet) -> Any:
    return fleet.core.service._queue  # type: ignore[union-attr]


def _read_gpus(fleet: Fleet) -> None:
    """Let the keepers report the GPUs of their machines, which nobody uses but the jobs."""
    for host, number in (("a", 1), ("b", 2), ("c", 4)):
        seat = fleet.core.service._seats[host]  # type: ignore[union-attr]
        _queue_of(fleet).told(seat, None, GpuReading(tuple(Gpu(index=index) for index in range(number))))


def _submit_any(fleet: Fleet, trial: str, draw: Random) -> None:
    """Submit a job with any needs, which may continue from a checkpoint."""
    cpus, gpus = draw.choice([1, 1, 2, 3, 4, 6]), draw.choice([0, 0, 0.5, 1, 2, 3])
    origin = Origin(attempt=1, number=1, keeper_id=draw.choice("abc")) if draw.random() < 0.2 else None
    with contextlib.suppress(JobRejected):
        fleet.core.submit(
            trial,
            attempt=1 if origin is None else 2,
            origin=origin,
            parameters=json.dumps({"cpus": cpus, "gpus": gpus}),
        )


async def _end_any(fleet: Fleet, machine: str, trial: str) -> None:
    """End a job, whatever the number of its attempt is."""
    async with asyncio.timeout(10):
        while not (jobs := [job for job in fleet.machines[machine].running if f"-{trial}-" in job]):
            await asyncio.sleep(0)  # the core has not taken the places of all jobs yet
            await fleet.machines[machine].poll()
    await fleet.machines[machine].finish(jobs[0])
    await fleet.core.seen(JobEnded, jobs[0])

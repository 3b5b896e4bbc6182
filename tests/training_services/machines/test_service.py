"""Tests of machines that are added and removed while an experiment runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.training_services.fleet import FakeMachine, Fleet, named
from training_services.base import (
    JobLost,
    JobPlaced,
    KnownMachine,
    MachineAdded,
    MachineDrained,
    MachineGone,
    MachineRemoved,
    MachineStatus,
    ServiceUnavailable,
)
from training_services.machines.service import MachineService
from training_services.placement.needs import Need, Waits


class Growing(Fleet):
    """Fleet that makes new machines from {"host": name}."""

    def make(self) -> MachineService:
        machines = [machine for name, machine in self.machines.items() if name not in self.later]
        return MachineService(self.context, self.tools, machines, make_host=self.grow)

    def __init__(self, directory: Path, *machines: FakeMachine, later: tuple[str, ...] = ()) -> None:
        super().__init__(directory, *machines)
        self.later = later

    def grow(self, machine: Mapping[str, Any]) -> FakeMachine:
        if machine["host"] not in self.machines:
            raise ServiceUnavailable("there is no such machine")
        return self.machines[machine["host"]]

    def add(self, name: str) -> None:
        self.core.commit(MachineAdded(keeper_id=name, machine={"host": name}))

    def gone(self, name: str) -> bool:
        return any(isinstance(fact, MachineGone) and fact.keeper_id == name for fact in self.core.facts)

    def status(self) -> dict[str, str]:
        assert self.core.service is not None
        return {machine.name: machine.status for machine in self.core.service.machines()}


@pytest.fixture
def fleet(tmp_path: Path) -> Growing:
    return Growing(tmp_path, *named(3), later=("worker-3",))


async def test_a_machine_that_is_added_takes_jobs(fleet: Growing) -> None:
    await fleet.open("worker-1", "worker-2")
    assert fleet.status() == {"worker-1": "connected", "worker-2": "connected"}
    fleet.add("worker-3")
    await fleet.machines["worker-3"].speak(fleet.hub)
    for number in range(9):
        fleet.core.submit(f"t000{number}")
    assert [len(fleet.jobs(name)) for name in fleet.machines] == [3, 3, 3]
    assert fleet.core.service is not None
    machine = fleet.core.service.machines()[-1]
    assert (machine.status, machine.cpus, machine.version) == (MachineStatus.CONNECTED, 8.0, "1")
    assert len(machine.job_ids) == 3
    await fleet.core.close(detach=True)


async def test_nothing_is_placed_on_a_machine_that_is_drained(fleet: Growing) -> None:
    await fleet.open("worker-1", "worker-2")
    first = fleet.core.submit("t0000")
    fleet.core.commit(MachineDrained(keeper_id="worker-1"))
    for number in range(1, 5):
        fleet.core.submit(f"t000{number}")
    assert fleet.jobs("worker-1") == ["t0000"] and len(fleet.jobs("worker-2")) == 4
    assert fleet.status()["worker-1"] == "draining"
    await fleet.machines["worker-1"].poll()
    await fleet.machines["worker-1"].finish(first)
    fleet.core.commit(MachineAdded(keeper_id="worker-1"))
    fleet.core.submit("t0005")
    assert fleet.jobs("worker-1") == ["t0005"]
    await fleet.core.close(detach=True)


async def test_a_job_whose_place_was_never_recorded_holds_none_after_a_restart(fleet: Growing) -> None:
    await fleet.open("worker-1", "worker-2")
    recorded = fleet.core.submit("t0000")
    unrecorded = fleet.core.submit("t0001", withhold=True)  # the commit fails
    held = {job for name in fleet.machines for job in fleet.tools.ledger.use(name).jobs}
    assert held == {recorded, unrecorded}
    await fleet.core.close(detach=True)
    assert {job for name in fleet.machines for job in fleet.tools.ledger.use(name).jobs} == {recorded}


async def test_the_last_machine_may_be_drained(fleet: Growing) -> None:
    await fleet.open("worker-1", "worker-2")
    for name in ("worker-1", "worker-2"):
        fleet.core.commit(MachineDrained(keeper_id=name))
    job = fleet.core.submit("t0000")
    await fleet.core.waits(
        job, "waits for a machine: all are drained or removed (see: nnictl machine --help)"
    )
    fleet.core.commit(MachineAdded(keeper_id="worker-2"))
    await fleet.core.seen(JobPlaced, job)
    await fleet.core.close(detach=True)


async def test_a_removed_machine_is_left_when_its_jobs_have_ended(fleet: Growing) -> None:
    await fleet.open("worker-1", "worker-2")
    job = fleet.core.submit("t0000")
    machine = fleet.machines["worker-1"]
    fleet.core.commit(MachineRemoved(keeper_id="worker-1"))
    await machine.poll()
    assert fleet.status()["worker-1"] == "removing" and not machine.ended
    await machine.finish(job)
    await machine.poll()
    await fleet.core.until(lambda: fleet.gone("worker-1"))
    assert machine.ended == 1 and list(fleet.status()) == ["worker-2"]
    assert await machine.refused() == "instance"
    fleet.add("worker-1")  # add the machine again
    machine.told.clear()
    await machine.speak(fleet.hub)
    await fleet.core.until(lambda: fleet.status()["worker-1"] == "connected")
    await fleet.core.close(detach=True)


async def test_a_machine_that_cannot_be_reached_is_given_up(fleet: Growing) -> None:
    fleet.machines["worker-2"].unreachable = "no route to host"
    await fleet.open("worker-1")
    fleet.core.commit(MachineRemoved(keeper_id="worker-2", force=True))
    await fleet.core.until(lambda: fleet.gone("worker-2"))
    (fact,) = [fact for fact in fleet.core.facts if isinstance(fact, MachineGone)]
    assert fact.note == "the keeper on worker-2 could not be ended: no route to host"
    await fleet.core.close(detach=True)


async def test_a_machine_that_is_added_again_during_its_removal_is_reported_as_gone_and_back(
    fleet: Growing,
) -> None:
    await fleet.open("worker-1", "worker-2")
    machine = fleet.machines["worker-1"]
    fleet.core.commit(MachineRemoved(keeper_id="worker-1"))
    fleet.add("worker-1")  # the errand that removes the machine has not run yet
    await fleet.core.until(lambda: fleet.gone("worker-1"))
    (fact,) = [fact for fact in fleet.core.facts if isinstance(fact, MachineGone)]
    assert fact == MachineGone(keeper_id="worker-1", returns=True)
    assert machine.ended == 1
    machine.told.clear()
    await machine.speak(fleet.hub)
    await fleet.core.until(lambda: fleet.status()["worker-1"] == "connected")
    await fleet.core.close(detach=True)


async def test_lost_jobs_of_a_machine_do_not_keep_it(fleet: Growing) -> None:
    await fleet.open("worker-1", "worker-2")
    job = fleet.core.submit("t0000")
    machine = fleet.machines["worker-1"]
    machine.unreachable = "no route to host"
    fleet.core.commit(MachineRemoved(keeper_id="worker-1", force=True))
    fleet.core.cancel(job)
    assert not fleet.gone("worker-1")
    fleet.core.commit(JobLost(job_id=job, reason="its machine was removed by force"))
    await fleet.core.until(lambda: fleet.gone("worker-1"))
    assert fleet.tools.ledger.load("worker-1") == 0
    assert await machine.refused() == "instance"
    await fleet.core.close(detach=True)


async def test_what_cannot_be_added_is_told(fleet: Growing) -> None:
    await fleet.open("worker-1", "worker-2")
    fleet.core.commit(MachineAdded(keeper_id="worker-9", machine={"host": "worker-9"}))
    service = fleet.core.service
    assert service is not None
    for _ in range(5):
        await asyncio.sleep(0)
    told = "the machine worker-9 cannot be used: there is no such machine"
    assert service.notices()["machine worker-9"] == told
    fleet.core.commit(MachineRemoved(keeper_id="worker-9"))
    await fleet.core.until(lambda: fleet.gone("worker-9"))
    assert not service.notices()
    await fleet.core.close(detach=True)


async def test_all_of_it_holds_after_a_restart(fleet: Growing) -> None:
    await fleet.open("worker-1", "worker-2")
    fleet.core.commit(MachineRemoved(keeper_id="worker-1"))
    await fleet.core.until(lambda: fleet.gone("worker-1"))
    fleet.core.commit(MachineDrained(keeper_id="worker-2"))
    await fleet.core.close(detach=True)
    fleet.core.machines = (
        KnownMachine(keeper_id="worker-1", draining=True, removing=True, gone=True),
        KnownMachine(keeper_id="worker-2", draining=True),
        KnownMachine(keeper_id="worker-3", added={"host": "worker-3"}),
    )
    await fleet.open("worker-2", "worker-3")
    assert fleet.status() == {"worker-2": "draining", "worker-3": "connected"}
    assert await fleet.machines["worker-1"].refused() == "instance"
    fleet.core.submit("t0000")
    assert fleet.jobs("worker-3") == ["t0000"]
    await fleet.core.close(detach=True)


async def test_a_removal_that_was_cut_short_goes_on(fleet: Growing) -> None:
    await fleet.open("worker-1", "worker-2")
    job = fleet.core.submit("t0000")
    await fleet.machines["worker-1"].poll()
    await fleet.core.close(detach=True)
    fleet.core.machines = (KnownMachine(keeper_id="worker-1", draining=True, removing=True),)
    await fleet.open("worker-2")
    machine = fleet.machines["worker-1"]
    await machine.speak(fleet.hub)
    await machine.finish(job)
    await machine.poll()
    await fleet.core.until(lambda: fleet.gone("worker-1"))
    assert not any(isinstance(fact, JobLost) for fact in fleet.core.facts)
    await fleet.core.close(detach=True)


async def test_a_keeper_that_has_not_called_yet_is_heard_before_it_is_ended(tmp_path: Path) -> None:
    """The keeper may run a trial that was given up, which only the keeper can stop."""
    fleet = Fleet(tmp_path, *named(1))
    (machine,) = fleet.machines.values()
    await fleet.open()
    await fleet.core.close(detach=True)
    await fleet.core.open(fleet.make())
    closing = asyncio.create_task(fleet.core.close(detach=False))
    for _ in range(20):
        await asyncio.sleep(0)
    assert machine.is_dismissed()
    await machine.speak(fleet.hub)
    await machine.wait()
    await closing
    assert (machine.ended, machine.left_before_end) == (1, True)


async def test_a_lost_job_takes_up_no_place_after_the_experiment_is_detached(tmp_path: Path) -> None:
    """A job that is lost without proof keeps its place while the experiment can hear of its end."""
    fleet = Fleet(tmp_path, FakeMachine("worker-1", cpus=2.0), trial_cpu_number=2.0)
    await fleet.open()
    job = fleet.core.submit("t0000")
    await fleet.machines["worker-1"].poll()
    fleet.core.commit(JobLost(job_id=job, reason="nobody answers", unproven=True))
    need = Need(experiment_id="other", job_id="other-aaaaa-1", gpus=None, cpus=2.0)
    assert isinstance(fleet.tools.ledger.place(need, fleet.machines["worker-1"].host), Waits)
    await fleet.core.close(detach=True)
    assert fleet.tools.ledger.place(need, fleet.machines["worker-1"].host) == ()

"""Several platforms as one training service: where jobs go, and why, also over restarts of the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.training_services.fleet import FakeMachine
from tests.training_services.hybrid.rig import Rig, cluster, machines
from training_services.base import (
    Cause,
    CheckpointKept,
    JobEnded,
    JobLost,
    JobPlaced,
    JobRejected,
    JobWaiting,
    MachineDrained,
    Origin,
    StopOrdered,
)
from training_services.keepers.host import HostGone
from training_services.placement.ledger import Host
from training_services.placement.needs import Need
from training_services.placement.preemption import Preemptible

HOUR, SOON = timedelta(hours=1), timedelta(milliseconds=20)


@pytest.fixture
async def rigs(tmp_path: Path) -> AsyncIterator[list[Rig]]:
    made: list[Rig] = []
    yield made
    for rig in made:
        await rig.core.close(detach=True)


def make(rigs: list[Rig], directory: Path, after: timedelta | None = HOUR) -> Rig:
    """Return an experiment on a machine with one CPU, and then on a cluster."""
    here = FakeMachine("here", cpus=1.0)
    rigs.append(Rig(directory, machines("local", "here"), cluster("slurm"), machines=[here], after=after))
    return rigs[-1]


async def test_trials_ask_the_first_platform_first(rigs: list[Rig], tmp_path: Path) -> None:
    rig = make(rigs, tmp_path)
    await rig.open()
    first, second = rig.core.submit("aaaa1"), rig.core.submit("bbbb2")
    placed = rig.last(first)
    assert isinstance(placed, JobPlaced) and (placed.place.keeper_id, placed.reason) == ("here", None)
    assert rig.reason(second).startswith("waits for 1 CPU on here")
    assert "; goes on to slurm at 20" in rig.reason(second) and rig.reason(second).endswith(" UTC")
    assert not rig.allocations


async def test_a_trial_goes_on_after_its_time(rigs: list[Rig], tmp_path: Path) -> None:
    rig = make(rigs, tmp_path, SOON)
    await rig.open()
    rig.core.submit("aaaa1")
    job_id = rig.core.submit("bbbb2")
    pilot = await rig.allocation(f"slurm-{job_id}")
    await rig.until(lambda: "slurm: " in rig.reason(job_id))
    assert rig.reason(job_id).startswith("local: waits for 1 CPU on here")
    assert "goes on" not in rig.reason(job_id)
    await pilot.speak(rig.hub)
    placed = await rig.core.seen(JobPlaced, job_id)
    assert placed.place.keeper_id == f"slurm-{job_id}"
    assert placed.reason is not None and placed.reason.startswith("local had no free place for ")
    await pilot.poll()
    assert ("start", job_id) in pilot.commands


async def test_the_first_free_place_wins_and_the_others_are_given_up(rigs: list[Rig], tmp_path: Path) -> None:
    rig = make(rigs, tmp_path, SOON)
    await rig.open()
    first = rig.core.submit("aaaa1")
    second = rig.core.submit("bbbb2")
    pilot = await rig.allocation(f"slurm-{second}")
    await rig.until(lambda: pilot.told.is_set())
    here = rig.machines["here"]
    await here.poll()
    await here.finish(first)
    placed = await rig.core.seen(JobPlaced, second)
    assert (placed.place.keeper_id, placed.reason) == ("here", "it had a free place before slurm")
    await rig.until(lambda: pilot.ended > 0)
    assert rig.places(second) == ["here"] and not pilot.commands


async def test_without_spill_the_next_platform_is_asked_at_once(rigs: list[Rig], tmp_path: Path) -> None:
    rig = make(rigs, tmp_path, None)
    await rig.core.open(rig.make())
    first, second = rig.core.submit("aaaa1"), rig.core.submit("bbbb2")
    assert not rig.allocations  # the machine may have room: it is being connected
    await rig.machines["here"].speak(rig.hub)
    await rig.core.seen(JobPlaced, first)
    await rig.allocation(f"slurm-{second}")
    assert f"slurm-{first}" not in rig.allocations
    await rig.until(lambda: "slurm: " in rig.reason(second))


async def test_the_time_of_waiting_survives_a_restart(rigs: list[Rig], tmp_path: Path) -> None:
    rig = make(rigs, tmp_path)
    await rig.open()
    rig.core.since = datetime.now(UTC) - timedelta(minutes=59)
    rig.core.submit("aaaa1")
    second = rig.core.submit("bbbb2")
    assert not rig.allocations
    rig.core.since = datetime.now(UTC) - timedelta(minutes=61)
    third = rig.core.submit("cccc3")
    await rig.allocation(f"slurm-{third}")
    await rig.core.close(detach=True)
    rig.after = timedelta(minutes=30)
    await rig.open("here")
    await rig.allocation(f"slurm-{second}")


async def test_a_killed_server_places_no_trial_twice(rigs: list[Rig], tmp_path: Path) -> None:
    rig = make(rigs, tmp_path, SOON)
    await rig.open()
    rig.core.submit("aaaa1")
    job_id = rig.core.submit("bbbb2")
    pilot = await rig.allocation(f"slurm-{job_id}")
    await pilot.speak(rig.hub)
    await rig.core.seen(JobPlaced, job_id)
    await pilot.poll()
    await rig.core.close(detach=True)
    await rig.open("here")
    await pilot.speak(rig.hub)
    assert rig.core.service is not None
    jobs = {job.job_id: job.place for job in await rig.core.service.list_trial_jobs()}
    place = jobs[job_id]
    assert place is not None and place.keeper_id == pilot.keeper_id
    await pilot.finish(job_id)
    await rig.core.seen(JobEnded, job_id)
    assert rig.places(job_id) == [pilot.keeper_id]
    assert not any(job == job_id for _, job in rig.machines["here"].commands)


async def test_an_uncommitted_place_is_forgotten_with_its_server(rigs: list[Rig], tmp_path: Path) -> None:
    rig = make(rigs, tmp_path, SOON)
    await rig.open()
    rig.core.submit("aaaa1")
    job_id = rig.core.submit("bbbb2", withhold=True)
    pilot = await rig.allocation(f"slurm-{job_id}")
    await pilot.speak(rig.hub)
    await rig.core.offered(job_id)
    await rig.core.close(detach=True)
    rig.core.withheld.clear()
    await rig.open("here")
    await rig.until(lambda: isinstance(rig.last(job_id), JobWaiting))
    assert not pilot.commands and rig.places(job_id) == []


async def test_a_canceled_trial_leaves_all_queues(rigs: list[Rig], tmp_path: Path) -> None:
    rig = make(rigs, tmp_path, SOON)
    await rig.open()
    first, second = rig.core.submit("aaaa1"), rig.core.submit("bbbb2")
    pilot = await rig.allocation(f"slurm-{second}")
    await rig.until(lambda: pilot.told.is_set())
    order = rig.core.cancel(second)
    assert isinstance(order, StopOrdered) and order.cmd_seq is None
    assert rig.core.cancel(second) is None
    await rig.until(lambda: pilot.ended > 0)
    await rig.machines["here"].poll()
    await rig.machines["here"].finish(first)
    assert rig.places(second) == []


async def test_a_platform_that_rejects_a_trial_costs_no_time(rigs: list[Rig], tmp_path: Path) -> None:
    here = FakeMachine("here", cpus=0.5)
    rig = Rig(tmp_path, machines("local", "here"), cluster("slurm"), machines=[here], after=HOUR)
    rigs.append(rig)
    await rig.open()
    job_id = rig.core.submit("aaaa1")
    pilot = await rig.allocation(f"slurm-{job_id}")
    assert rig.reason(job_id).startswith("local cannot run it: ")
    await pilot.speak(rig.hub)
    placed = await rig.core.seen(JobPlaced, job_id)
    assert placed.reason is not None and placed.reason.startswith("local cannot run it (")


async def test_a_platform_whose_machines_have_gone_costs_no_time(rigs: list[Rig], tmp_path: Path) -> None:
    rig = make(rigs, tmp_path)
    await rig.open()
    first, second = rig.core.submit("aaaa1"), rig.core.submit("bbbb2")
    assert not rig.allocations
    rig.core.commit(MachineDrained(keeper_id="here"))
    await rig.allocation(f"slurm-{second}")  # it has waited already
    third = rig.core.submit("cccc3")
    await rig.allocation(f"slurm-{third}")
    reason = "local: waits for a machine: all are drained or removed (see: nnictl machine --help); slurm: "
    await rig.until(lambda: rig.reason(third).startswith(reason))
    assert rig.places(first) == ["here"]


async def test_trials_are_stopped_on_one_platform_only(rigs: list[Rig], tmp_path: Path) -> None:
    names = ("here", "there")
    fakes = [FakeMachine(name, cpus=1.0) for name in names]
    rig = Rig(
        *(tmp_path, machines("local", "here"), machines("remote", "there")),
        machines=fakes,
        after=timedelta(0),
    )
    rigs.append(rig)
    await rig.open()
    ledger, stopped = rig.tools.ledger, list[str]()
    ledger.prioritise("low", -1)
    ledger.listen("low", lambda hosts: None, experiment_id="low")
    ledger.preempt("low", Preemptible(lambda job_id: True, lambda job_id, by: stopped.append(job_id)))
    for name in names:
        need = Need(experiment_id="low", job_id=f"low-{name}-1", gpus=None, cpus=1.0)
        assert ledger.place(need, Host(id=name, name=name)) == ()
    job_id = rig.core.submit("aaaa1")
    await rig.until(lambda: bool(stopped))
    assert rig.reason(job_id).startswith("waits for 1 CPU on here") and stopped == ["low-here-1"]
    assert "make room" in rig.reason(job_id) and "goes on" not in rig.reason(job_id)
    ledger.release("here", "low-here-1")
    placed = await rig.core.seen(JobPlaced, job_id)
    assert (placed.place.keeper_id, stopped) == ("here", ["low-here-1"])


async def test_a_trial_that_no_platform_can_run_is_rejected(rigs: list[Rig], tmp_path: Path) -> None:
    here = FakeMachine("here", cpus=0.5)
    rig = Rig(tmp_path, machines("local", "here"), cluster("slurm"), machines=[here], after=HOUR)
    rigs.append(rig)
    rig.rejects = "too large for the cluster"
    await rig.open()
    with pytest.raises(JobRejected, match=r"local: .*; slurm: too large for the cluster"):
        rig.core.submit("aaaa1")


async def test_a_failed_allocation_leaves_the_trial_to_the_others(rigs: list[Rig], tmp_path: Path) -> None:
    rig = make(rigs, tmp_path, SOON)
    await rig.open()
    rig.core.submit("aaaa1")
    job_id = rig.core.submit("bbbb2")
    pilot = await rig.allocation(f"slurm-{job_id}")
    await rig.until(lambda: pilot.told.is_set())
    pilot.gone.set_result(HostGone("no such partition", Cause.USER_ERROR))
    await rig.until(lambda: "slurm cannot run it: no such partition" in rig.reason(job_id))
    assert not any(isinstance(fact, JobEnded | JobLost) for fact in rig.core.of(job_id))


async def test_a_lost_allocation_ends_the_attempt(rigs: list[Rig], tmp_path: Path) -> None:
    rig = make(rigs, tmp_path, SOON)
    await rig.open()
    first, second = rig.core.submit("aaaa1"), rig.core.submit("bbbb2")
    pilot = await rig.allocation(f"slurm-{second}")
    await rig.until(lambda: pilot.told.is_set())
    pilot.gone.set_result(HostGone("its node has failed", Cause.INFRASTRUCTURE))
    await rig.core.seen(JobLost, second)
    await rig.machines["here"].poll()
    await rig.machines["here"].finish(first)
    assert rig.places(second) == []


async def test_machines_are_a_platform_each_if_there_is_an_order(rigs: list[Rig], tmp_path: Path) -> None:
    fakes = [FakeMachine("here", cpus=1.0), FakeMachine("there", cpus=2.0)]
    rig = Rig(tmp_path, machines("local", "here"), machines("remote", "there"), machines=fakes, after=SOON)
    rigs.append(rig)
    await rig.open()
    jobs = [rig.core.submit(trial) for trial in ("aaaa1", "bbbb2", "cccc3", "dddd4")]
    await rig.core.seen(JobPlaced, jobs[2])
    assert [rig.places(job) for job in jobs] == [["here"], ["there"], ["there"], []]
    await rig.until(lambda: "remote: " in rig.reason(jobs[3]))
    await fakes[0].poll()
    await fakes[0].finish(jobs[0])
    assert (await rig.core.seen(JobPlaced, jobs[3])).place.keeper_id == "here"


async def test_a_checkpoint_on_one_machine_binds_the_trial_until_it_is_copied(
    rigs: list[Rig], tmp_path: Path
) -> None:
    rig = make(rigs, tmp_path, SOON)
    await rig.open()
    rig.core.submit("aaaa1")
    origin = Origin(attempt=1, number=1, keeper_id="here")
    job_id = rig.core.submit("bbbb2", attempt=2, origin=origin)
    assert rig.reason(job_id).endswith("here has the trial's checkpoint")
    rig.core.commit(CheckpointKept(job_id="contract-bbbb2-1", number=1, digest="d", size=1))
    pilot = await rig.allocation(f"slurm-{job_id}")
    await pilot.speak(rig.hub)
    await rig.core.seen(JobPlaced, job_id)
    assert pilot.ordered[job_id].kept is not None


async def test_files_and_machines_are_those_of_all_platforms(rigs: list[Rig], tmp_path: Path) -> None:
    rig = make(rigs, tmp_path, SOON)
    await rig.open()
    rig.core.submit("aaaa1")
    job_id = rig.core.submit("bbbb2")
    pilot = await rig.allocation(f"slurm-{job_id}")
    await pilot.speak(rig.hub)
    await rig.core.seen(JobPlaced, job_id)
    service = rig.core.service
    assert service is not None
    assert {machine.name: machine.passing for machine in service.machines()} == {
        "here": False,
        pilot.keeper_id: True,
    }
    with pytest.raises(FileNotFoundError):
        async for _ in service.read_log(job_id, "stdout", follow=False):
            pass

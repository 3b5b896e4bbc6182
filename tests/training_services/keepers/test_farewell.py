"""The end of an experiment while a keeper may still run a trial that counts as lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.training_services.fleet import FakeMachine, Fleet
from training_services.base import JobLost, KnownKeeper, KnownKeepers
from training_services.keepers import seat
from training_services.machines.service import MachineService

JOB = "contract-aaaa1-1"
TURNS = 100  # of the event loop: far more than ending a keeper takes


async def silent_fleet(directory: Path) -> tuple[Fleet, FakeMachine]:
    """Return an experiment whose only trial was given up while its machine was silent."""
    fleet = Fleet(directory, FakeMachine("ash"))
    await fleet.open()
    fleet.core.submit("aaaa1")
    machine = fleet.machines["ash"]
    await machine.poll()
    assert machine.running == {JOB: 0}
    fleet.core.cancel(JOB)
    fleet.core.commit(JobLost(job_id=JOB, reason="a user gave it up"))
    return fleet, machine


async def test_a_keeper_that_may_run_a_lost_trial_is_waited_for(tmp_path: Path) -> None:
    fleet, machine = await silent_fleet(tmp_path)
    close = asyncio.create_task(fleet.core.close(detach=False))
    for _ in range(TURNS):
        await asyncio.sleep(0)
    assert machine.is_dismissed() and machine.ended == 0
    await machine.poll()  # the machine is reached again: it is told to stop the trial and to leave
    await close
    assert machine.running == {} and machine.left_before_end


async def test_a_keeper_that_does_not_come_back_is_ended_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seat, "FAREWELL_S", 0.01)
    fleet, machine = await silent_fleet(tmp_path)
    await fleet.core.close(detach=False)
    assert machine.ended == 1 and not machine.left_before_end


@pytest.mark.parametrize("runs", [True, False])
async def test_a_keeper_that_has_left_before_a_restart_is_not_waited_for(tmp_path: Path, runs: bool) -> None:
    fleet, machine = Fleet(tmp_path, FakeMachine("ash")), FakeMachine("ash")
    machine.without_keeper = not runs
    service = MachineService(fleet.context, fleet.tools, [machine])
    known = KnownKeeper(keeper_id="ash", token_sha256="0" * 64, instance="ash", boot_id="b", last_cmd=3)
    await service.open(KnownKeepers(db_id="contract", m_epoch=2, keepers=(known,), machines=()))
    close = asyncio.create_task(service.close(detach=False))  # the experiment had ended
    for _ in range(TURNS):
        await asyncio.sleep(0)
    assert close.done() is not runs
    close.cancel()
    await asyncio.wait({close})


@pytest.mark.parametrize(("detach", "reason"), [(False, "instance"), (True, None)])
async def test_a_keeper_that_calls_after_the_end_is_refused(
    tmp_path: Path, detach: bool, reason: str | None
) -> None:
    fleet = Fleet(tmp_path, FakeMachine("ash"))
    await fleet.open()
    await fleet.core.close(detach=detach)
    assert await fleet.machines["ash"].refused() == reason

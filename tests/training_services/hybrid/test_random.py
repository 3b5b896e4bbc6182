"""Random orders of events on several platforms: each job is placed once, and none is forgotten."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from pathlib import Path

import pytest

from tests.training_services.fleet import FakeMachine
from tests.training_services.hybrid.rig import FakeAllocation, Rig, cluster, machines
from training_services.base import JobEnded, JobLost, JobWaiting, StopOrdered
from training_services.keepers.host import HostGone
from training_services.keepers.hub import KeeperDesk

STEPS = 60


class Game:
    """An experiment on two machines and two clusters, with a generator that decides what happens next."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.fakes = [FakeMachine("here", cpus=1.0), FakeMachine("there", cpus=2.0)]
        platforms = [
            machines("local", "here"),
            cluster("slurm"),
            machines("remote", "there"),
            cluster("pods"),
        ]
        after = self.random.choice([None, timedelta(milliseconds=1)])
        self.rig = Rig(directory, *platforms, machines=self.fakes, after=after)
        self.jobs: list[str] = []
        self.spoken: set[FakeAllocation] = set()

    def is_over(self, job_id: str) -> bool:
        return any(isinstance(fact, JobEnded | JobLost | StopOrdered) for fact in self.rig.core.of(job_id))

    def waiting(self) -> list[str]:
        return [each for each in self.jobs if isinstance(self.rig.core.of(each)[-1], JobWaiting)]

    def arriving(self) -> list[FakeAllocation]:
        """Return the allocations whose keepers may make their first call."""
        found = self.rig.allocations.values()
        return [each for each in found if each not in self.spoken and self._may_call(each)]

    def _may_call(self, allocation: FakeAllocation) -> bool:
        """Return True if the server would answer the first call of the allocation's keeper."""
        if allocation.manager is None or allocation.gone.done():
            return False
        token = allocation.manager["token"]
        desk = self.rig.hub.find("contract", allocation.keeper_id, token=token)
        return isinstance(desk, KeeperDesk) and desk.open and not desk.link.leaving

    def submit(self) -> None:
        self.jobs.append(self.rig.core.submit(f"a{len(self.jobs):04}"))

    async def speak(self) -> None:
        if arriving := self.arriving():
            allocation = self.random.choice(arriving)
            self.spoken.add(allocation)
            await allocation.speak(self.rig.hub)
            await allocation.poll()

    async def finish(self) -> None:
        """End a running job, on a machine or in an allocation."""
        for machine in self.fakes:
            await machine.poll()
        hosts = [each for each in (*self.fakes, *self.spoken) if each.running]
        if hosts:
            host = self.random.choice(hosts)
            await host.finish(self.random.choice(list(host.running)))

    def lose(self) -> None:
        if arriving := self.arriving():
            self.random.choice(arriving).gone.set_result(HostGone("its node has failed"))

    def cancel(self) -> None:
        if waiting := self.waiting():
            self.rig.core.cancel(self.random.choice(waiting))

    async def step(self) -> None:
        match self.random.choices("sfplc", weights=(4, 3, 4, 1, 1))[0]:
            case "s":
                self.submit()
            case "f":
                await self.finish()
            case "p":
                await self.speak()
            case "l":
                self.lose()
            case "c":
                self.cancel()
        for _ in range(self.random.randrange(8)):
            await asyncio.sleep(0)

    def check(self) -> None:
        for job_id in self.jobs:
            places = self.rig.places(job_id)
            assert len(places) <= 1, (job_id, places)
            hosts = [*self.fakes, *self.rig.allocations.values()]
            started = [host.keeper_id for host in hosts if ("start", job_id) in host.commands]
            assert started in ([], places), (job_id, started, places)


@pytest.mark.parametrize("seed", range(8))
async def test_each_job_is_placed_once_and_none_is_forgotten(tmp_path: Path, seed: int) -> None:
    game = Game(tmp_path, seed)
    rig = game.rig
    await rig.open()
    for _ in range(STEPS):
        await game.step()
        game.check()
    async with asyncio.timeout(30):
        while not all(map(game.is_over, game.jobs)):
            await game.speak()
            await game.finish()
            await asyncio.sleep(0.001)
    game.check()
    await rig.core.close(detach=True)

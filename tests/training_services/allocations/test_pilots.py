"""Which pilots are asked for and given back, without an engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import cast

from tests.training_services.allocations.test_queues import _Seat
from training_services.allocations.pilots import PilotQueue
from training_services.allocations.queues import Acts, Naming
from training_services.base import (
    JobEvent,
    JobPlaced,
    JobWaiting,
    Place,
    TrialJobSpec,
)
from training_services.keepers.host import HostGone
from training_services.keepers.seat import KeeperSeat
from training_services.placement.ledger import HostLedger
from training_services.placement.needs import Capacity, Host, Wants

NAMING = Naming("allocation", str, str)
WANTS = Wants(None, 1, None)


class _Pilot(_Seat):
    wants = WANTS
    silent = arriving = False

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.host = Host(id=name, name=name)
        self.jobs: set[str] = set()
        self.closing: dict[str, None] = {}

    def passing_obstacle(self) -> str | None:
        return self.keeper_host.obstacle()


class Rig:
    """A queue, and the pilots that it has asked for, of 2 CPUs each."""

    def __init__(self, *, most: int | None = None, idle: float = 1000.0) -> None:
        self.put: list[JobEvent] = []
        self.asked: list[str] = []
        self.sent_away: list[str] = []
        self.news = asyncio.Event()
        self.ledger = HostLedger()
        self.pilots: dict[str, _Pilot] = {}
        acts = Acts(self._start, self.put.extend, self._bring, self._send_away, lambda job: WANTS)
        self.queue = PilotQueue(
            acts, NAMING, "exp", self.ledger, idle=timedelta(seconds=idle), most=most,
            room=lambda job, capacity: 2 if capacity is None else int(capacity.cpus),
            placed=lambda: len(self.placed()),
        )  # fmt: skip
        self.queue.listen()

    def _bring(self, keeper_id: str, job_id: str | None) -> None:
        self.asked.append(keeper_id)

    def _send_away(self, seat: KeeperSeat) -> None:
        self.sent_away.append(seat.id)
        self.queue.remove(seat)
        self.news.set()

    def _start(self, job: TrialJobSpec, seat: KeeperSeat, gpus: tuple[int, ...]) -> JobPlaced:
        seat.jobs.add(job.id)
        return JobPlaced(job_id=job.id, place=Place(keeper_id=seat.id, instance="i", boot_id="b"), cmd_seq=1)

    def submit(self, number: int) -> JobPlaced | JobWaiting:
        job_id = f"exp-a{number:04}-1"
        spec = TrialJobSpec(
            id=job_id, trial_id=f"a{number:04}", attempt=1, sequence=number, parameter_text="{}"
        )
        answer = self.queue.submit(spec)
        if isinstance(answer, JobPlaced):
            self.put.append(answer)
        return answer

    def come(self, keeper_id: str) -> KeeperSeat:
        self.pilots[keeper_id] = _Pilot(keeper_id)
        seat = cast(KeeperSeat, self.pilots[keeper_id])
        self.queue.add(seat)
        return seat

    def speak(self, keeper_id: str) -> KeeperSeat:
        seat = self.come(keeper_id)
        self.pilots[keeper_id].spoken = True
        self.ledger.told(seat.host.id, Capacity(2, 1000))
        self.queue.ready(seat)
        return seat

    def end(self, job_id: str, seat: KeeperSeat) -> None:
        seat.jobs.discard(job_id)
        if self.queue.release(job_id, seat):
            self.queue.left(seat)

    def placed(self) -> list[tuple[str, str]]:
        return [(event.job_id, event.place.keeper_id) for event in self.put if isinstance(event, JobPlaced)]

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not true():
                self.news.clear()
                await self.news.wait()


async def test_as_many_pilots_are_asked_for_as_the_waiting_jobs_fill() -> None:
    rig = Rig()
    for number in range(5):
        assert isinstance(rig.submit(number), JobWaiting)
    assert len(rig.asked) == 3
    first = rig.speak(rig.asked[0])
    assert [job for job, _ in rig.placed()] == ["exp-a0000-1", "exp-a0001-1"]
    rig.end("exp-a0000-1", first)  # its place is taken at once
    assert rig.placed()[2:] == [("exp-a0002-1", first.id)]
    assert len(rig.asked) == 3
    rig.queue.close()


async def test_pilots_that_are_larger_than_expected_need_fewer_others() -> None:
    rig = Rig()
    for number in range(4):
        rig.submit(number)
    assert len(rig.asked) == 2
    first = rig.come(rig.asked[0])
    rig.queue.told(first, Capacity(4, 1000), None)
    rig.speak(rig.asked[1])
    for number in range(4, 6):
        rig.submit(number)
    assert len(rig.asked) == 2
    rig.queue.close()


async def test_no_more_pilots_are_asked_for_than_allowed() -> None:
    rig = Rig(most=1)
    for number in range(5):
        rig.submit(number)
    assert len(rig.asked) == 1
    seat = rig.speak(rig.asked[0])
    rig.submit(9)
    assert len(rig.asked) == 1
    rig.queue.remove(seat)  # it leaves, for example because its node has failed
    assert len(rig.asked) == 2
    rig.queue.close()


async def test_a_job_says_why_its_pilot_is_not_there() -> None:
    rig = Rig()
    assert rig.submit(1) == JobWaiting(job_id="exp-a0001-1", reason=NAMING.coming)
    rig.come(rig.asked[0])
    rig.pilots[rig.asked[0]].keeper_host.reason = "waits: allocation 7 waits in partition p"
    rig.queue.tell(rig.asked)
    rig.queue.tell(rig.asked)
    expected = JobWaiting(job_id="exp-a0001-1", reason="waits: allocation 7 waits in partition p")
    assert rig.put == [expected]
    rig.queue.close()


async def test_a_pilot_without_a_job_is_given_back() -> None:
    rig = Rig(idle=0.001)
    rig.submit(1)
    seat = rig.speak(rig.asked[0])
    rig.end("exp-a0001-1", seat)
    await rig.until(lambda: rig.sent_away == [seat.id])
    rig.queue.close()


async def test_pilots_that_are_coming_for_nothing_are_given_back() -> None:
    rig = Rig(idle=0.001)
    rig.submit(1)
    seat = rig.come(rig.asked[0])
    assert rig.queue.withdraw("exp-a0001-1")
    await rig.until(lambda: rig.sent_away == [seat.id])
    rig.queue.close()


async def test_a_pilot_that_is_gone_before_it_called_is_replaced_after_a_pause() -> None:
    rig = Rig()
    rig.submit(1)
    seat = rig.come(rig.asked[0])
    rig.queue.remove(seat)
    rig.queue.gone(seat.id, HostGone("it was canceled"))
    assert len(rig.asked) == 1
    reason = "waits for another allocation: it was canceled"
    assert rig.put == [JobWaiting(job_id="exp-a0001-1", reason=reason)]
    rig.queue.close()

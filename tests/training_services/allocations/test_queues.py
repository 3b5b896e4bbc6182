"""Which allocation takes which job, without an engine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, cast

import pytest

from training_services.allocations import coming
from training_services.allocations.queues import (
    Acts,
    AllocationQueue,
    Naming,
    OwnAllocations,
    SharedAllocations,
)
from training_services.base import (
    Cause,
    JobEnded,
    JobEvent,
    JobLost,
    JobPlaced,
    JobRejected,
    JobWaiting,
    KeptCopy,
    Origin,
    OwnNeeds,
    Place,
    TrialJobSpec,
)
from training_services.keepers.host import HostGone
from training_services.keepers.seat import KeeperSeat
from training_services.placement.needs import Wants

PODS = Naming("pod", str, str)
GONE = HostGone("the pod was evicted from ash")
BROKEN = HostGone("the image has no python3", Cause.USER_ERROR)


@dataclass(eq=False)
class _Host:
    reason: str | None = None

    def obstacle(self) -> str | None:
        return self.reason


@dataclass(eq=False)
class _Seat:
    id: str
    keeper_host: _Host = field(default_factory=_Host)
    trouble: str | None = None
    spoken: bool = False

    def obstacle(self) -> str | None:
        return None if self.spoken else "waits for its keeper"


def job(trial_id: str) -> TrialJobSpec:
    return TrialJobSpec(id=f"exp-{trial_id}-1", trial_id=trial_id, attempt=1, sequence=0, parameter_text="{}")


class Rig:
    """A queue, and the pods that it has asked for."""

    def __init__(self, *, shared: bool) -> None:
        self.put: list[JobEvent] = []
        self.asked: list[str] = []
        self.sent_away: list[str] = []
        self.jobs: list[str | None] = []
        self.wants = Wants(None, None, None)
        self.seats: dict[str, _Seat] = {}
        self.news = asyncio.Event()
        acts = Acts(self._start, self.put.extend, self._bring, self._send_away, self._wants)
        self.queue: AllocationQueue = (
            SharedAllocations(acts, PODS, "exp", idle=timedelta(milliseconds=1))
            if shared
            else OwnAllocations(acts, PODS)
        )

    def _bring(self, keeper_id: str, job_id: str | None) -> None:
        self.asked.append(keeper_id)
        self.jobs.append(job_id)
        self.news.set()

    def _wants(self, job: TrialJobSpec | None) -> Wants:
        return self.wants if job is None else self.wants.of_job(job)

    def _send_away(self, seat: KeeperSeat) -> None:
        self.sent_away.append(seat.id)
        self.news.set()

    async def until(self, names: list[str], number: int) -> None:
        """Wait until so many names are in the list."""
        async with asyncio.timeout(10):
            while len(names) < number:
                self.news.clear()
                await self.news.wait()

    def _start(self, job: TrialJobSpec, seat: Any, gpus: tuple[int, ...]) -> JobPlaced:
        return JobPlaced(
            job_id=job.id, place=Place(keeper_id=seat.id, instance="i", boot_id="b", gpus=gpus), cmd_seq=1
        )

    def submit(
        self, trial_id: str, *, attempt: int = 1, origin: Origin | None = None, kept: KeptCopy | None = None
    ) -> JobPlaced | JobWaiting:
        return self.queue.submit(
            TrialJobSpec(
                id=f"exp-{trial_id}-{attempt}",
                trial_id=trial_id,
                attempt=attempt,
                sequence=0,
                parameter_text="{}",
                origin=origin,
                kept=kept,
            )
        )

    def come(self, keeper_id: str) -> KeeperSeat:
        """The pod is there, but has not called."""
        seat = self.seats[keeper_id] = _Seat(keeper_id)
        self.queue.add(cast(KeeperSeat, seat))
        return cast(KeeperSeat, seat)

    def speak(self, keeper_id: str) -> KeeperSeat:
        seat = self.seats.get(keeper_id) or cast(_Seat, self.come(keeper_id))
        seat.spoken = True
        self.queue.ready(cast(KeeperSeat, seat))
        return cast(KeeperSeat, seat)

    def end(self, job_id: str, seat: KeeperSeat) -> None:
        if self.queue.release(job_id, seat):
            self.queue.left(seat)

    def placed(self) -> list[tuple[str, str]]:
        return [(event.job_id, event.place.keeper_id) for event in self.put if isinstance(event, JobPlaced)]


def test_a_job_gets_a_pod_of_its_name_and_is_placed_when_that_speaks() -> None:
    rig = Rig(shared=False)
    assert rig.submit("aaaa1") == JobWaiting(job_id="exp-aaaa1-1", reason=PODS.coming)
    assert (rig.asked, rig.jobs) == (["exp-aaaa1-1"], ["exp-aaaa1-1"])
    seat = rig.come("exp-aaaa1-1")
    assert rig.queue.expects(seat)
    rig.seats["exp-aaaa1-1"].keeper_host.reason = "waits: no node accepts the pod"
    for _ in range(2):  # once per change
        rig.queue.tell(["exp-aaaa1-1", "exp-other-1"])
    assert rig.put == [JobWaiting(job_id="exp-aaaa1-1", reason="waits: no node accepts the pod")]
    rig.speak("exp-aaaa1-1")
    assert rig.placed() == [("exp-aaaa1-1", "exp-aaaa1-1")]
    assert list(rig.queue) == [] and rig.queue.expects(seat)
    rig.end("exp-aaaa1-1", seat)
    assert not rig.queue.expects(seat)


def test_what_the_cluster_refuses_comes_before_what_it_does() -> None:
    rig = Rig(shared=False)
    rig.submit("aaaa1")
    rig.come("exp-aaaa1-1")
    rig.seats["exp-aaaa1-1"].trouble = "exceeded quota: few"
    rig.queue.reasons_changed()
    assert rig.put == [JobWaiting(job_id="exp-aaaa1-1", reason="waits: exceeded quota: few")]


def test_a_job_whose_pod_is_gone_is_tried_anew_or_has_failed() -> None:
    rig = Rig(shared=False)
    for trial_id, gone in (("aaaa1", GONE), ("bbbb2", BROKEN)):
        rig.submit(trial_id)
        rig.come(f"exp-{trial_id}-1")
        rig.queue.gone(f"exp-{trial_id}-1", gone)
    lost, failed = rig.put
    assert lost == JobLost(job_id="exp-aaaa1-1", reason=str(GONE))
    assert isinstance(failed, JobEnded) and failed.message == str(BROKEN)
    assert (lost.cause, failed.cause) == (Cause.INFRASTRUCTURE, Cause.USER_ERROR)
    assert list(rig.queue) == []


def test_a_job_that_is_taken_back_sends_its_pod_away() -> None:
    rig = Rig(shared=False)
    rig.submit("aaaa1")
    rig.come("exp-aaaa1-1")
    assert rig.queue.withdraw("exp-aaaa1-1") and not rig.queue.withdraw("exp-aaaa1-1")
    assert rig.sent_away == ["exp-aaaa1-1"]
    rig.speak("exp-aaaa1-1")
    assert rig.placed() == []


ORIGIN, KEPT = Origin(attempt=1, number=3, keeper_id="exp-aaaa1-1"), KeptCopy(digest="d", size=1)


@pytest.mark.parametrize("shared", [False, True])
def test_a_job_whose_checkpoint_is_in_another_pod_waits_for_the_copy(shared: bool) -> None:
    rig = Rig(shared=shared)
    reason = "waits until the trial's checkpoint has been copied from pod exp-aaaa1-1"
    assert rig.submit("aaaa1", attempt=2, origin=ORIGIN) == JobWaiting(job_id="exp-aaaa1-2", reason=reason)
    assert rig.asked == [] and list(rig.queue) == ["exp-aaaa1-2"] and "exp-aaaa1-2" in rig.queue
    rig.queue.copied(("exp-aaaa1-1", 2), KEPT)  # another checkpoint
    assert rig.asked == []
    rig.queue.copied(("exp-aaaa1-1", 3), KEPT)
    assert rig.put == [JobWaiting(job_id="exp-aaaa1-2", reason=PODS.coming)] and len(rig.asked) == 1
    rig.speak(rig.asked[0])
    assert rig.placed() == [("exp-aaaa1-2", rig.asked[0])]


def test_a_job_that_waits_for_a_copy_can_be_taken_back() -> None:
    rig = Rig(shared=False)
    rig.submit("aaaa1", attempt=2, origin=ORIGIN)
    assert rig.queue.withdraw("exp-aaaa1-2") and list(rig.queue) == []
    rig.queue.copied(("exp-aaaa1-1", 3), KEPT)
    assert rig.asked == []


async def test_a_pool_prefers_the_pod_that_has_the_files() -> None:
    rig = Rig(shared=True)
    for trial_id in ("aaaa1", "bbbb2"):
        rig.submit(trial_id)
    first, second = (rig.speak(name) for name in list(rig.asked))
    rig.end("exp-aaaa1-1", first)
    rig.end("exp-bbbb2-1", second)  # which would be taken otherwise
    origin = replace(ORIGIN, keeper_id=first.id)
    placed = rig.submit("aaaa1", attempt=2, origin=origin, kept=KEPT)
    assert isinstance(placed, JobPlaced) and placed.place.keeper_id == first.id
    rig.queue.close()


def test_a_pool_has_as_many_pods_as_jobs_and_uses_them_again() -> None:
    rig = Rig(shared=True)
    for trial_id in ("aaaa1", "bbbb2"):
        assert isinstance(rig.submit(trial_id), JobWaiting)
    assert len(rig.asked) == 2 and rig.jobs == [None, None]
    assert all(name.startswith("exp-pool-") for name in rig.asked)
    first = rig.speak(rig.asked[0])
    assert rig.placed() == [("exp-aaaa1-1", rig.asked[0])]
    rig.end("exp-aaaa1-1", first)
    assert rig.placed()[1:] == [("exp-bbbb2-1", rig.asked[0])]
    assert len(rig.asked) == 2


async def test_a_pod_without_a_job_goes_after_a_while() -> None:
    rig = Rig(shared=True)
    rig.submit("aaaa1")
    seat = rig.speak(rig.asked[0])
    rig.end("exp-aaaa1-1", seat)
    placed = rig.submit("bbbb2")
    assert isinstance(placed, JobPlaced) and placed.place.keeper_id == rig.asked[0]
    rig.end("exp-bbbb2-1", seat)
    await rig.until(rig.sent_away, 1)
    assert rig.sent_away == rig.asked[:1]


async def test_pods_that_never_work_are_not_made_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coming, "FIRST_PAUSE_S", 0.001)
    rig = Rig(shared=True)
    rig.submit("aaaa1")
    for number in range(coming.FAILURES):
        await rig.until(rig.asked, number + 1)
        rig.queue.gone(rig.asked[number], BROKEN)
    (end,) = [event for event in rig.put if isinstance(event, JobEnded)]
    assert end.message == str(BROKEN)
    assert JobWaiting(job_id="exp-aaaa1-1", reason=f"waits for another pod: {BROKEN}") in rig.put
    rig.queue.close()


async def test_what_the_cluster_does_to_pods_is_not_the_trials_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coming, "FIRST_PAUSE_S", 0.0001)
    rig = Rig(shared=True)
    rig.submit("aaaa1")
    for number in range(2 * coming.FAILURES):
        await rig.until(rig.asked, number + 1)
        rig.queue.gone(rig.asked[number], GONE)
    assert not any(isinstance(event, JobEnded) for event in rig.put)
    assert list(rig.queue) == ["exp-aaaa1-1"]
    rig.queue.close()


def test_a_pod_that_cannot_be_prepared_is_explained_while_it_is_wanted() -> None:
    for shared in (False, True):
        rig = Rig(shared=shared)
        rig.submit("aaaa1")
        rig.queue.explain(rig.asked[0], "waits: the disk is full")
        assert rig.put == [JobWaiting(job_id="exp-aaaa1-1", reason="waits: the disk is full")]
        assert rig.queue.awaits(rig.asked[0])
        rig.queue.withdraw("exp-aaaa1-1")
        assert not rig.queue.awaits(rig.asked[0])


def test_a_pool_makes_another_pod_for_one_that_is_gone() -> None:
    rig = Rig(shared=True)
    rig.submit("aaaa1")
    seat = rig.speak(rig.asked[0])
    rig.submit("bbbb2")
    assert len(rig.asked) == 2
    rig.queue.remove(seat)
    rig.queue.gone(seat.id, GONE)
    rig.submit("cccc3")
    assert len(rig.asked) == 3


def test_jobs_of_before_keep_their_pods() -> None:
    for shared in (False, True):
        rig = Rig(shared=shared)
        seat = rig.come("exp-aaaa1-1")
        rig.queue.hold(job("aaaa1"), seat, ())
        rig.speak("exp-aaaa1-1")
        assert rig.placed() == [] and rig.queue.expects(seat)


def test_events_are_told_in_one_word_each() -> None:
    def kinds(events: Sequence[JobEvent]) -> list[str]:
        return [type(event).__name__ for event in events]

    rig = Rig(shared=True)
    rig.submit("aaaa1")
    rig.come(rig.asked[0])
    rig.seats[rig.asked[0]].keeper_host.reason = "waits: the image x cannot be pulled"
    rig.queue.reasons_changed()
    rig.speak(rig.asked[0])
    assert kinds(rig.put) == ["JobWaiting", "JobPlaced"]


def test_a_pod_gets_what_its_own_job_needs() -> None:
    def memory(job: TrialJobSpec) -> int:
        if job.trial_id == "wrong":
            raise JobRejected("trialMemorySize is not valid")
        return 512 if job.trial_id == "aaaa1" else 1024

    rig = Rig(shared=False)
    rig.wants = Wants(1, None, None, OwnNeeds(memory=memory))
    rig.submit("aaaa1")
    rig.submit("bbbb2")
    pods = ("exp-aaaa1-1", "exp-bbbb2-1")
    assert [rig.queue.wants(pod) for pod in pods] == [Wants(1, None, 512), Wants(1, None, 1024)]
    with pytest.raises(JobRejected, match="trialMemorySize is not valid"):
        rig.submit("wrong")
    assert len(rig.asked) == 2
    rig.come(pods[0])  # as after a restart of the server, which submits the job again
    assert rig.queue.wants(pods[0]) == Wants(1, None, 512)

"""Queues that decide which allocation runs which job: each job gets its own allocation, or the jobs share a
pool of allocations.

An allocation is a host that an engine creates on demand, such as a pod of Kubernetes.
"""

from __future__ import annotations

import abc
import asyncio
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import chain, islice
from typing import NamedTuple

from training_services.allocations.coming import Coming
from training_services.base import (
    JobEvent,
    JobLost,
    JobPlaced,
    JobWaiting,
    KeptCopy,
    TrialJobSpec,
    never_started,
)
from training_services.keepers.host import HostGone
from training_services.keepers.seat import KeeperSeat
from training_services.placement.needs import Capacity, GpuReading, Wants

__all__ = ["Acts", "AllocationQueue", "Naming", "OwnAllocations", "SharedAllocations", "first_name"]

_ANOTHER = re.compile("-x[0-9a-f]{6}$")
FIRST = 8  # waiting jobs that get every new reason at once; the limit bounds the cost of an event


class Acts(NamedTuple):
    """Functions of the training service that a queue calls.

    ``start`` places a job on a seat (an allocation with its keeper); ``put`` passes events to the core;
    ``bring(keeper_id, job_id)`` creates an allocation for this job, or member of a gang; None: for many jobs.
    ``wants`` returns what a job needs, or raises JobRejected; ``send_away`` removes an allocation.
    ``prefix`` begins the names of all allocations.
    """

    start: Callable[[TrialJobSpec, KeeperSeat, tuple[int, ...]], JobPlaced]
    put: Callable[[Sequence[JobEvent]], None]
    bring: Callable[[str, str | None], None]
    send_away: Callable[[KeeperSeat], None]
    wants: Callable[[TrialJobSpec | None], Wants]
    prefix: str = ""


class Naming(NamedTuple):
    """Names for the allocations of a platform. ``noun``: what an allocation is called, such as "pod".

    ``of_job`` returns the keeper id of the allocation for a job, or a member of a gang. ``valid`` makes a
    keeper id out of another text.
    """

    noun: str
    of_job: Callable[[str], str]
    valid: Callable[[str], str]

    def beginning_with(self, prefix: str) -> Naming:
        """Return names that begin with this prefix."""
        if not prefix:
            return self
        return Naming(
            self.noun,
            lambda job_id: self.valid(f"{prefix}{self.of_job(job_id)}"),
            lambda text: self.valid(f"{prefix}{text}"),
        )

    def another(self, job_id: str) -> str:
        """Return a new name for one more allocation for this job or member (see ``first_name``)."""
        return self.valid(f"{self.of_job(job_id)}-x{secrets.token_hex(3)}")

    @property
    def coming(self) -> str:
        """Sentence about a job whose allocation is being created."""
        return f"waits for its {self.noun}, which is being created"


def first_name(name: str) -> str:
    """Return the name that the first allocation for the same job has."""
    return _ANOTHER.sub("", name)


class AllocationQueue(abc.ABC):
    """Queue of jobs that wait for allocations (see ``JobPlacing``). An allocation runs one job at a time."""

    def __init__(self, acts: Acts, naming: Naming) -> None:
        self._naming = naming.beginning_with(acts.prefix)
        self._start, self._put, self._bring, self._send_away, self._wants, _ = acts
        self._jobs: OrderedDict[str, TrialJobSpec] = OrderedDict()
        # jobs that continue from a checkpoint in another allocation, of which the server has no copy yet
        self._uncopied: dict[str, TrialJobSpec] = {}
        self._told: dict[str, str] = {}
        self._seats: dict[str, KeeperSeat] = {}  # by keeper id
        self._busy: dict[KeeperSeat, str] = {}  # job on each busy seat
        self._owners: dict[str, str] = {}  # keeper -> job for which its allocation is created

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._jobs or job_id in self._uncopied

    def __iter__(self) -> Iterator[str]:
        return chain(self._uncopied, self._jobs)

    def listen(self) -> None:
        return None

    def close(self) -> None:
        return None

    def add(self, seat: KeeperSeat) -> None:
        self._seats[seat.id] = seat

    def remove(self, seat: KeeperSeat) -> None:
        self._seats.pop(seat.id, None)

    @abc.abstractmethod
    def ready(self, seat: KeeperSeat) -> None: ...

    @abc.abstractmethod
    def left(self, seat: KeeperSeat) -> None: ...

    def submit(self, job: TrialJobSpec) -> JobPlaced | JobWaiting:
        if job.origin is not None and job.kept is None:
            self._uncopied[job.id] = job
            keeper_id = job.origin.keeper_id
            reason = (
                f"waits until the trial's checkpoint has been copied from {self._naming.noun} {keeper_id}"
            )
            if (seat := self._seats.get(keeper_id)) is not None and seat.link.ending:
                reason += ", which is shutting down"
            return JobWaiting(job_id=job.id, reason=reason)
        return self._admit(job)

    def copied(self, name: tuple[str, int], kept: KeptCopy) -> None:
        for job in [job for job in self._uncopied.values() if job.origin_id == name]:
            del self._uncopied[job.id]
            self._put([self._admit(replace(job, kept=kept))])

    @abc.abstractmethod
    def _admit(self, job: TrialJobSpec) -> JobPlaced | JobWaiting:
        """Place the job on an allocation, or let it wait for one."""

    @abc.abstractmethod
    def gone(self, keeper_id: str, gone: HostGone) -> None:
        """Handle the end of an allocation. The service handles the jobs that were placed there."""

    @abc.abstractmethod
    def expects(self, seat: KeeperSeat) -> bool:
        """Return True if a job runs on the seat's allocation, or may still be placed there."""

    @abc.abstractmethod
    def awaits(self, keeper_id: str) -> bool:
        """Return True if a job still waits for this allocation, whose creation has failed so far."""

    def wants(self, keeper_id: str) -> Wants:
        """Return what this allocation needs: the resources of its job, or those of any job."""
        return self._wants(None)

    def image(self, keeper_id: str) -> str | None:
        """Return the image of this allocation; None: that of all allocations."""
        return None

    @abc.abstractmethod
    def explain(self, keeper_id: str, reason: str) -> None:
        """Show ``reason`` on the jobs that wait for this allocation."""

    @abc.abstractmethod
    def tell(self, keeper_ids: Sequence[str]) -> None:
        """Report new reasons to the jobs that wait for these allocations, which have changed."""

    def reasons_changed(self) -> None:
        self.tell(list(self._seats))

    def withdraw(self, job_id: str) -> bool:
        if self._uncopied.pop(job_id, None) is not None:
            return True
        if self._jobs.pop(job_id, None) is None:
            return False
        del self._told[job_id]
        return True

    def hold(self, job: TrialJobSpec, seat: KeeperSeat, gpus: tuple[int, ...]) -> None:
        self._busy[seat] = job.id

    def release(self, job_id: str, seat: KeeperSeat, *, heard: bool = True) -> bool:
        if self._busy.get(seat) != job_id:
            return False
        del self._busy[seat]
        return True

    def told(self, seat: KeeperSeat, capacity: Capacity | None, gpus: GpuReading | None) -> None:
        return None

    def _place(self, job: TrialJobSpec, seat: KeeperSeat) -> JobPlaced:
        self._busy[seat] = job.id
        return self._start(job, seat, ())

    def _wait(self, job: TrialJobSpec, reason: str) -> JobWaiting:
        self._jobs[job.id] = job
        self._told[job.id] = reason
        return JobWaiting(job_id=job.id, reason=reason)

    def _take(self, job_id: str) -> TrialJobSpec:
        del self._told[job_id]
        return self._jobs.pop(job_id)

    def _say(self, job_id: str, reason: str) -> None:
        if self._told.get(job_id, reason) != reason:
            self._told[job_id] = reason
            self._put([JobWaiting(job_id=job_id, reason=reason)])

    def _why(self, seat: KeeperSeat) -> str:
        """Return why a job waits for this allocation, as a sentence."""
        if seat.trouble is not None:
            return f"waits: {seat.trouble}"
        return seat.keeper_host.obstacle() or seat.obstacle() or self._naming.coming


class OwnAllocations(AllocationQueue):
    """Queue in which each job has its own allocation, which is named after the job."""

    def remove(self, seat: KeeperSeat) -> None:
        super().remove(seat)
        if self._job_of(seat.id) is None:
            self._owners.pop(seat.id, None)

    def ready(self, seat: KeeperSeat) -> None:
        job_id = self._job_of(seat.id)
        if job_id is not None and seat.obstacle() is None:
            self._put([self._place(self._take(job_id), seat)])

    def left(self, seat: KeeperSeat) -> None:
        return None

    def _admit(self, job: TrialJobSpec) -> JobPlaced | JobWaiting:
        self._wants(job)
        keeper_id = self._naming.of_job(job.id)
        self._owners[keeper_id] = job.id
        seat = self._seats.get(keeper_id)
        if seat is not None and seat.obstacle() is None:
            return self._place(job, seat)
        if seat is None:
            self._bring(keeper_id, job.id)
            return self._wait(job, self._naming.coming)
        return self._wait(job, self._why(seat))

    def withdraw(self, job_id: str) -> bool:
        if not super().withdraw(job_id):
            return False
        self._owners.pop(self._naming.of_job(job_id), None)
        if (seat := self._seats.get(self._naming.of_job(job_id))) is not None:
            self._send_away(seat)
        return True

    def expects(self, seat: KeeperSeat) -> bool:
        return seat in self._busy or self._job_of(seat.id) is not None

    def gone(self, keeper_id: str, gone: HostGone) -> None:
        job_id = self._job_of(keeper_id)
        self._owners.pop(keeper_id, None)
        if job_id is not None:
            self._take(job_id)
            self._put(
                [
                    never_started(job_id, str(gone), gone.cause)
                    if gone.failed
                    else JobLost(job_id=job_id, reason=str(gone), cause=gone.cause)
                ]
            )

    def awaits(self, keeper_id: str) -> bool:
        return self._job_of(keeper_id) is not None

    def explain(self, keeper_id: str, reason: str) -> None:
        if (job_id := self._job_of(keeper_id)) is not None:
            self._say(job_id, reason)

    def tell(self, keeper_ids: Sequence[str]) -> None:
        for keeper_id in keeper_ids:
            seat, job_id = self._seats.get(keeper_id), self._job_of(keeper_id)
            if seat is not None and job_id is not None:
                self._say(job_id, self._why(seat))

    def wants(self, keeper_id: str) -> Wants:
        return self._wants(self._jobs.get(self._owners.get(keeper_id, "")))

    def _job_of(self, keeper_id: str) -> str | None:
        """Return the job that waits for this allocation, or None if no job waits for it."""
        job_id = self._owners.get(keeper_id)
        return job_id if job_id in self._jobs else None


class SharedAllocations(AllocationQueue):
    """Queue whose jobs share a pool of allocations. One without a job for the time ``idle`` is removed.

    There is at most one allocation per job.
    """

    def __init__(self, acts: Acts, naming: Naming, experiment_id: str, *, idle: timedelta) -> None:
        super().__init__(acts, naming)
        self._idle_s = idle.total_seconds()
        self._coming = Coming(f"{experiment_id}-pool", self._naming.valid, acts.bring, self._call)
        self._free: dict[KeeperSeat, asyncio.TimerHandle] = {}

    def close(self) -> None:
        self._coming.close()
        for timer in self._free.values():
            timer.cancel()

    def add(self, seat: KeeperSeat) -> None:
        super().add(seat)
        self._coming.add(seat.id)

    def remove(self, seat: KeeperSeat) -> None:
        super().remove(seat)
        self._busy.pop(seat, None)
        if (timer := self._free.pop(seat, None)) is not None:
            timer.cancel()

    def ready(self, seat: KeeperSeat) -> None:
        self._coming.came(seat.id)
        if seat not in self._busy:
            self._offer(seat)

    def left(self, seat: KeeperSeat) -> None:
        if seat.id in self._seats:
            self._offer(seat)

    def _admit(self, job: TrialJobSpec) -> JobPlaced | JobWaiting:
        origin = self._seats.get(job.origin.keeper_id) if job.origin is not None else None
        while self._free:
            # Take the allocation with the checkpoint's files. Otherwise take the one that became free last,
            # so that the others stay idle and can be removed.
            seat = origin if origin in self._free else next(reversed(self._free))
            self._free.pop(seat).cancel()
            if seat.obstacle() is None:
                return self._place(job, seat)
        waits = self._wait(job, self._told.get(next(iter(self._jobs), ""), self._naming.coming))
        self._call()
        return waits

    def hold(self, job: TrialJobSpec, seat: KeeperSeat, gpus: tuple[int, ...]) -> None:
        super().hold(job, seat, gpus)
        self._coming.discard(seat.id)

    def expects(self, seat: KeeperSeat) -> bool:
        return True

    def gone(self, keeper_id: str, gone: HostGone) -> None:
        if keeper_id not in self._coming:
            self._call()
            return
        if self._coming.gone(keeper_id, failed=gone.failed) and self._jobs:
            job_id = next(iter(self._jobs))
            self._take(job_id)
            self._put([never_started(job_id, str(gone), gone.cause)])
            self._coming.job_failed()
        self.explain(keeper_id, f"waits for another {self._naming.noun}: {gone}")

    def awaits(self, keeper_id: str) -> bool:
        if self._jobs:
            return True
        self._coming.discard(keeper_id)
        return False

    def explain(self, keeper_id: str, reason: str) -> None:
        for job_id in islice(self._jobs, FIRST):
            self._say(job_id, reason)

    def tell(self, keeper_ids: Sequence[str]) -> None:
        coming = next((name for name in keeper_ids if name in self._coming and name in self._seats), None)
        if coming is not None:
            self.explain(coming, self._why(self._seats[coming]))

    def _offer(self, seat: KeeperSeat) -> None:
        """Place the first waiting job on the seat, or keep the seat free for the next job."""
        if seat.obstacle() is not None:
            return
        if self._jobs:
            job = self._take(next(iter(self._jobs)))
            self._put([self._place(job, seat)])
        elif seat not in self._free:
            self._free[seat] = asyncio.get_running_loop().call_later(self._idle_s, self._let_go, seat)

    def _let_go(self, seat: KeeperSeat) -> None:
        del self._free[seat]
        self._send_away(seat)

    def _call(self) -> None:
        """Create allocations until the number that is starting equals the number of waiting jobs."""
        self._coming.call(len(self._jobs))

"""Waiting jobs that can run only on one seat, because they continue from a checkpoint that is only there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from itertools import islice
from typing import Protocol

from training_services.base import (
    JobEvent,
    JobPlaced,
    JobRejected,
    JobWaiting,
    TrialJobSpec,
    never_started,
)
from training_services.placement.needs import Waits

__all__ = ["BoundJobs", "MakeRoom"]

FIRST = 8  # waiting jobs of one seat to which a new reason is reported, which bounds the cost of an event


class MakeRoom(Protocol):
    """Has running jobs of other experiments stopped for the jobs of a line, if that is possible."""

    def __call__(self, line: Hashable, waits: Waits, *, jobs: int) -> Waits:
        """Return why the line's jobs wait, with the jobs that are being stopped for them.

        ``waits``: why the machine has refused the first of these ``jobs``.
        """


class BoundJobs:
    """Queue of jobs for each keeper's seat, in order of arrival.

    ``ask`` places a job on the seat of its keeper, or returns why the job waits there. It raises JobRejected.
    """

    def __init__(self, ask: Callable[[TrialJobSpec, str], JobPlaced | Waits], make_room: MakeRoom) -> None:
        self._ask, self._make_room = ask, make_room
        self._lanes: dict[str, OrderedDict[str, TrialJobSpec]] = {}  # keeper id -> waiting jobs
        self._keepers: dict[str, str] = {}  # job id -> keeper id
        self._refusals: dict[str, str] = {}  # keeper id -> why its machine has refused the first job
        self._told: dict[str, str] = {}  # last reason reported for each waiting job

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._keepers

    def __iter__(self) -> Iterator[str]:
        return iter(self._keepers)

    def __len__(self) -> int:
        return len(self._keepers)

    def submit(self, job: TrialJobSpec, keeper_id: str) -> JobPlaced | JobWaiting:
        """Place the job on the keeper's seat, or queue it. Raises JobRejected if it never fits there."""
        lane = self._lanes.get(keeper_id, OrderedDict[str, TrialJobSpec]())
        if lane:
            waits = Waits(self._refusals[keeper_id])
        else:
            outcome = self._ask(job, keeper_id)
            if isinstance(outcome, JobPlaced):
                return outcome
            waits = outcome
            self._refusals[keeper_id] = waits.reason
        reason = self._make_room(keeper_id, waits, jobs=len(lane) + 1).reason
        self._lanes.setdefault(keeper_id, lane)[job.id] = job
        self._keepers[job.id], self._told[job.id] = keeper_id, reason
        return JobWaiting(job_id=job.id, reason=reason)

    def withdraw(self, job_id: str) -> str:
        """Remove a job. Return the id of the keeper whose machine it has waited for."""
        keeper_id = self._keepers.pop(job_id)
        del self._told[job_id]
        lane = self._lanes[keeper_id]
        del lane[job_id]
        if not lane:
            del self._lanes[keeper_id], self._refusals[keeper_id]
        return keeper_id

    def release(self, name: tuple[str, int]) -> list[tuple[str, TrialJobSpec]]:
        """Remove the jobs that continue from this checkpoint, named by its job and its number.

        Return them, each with the id of the keeper whose machine it has waited for.
        """
        jobs = [job for lane in self._lanes.values() for job in lane.values() if job.origin_id == name]
        return [(self.withdraw(job.id), job) for job in jobs]

    def place(self) -> list[JobEvent]:
        """Place the jobs that fit. Return the events for the core, with changed reasons of waiting jobs."""
        events: list[JobEvent] = []
        for keeper_id, lane in list(self._lanes.items()):
            while lane:
                job = next(iter(lane.values()))
                try:
                    outcome = self._ask(job, keeper_id)
                except JobRejected as rejection:
                    events.append(never_started(job.id, str(rejection)))
                else:
                    if isinstance(outcome, Waits):
                        self._refusals[keeper_id] = outcome.reason
                        waits = self._make_room(keeper_id, outcome, jobs=len(lane))
                        events += self._news(lane, waits.reason)
                        break
                    events.append(outcome)
                self.withdraw(job.id)
        return events

    def _news(self, lane: OrderedDict[str, TrialJobSpec], reason: str) -> Iterator[JobEvent]:
        for job_id in islice(lane, FIRST):
            if self._told[job_id] != reason:
                self._told[job_id] = reason
                yield JobWaiting(job_id=job_id, reason=reason)

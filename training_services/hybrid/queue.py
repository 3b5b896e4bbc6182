"""Jobs that wait for a place on any of several platforms.

A job is in the queue of each platform that it has asked. At the moment when one of them gives it a place, it
leaves all others, before anything is committed or sent. So a job is never placed twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from training_services.base import (
    CheckpointKept,
    EndReason,
    JobEnded,
    JobEvent,
    JobLost,
    JobPlaced,
    JobRejected,
    JobWaiting,
    KeptCopy,
    StopOrdered,
    TrialJobSpec,
    never_started,
)
from training_services.hybrid.route import Route, WaitingJob
from training_services.keepers.service import KeeperService

__all__ = ["HybridQueue"]

LOOK_S = 5.0  # pause before another look whether room is still being made for a job


class HybridQueue:
    """Table of the jobs without a place, which asks platform after platform for each of them.

    ``platform_of`` returns the platform of a keeper. ``put`` passes events to the core. ``found`` is called
    with a job that gets a place, and its platform.
    """

    def __init__(
        self,
        services: Sequence[KeeperService],
        route: Route,
        *,
        platform_of: Callable[[str], int],
        put: Callable[[Sequence[JobEvent]], None],
        found: Callable[[str, int], None],
    ) -> None:
        self._services, self._route = services, route
        self._platform_of, self._put, self._found = platform_of, put, found
        self._jobs: dict[str, WaitingJob] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}  # by job
        self._held: dict[str, None] = {}  # jobs that ask no further while machines are being connected
        self._reasons: dict[str, str | None] = {}  # why jobs got their places, until the core hears of these
        for number, service in enumerate(services):
            service.on_placed = partial(self._placed, number)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._jobs

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    # ---- asking -------------------------------------------------------------------------------------------

    def submit(self, spec: TrialJobSpec) -> JobPlaced | JobWaiting:
        """Ask for a place for the job. Raises JobRejected if no platform can ever run it."""
        now = datetime.now(UTC)
        job = self._jobs[spec.id] = WaitingJob(spec, min(spec.waits_since or now, now))
        return self._ask(job)

    def _ask(self, job: WaitingJob) -> JobPlaced | JobWaiting:
        """Submit the job to the platforms whose turn it is. Raises JobRejected if none can ever run it."""
        job_id = job.spec.id
        if job.is_bound and not job.waits:
            assert job.spec.origin is not None
            placed = self._submit(job, self._platform_of(job.spec.origin.keeper_id))
            if placed is not None:
                return placed
        while (at := self._next_at(job)) is not None:
            if job.waits and (at > datetime.now(UTC) or self._is_held(job) or job.has_room_made):
                break
            number, job.asked = job.asked, job.asked + 1
            if number not in job.waits and (placed := self._submit(job, number)) is not None:
                return placed
        self._forget_timer(job_id)
        if not job.waits:
            del self._jobs[job_id]
            raise JobRejected(self._route.refusal(job))
        if at is not None and self._is_held(job):
            self._held[job_id] = None
        elif at is not None:
            delay = max((at - datetime.now(UTC)).total_seconds(), LOOK_S if job.has_room_made else 0.0)
            self._timers[job_id] = asyncio.get_running_loop().call_later(delay, self._go_on, job_id)
        return self._waits(job)

    def _next_at(self, job: WaitingJob) -> datetime | None:
        """Return when the job asks the next platform; None: there is none that it may ask.

        It asks none while room is being made for it on one: otherwise each of them would stop jobs for it.
        """
        job.has_room_made = any(self._services[number].makes_room for number in job.waits)
        job.deserted = frozenset(number for number in job.waits if self._services[number].is_deserted)
        return self._route.next_at(job)

    def _waits(self, job: WaitingJob) -> JobWaiting:
        job.told = self._route.sentence(job)
        return JobWaiting(job_id=job.spec.id, reason=job.told)

    def _submit(self, job: WaitingJob, number: int) -> JobPlaced | None:
        """Submit the job to one platform. Return its place if it has got one."""
        try:
            answer = self._services[number].submit_trial_job(job.spec)
        except JobRejected as rejection:
            job.refusals[number] = str(rejection)
            return None
        if isinstance(answer, JobPlaced):
            return self.with_reason(answer)
        assert answer is not None
        job.waits[number] = answer.reason
        return None

    def _is_held(self, job: WaitingJob) -> bool:
        """Return True if the job does not ask the next platform yet, because machines are being connected,
        and are likely to have a free place for it.
        """
        return self._route.after is None and any(self._services[number].arriving for number in job.waits)

    def _go_on_if_waiting(self, job_id: str) -> None:
        if job_id in self._jobs:
            self._go_on(job_id)

    def _go_on(self, job_id: str) -> None:
        """Ask the next platform, if the job's time has come."""
        job = self._jobs[job_id]
        told = job.told
        try:
            answer: JobPlaced | JobWaiting | JobEnded = self._ask(job)
        except JobRejected as rejection:
            answer = never_started(job_id, str(rejection))
        if not isinstance(answer, JobWaiting) or answer.reason != told:
            self._put([answer])

    def look(self) -> None:
        """Let jobs ask the next platform that have waited until machines were connected."""
        for job_id in list(self._held):
            if job_id in self._held and not self._is_held(self._jobs[job_id]):
                self._go_on(job_id)

    def copied(self, kept: CheckpointKept) -> None:
        """Let the jobs that continue from this checkpoint ask all platforms, since the server has a copy."""
        name, copy = (kept.job_id, kept.number), KeptCopy(digest=kept.digest, size=kept.size)
        for job in list(self._jobs.values()):
            if job.is_bound and job.spec.origin_id == name:
                job.spec = replace(job.spec, kept=copy)
                self._go_on(job.spec.id)

    # ---- answers ------------------------------------------------------------------------------------------

    def _placed(self, number: int, job_id: str) -> None:
        """Take a job that gets a place on this platform out of the queues of all others."""
        self._found(job_id, number)
        if (job := self._jobs.pop(job_id, None)) is not None:
            self._forget_timer(job_id)
            self._withdraw(job, but=number)
            self._reasons[job_id] = self._route.why_there(job, number, datetime.now(UTC))

    def with_reason(self, placed: JobPlaced) -> JobPlaced:
        """Return the fact with the reason why the job was placed there."""
        return replace(placed, reason=self._reasons.pop(placed.job_id, None))

    def still_waits(self, number: int, event: JobWaiting) -> JobWaiting | None:
        """Record why a job waits on one platform. Return why it waits on all that it has asked."""
        job = self._jobs.get(event.job_id)
        if job is None or number not in job.waits:
            return None
        job.waits[number] = event.reason
        at = self._next_at(job)
        if at is not None and at <= datetime.now(UTC) and not (self._is_held(job) or job.has_room_made):
            asyncio.get_running_loop().call_soon(self._go_on_if_waiting, event.job_id)  # a machine has left
        return self._waits(job)

    def over(self, number: int, event: JobEnded | JobLost) -> JobEvent | None:
        """Handle the end of a job in one queue. Return what the core has to hear: None if it waits on.

        A platform that cannot start the job has only refused it. A lost allocation ends the attempt, like on
        a platform of its own, so that the core counts it.
        """
        job = self._jobs[event.job_id]
        if number not in job.waits:
            return None
        del job.waits[number]
        if isinstance(event, JobEnded) and event.reason is EndReason.NEVER_STARTED:
            job.refusals[number] = event.message or "it could not be started"
            if job.waits or self._route.next_at(job) is not None:
                self._go_on(event.job_id)
                return None
        del self._jobs[event.job_id]
        self._forget_timer(event.job_id)
        self._withdraw(job)
        return event

    def cancel(self, job_id: str, grace: timedelta) -> StopOrdered | None:
        """Take a job out of all queues. Return the fact to commit; None if the job has just ended there."""
        job = self._jobs.pop(job_id)
        self._forget_timer(job_id)
        answers = self._withdraw(job)
        return replace(answers[0], grace=grace) if answers else None

    def _withdraw(self, job: WaitingJob, *, but: int | None = None) -> list[StopOrdered]:
        """Take the job out of the queues of all platforms but one. Return their answers."""
        answers = [
            self._services[number].cancel_trial_job(job.spec.id, grace=timedelta(0))
            for number in job.waits
            if number != but
        ]
        return [answer for answer in answers if answer is not None]

    def _forget_timer(self, job_id: str) -> None:
        self._held.pop(job_id, None)
        if (timer := self._timers.pop(job_id, None)) is not None:
            timer.cancel()

"""Timers that end the allocations of jobs whose keepers do not carry out an order to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta

from training_services.base import (
    TRIAL_GRACE,
    JobEvent,
    MembersStopped,
    StopOrdered,
    TrialJobSpec,
    member_id_of,
)
from training_services.keepers.seat import KeeperSeat

__all__ = ["Insistence", "stops_before", "stops_in"]

INSIST_S = 10.0  # seconds after the time that a stopped job has, until its allocation is ended


class Insistence:
    """Calls ``act`` with a job, or a member of a gang, and its seat when the time to obey is over."""

    def __init__(self, act: Callable[[str, KeeperSeat], None]) -> None:
        self._act = act
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def begin(self, job_id: str, seat: KeeperSeat, within: timedelta = timedelta(0)) -> None:
        """Wait until the job had the time ``within`` to end, unless its end is waited for already."""
        if job_id not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[job_id] = loop.call_later(
                within.total_seconds() + INSIST_S, self._over, job_id, seat
            )

    def _over(self, job_id: str, seat: KeeperSeat) -> None:
        del self._timers[job_id]
        self._act(job_id, seat)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()


def stops_in(fact: JobEvent) -> Iterator[tuple[str, timedelta]]:
    """Yield the jobs and members that a fact orders to stop, with the longest time that each has to end."""
    if isinstance(fact, StopOrdered) and fact.cmd_seq:
        yield fact.job_id, fact.grace + (fact.save_within or timedelta(0))
    elif isinstance(fact, MembersStopped):
        for member, _ in fact.orders:
            yield member_id_of(fact.job_id, member), fact.grace


def stops_before(job: TrialJobSpec) -> Iterator[tuple[str, timedelta]]:
    """Yield what was ordered to stop of a job before the server's restart, as ``stops_in`` does."""
    if job.stop is not None:
        yield from stops_in(job.stop)
    for number, member in enumerate(job.members):
        if member.stop is not None:
            yield member_id_of(job.id, number), TRIAL_GRACE

"""Room for more members of running gangs, which have fewer members than they may have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic

from training_services.base import JobEvent, RoomForMembers, TrialJobSpec, job_of_member
from training_services.placement.apart import Apart
from training_services.placement.choice import S
from training_services.placement.gang import GangWants, Refused, choose_hosts
from training_services.placement.ledger import HostLedger

__all__ = ["GangRooms"]


@dataclass(slots=True)
class _Running(Generic[S]):
    """Gang that has places. ``members``: id of each member -> its seat."""

    job: TrialJobSpec
    members: dict[str, S] = field(default_factory=dict)


class GangRooms(Generic[S]):
    """Watches how many members each running gang of an experiment could have, and reports changes.

    ``seats`` returns the seats that can take members now: none while a job waits, because the waiting job
    comes first. ``put`` passes events to the core. Places that are free are reported, and never held.
    """

    def __init__(
        self,
        experiment_id: str,
        ledger: HostLedger,
        wants: GangWants,
        apart: Apart,
        *,
        seats: Callable[[], Iterable[S]],
        put: Callable[[Sequence[JobEvent]], None],
    ) -> None:
        self._experiment_id, self._ledger, self._wants, self._apart = experiment_id, ledger, wants, apart
        self._seats, self._put = seats, put
        self._running: dict[str, _Running[S]] = {}
        self._told: dict[str, int] = {}  # job -> number of members that was reported last
        self._look: asyncio.Handle | None = None

    def placed(self, job: TrialJobSpec, seats: Sequence[S], member_ids: Sequence[str]) -> None:
        """Record the places of a new gang. The core then forgets what was reported about all gangs."""
        self._running[job.id] = _Running(job, dict(zip(member_ids, seats, strict=True)))
        self._told.clear()
        self.look()

    def hold(self, part: TrialJobSpec, seat: S) -> None:
        """Record a member that was placed before the server's restart. ``part``: its part of the job."""
        job_id, _ = job_of_member(part.id)
        gang = self._running.setdefault(job_id, _Running(replace(part, id=job_id)))
        gang.members[part.id] = seat
        self.look()

    def left(self, member_id: str) -> None:
        """Forget the gang of a member that has ended: the other members end, too."""
        job_id, _ = job_of_member(member_id)
        self._running.pop(job_id, None)
        self._told.pop(job_id, None)
        self.look()

    def look(self) -> None:
        """Report soon how many members the gangs could have, because this may have changed."""
        if self._look is None and self._wants.least < self._wants.most and self._running:
            self._look = asyncio.get_running_loop().call_soon(self._report)

    def close(self) -> None:
        if self._look is not None:
            self._look.cancel()

    def _report(self) -> None:
        self._look = None
        usable = list(self._seats())
        for job_id, gang in self._running.items():
            if len(gang.members) < self._wants.most:
                number = self._possible(gang, usable)
                if self._told.get(job_id) != number:
                    self._told[job_id] = number
                    self._put([RoomForMembers(job_id=job_id, members=number)])

    def _possible(self, gang: _Running[S], usable: Sequence[S]) -> int:
        """Return the number of members that the gang would get if it were placed again now."""
        own = [seat for seat in gang.members.values() if seat in usable]
        asked = [
            (seat.wants.of_job(gang.job).need(self._experiment_id, gang.job.id), seat.host)
            for seat in usable
            if (self._wants.same_host or seat not in own)
            and not self._ledger.is_awaited(seat.host.id)
            and not any(self._apart.between(other.host, seat.host) for other in own)
        ]
        wants = replace(self._wants, least=0, most=self._wants.most - len(own))
        more = choose_hosts(wants, asked, self._ledger.fits, self._apart.rule)
        return len(own) + (0 if isinstance(more, Refused) else len(more))

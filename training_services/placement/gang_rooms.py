"""Running gangs of an experiment: room for more members of them, and members that they can do without."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic

from training_services.base import (
    FewerMembersWanted,
    JobEvent,
    RoomForMembers,
    TrialJobSpec,
    job_of_member,
)
from training_services.placement.apart import Apart
from training_services.placement.choice import S
from training_services.placement.gang import GangWants, Refused, choose_hosts
from training_services.placement.ledger import HostLedger
from training_services.placement.spares import Shrinkable

__all__ = ["GangRooms"]


@dataclass(slots=True)
class _Running(Generic[S]):
    """Gang that has places. ``members``: id of each member -> its seat. ``has_saved``: it can continue from a
    checkpoint.
    """

    job: TrialJobSpec
    has_saved: bool
    members: dict[str, S] = field(default_factory=dict)


class GangRooms(Generic[S]):
    """Watches how many members each running gang of an experiment could have, and reports changes. Has gangs
    continue with fewer members when jobs that wait need their places (see ``Spares``).

    ``seats`` returns the seats that can take members now: none while a job waits, because the waiting job
    comes first. ``put`` passes events to the core. Places that are free are reported, and never held.
    ``can_stop`` returns whether a job could be stopped now.
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
        can_stop: Callable[[str], bool],
    ) -> None:
        self._experiment_id, self._ledger, self._wants, self._apart = experiment_id, ledger, wants, apart
        self._seats, self._put, self._can_stop = seats, put, can_stop
        self._running: dict[str, _Running[S]] = {}
        self._told: dict[str, int] = {}  # job -> number of members that was reported last
        self._look: asyncio.Handle | None = None

    def listen(self) -> None:
        """Let the gangs give up members for jobs that wait, if their number of members may vary."""
        if self._wants.least < self._wants.most:
            gangs = Shrinkable(least=self._wants.least, can_shrink=self._can_shrink, shrink=self._shrink)
            self._ledger.preemption.spares.allow(self._experiment_id, gangs)

    def placed(self, job: TrialJobSpec, seats: Sequence[S], member_ids: Sequence[str]) -> None:
        """Record the places of a new gang. The core then forgets what was reported about all gangs."""
        members = dict(zip(member_ids, seats, strict=True))
        self._running[job.id] = _Running(job, job.has_saved, members)
        hosts = {member_id: seat.host.id for member_id, seat in members.items()}
        self._ledger.preemption.spares.placed(self._experiment_id, job.id, hosts)
        self._told.clear()
        self.look()

    def hold(self, part: TrialJobSpec, seat: S) -> None:
        """Record a member that was placed before the server's restart. ``part``: its part of the job."""
        job_id, _ = job_of_member(part.id)
        gang = self._running.setdefault(job_id, _Running(replace(part, id=job_id), part.has_saved))
        gang.members[part.id] = seat
        self._ledger.preemption.spares.held(self._experiment_id, part.id, seat.host.id)
        self.look()

    def saved(self, job_id: str) -> None:
        """Record that a gang can continue from a checkpoint, and so with fewer members."""
        gang = self._running.get(job_id)
        if gang is not None and not gang.has_saved:
            gang.has_saved = True
            self._ledger.can_shrink([seat.host.id for seat in gang.members.values()])

    def _can_shrink(self, job_id: str) -> bool:
        gang = self._running.get(job_id)
        return gang is not None and gang.has_saved and self._can_stop(job_id)

    def _shrink(self, job_id: str, leaving: tuple[int, ...], by: str) -> None:
        self._put([FewerMembersWanted(job_id=job_id, leaving=leaving, by=by)])

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

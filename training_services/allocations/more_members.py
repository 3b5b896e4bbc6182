"""Allocations for more members of running gangs, which have fewer members than they may have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from training_services.allocations.queues import Acts, Naming
from training_services.base import Gang, RoomForMembers, TrialJobSpec
from training_services.job_ids import job_of_member, member_id_of, next_attempt
from training_services.keepers.seat import KeeperSeat

__all__ = ["MoreMembers"]

ASK_S = 1.0  # before allocations are asked for: jobs that are about to wait come first
AGAIN_S = 60.0  # after an allocation has ended by itself
# Time between the end of an attempt and the next one, for which the allocations are kept. Attempts after a
# failure may come later, and get new allocations.
NEXT_ATTEMPT_S = 30.0


@dataclass(slots=True)
class _Running:
    """Gang that has places. ``has_saved``: it can continue from a checkpoint. ``stays``: it had allocations
    for more members for long enough, and has not used them.
    """

    job: TrialJobSpec
    has_saved: bool
    members: set[str] = field(default_factory=set)
    stays: bool = False


class MoreMembers:
    """Asks for allocations for more members, and reports to the core how many members each gang could have.

    One gang at a time gets them: the oldest with a checkpoint. They are made for members of its next attempt,
    which takes them over (``claim``). Until then they hold nodes, so this has limits: there are none while
    another job of the experiment waits, and a gang that does not use them in time gives them back.

    ``can_start(keeper_id)`` returns whether a member can start in this allocation. ``seat`` returns the seat
    of an allocation that exists. ``waits`` returns whether a job of the experiment waits.
    """

    def __init__(
        self,
        acts: Acts,
        naming: Naming,
        gang: Gang,
        *,
        can_start: Callable[[str], bool],
        seat: Callable[[str], KeeperSeat | None],
        waits: Callable[[], bool],
    ) -> None:
        self._put, self._bring, self._send_away = acts.put, acts.bring, acts.send_away
        self._naming, self._most, self._hold = naming, gang.nodes, gang.hold_more
        self._can_start, self._seat, self._waits = can_start, seat, waits
        self._running: dict[str, _Running] = {}
        self._asked: dict[str, tuple[TrialJobSpec, str]] = {}  # allocation -> running job, member it is for
        self._told: dict[str, int] = {}  # job -> number of members that was reported last
        self._look: asyncio.Handle | None = None
        self._ask: asyncio.TimerHandle | None = None
        self._limit: asyncio.TimerHandle | None = None  # of the time for which allocations are held

    def __contains__(self, keeper_id: object) -> bool:
        return keeper_id in self._asked

    def close(self) -> None:
        for handle in (self._look, self._ask, self._limit):
            if handle is not None:
                handle.cancel()
        self._running, self._asked, self._hold = {}, {}, None

    def part(self, keeper_id: str) -> TrialJobSpec | None:
        """Return the part of a job for which this allocation is made."""
        if (asked := self._asked.get(keeper_id)) is None:
            return None
        job, member_id = asked
        return replace(job, member=job_of_member(member_id)[1])

    # ---- running gangs ------------------------------------------------------------------------------------

    def placed(self, job: TrialJobSpec, members: int, *, stays: bool) -> None:
        """Record a new gang. The core then forgets what was reported about all gangs.

        ``stays``: it was ended to have more members, and has not got them, so it stays as it is.
        """
        if self._hold is not None:
            ids = {member_id_of(job.id, number) for number in range(members)}
            self._running[job.id] = _Running(job, job.has_saved, ids, stays)
            self._told.clear()
            self.look()

    def held(self, part: TrialJobSpec) -> None:
        """Record a member that was placed before the server's restart. ``part``: its part of the job."""
        if self._hold is not None:
            job_id, _ = job_of_member(part.id)
            gang = self._running.setdefault(job_id, _Running(replace(part, id=job_id), part.has_saved))
            gang.members.add(part.id)
            self.look()

    def saved(self, job_id: str) -> None:
        """Record that a gang can continue from a checkpoint, and so with more members."""
        gang = self._running.get(job_id)
        if gang is not None and not gang.has_saved:
            gang.has_saved = True
            self.look()

    def left(self, member_id: str) -> None:
        """Forget the gang of a member that has ended. Its next attempt takes over the allocations."""
        job_id, _ = job_of_member(member_id)
        if self._running.pop(job_id, None) is not None:
            self._told.pop(job_id, None)
            if self._asked_for(job_id):
                self._act_after(NEXT_ATTEMPT_S, self.withdraw)
            self.look()

    # ---- allocations --------------------------------------------------------------------------------------

    def claim(self, job_id: str) -> dict[str, str]:
        """Return the allocations that were made for this new job, by the ids of its members. Remove those
        for other jobs, because this one may need their nodes.
        """
        claimed = {
            member_id: keeper_id
            for keeper_id, (_, member_id) in self._asked.items()
            if job_of_member(member_id)[0] == job_id
        }
        for keeper_id in claimed.values():
            del self._asked[keeper_id]
        self.withdraw()
        return claimed

    def withdraw(self) -> None:
        """Remove the allocations."""
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
        names, self._asked = list(self._asked), {}
        for name in names:
            if (seat := self._seat(name)) is not None:
                self._send_away(seat)
        self.look()

    def gone(self, keeper_id: str) -> None:
        """Handle the end of an allocation, and ask for another one later."""
        del self._asked[keeper_id]
        self._ask_after(AGAIN_S)
        self.look()

    def look(self) -> None:
        """Soon ask for what is missing, and report what is there, because this may have changed."""
        if self._look is None and self._hold is not None:
            self._look = asyncio.get_running_loop().call_soon(self._look_now)

    def _look_now(self) -> None:
        self._look = None
        for job_id, gang in self._running.items():
            if (now := len(gang.members)) < self._most:
                number = now + sum(map(self._can_start, self._asked_for(job_id)))
                if number > now and self._limit is None and self._hold is not None:
                    self._act_after(self._hold.total_seconds(), partial(self._give_back, gang))
                if self._told.get(job_id) != number:
                    self._told[job_id] = number
                    self._put([RoomForMembers(job_id=job_id, members=number)])
        if self._ask is None and self._next() is not None:
            self._ask_after(ASK_S)

    def _next(self) -> _Running | None:
        """Return the gang for which allocations are to be asked for."""
        if self._asked or self._waits():
            return None
        return next(
            (
                gang
                for gang in self._running.values()
                if gang.has_saved and not gang.stays and len(gang.members) < self._most
            ),
            None,
        )

    def _ask_after(self, seconds: float) -> None:
        if self._ask is not None:
            self._ask.cancel()
        self._ask = asyncio.get_running_loop().call_later(seconds, self._ask_now)

    def _ask_now(self) -> None:
        self._ask = None
        if (gang := self._next()) is None:
            return
        job_id = next_attempt(gang.job.id)
        for number in range(len(gang.members), self._most):
            member_id = member_id_of(job_id, number)
            keeper_id = self._naming.another(member_id)
            self._asked[keeper_id] = gang.job, member_id
            self._bring(keeper_id, member_id)

    def _give_back(self, gang: _Running) -> None:
        gang.stays = True
        self.withdraw()

    def _asked_for(self, job_id: str) -> list[str]:
        return [keeper_id for keeper_id, (job, _) in self._asked.items() if job.id == job_id]

    def _act_after(self, seconds: float, act: Callable[[], None]) -> None:
        """Limit the time for which the allocations are held."""
        if self._limit is not None:
            self._limit.cancel()
        self._limit = asyncio.get_running_loop().call_later(seconds, act)

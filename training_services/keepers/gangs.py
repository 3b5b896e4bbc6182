"""Part of a keeper service that runs gangs: jobs whose members are run by keepers on several hosts.

Each member is run as a job of its own (``member_id_of``): it has a start, a claim, a folder and an end. The
core hears of the member's start and end, and makes what happens to the whole job from them.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

from training_services.base import (
    TRIAL_GRACE,
    GangGathered,
    JobPlaced,
    MemberEnded,
    MemberLost,
    MemberPlace,
    MembersStopped,
    MemberStarted,
    StopOrdered,
    TrialJobSpec,
    UpdateOrdered,
    member_id_of,
)
from training_services.keepers.checkpoints import CheckpointsOfJobs
from training_services.keepers.job_ends import JobEnds
from training_services.keepers.seat import KeeperSeat
from training_services.placement.apart import Apart

__all__ = ["GO", "GangFact", "GangsOfJobs"]

GO = 1  # index of the update that lets a member join the leader; its text has no content
BESIDE = "127.0.0.1"  # address of the leader if all members are on one host

GangFact = MemberStarted | GangGathered | MembersStopped | MemberEnded | MemberLost


class GangsOfJobs(CheckpointsOfJobs):
    """Part of a keeper service that has the members of gangs, and frees the places of what has ended.

    ``_gangs``: job -> seats of its members; None: no longer in the configuration.
    """

    _gangs: dict[str, list[KeeperSeat | None]]
    _apart: Apart
    _ends: JobEnds

    @abc.abstractmethod
    def _start(self, job: TrialJobSpec, seat: KeeperSeat, gpus: tuple[int, ...]) -> JobPlaced:
        """Order the start of a job without members. Return the fact to commit."""

    def _start_gang(
        self, job: TrialJobSpec, places: Sequence[tuple[KeeperSeat, tuple[int, ...]]]
    ) -> JobPlaced:
        """Order the start of all members of a job on these seats. Return the fact to commit.

        An attempt with one member is a job like any other, because there is nobody to meet.
        """
        if len(places) == 1:
            ((seat, gpus),) = places
            return self._start(job, seat, gpus)
        hosts, key = _addresses([seat for seat, _ in places]), places[0][0].line_key(job.id)
        self._gangs[job.id] = [seat for seat, _ in places]
        placed = []
        for number, (seat, gpus) in enumerate(places):
            spec = _part(job, number, hosts=hosts, key=key, keeper_id=seat.id)
            placed.append(seat.link.jobs.order_start(spec, gpus=gpus, start=seat.start_order(spec, gpus)))
            self._placed.put(spec.id, seat)
        leader, *others = (
            MemberPlace(place=replace(each.place, address=address), cmd_seq=each.cmd_seq)
            for each, address in zip(placed, hosts, strict=True)
        )
        return replace(placed[0], place=leader.place, members=tuple(others))

    def _adopt_gang(self, job: TrialJobSpec, placed: JobPlaced) -> None:
        """Take over the members that were placed before the server's restart and are not over."""
        leader = MemberPlace(place=placed.place, cmd_seq=placed.cmd_seq)
        places = [leader, *placed.members]
        self._gangs[job.id] = seats = [self._seats.get(each.place.keeper_id) for each in places]
        # places that an earlier version of nnimgr has recorded have no addresses
        hosts = tuple(each.place.address for each in places) if placed.place.address else _addresses(seats)
        key = "" if seats[0] is None else seats[0].line_key(job.id)
        for number, (each, seat) in enumerate(zip(places, seats, strict=True)):
            if job.members[number].over:
                continue
            if seat is None:
                reason = f"keeper {each.place.keeper_id} is no longer in the configuration"
                self._outbox.put([MemberLost(job_id=job.id, member=number, reason=reason)])
                continue
            spec = _part(job, number, hosts=hosts, key=key, keeper_id=seat.id)
            spec = _with_progress(
                spec, job, JobPlaced(job_id=spec.id, place=each.place, cmd_seq=each.cmd_seq)
            )
            seat.link.jobs.adopt(spec, seat.start_order(spec, each.place.gpus))
            self._placed.put(spec.id, seat)
            self._queue.hold(spec, seat, each.place.gpus)

    def _members_of(self, job_id: str) -> Iterator[tuple[int, str, KeeperSeat]]:
        """Yield number, id and seat of the members of a gang that are placed and not forgotten."""
        for number in range(len(self._gangs.get(job_id, ()))):
            member_id = member_id_of(job_id, number)
            if (seat := self._placed.get(member_id)) is not None:
                yield number, member_id, seat

    # ---- orders -------------------------------------------------------------------------------------------

    def gather(self, job_id: str) -> GangGathered | None:
        members = list(self._members_of(job_id))
        if len(members) != len(self._gangs.get(job_id, ())) or not all(
            seat.link.jobs.is_open(member_id) for _, member_id, seat in members
        ):
            return None  # the end of a member is about to be reported
        orders = [
            seat.link.jobs.order_update(member_id, index=GO, parameter="")
            for number, member_id, seat in members
            if number
        ]
        return GangGathered(job_id=job_id, orders=tuple(each.cmd_seq for each in orders if each is not None))

    def stop_members(self, job_id: str, members: Sequence[int], *, grace: timedelta) -> MembersStopped | None:
        """See the base class. A member whose start is being committed cannot be stopped yet: the core asks
        again when it hears of the member.
        """
        orders: list[tuple[int, int]] = []
        for number, member_id, seat in self._members_of(job_id):
            if number in members and seat.link.jobs.is_ordered(member_id):
                order = seat.link.jobs.order_stop(member_id, grace=grace)
                if order is not None and order.cmd_seq is not None:
                    orders.append((number, order.cmd_seq))
        return MembersStopped(job_id=job_id, orders=tuple(orders), grace=grace) if orders else None

    def _cancel_gang(
        self, job_id: str, *, grace: timedelta, save_within: timedelta | None
    ) -> StopOrdered | None:
        """Order the leader to stop. If the job's places are not committed yet, withdraw all starts.

        If only other members are left, or the leader was stopped before, no command is sent.
        """
        members = list(self._members_of(job_id))
        if not any(seat.link.jobs.is_open(member_id) for _, member_id, seat in members):
            return None
        number, member_id, seat = members[0]
        order = None
        if number == 0:
            order = seat.link.jobs.order_stop(member_id, grace=grace, save_within=save_within)
        if order is None:
            return StopOrdered(job_id=job_id, cmd_seq=0, grace=grace, save_within=save_within)
        if order.cmd_seq is None:
            for _, other, at in members[1:]:
                at.link.jobs.order_stop(other, grace=grace)
        return order

    # ---- facts that the core has committed ----------------------------------------------------------------

    def _commit_places(self, placed: JobPlaced) -> None:
        """Let the starts of the members leave, whose places are now committed."""
        for number, each in enumerate(placed.members, start=1):
            member_id = member_id_of(placed.job_id, number)
            if (seat := self._placed.get(member_id)) is not None:
                seat.link.jobs.command_committed(member_id, each.cmd_seq)
                seat.desk.flush()

    def _take_gang_fact(self, fact: GangFact) -> None:
        """Apply one committed fact about members, and answer the held calls of their keepers."""
        seats = {number: (member_id, seat) for number, member_id, seat in self._members_of(fact.job_id)}
        match fact:
            case GangGathered():
                for number, seq in enumerate(fact.orders, start=1):
                    self._command_committed(seats.get(number), seq)
            case MembersStopped():
                for number, seq in fact.orders:
                    self._command_committed(seats.get(number), seq)
                    if number in seats:
                        seats[number][1].expect_obedience()
            case MemberEnded() | MemberLost() if fact.member in seats:
                self._keep_apart(fact)
                member_id, seat = seats[fact.member]
                self._end_committed(member_id, seat, lost=isinstance(fact, MemberLost))
                seat.desk.flush()

    def _keep_apart(self, fact: MemberEnded | MemberLost) -> None:
        """Record the hosts of a member and its leader if the member could not reach its leader."""
        if isinstance(fact, MemberEnded) and fact.unreached:
            seats = self._gangs.get(fact.job_id, [])
            leader, own = seats[0], seats[fact.member]
            if leader is not None and own is not None:
                self._apart.part(leader.host, own.host)

    def _command_committed(self, member: tuple[str, KeeperSeat] | None, seq: int) -> None:
        if member is not None:
            member_id, seat = member
            seat.link.jobs.command_committed(member_id, seq)
            seat.desk.flush()

    def _end_committed(self, job_id: str, seat: KeeperSeat, *, lost: bool) -> None:
        """Take the committed end of a job or a member."""
        self._outbox.put(seat.link.jobs.end_committed(job_id, lost=lost))
        seat.desk.settle(("ended", job_id))
        self._ends.came(job_id)
        self._leave(job_id, seat)

    def _leave(self, job_id: str, seat: KeeperSeat) -> None:
        """Free the place of a job that has ended.

        Remove the job from the tables if its keeper needs no more commands for it.
        """
        if not seat.link.jobs.is_astray(job_id):
            self._placed.release(job_id, seat)
        seat.closing[job_id] = None
        self._placed.forget_ended(job_id, seat)
        self._vacated(seat)

    def _leave_withdrawn(self, job_id: str, seat: KeeperSeat) -> None:
        """Free the places of a job, and of a gang's members, whose starts were withdrawn."""
        for _, member_id, at in list(self._members_of(job_id)):
            self._leave(member_id, at)
        if not self._forget_gang(job_id):
            self._leave(job_id, seat)

    def _forget_gang(self, job_id: str) -> bool:
        """Forget a gang whose job is over, because all its members are. Return False if it is no gang."""
        return self._gangs.pop(job_id, None) is not None


def _addresses(seats: Sequence[KeeperSeat | None]) -> tuple[str, ...]:
    """Return where the members on these seats reach each other."""
    if len({None if seat is None else seat.host.id for seat in seats}) == 1:
        return (BESIDE,) * len(seats)
    return tuple("" if seat is None else seat.keeper_host.gang_address for seat in seats)


def _part(
    job: TrialJobSpec, number: int, *, hosts: tuple[str, ...], key: str, keeper_id: str
) -> TrialJobSpec:
    """Return the part of a gang's job for one member. Only the leader's results and checkpoints count.

    The others begin from the leader's checkpoint if they can have it: on its host, or as the server's copy.
    """
    has_origin = job.kept is not None or (job.origin is not None and job.origin.keeper_id == keeper_id)
    return replace(
        job,
        id=member_id_of(job.id, number),
        member=number,
        hosts=hosts,
        line_key=key,
        origin=job.origin if number == 0 or has_origin else None,
        kept=job.kept,
        members=(),
    )


def _with_progress(part: TrialJobSpec, job: TrialJobSpec, placed: JobPlaced) -> TrialJobSpec:
    """Return a member's part of a job with the facts about this member that are committed."""
    number = part.member or 0
    progress = job.members[number]
    stop = job.stop if number == 0 and job.stop is not None and job.stop.cmd_seq else None
    if progress.stop is not None:
        stop = StopOrdered(job_id=part.id, cmd_seq=progress.stop, grace=TRIAL_GRACE)
    go = () if progress.go is None else (UpdateOrdered(job_id=part.id, index=GO, cmd_seq=progress.go),)
    return replace(
        part,
        place=placed,
        stop=stop,
        save=job.save if number == 0 else None,
        updates=tuple((order, "") for order in go),
        recorded=job.recorded if number == 0 else 0,
        started=progress.started,
    )

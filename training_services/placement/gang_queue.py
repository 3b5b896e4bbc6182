"""Queue of an experiment whose jobs are gangs: each needs places on several hosts at the same time.

A gang gets all its places at once, or none. If the number of members may vary, it gets as many places as are
free, but only the least number while other jobs wait. The jobs are placed strictly in order of arrival, so a
gang never waits behind later ones that need less. Meanwhile it holds nothing. But experiments whose turn
comes later leave it what one of its members needs on each host (see ``HostLedger``), so that it is placed in
the end. Running gangs give up members for the first job, and running jobs are stopped for it if they have a
lower priority and allow that (see ``GangPreemption``).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import count, islice
from typing import Generic

from training_services.base import (
    JobEvent,
    JobPlaced,
    JobRejected,
    JobWaiting,
    KeptCopy,
    TrialJobSpec,
    member_id_of,
    never_started,
)
from training_services.placement.apart import Apart
from training_services.placement.choice import S
from training_services.placement.gang import Asked, GangWants, why_gang_waits
from training_services.placement.gang_rooms import GangRooms
from training_services.placement.ledger import HostLedger
from training_services.placement.needs import Capacity, GpuReading, Host, Waits, all_of
from training_services.placement.obstacles import Obstacles
from training_services.placement.queue import not_here

__all__ = ["GangQueue"]

FIRST = 8  # waiting jobs to which a new reason is reported, which bounds the cost of an event
COPIED_FOR_ALL = "waits until the trial's checkpoint has been copied to the server, for all members"
BEHIND = "waits behind other trials of its experiment"
_LINE = 0  # all jobs form one line


class GangQueue(Generic[S]):
    """Queue of an experiment's waiting gangs. A seat is a machine that takes members.

    ``apart``: hosts that no gang gets together. ``start`` gives a job places on these seats, with these GPUs,
    the leader's first. ``put`` passes events to the core. ``can_stop`` returns whether a job could be stopped
    now.
    """

    def __init__(
        self,
        experiment_id: str,
        ledger: HostLedger,
        wants: GangWants,
        apart: Apart,
        *,
        start: Callable[[TrialJobSpec, Sequence[tuple[S, tuple[int, ...]]]], JobPlaced],
        put: Callable[[Sequence[JobEvent]], None],
        can_stop: Callable[[str], bool],
    ) -> None:
        self._experiment_id, self._ledger, self._wants, self._apart = experiment_id, ledger, wants, apart
        self._start, self._put = start, put
        self._jobs: OrderedDict[str, TrialJobSpec] = OrderedDict()
        self._arrivals: dict[str, int] = {}
        self._numbers = count()
        self._told: dict[str, str] = {}  # last reason reported for each waiting job
        self._seats: dict[S, None] = {}
        self._obstacles: Obstacles[S] = Obstacles(self.reasons_changed)
        self._placing = self._again = False
        self._parted = False  # True: the first job waits, because too few hosts reach each other
        self._rooms: GangRooms[S] = GangRooms(
            experiment_id, ledger, wants, apart, seats=self._usable, put=put, can_stop=can_stop
        )

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._jobs

    def __iter__(self) -> Iterator[str]:
        return iter(self._jobs)

    # ---- seats --------------------------------------------------------------------------------------------

    def listen(self) -> None:
        """Start to place waiting jobs when resources become free (see ``HostLedger.listen``)."""
        self._ledger.listen(self, self._freed, experiment_id=self._experiment_id)
        self._ledger.watch(self, self._rooms.look)
        self._rooms.listen()

    def close(self) -> None:
        self._ledger.ignore(self)
        self._ledger.unwatch(self)
        self._obstacles.close()
        self._rooms.close()

    def add(self, seat: S) -> None:
        """Allow members to be placed on this seat (a machine that takes jobs)."""
        self._seats[seat] = None
        self.place()

    def remove(self, seat: S) -> None:
        """Place no more members on this seat (a machine that takes jobs)."""
        if seat in self._seats:
            del self._seats[seat]
            self._ledger.withdraw(self._experiment_id, host_id=seat.host.id)
            self.place()

    def left(self, seat: S) -> None:
        """Try to place jobs, because a member has left this seat."""
        self.place()

    def ready(self, seat: S) -> None:
        """Try to place jobs, because the seat's keeper has become ready for jobs."""
        self.place()
        self._ledger.reachable(self._experiment_id, seat.host.id)

    def reasons_changed(self) -> None:
        """Try to place jobs again, because reasons for waiting may have changed."""
        self.place()

    def _usable(self) -> list[S]:
        """Return the seats that can take more members of running gangs."""
        return [] if self._jobs else [seat for seat in self._seats if self._obstacles.find(seat) is None]

    def _freed(self, hosts: Collection[str] | None) -> None:
        self.place()

    # ---- jobs ---------------------------------------------------------------------------------------------

    def submit(self, job: TrialJobSpec) -> JobPlaced | JobWaiting:
        """Place the job, or queue it with a reason. Raises JobRejected if its members can never run."""
        with self._ledger.held_back():  # the job asks first for places that are kept for it
            self._ledger.free_kept(job.id)
            return self._submit(job)

    def _submit(self, job: TrialJobSpec) -> JobPlaced | JobWaiting:
        arrival = next(self._numbers)
        reason = BEHIND
        if not self._jobs:
            outcome = self._try(job, arrival)
            if isinstance(outcome, JobPlaced):
                self._ledger.placed_at_once(self._experiment_id, line=_LINE)
                return outcome
            reason = outcome.reason
        self._jobs[job.id], self._arrivals[job.id], self._told[job.id] = job, arrival, reason
        if len(self._jobs) == 1:
            self._ledger.pass_on(self._experiment_id, job.id, line=_LINE, arrival=arrival)
            self._rooms.look()  # running gangs get no more members while a job waits
        return JobWaiting(job_id=job.id, reason=reason)

    def copied(self, name: tuple[str, int], kept: KeptCopy) -> None:
        """Let jobs that wait for the machine with this checkpoint run anywhere (see ``JobPlacing``)."""
        for job_id, job in self._jobs.items():
            if job.origin_id == name:
                self._jobs[job_id] = replace(job, kept=kept)
        self.place()

    def withdraw(self, job_id: str) -> bool:
        """Remove a waiting job from the queue. Return False if the queue does not have the job."""
        if job_id not in self._jobs:
            return False
        self._remove(job_id)
        self.place()
        return True

    def place(self) -> None:
        """Place waiting jobs in order of arrival, until one does not fit. Report why jobs wait.

        A call that a placement causes, through the ledger, lets the present call begin again.
        """
        self._rooms.look()
        self._again = bool(self._jobs)
        if self._placing:
            return
        self._placing = True
        try:
            while self._again:
                self._again = False
                self._place_all()
        finally:
            self._placing = False

    def _place_all(self) -> None:
        placed = False
        while self._jobs:
            job_id, job = next(iter(self._jobs.items()))
            event: JobEvent
            try:
                outcome = self._try(job, self._arrivals[job_id])
            except JobRejected as rejection:
                event = never_started(job_id, str(rejection))
            else:
                if isinstance(outcome, Waits):
                    self._put(self._news(outcome.reason))
                    break
                event, placed = outcome, True
            self._put([event])
            self._remove(job_id)
        if placed:
            self._ledger.turn_taken(self._experiment_id)
        if self._parted:
            self._parted = False
            self._ledger.withdraw(self._experiment_id)
        for seat in self._obstacles.take_hindered():
            self._ledger.withdraw(self._experiment_id, host_id=seat.host.id)

    def _news(self, reason: str) -> list[JobEvent]:
        """Return why the first few jobs wait, as far as that has changed."""
        found: list[JobEvent] = []
        for position, job_id in enumerate(islice(self._jobs, FIRST)):
            told = BEHIND if position else reason
            if self._told[job_id] != told:
                self._told[job_id] = told
                found.append(JobWaiting(job_id=job_id, reason=told))
        return found

    def _remove(self, job_id: str) -> None:
        """Remove a job. What was left free for it is left free for the next one."""
        del self._jobs[job_id], self._arrivals[job_id], self._told[job_id]
        first = next(iter(self._jobs), None)
        arrival = 0 if first is None else self._arrivals[first]
        self._ledger.pass_on(self._experiment_id, first, line=_LINE, arrival=arrival)

    def _try(self, job: TrialJobSpec, arrival: int) -> JobPlaced | Waits:
        """Place the members of the job, or return why it waits. Raises JobRejected if they can never run."""
        origin = None if job.origin is None else job.origin.keeper_id
        bound = origin is not None and job.kept is None  # only the leader's host has the checkpoint
        seats = self._in_order(job, origin)
        if bound and (not seats or seats[0].id != origin):
            return Waits(not_here(job))
        asked: list[Asked[S]] = []
        hindered: list[Waits] = []
        for seat in seats:
            need = seat.wants.of_job(job).need(self._experiment_id, job.id, line=_LINE, arrival=arrival)
            if (obstacle := self._obstacles.find(seat)) is None:
                asked.append(Asked(seat, need))
            elif bound and seat is seats[0]:
                return Waits(f"{obstacle}; {seat.host.name} has the trial's checkpoint")
            else:
                hindered.append(Waits(obstacle))
        if bound and job.copy_comes and len(seats) > 1 and not self._wants.same_host:
            return Waits(COPIED_FOR_ALL)
        alone = self._wants.same_host and len(seats) == 1
        most = self._most(job, [seat.host for seat in seats])
        wants = replace(self._wants, most=most, bound=bound, alone=alone)
        arriving = [seat.host.name for seat in seats if seat.arriving]
        least = wants.most if arriving else wants.least  # else the first machines to connect get all members
        hosts = [(each.need, each.seat.host) for each in asked]
        if (unreached := self._apart.why_waits(wants, hosts)) is not None:
            self._parted = True
            return unreached
        found = self._ledger.place_gang(replace(wants, least=least), hosts, self._apart.rule)
        if isinstance(found, list):
            places = [(asked[index].seat, gpus) for index, gpus in found]
            member_ids = [member_id_of(job.id, number) for number in range(len(places))]
            self._rooms.placed(job, [seat for seat, _ in places], member_ids)
            return self._start(job, places)
        if wants.least <= found.free < least:
            return Waits(f"waits until {all_of(arriving)} can be reached: {found.free} members have room now")
        waits = why_gang_waits(wants, found, hindered, seats=len(seats))
        if arriving:
            return waits
        return self._ledger.gang_preemption.make_room(
            self._experiment_id, wants, hosts, self._apart.rule, waits
        )

    def _in_order(self, job: TrialJobSpec, origin: str | None) -> list[S]:
        """Return the seats in the order in which members are placed.

        The machine with the trial's checkpoint comes first. Then follow those that had members of the
        previous attempt, so that members keep their order, and then the others.
        """
        before = {keeper_id: number for number, keeper_id in enumerate(job.seats)}

        def order(seat: S) -> tuple[bool, int, float]:
            number = before.get(seat.id, len(before))
            return seat.id != origin, number, self._ledger.load(seat.host.id)

        return sorted(self._seats, key=order)

    def _most(self, job: TrialJobSpec, hosts: Sequence[Host]) -> int:
        """Return the largest number of members that the job may have now. Others that wait come first."""
        least, most = self._wants.least, self._wants.most
        if job.most_members is not None:
            return max(least, min(most, job.most_members))
        are_others = len(self._jobs) > 1 or self._ledger.is_contended(self._experiment_id, hosts)
        return least if are_others else most

    def hold(self, job: TrialJobSpec, seat: S, gpus: tuple[int, ...]) -> None:
        """Record that a member was placed on the seat before the server's restart. ``job``: its part of the
        job.
        """
        self._ledger.hold(seat.wants.of_job(job).need(self._experiment_id, job.id), seat.host, gpus)
        self._rooms.hold(job, seat)

    def saved(self, job_id: str) -> None:
        """Record that a running gang can continue from a checkpoint, and so with fewer members."""
        self._rooms.saved(job_id)

    def over(self, job_id: str) -> None:
        """Free the places that are kept for the next attempt of a gang, because its end is committed."""
        self._ledger.free_kept(job_id)

    def release(self, job_id: str, seat: S, *, heard: bool = True) -> bool:
        """Free the resources of an ended member (see ``HostLedger.release``)."""
        self._rooms.left(job_id)
        return self._ledger.release(seat.host.id, job_id, heard=heard)

    def told(self, seat: S, capacity: Capacity | None, gpus: GpuReading | None) -> None:
        """Record the machine's capacity and GPUs, as its keeper reports them.

        None: not part of this report.
        """
        if capacity is not None:
            self._ledger.told(seat.host.id, capacity)
        if gpus is not None:
            self._ledger.read(seat.host.id, self, gpus)

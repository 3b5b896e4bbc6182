"""Queue of an experiment in a cluster whose jobs are gangs: each member gets an allocation of its own.

A gang is placed when the keepers in all its allocations have called. Until then its allocations hold
resources of the cluster, so gangs could wait for each other for ever. Two rules prevent this. In an
experiment, allocations are made for a gang when all those of the gangs before it have nodes. A gang that has
some nodes and lacks others for too long gives all of them back, and gets another attempt: so a gang of
somebody else can start meanwhile.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from training_services.allocations.allocation import allocation_of
from training_services.allocations.more_members import MoreMembers
from training_services.allocations.queues import Acts, AllocationQueue, Naming
from training_services.base import (
    Cause,
    Gang,
    JobEvent,
    JobLost,
    JobPlaced,
    JobWaiting,
    TrialJobSpec,
    member_id_of,
    never_started,
)
from training_services.keepers.host import HostGone
from training_services.keepers.seat import KeeperSeat
from training_services.placement.needs import Wants

__all__ = ["GangAllocations"]

MOST_NAMED = 3  # allocations whose reasons are named in one sentence
# Seconds after which a gang gives back the nodes that it has while it lacks others. The time is random, so
# that two gangs that lack what the other one has do not give it back at the same time again and again.
FIRST_BACK_S, LAST_BACK_S = 300.0, 600.0
# Seconds for which a gang whose number of members may vary waits for nodes that it lacks.
SETTLE_S = 10.0
# If it would have fewer members than in its attempt before, or has been ended to have more.
SETTLE_FOR_FEWER_S = 60.0

Places = Sequence[tuple[KeeperSeat, tuple[int, ...]]]


class GangAllocations(AllocationQueue):
    """Queue of waiting gangs.

    ``start`` places a job on these seats (allocations with their keepers), the leader's first.
    """

    def __init__(
        self, acts: Acts, naming: Naming, start: Callable[[TrialJobSpec, Places], JobPlaced], gang: Gang
    ) -> None:
        super().__init__(acts, naming)
        self._behind = f"waits until the {naming.noun}s of other trials of its experiment have nodes"
        self._start_gang, self._gang = start, gang
        self._least, self._most = gang.least, gang.nodes
        self._coming: set[str] = set()  # allocations that were asked for, and have no seat yet
        # what happens to a gang that has nodes and lacks others, and the timer for this, by job id
        self._limits: dict[str, tuple[Callable[[str], None], asyncio.TimerHandle]] = {}
        self._settled: set[str] = set()  # gangs that begin with the nodes that they have
        self._claimed: dict[str, str] = {}  # member -> its allocation, if it was made for the attempt before
        self._more = MoreMembers(
            acts,
            self._naming,
            gang,
            can_start=lambda name: name in self._seats and _can_start(self._seats[name]),
            seat=self._seats.get,
            waits=lambda: bool(self._jobs or self._uncopied),
        )

    def close(self) -> None:
        self._more.close()
        for _, timer in self._limits.values():
            timer.cancel()

    # ---- allocations --------------------------------------------------------------------------------------

    def add(self, seat: KeeperSeat) -> None:
        super().add(seat)
        self._coming.discard(seat.id)

    def ready(self, seat: KeeperSeat) -> None:
        self.tell([seat.id])

    def left(self, seat: KeeperSeat) -> None:
        return None

    def expects(self, seat: KeeperSeat) -> bool:
        return seat in self._busy or self._is_wanted(seat.id)

    def awaits(self, keeper_id: str) -> bool:
        wanted = self._is_wanted(keeper_id)
        if not wanted:
            self._coming.discard(keeper_id)
        return wanted

    def _is_wanted(self, keeper_id: str) -> bool:
        return keeper_id in self._owners or keeper_id in self._more or keeper_id in self._claimed.values()

    def explain(self, keeper_id: str, reason: str) -> None:
        if (job_id := self._owners.get(keeper_id)) is not None:
            self._say(job_id, reason)

    def tell(self, keeper_ids: Sequence[str]) -> None:
        for job_id in dict.fromkeys(filter(None, map(self._owners.get, keeper_ids))):
            self._look_at(job_id)
        self._call()
        self._more.look()

    def wants(self, keeper_id: str) -> Wants:
        job = self._jobs.get(self._owners.get(keeper_id, ""))
        if job is None:
            return self._wants(self._more.part(keeper_id))
        return self._wants(replace(job, member=self._member(job.id, keeper_id)))

    def image(self, keeper_id: str) -> str | None:
        job_id = self._owners.get(keeper_id)
        role = None if job_id is None else self._gang.role_of(self._member(job_id, keeper_id))
        return None if role is None else role.image

    def _member(self, job_id: str, keeper_id: str) -> int:
        """Return the number of the member for which this allocation is made."""
        return self._names(job_id).index(keeper_id)

    def gone(self, keeper_id: str, gone: HostGone) -> None:
        if keeper_id in self._more:
            self._more.gone(keeper_id)
        job_id = self._owners.get(keeper_id)
        if job_id is None:
            self._claimed = {key: name for key, name in self._claimed.items() if name != keeper_id}
            return
        end = JobLost(job_id=job_id, reason=str(gone), cause=gone.cause)
        self._end(job_id, never_started(job_id, str(gone), gone.cause) if gone.failed else end)

    # ---- jobs ---------------------------------------------------------------------------------------------

    def submit(self, job: TrialJobSpec) -> JobPlaced | JobWaiting:
        claimed = self._more.claim(job.id)
        self._claimed |= claimed
        self._coming.update(name for name in claimed.values() if name not in self._seats)
        return super().submit(job)

    def withdraw(self, job_id: str) -> bool:
        if not super().withdraw(job_id):
            return False
        self._free(job_id)
        self._call()
        self._more.look()
        return True

    def hold(self, job: TrialJobSpec, seat: KeeperSeat, gpus: tuple[int, ...]) -> None:
        super().hold(job, seat, gpus)
        self._more.held(job)

    def saved(self, job_id: str) -> None:
        """Record that a running gang can continue from a checkpoint, and so with more members."""
        self._more.saved(job_id)

    def release(self, job_id: str, seat: KeeperSeat, *, heard: bool = True) -> bool:
        self._more.left(job_id)
        return super().release(job_id, seat, heard=heard)

    def _admit(self, job: TrialJobSpec) -> JobPlaced | JobWaiting:
        self._wants(job)
        self._wait(job, self._behind)
        self._owners |= dict.fromkeys(self._names(job.id), job.id)
        self._make_allocations()
        ready = self._ready(job.id)
        if len(ready) == self._most:
            return self._place_on(job.id, ready)
        return self._wait(job, self._reason(job.id))

    def _call(self) -> None:
        """Make the allocations of gangs whose turn has come, and report that these gangs wait for them."""
        for job_id in self._make_allocations():
            self._say(job_id, self._reason(job_id))

    def _make_allocations(self) -> list[str]:
        """Make the allocations of each waiting gang if all allocations of the gangs before it have nodes.

        Return the gangs for which allocations are made.
        """
        called: list[str] = []
        for job_id in self._jobs:
            missing = [
                (number, name)
                for number, name in enumerate(self._names(job_id))
                if name not in self._seats and name not in self._coming
            ]
            for number, name in missing:
                self._coming.add(name)
                self._bring(name, member_id_of(job_id, number))
            if missing:
                called.append(job_id)
            if len(self._with_nodes(job_id)) < self._most:
                break
        return called

    def _look_at(self, job_id: str) -> None:
        """Place a gang whose allocations have changed, or report why it waits."""
        ready, found = self._ready(job_id), len(self._with_nodes(job_id))
        if len(ready) >= (max(found, self._least) if job_id in self._settled else self._most):
            self._put([self._place_on(job_id, ready)])
            return
        self._say(job_id, self._reason(job_id))
        self._watch(job_id, found)

    def _watch(self, job_id: str, found: int) -> None:
        """Limit the time for which a gang holds the nodes that it has found, while it lacks others."""
        act = None
        if 0 < found < self._most and job_id not in self._settled:
            act = self._settle if found >= self._least else self._give_back
        before = self._limits.get(job_id)
        if before is not None and before[0] != act:
            before[1].cancel()
            del self._limits[job_id]
        if act is not None and job_id not in self._limits:
            seconds = random.uniform(FIRST_BACK_S, LAST_BACK_S)
            if act == self._settle:
                enough = found >= len(self._jobs[job_id].seats) and not self._is_to_grow(job_id)
                seconds = SETTLE_S if enough else SETTLE_FOR_FEWER_S
            timer = asyncio.get_running_loop().call_later(seconds, act, job_id)
            self._limits[job_id] = act, timer

    def _settle(self, job_id: str) -> None:
        """Begin a gang with the nodes that it has, which are enough."""
        self._settled.add(job_id)
        self.tell(self._names(job_id))

    def _give_back(self, job_id: str) -> None:
        """Remove the allocations of a gang, which keep nodes from others. The gang gets another attempt."""
        reason = f"gave its {self._naming.noun}s back so that others can start: {self._counts(job_id)}"
        self._end(job_id, JobLost(job_id=job_id, reason=reason, cause=Cause.PREEMPTED))

    def _place_on(self, job_id: str, seats: Sequence[KeeperSeat]) -> JobPlaced:
        """Place a gang on these seats. Remove its other allocations."""
        job = self._take(job_id)
        for number, seat in enumerate(seats):
            self._busy[seat] = member_id_of(job_id, number)
        in_vain = self._is_to_grow(job_id) and len(seats) <= len(job.seats)
        self._free(job_id)
        self._more.placed(job, len(seats), stays=in_vain)
        return self._start_gang(job, [(seat, ()) for seat in seats])

    def _end(self, job_id: str, event: JobEvent) -> None:
        """End a gang that was not placed, and remove its allocations."""
        self._take(job_id)
        self._put([event])
        self._free(job_id)
        self._call()

    def _free(self, job_id: str) -> None:
        """Forget a gang that no longer waits. Remove the allocations of which it needs none."""
        _, timer = self._limits.pop(job_id, (None, None))
        if timer is not None:
            timer.cancel()
        self._settled.discard(job_id)
        names = self._names(job_id)
        for member in range(self._most):
            self._claimed.pop(member_id_of(job_id, member), None)
        for name in names:
            self._owners.pop(name, None)
            seat = self._seats.get(name)
            if seat is not None and seat not in self._busy:
                self._send_away(seat)

    # ---- what the allocations of a gang do ----------------------------------------------------------------

    def _allocations(self, job_id: str) -> list[KeeperSeat]:
        """Return the seats of the gang's allocations that exist, or are being created."""
        return [self._seats[name] for name in self._names(job_id) if name in self._seats]

    def _ready(self, job_id: str) -> list[KeeperSeat]:
        """Return the allocations where a member can start."""
        return [seat for seat in self._allocations(job_id) if _can_start(seat)]

    def _with_nodes(self, job_id: str) -> list[KeeperSeat]:
        return [seat for seat in self._allocations(job_id) if allocation_of(seat).has_node]

    def _reason(self, job_id: str) -> str:
        """Return why a gang waits, as a sentence."""
        if not self._allocations(job_id) and self._coming.isdisjoint(self._names(job_id)):
            return self._behind
        least = "" if self._least == self._most else f"{self._least} to "
        return f"waits for {least}{self._most} {self._naming.noun}s: {self._counts(job_id)}"

    def _counts(self, job_id: str) -> str:
        """Return how many allocations of a gang run, and why others do not."""
        allocations = self._allocations(job_id)
        running = sum(allocation_of(seat).runs for seat in allocations)
        reasons = dict.fromkeys(
            self._why(seat).removeprefix("waits: ") for seat in allocations if seat.obstacle()
        )
        reasons.pop(self._naming.coming, None)
        return "; ".join(
            [f"{running} {'is' if running == 1 else 'are'} running", *list(reasons)[:MOST_NAMED]]
        )

    def _is_to_grow(self, job_id: str) -> bool:
        """Return whether the attempt before has been ended so that the gang gets more members."""
        return any(member_id_of(job_id, member) in self._claimed for member in range(self._most))

    def _names(self, job_id: str) -> list[str]:
        """Return the names of the allocations for the members of a gang."""
        members = [member_id_of(job_id, member) for member in range(self._most)]
        return [self._claimed.get(member) or self._naming.of_job(member) for member in members]


def _can_start(seat: KeeperSeat) -> bool:
    """Return whether a member can start there: the allocation's keeper has called, and has an address."""
    return seat.obstacle() is None and bool(allocation_of(seat).gang_address)

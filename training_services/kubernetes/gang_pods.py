"""Queue of an experiment in a cluster whose jobs are gangs: each member gets a pod of its own.

A gang is placed when the keepers in all its pods have called. Until then its pods hold resources of the
cluster, so gangs could wait for each other for ever. Two rules prevent this. In an experiment, pods are made
for a gang when all pods of the gangs before it have nodes. A gang that has some nodes and lacks others for
too long gives all of them back, and gets another attempt: so a gang of somebody else can start meanwhile.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from training_services.allocations.queues import Acts, AllocationQueue
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
from training_services.kubernetes.names import PODS, pod_name
from training_services.kubernetes.pod import pod_of
from training_services.placement.needs import Wants

__all__ = ["GangPods"]

BEHIND = "waits until the pods of other trials of its experiment have nodes"
MOST_NAMED = 3  # pods whose reasons are named in one sentence
# Seconds after which a gang gives back the nodes that it has while it lacks others. The time is random, so
# that two gangs that lack what the other one has do not give it back at the same time again and again.
FIRST_BACK_S, LAST_BACK_S = 300.0, 600.0
# Seconds for which a gang that may have fewer members waits for nodes that it lacks.
SETTLE_S = 10.0

Places = Sequence[tuple[KeeperSeat, tuple[int, ...]]]


class GangPods(AllocationQueue):
    """Queue of waiting gangs.

    ``start`` places a job on these seats (pods with their keepers), the leader's first.
    """

    def __init__(self, acts: Acts, start: Callable[[TrialJobSpec, Places], JobPlaced], gang: Gang) -> None:
        super().__init__(acts, PODS)
        self._start_gang, self._gang = start, gang
        self._least, self._most = gang.least, gang.nodes
        self._coming: set[str] = set()  # pods that were asked for, and have no seat yet
        # what happens to a gang that has nodes and lacks others, and the timer for this, by job id
        self._limits: dict[str, tuple[Callable[[str], None], asyncio.TimerHandle]] = {}
        self._settled: set[str] = set()  # gangs that begin with the nodes that they have

    def close(self) -> None:
        for _, timer in self._limits.values():
            timer.cancel()

    # ---- pods ---------------------------------------------------------------------------------------------

    def add(self, seat: KeeperSeat) -> None:
        super().add(seat)
        self._coming.discard(seat.id)

    def ready(self, seat: KeeperSeat) -> None:
        self.tell([seat.id])

    def left(self, seat: KeeperSeat) -> None:
        return None

    def expects(self, seat: KeeperSeat) -> bool:
        return seat in self._busy or seat.id in self._owners

    def awaits(self, keeper_id: str) -> bool:
        if keeper_id not in self._owners:
            self._coming.discard(keeper_id)
        return keeper_id in self._owners

    def explain(self, keeper_id: str, reason: str) -> None:
        if (job_id := self._owners.get(keeper_id)) is not None:
            self._say(job_id, reason)

    def tell(self, keeper_ids: Sequence[str]) -> None:
        for job_id in dict.fromkeys(filter(None, map(self._owners.get, keeper_ids))):
            self._look_at(job_id)
        self._call()

    def wants(self, keeper_id: str) -> Wants:
        job = self._jobs.get(self._owners.get(keeper_id, ""))
        return self._wants(None if job is None else replace(job, member=self._member(job.id, keeper_id)))

    def image(self, keeper_id: str) -> str | None:
        job_id = self._owners.get(keeper_id)
        role = None if job_id is None else self._gang.role_of(self._member(job_id, keeper_id))
        return None if role is None else role.image

    def _member(self, job_id: str, keeper_id: str) -> int:
        """Return the number of the member for which this pod is made."""
        return _names(job_id, self._most).index(keeper_id)

    def gone(self, keeper_id: str, gone: HostGone) -> None:
        job_id = self._owners.get(keeper_id)
        if job_id is None:
            return
        end = JobLost(job_id=job_id, reason=str(gone), cause=gone.cause)
        self._end(job_id, never_started(job_id, str(gone), gone.cause) if gone.failed else end)

    # ---- jobs ---------------------------------------------------------------------------------------------

    def withdraw(self, job_id: str) -> bool:
        waited = job_id in self._jobs
        if not super().withdraw(job_id):
            return False
        if waited:
            self._free(job_id)
            self._call()
        return True

    def _admit(self, job: TrialJobSpec) -> JobPlaced | JobWaiting:
        self._wants(job)
        self._wait(job, BEHIND)
        self._owners |= dict.fromkeys(_names(job.id, self._most), job.id)
        self._make_pods()
        ready = self._ready(job.id)
        if len(ready) == self._most:
            return self._place_on(job.id, ready)
        return self._wait(job, self._reason(job.id))

    def _call(self) -> None:
        """Make the pods of gangs whose turn has come, and report that these gangs wait for their pods."""
        for job_id in self._make_pods():
            self._say(job_id, self._reason(job_id))

    def _make_pods(self) -> list[str]:
        """Make the pods of each waiting gang if all pods of the gangs before it have nodes.

        Return the gangs for which pods are made.
        """
        called: list[str] = []
        for job_id in self._jobs:
            missing = [
                (number, name)
                for number, name in enumerate(_names(job_id, self._most))
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
        """Place a gang whose pods have changed, or report why it waits."""
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
            seconds = SETTLE_S if act == self._settle else random.uniform(FIRST_BACK_S, LAST_BACK_S)
            timer = asyncio.get_running_loop().call_later(seconds, act, job_id)
            self._limits[job_id] = act, timer

    def _settle(self, job_id: str) -> None:
        """Begin a gang with the nodes that it has, which are enough."""
        self._settled.add(job_id)
        self.tell(_names(job_id, self._most))

    def _give_back(self, job_id: str) -> None:
        """Remove the pods of a gang, which keep nodes from others. The gang gets another attempt."""
        reason = f"gave its pods back so that others can start: {self._counts(job_id)}"
        self._end(job_id, JobLost(job_id=job_id, reason=reason, cause=Cause.PREEMPTED))

    def _place_on(self, job_id: str, seats: Sequence[KeeperSeat]) -> JobPlaced:
        """Place a gang on these seats. Remove its other pods."""
        job = self._take(job_id)
        for number, seat in enumerate(seats):
            self._busy[seat] = member_id_of(job_id, number)
        self._free(job_id)
        return self._start_gang(job, [(seat, ()) for seat in seats])

    def _end(self, job_id: str, event: JobEvent) -> None:
        """End a gang that was not placed, and remove its pods."""
        self._take(job_id)
        self._put([event])
        self._free(job_id)
        self._call()

    def _free(self, job_id: str) -> None:
        """Forget a gang that no longer waits. Remove the pods of which it needs none."""
        _, timer = self._limits.pop(job_id, (None, None))
        if timer is not None:
            timer.cancel()
        self._settled.discard(job_id)
        for name in _names(job_id, self._most):
            self._owners.pop(name, None)
            seat = self._seats.get(name)
            if seat is not None and seat not in self._busy:
                self._send_away(seat)

    # ---- what the pods of a gang do -----------------------------------------------------------------------

    def _pods(self, job_id: str) -> list[KeeperSeat]:
        """Return the seats of the gang's pods that exist, or are being created."""
        return [self._seats[name] for name in _names(job_id, self._most) if name in self._seats]

    def _ready(self, job_id: str) -> list[KeeperSeat]:
        """Return the pods in which a member can start: their keepers have called, and have an address."""
        return [seat for seat in self._pods(job_id) if seat.obstacle() is None and pod_of(seat).gang_address]

    def _with_nodes(self, job_id: str) -> list[KeeperSeat]:
        return [seat for seat in self._pods(job_id) if pod_of(seat).has_node]

    def _reason(self, job_id: str) -> str:
        """Return why a gang waits, as a sentence."""
        if not self._pods(job_id) and self._coming.isdisjoint(_names(job_id, self._most)):
            return BEHIND
        least = "" if self._least == self._most else f"{self._least} to "
        return f"waits for {least}{self._most} pods: {self._counts(job_id)}"

    def _counts(self, job_id: str) -> str:
        """Return how many pods of a gang run and how many pend, and why."""
        pods = self._pods(job_id)
        running = sum(pod_of(seat).runs for seat in pods)
        pending = self._most - running
        counted = [f"{running} {'is' if running == 1 else 'are'} running"]
        counted += [f"{pending} {'pends' if pending == 1 else 'pend'}"] if pending else []
        reasons = dict.fromkeys(self._why(seat).removeprefix("waits: ") for seat in pods if seat.obstacle())
        reasons.pop(PODS.coming, None)
        said = "; ".join(list(reasons)[:MOST_NAMED])
        return f"{', '.join(counted)}{': ' if said else ''}{said}"


def _names(job_id: str, number: int) -> list[str]:
    """Return the names of the pods for the members of a gang."""
    return [pod_name(member_id_of(job_id, member)) for member in range(number)]

"""Training service for machines that stay while the experiment runs, in contrast to pods.

Each machine has a keeper. The jobs are spread over all machines.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from training_services.base import (
    Capabilities,
    CheckpointReported,
    ExperimentContext,
    JobEnded,
    JobEvent,
    JobLost,
    JobPlaced,
    KnownKeepers,
    MachineAdded,
    MachineDrained,
    MachineEvent,
    MachineGone,
    MachineRemoved,
    MetricReported,
    PreemptionWanted,
    ServiceError,
    ServiceUnavailable,
    StopOrdered,
    TrialJobSpec,
    job_of_member,
)
from training_services.keepers.host import KeeperHost
from training_services.keepers.placing import JobPlacing
from training_services.keepers.seat import KeeperSeat
from training_services.keepers.service import KeeperService
from training_services.placement.gang import GangWants
from training_services.placement.gang_queue import GangQueue
from training_services.placement.preemption import Preemptible
from training_services.placement.queue import JobQueue
from training_services.tools import ServiceTools

__all__ = ["MachineService"]

logger = logging.getLogger(__name__)


class MachineService(KeeperService):
    """Training service that runs the jobs of one experiment on machines.

    ``make_host`` returns the host for a machine that is added while the experiment runs (see MachineAdded).
    It may raise ServiceUnavailable.
    """

    capabilities = Capabilities(updates=True, machines=True, checkpoints=True, gangs=True)

    def __init__(
        self,
        context: ExperimentContext,
        tools: ServiceTools,
        hosts: Sequence[KeeperHost],
        *,
        make_host: Callable[[Mapping[str, Any]], KeeperHost] | None = None,
    ) -> None:
        super().__init__(context, hub=tools.hub, ledger=tools.ledger, transfers=tools.transfers)
        self._hosts = {host.keeper_id: host for host in hosts}
        self._make_host = make_host
        self._returning: dict[str, MachineAdded] = {}  # machines added again while they were being removed
        self._drained: set[str] = set()  # machines drained while they were being added
        self._absent: dict[str, str] = {}  # machines that could not be added -> reason

    async def open(self, known: KnownKeepers) -> None:
        await super().open(known)
        self._ledger.prioritise(self.context.experiment_id, self.context.priority)
        if self.context.preemptible:
            jobs = Preemptible(can_stop=self._can_stop, stop=self._want_preemption)
            self._ledger.preempt(self.context.experiment_id, jobs)

    def _can_stop(self, member_id: str) -> bool:
        """Return whether the job could be stopped now. If it is a gang, this holds for all its members."""
        job_id, _ = job_of_member(member_id)
        seats = self._seats_of(job_id)
        if not seats or len(seats) < len(self._gangs.get(job_id, ())):
            return False
        return all(not seat.silent and seat.link.jobs.is_open(each) for each, seat in seats)

    def _seats_of(self, job_id: str) -> list[tuple[str, KeeperSeat]]:
        """Return id and seat of the job, or of each of its members if it is a gang."""
        seats = [(member_id, seat) for _, member_id, seat in self._members_of(job_id)]
        if not seats and (seat := self._placed.get(job_id)) is not None:
            seats = [(job_id, seat)]
        return seats

    def _want_preemption(self, job_id: str, by: str) -> None:
        self._outbox.put([PreemptionWanted(job_id=job_id, by=by)])

    @property
    def is_deserted(self) -> bool:
        return all(seat.draining for seat in self._seats.values())

    def prioritise(self, priority: int) -> None:
        self._ledger.prioritise(self.context.experiment_id, priority)

    def _adopt(self, job: TrialJobSpec, placed: JobPlaced) -> None:
        super()._adopt(job, placed)
        if job.stop is not None:
            self._is_stopping(job.id)

    def cancel_trial_job(
        self, job_id: str, *, grace: timedelta, save_within: timedelta | None = None
    ) -> StopOrdered | None:
        self._is_stopping(job_id)
        return super().cancel_trial_job(job_id, grace=grace, save_within=save_within)

    def _is_stopping(self, job_id: str) -> None:
        """Record in the ledger that the job's resources become free soon."""
        for member_id, seat in self._seats_of(job_id):
            self._ledger.preemption.stopping(seat.host.id, member_id)

    def _make_queue(self) -> JobPlacing:
        gang = self.context.gang
        if gang is not None and gang.nodes > 1:
            return GangQueue(
                self.context.experiment_id,
                self._ledger,
                GangWants(least=gang.least, most=gang.nodes, same_host=gang.same_host),
                self._apart,
                start=self._start_gang,
                put=self._outbox.put,
                can_stop=self._can_stop,
            )
        return JobQueue(
            self.context.experiment_id,
            self._ledger,
            start=self._start,
            put=self._outbox.put,
            placed=lambda: len(self._placed),
        )

    def hosts(self, added: Iterable[Mapping[str, Any]] = ()) -> list[KeeperHost]:
        """Return a host for each machine in the configuration, and for each machine in ``added``.

        Raises ServiceUnavailable.
        """
        if self._make_host is None:
            return list(self._hosts.values())
        more = (self._make_host(machine) for machine in added)
        return list({host.keeper_id: host for host in (*self._hosts.values(), *more)}.values())

    def _known_hosts(self, known: KnownKeepers) -> Iterable[KeeperHost]:
        hosts = dict(self._hosts)
        for machine in known.machines:
            if machine.gone:
                hosts.pop(machine.keeper_id, None)
            elif machine.added is not None:
                hosts[machine.keeper_id] = self._host(machine.keeper_id, machine.added)
        return hosts.values()

    def _host(self, keeper_id: str, machine: Mapping[str, Any] | None) -> KeeperHost:
        """Return the host for an added machine, or, if ``machine`` is None, the host from the configuration.

        Raises ServiceUnavailable.
        """
        if machine is None:
            return self._hosts[keeper_id]
        if self._make_host is None:
            raise ServiceUnavailable("this platform does not support adding machines")
        return self._make_host(machine)

    def _admit(self, seat: KeeperSeat) -> None:
        left = next((known for known in self._known.machines if known.keeper_id == seat.id), None)
        if left is not None and left.draining and not self._adopted:
            seat.draining, seat.removing = True, left.removing
            self._keeping.leave(seat.id)
        super()._admit(seat)

    def committed(self, facts: Sequence[JobEvent]) -> None:
        super().committed(facts)
        for fact in facts:
            if type(fact) is MetricReported:
                continue
            if isinstance(fact, MachineEvent):
                self._take_machine_fact(fact)
            elif isinstance(self._queue, GangQueue):
                if isinstance(fact, CheckpointReported):
                    self._queue.saved(fact.job_id)
                elif isinstance(fact, JobEnded | JobLost):
                    self._queue.over(fact.job_id)

    def _take_machine_fact(self, fact: MachineEvent) -> None:
        name = fact.keeper_id
        seat = self._seats.get(name)
        if isinstance(fact, MachineAdded):
            if seat is None:
                self._errands.spawn(name, self._bring(fact))
            elif name in self._errands:
                self._returning[name] = fact
            else:
                seat.draining = seat.removing = False
                self._keeping.stay(name)
                self._queue.add(seat)
        elif isinstance(fact, MachineDrained | MachineRemoved) and seat is not None:
            self._returning.pop(name, None)
            seat.draining = True
            seat.removing = seat.removing or isinstance(fact, MachineRemoved)
            self._queue.remove(seat)
            self._keeping.leave(name)
            self._vacated(seat)
        elif isinstance(fact, MachineRemoved):  # the machine could not be added
            self._absent.pop(name, None)
            self._errands.cancel(name)
            self._outbox.put([MachineGone(keeper_id=name)])
        elif isinstance(fact, MachineDrained):  # the machine is still being added
            self._drained.add(name)

    async def _bring(self, fact: MachineAdded) -> None:
        """Connect to a machine that was added, and begin to place jobs on it."""
        name = fact.keeper_id
        try:
            seat = await self._join(self._host(name, fact.machine))
        except (ServiceError, OSError) as error:
            self._absent[name] = f"the machine {name} cannot be used: {error}"
            logger.warning("experiment %s: %s", self.context.experiment_id, self._absent[name])
            return
        self._absent.pop(name, None)
        seat.draining = name in self._drained
        self._drained.discard(name)
        self._begin(seat)

    def _vacated(self, seat: KeeperSeat) -> None:
        ended = len(seat.jobs) == len(seat.closing)  # all jobs on the machine have ended
        ended = ended and not self._keeping.awaits(seat.id)
        if seat.removing and self._adopted and ended and seat.id not in self._errands:
            self._errands.spawn(seat.id, self._remove(seat))

    async def _remove(self, seat: KeeperSeat) -> None:
        """End the keeper of a removed machine on which no jobs run any more, and report that the machine is
        gone.
        """
        note = await self._let_go(seat, barred=True)
        self._errands.finish(seat.id)
        added = self._returning.pop(seat.id, None)
        self._outbox.put([MachineGone(keeper_id=seat.id, note=note, returns=added is not None)])
        if added is not None:
            self._errands.spawn(seat.id, self._bring(added))

    def notices(self) -> Mapping[str, str]:
        return {f"machine {name}": why for name, why in self._absent.items()} | {**super().notices()}

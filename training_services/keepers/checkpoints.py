"""Part of a keeper service that shows its hosts, and orders, copies and deletes checkpoints on them."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from training_services.base import (
    CheckpointKeepBegun,
    CheckpointKept,
    CheckpointLost,
    CheckpointsDeleted,
    CheckpointsPruned,
    CheckpointStored,
    ExperimentContext,
    KeptCopy,
    Machine,
    Origin,
    SaveOrdered,
)
from training_services.checkpoint_store import CheckpointStore
from training_services.keepers import overview
from training_services.keepers.copying import Copying
from training_services.keepers.files import FilesOfJobs
from training_services.keepers.keeping import Sides, Transfers
from training_services.keepers.prunes import Prunes
from training_services.keepers.seat import KeeperSeat
from training_services.outbox import Outbox
from training_services.placement.ledger import HostLedger

if TYPE_CHECKING:
    from training_services.keepers.placements import Placements
    from training_services.keepers.placing import JobPlacing

__all__ = ["CheckpointFact", "CheckpointsOfJobs"]

CheckpointFact = (
    CheckpointKeepBegun
    | CheckpointKept
    | CheckpointStored
    | CheckpointLost
    | CheckpointsPruned
    | CheckpointsDeleted
    | SaveOrdered
)


class CheckpointsOfJobs(FilesOfJobs):
    """Part of a keeper service that has the seats (hosts with their keepers) and the checkpoints on them."""

    _queue: JobPlacing
    _placed: Placements

    def __init__(self, context: ExperimentContext, ledger: HostLedger, transfers: Transfers) -> None:
        self.context = context
        self._ledger = ledger
        self.copies = self._make_store()
        self._outbox = Outbox()
        self._seats: dict[str, KeeperSeat] = {}
        # by keeper, also of machines that are not used at present: they may be used again
        self._prunes: dict[str, Prunes] = {}
        sides = Sides(self._seats.get, self._outbox.put, lambda seat: self._vacated(seat))
        self._copying = transfers.copying(sides, partial(Copying, context, self.copies, transfers))
        self._copying.join()
        self._keeping, self._storing = self._copying.keeping, self._copying.storing

    def _make_store(self) -> CheckpointStore:
        """Return the store for copies of checkpoints. The constructor calls this once."""
        return CheckpointStore(self.context.directory)

    @abc.abstractmethod
    def _vacated(self, seat: KeeperSeat) -> None:
        """Release the seat (a host with its keeper) if it is no longer needed.

        Called when a job has left the seat, when nothing waits to be copied from a leaving seat any more, and
        when the service opens the seat.
        """

    async def _copy_last(self) -> str | None:
        """Wait for copies of checkpoints from hosts whose files are removed when the experiment stops.

        With a storage, wait for copies from all hosts, and until the storage has them. Return a sentence
        about what it lacks, or None.
        """
        hosts = [seat.id for seat in self._seats.values() if not seat.keeper_host.keeps_files]
        await self._keeping.drain(hosts)
        if self._storing is None:
            return None
        for name in self._keeping.uncommitted.names():  # their facts are committed after the last call
            self._storing.add(name)
        return await self._storing.drain()

    async def provide_copy(self, job_id: str, number: int) -> str | None:
        return None if self._storing is None else await self._storing.provide(job_id, number)

    def notices(self) -> Mapping[str, str]:
        stored = {} if self._storing is None else self._storing.notices
        return {**overview.notices(self._seats.values(), self._ledger), **self._keeping.notices, **stored}

    def machines(self) -> Sequence[Machine]:
        return overview.machines(self._seats.values(), self._ledger)

    def has_place(self, job_id: str) -> bool:
        """Return True if the job was placed on a host of this service, which has not forgotten it."""
        return job_id in self._placed

    @property
    def arriving(self) -> bool:
        """True as long as it is not known whether all machines that stay can be reached."""
        return any(seat.arriving for seat in self._seats.values() if not seat.keeper_host.passing)

    @property
    def makes_room(self) -> bool:
        """True while jobs of other experiments are being stopped for waiting jobs of this one."""
        return self._ledger.preemption.makes_room(self.context.experiment_id)

    @property
    def is_deserted(self) -> bool:
        """True if no machine takes jobs, and none comes by itself."""
        return False

    def needs_files(self, keeper_id: str) -> bool:
        """Return True while files on the host of this keeper are to be copied to the server."""
        return self._keeping.awaits(keeper_id)

    def keep_checkpoint(self, trial_id: str, checkpoint: Origin | None) -> None:
        self._keeping.want(trial_id, checkpoint)

    def save_trial_job(self, job_id: str, *, within: timedelta) -> SaveOrdered | None:
        seat = self._placed.get(job_id)
        return None if seat is None else seat.link.jobs.order_save(job_id, within=within)

    def _take_checkpoint_fact(self, fact: CheckpointFact) -> KeeperSeat | None:
        """Apply one committed fact. Return the seat of the keeper whose held calls may now be answered."""
        if isinstance(fact, CheckpointKept):
            self._queue.copied((fact.job_id, fact.number), KeptCopy(digest=fact.digest, size=fact.size))
            self._keeping.committed(fact)  # after it, the host may leave
            if self._storing is not None:
                self._storing.add((fact.job_id, fact.number))
        if isinstance(fact, CheckpointLost) and fact.keeper_id is None and self._storing is not None:
            self._storing.remove(fact.job_id, fact.number, keep=range(fact.number))
        if isinstance(fact, SaveOrdered):
            seat = self._placed.get(fact.job_id)
            if seat is not None and fact.cmd_seq is not None:
                seat.link.jobs.command_committed(fact.job_id, fact.cmd_seq)
            return seat
        if not isinstance(fact, CheckpointsPruned):
            return None
        if self._storing is not None:
            self._storing.remove(fact.job_id, fact.up_to, keep=fact.keep)
        self._keeping.remove(fact.job_id, fact.up_to, keep=fact.keep)
        if (prunes := self._prunes.get(fact.keeper_id or "")) is not None:
            prunes.order(fact)
        return self._seats.get(fact.keeper_id or "")

"""Part of a keeper service that shows its hosts, and orders, copies and deletes checkpoints on them."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from training_services.base import (
    CheckpointKeepBegun,
    CheckpointKept,
    CheckpointLost,
    CheckpointsPruned,
    ExperimentContext,
    KeptCopy,
    Machine,
    Origin,
    SaveOrdered,
)
from training_services.checkpoint_store import CheckpointStore
from training_services.job_ids import trial_of_job
from training_services.keepers import overview
from training_services.keepers.files import FilesOfJobs
from training_services.keepers.host import attempt_folder
from training_services.keepers.keeping import Keeping, Transfers
from training_services.keepers.seat import KeeperSeat
from training_services.outbox import Outbox
from training_services.placement.ledger import HostLedger

if TYPE_CHECKING:
    from training_services.keepers.placements import Placements
    from training_services.keepers.placing import JobPlacing

__all__ = ["CheckpointFact", "CheckpointsOfJobs"]

CheckpointFact = CheckpointKeepBegun | CheckpointKept | CheckpointLost | CheckpointsPruned | SaveOrdered


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
        self._keeping = Keeping(
            context.experiment_id,
            self.copies,
            transfers,
            seat=self._seats.get,
            put=self._outbox.put,
            settled=lambda seat: self._vacated(seat),
        )

    def _make_store(self) -> CheckpointStore:
        """Return the store for copies of checkpoints. The constructor calls this once."""
        return CheckpointStore(self.context.directory)

    @abc.abstractmethod
    def _vacated(self, seat: KeeperSeat) -> None:
        """Release the seat (a host with its keeper) if it is no longer needed.

        Called when a job has left the seat, when nothing waits to be copied from a leaving seat any more, and
        when the service opens the seat.
        """

    async def _copy_last(self) -> None:
        """Wait for copies of checkpoints from hosts whose files are removed when the experiment stops."""
        hosts = [seat.id for seat in self._seats.values() if not seat.keeper_host.keeps_files]
        await self._keeping.drain(hosts)

    def notices(self) -> Mapping[str, str]:
        return {**overview.notices(self._seats.values(), self._ledger), **self._keeping.notices}

    def machines(self) -> Sequence[Machine]:
        return overview.machines(self._seats.values(), self._ledger)

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
        if isinstance(fact, SaveOrdered):
            seat = self._placed.get(fact.job_id)
            if seat is not None and fact.cmd_seq is not None:
                seat.link.jobs.command_committed(fact.job_id, fact.cmd_seq)
            return seat
        if not isinstance(fact, CheckpointsPruned):
            return None
        self._keeping.remove(fact.job_id, fact.up_to, keep=fact.keep)
        seat = self._seats.get(fact.keeper_id or "")
        if seat is not None:
            folder = "/".join(attempt_folder(*trial_of_job(fact.job_id)))
            seat.link.order_prune(folder, fact.up_to, fact.keep)
        return seat

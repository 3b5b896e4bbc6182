"""Part of a keeper service that keeps checkpoints: their copies on the server, and their deletion."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

from training_services.base import (
    CheckpointKeepBegun,
    CheckpointKept,
    CheckpointLost,
    CheckpointsPruned,
    ExperimentContext,
    KeptCopy,
    Origin,
)
from training_services.checkpoint_store import CheckpointStore
from training_services.keepers.files import FilesOfJobs
from training_services.keepers.host import attempt_folder
from training_services.keepers.keeping import Keeping, Transfers
from training_services.keepers.seat import KeeperSeat
from training_services.outbox import Outbox

if TYPE_CHECKING:
    from training_services.keepers.placing import JobPlacing

__all__ = ["CheckpointFact", "CheckpointsOfJobs"]

CheckpointFact = CheckpointKeepBegun | CheckpointKept | CheckpointLost | CheckpointsPruned


class CheckpointsOfJobs(FilesOfJobs):
    """Part of a keeper service that keeps the checkpoints of jobs."""

    _queue: JobPlacing

    def __init__(self, context: ExperimentContext, transfers: Transfers) -> None:
        self.context = context
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

    def keep_checkpoint(self, trial_id: str, checkpoint: Origin | None) -> None:
        self._keeping.want(trial_id, checkpoint)

    def _take_checkpoint_fact(self, fact: CheckpointFact) -> KeeperSeat | None:
        """Apply one committed fact. Return the seat of the keeper whose held calls may now be answered."""
        if isinstance(fact, CheckpointKept):
            self._keeping.committed(fact)
            self._queue.copied((fact.job_id, fact.number), KeptCopy(digest=fact.digest, size=fact.size))
        if not isinstance(fact, CheckpointsPruned):
            return None
        self._keeping.remove(fact.job_id, fact.up_to, keep=fact.keep)
        seat = self._seats.get(fact.keeper_id or "")
        if seat is not None:
            _, trial_id, attempt = fact.job_id.rsplit("-", 2)
            seat.link.order_prune("/".join(attempt_folder(trial_id, int(attempt))), fact.up_to, fact.keep)
        return seat

"""Copies of an experiment's checkpoints: their transfers to the server, and from there to a storage."""

from __future__ import annotations

from collections.abc import Collection

from training_services.base import ExperimentContext
from training_services.checkpoint_storage.fsspec_files import FsspecFiles
from training_services.checkpoint_store import CheckpointStore
from training_services.keepers.keeping import Keeping, Sides, Transfers
from training_services.keepers.storing import Storing

__all__ = ["Copying"]


class Copying:
    """Transfers of one experiment's checkpoints. ``storing``: those to the storage; None: there is none.

    Several services of an experiment may share them: each calls ``join``, ``begin`` and ``close`` once.
    """

    def __init__(
        self, context: ExperimentContext, store: CheckpointStore, transfers: Transfers, sides: Sides
    ) -> None:
        experiment_id, url = context.experiment_id, context.checkpoint_storage
        self.storing: Storing | None = None
        if url is not None:
            files = FsspecFiles(url, experiment_id)
            self.storing = Storing(experiment_id, files, store, url=url, put=sides.put)
        self.keeping = Keeping(
            experiment_id,
            store,
            transfers,
            seat=sides.seat,
            put=sides.put,
            settled=sides.settled,
            stores=url is not None,
        )
        self._users = 0
        self._begun = False

    def join(self) -> None:
        self._users += 1

    def begin(self, known: Collection[tuple[str, int]]) -> None:
        """Start to copy checkpoints. ``known``: copies that the facts name. A second call does nothing."""
        if self._begun:
            return
        self._begun = True
        self.keeping.begin(known)
        if self.storing is not None:
            self.storing.begin(known)

    async def close(self) -> None:
        """End all transfers when the last service is closed."""
        self._users -= 1
        if self._users:
            return
        await self.keeping.close()
        if self.storing is not None:
            await self.storing.close()

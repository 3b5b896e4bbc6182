"""Writes changes of experiments to the index file in a background task, and retries until a write
succeeds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from nnimgr.home import HomeError
from nnimgr.index import Index, IndexEntry
from nnimgr.rules import facts as f

logger = logging.getLogger(__name__)

RETRY_S = (1.0, 30.0)  # first and longest wait before a failed change is retried
LAST_WRITE_S = 2.0


class IndexNotes:
    """Queue of changes that a background task writes to the index (the file that lists a user's experiments).

    ``on_change`` is called with each entry that was written.
    """

    def __init__(self, index: Index, *, on_change: Callable[[IndexEntry], None]) -> None:
        self._index, self._on_change = index, on_change
        self._changes: dict[str, dict[str, Any]] = {}
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    def note(self, experiment_id: str, **changes: Any) -> None:
        """Schedule changes of an experiment's index entry. ``changes``: new values by names of fields of
        ``IndexEntry``.
        """
        self._changes.setdefault(experiment_id, {}).update(changes)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write(), name="index")

    async def settled(self) -> None:
        """Wait until the scheduled changes are in the index file, but at most LAST_WRITE_S seconds."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=LAST_WRITE_S)

    async def close(self) -> None:
        """Write the remaining changes to the index file. Give up after LAST_WRITE_S seconds."""
        self._closing = True
        await self.settled()
        if self._task is not None:
            self._task.cancel()

    async def _write(self) -> None:
        delay, longest = RETRY_S
        while self._changes:
            experiment_id, changes = self._changes.popitem()
            try:
                await asyncio.to_thread(self._index.update, experiment_id, **changes)
                entry = await asyncio.to_thread(self._index.get, experiment_id)
            except KeyError:
                logger.error("the list of experiments no longer has experiment %s", experiment_id)
            except (OSError, HomeError) as error:
                logger.error("the list entry of experiment %s was not updated: %s", experiment_id, error)
                if self._closing:
                    return
                self._changes[experiment_id] = changes | self._changes.get(experiment_id, {})
                await asyncio.sleep(delay)  # back-off
                delay = min(2 * delay, longest)
            else:
                if entry is not None:
                    self._on_change(entry)


class Draining(StrEnum):
    """NNI's names for the status DRAINING (no more trials are created), by the reason for this status.

    NNI has three statuses where nnimgr has one.
    """

    BUDGET = "NO_MORE_TRIAL"
    TUNER = "TUNER_NO_MORE_TRIAL"
    USER = "STOPPING"
    FAILURES = "STOPPING"
    RULE = "NO_MORE_TRIAL"


def nni_status(status: f.ExperimentStatus, drain: f.DrainReason | None) -> str:
    """Return NNI's name for an experiment's status. ``drain``: the reason for the status DRAINING, else
    None.
    """
    if status is not f.ExperimentStatus.DRAINING or drain is None:
        return status.value
    return Draining[drain.name].value

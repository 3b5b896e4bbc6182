"""Writes changes of experiments to the index in a background task, and retries until a write succeeds."""

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
    """Changes of the index that are not written yet. ``on_change`` is called with each changed entry."""

    def __init__(self, index: Index, *, on_change: Callable[[IndexEntry], None]) -> None:
        self._index, self._on_change = index, on_change
        self._changes: dict[str, dict[str, Any]] = {}
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    def note(self, experiment_id: str, **changes: Any) -> None:
        """Schedule changes of an entry. ``changes``: values by names of fields of ``IndexEntry``."""
        self._changes.setdefault(experiment_id, {}).update(changes)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write(), name="index")

    async def settled(self) -> None:
        """Wait until the scheduled changes are written, but only LAST_WRITE_S seconds if writing fails."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=LAST_WRITE_S)

    async def close(self) -> None:
        """Write the remaining changes. Give up after LAST_WRITE_S seconds of failed writes."""
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
                logger.error("the index does not have experiment %s any more", experiment_id)
            except (OSError, HomeError) as error:
                logger.error("the index was not brought up to date for %s: %s", experiment_id, error)
                if self._closing:
                    return
                self._changes[experiment_id] = changes | self._changes.get(experiment_id, {})
                await asyncio.sleep(delay)  # back-off
                delay = min(2 * delay, longest)
            else:
                if entry is not None:
                    self._on_change(entry)


class Draining(StrEnum):
    """NNI's names for the status DRAINING. NNI has three statuses instead of this one, by the reason of
    the drain.
    """

    BUDGET = "NO_MORE_TRIAL"
    TUNER = "TUNER_NO_MORE_TRIAL"
    USER = "STOPPING"
    FAILURES = "STOPPING"


def nni_status(status: f.ExperimentStatus, drain: f.DrainReason | None) -> str:
    """Return NNI's name for the status."""
    if status is not f.ExperimentStatus.DRAINING or drain is None:
        return status.value
    return Draining[drain.name].value

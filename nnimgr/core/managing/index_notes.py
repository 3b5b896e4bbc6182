"""Brings the index up to date with what experiments have become: in a thread, until it has succeeded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from nnimgr.home import HomeError
from nnimgr.index import Index, IndexEntry
from nnimgr.rules import facts as f

logger = logging.getLogger(__name__)

RETRY_S = (1.0, 30.0)  # first and longest wait before a change that failed is tried again
LAST_WRITE_S = 2.0


class IndexNotes:
    """Changes that are still to be written. ``on_change`` gets each entry as it then stands."""

    def __init__(self, index: Index, *, on_change: Callable[[IndexEntry], None]) -> None:
        self._index, self._on_change = index, on_change
        self._changes: dict[str, dict[str, Any]] = {}
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    def note(self, experiment_id: str, **changes: Any) -> None:
        """Have fields of an entry changed, by their names in ``IndexEntry``."""
        self._changes.setdefault(experiment_id, {}).update(changes)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write(), name="index")

    async def settled(self) -> None:
        """Wait until what was noted is written, but not for a disk that refuses it."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=LAST_WRITE_S)

    async def close(self) -> None:
        """Write what is left, but do not wait for a disk that refuses it."""
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
                logger.error("the index knows experiment %s no more", experiment_id)
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


def nni_status(status: f.ExperimentStatus, drain: f.DrainReason | None) -> str:
    """The status under NNI's name."""
    if status is not f.ExperimentStatus.DRAINING or drain is None:
        return str(status)
    return {
        f.DrainReason.BUDGET: "NO_MORE_TRIAL",
        f.DrainReason.TUNER: "TUNER_NO_MORE_TRIAL",
        f.DrainReason.USER: "STOPPING",
    }[drain]

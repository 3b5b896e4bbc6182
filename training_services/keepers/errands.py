"""Background tasks for the hosts of an experiment, such as adding or removing a host.

Each host has at most one background task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

__all__ = ["Errands"]


class Errands:
    """Background tasks of one experiment, at most one for each keeper."""

    def __init__(self, experiment_id: str) -> None:
        self._experiment_id = experiment_id
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, keeper_id: object) -> bool:
        return keeper_id in self._tasks

    def spawn(self, keeper_id: str, work: Coroutine[Any, Any, None]) -> None:
        """Run the coroutine ``work`` as the background task of this keeper."""
        task = asyncio.create_task(work, name=f"{self._experiment_id}:{keeper_id}")
        self._tasks[keeper_id] = task

        def over(_: object) -> None:
            if self._tasks.get(keeper_id) is task:
                del self._tasks[keeper_id]

        task.add_done_callback(over)

    def finish(self, keeper_id: str) -> None:
        """Remove the keeper's task from the table. The task calls this itself when it has finished."""
        del self._tasks[keeper_id]

    def cancel(self, keeper_id: str) -> None:
        """Cancel the keeper's background task, if there is one."""
        task = self._tasks.pop(keeper_id, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Cancel all background tasks and wait until they have ended."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

"""Locks of experiments: changes of one experiment follow one another, and wait for no other experiment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

__all__ = ["ExperimentLocks"]


class ExperimentLocks:
    """One lock for each experiment. It exists while somebody holds the lock or waits for it.

    Iteration yields the ids of these experiments.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._creating: set[str] = set()

    def of(self, experiment_id: str) -> asyncio.Lock:
        """Return the lock of an experiment."""
        return self._locks.setdefault(experiment_id, asyncio.Lock())

    @asynccontextmanager
    async def creating(self, experiment_id: str) -> AsyncIterator[None]:
        """Hold the lock of an experiment that is being created."""
        async with self.of(experiment_id):
            self._creating.add(experiment_id)
            try:
                yield
            finally:
                self._creating.discard(experiment_id)

    async def created(self, experiment_id: str) -> None:
        """Wait while the experiment is being created: others know it already, but its database is empty."""
        if experiment_id in self._creating:
            async with self.of(experiment_id):
                return

    def __iter__(self) -> Iterator[str]:
        return iter(self._locks)

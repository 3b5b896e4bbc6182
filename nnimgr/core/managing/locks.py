"""Locks of experiments: changes of one experiment follow one another, and wait for no other experiment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from weakref import WeakValueDictionary

__all__ = ["ExperimentLocks"]


class ExperimentLocks:
    """One lock for each experiment. It exists while somebody holds the lock or waits for it.

    Iteration yields the ids of these experiments.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, experiment_id: str) -> asyncio.Lock:
        """Return the lock of an experiment."""
        return self._locks.setdefault(experiment_id, asyncio.Lock())

    def __iter__(self) -> Iterator[str]:
        return iter(self._locks)

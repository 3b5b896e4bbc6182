"""Notifies clients that follow all experiments of a server about new facts."""

from __future__ import annotations

import asyncio
from weakref import WeakSet


class Follower:
    """Numbers of new facts since the last ``take``.

    A follower holds only one number per experiment, even if ``take`` is not called for a long time.
    """

    def __init__(self) -> None:
        self._moved: dict[str, int] = {}
        self._some = asyncio.Event()

    def note(self, experiment_id: str, number: int) -> None:
        self._moved[experiment_id] = number
        self._some.set()

    async def take(self) -> dict[str, int]:
        """Wait for new facts; return the number of the last new fact, by experiment id."""
        await self._some.wait()
        moved, self._moved = self._moved, {}
        self._some.clear()
        return moved


class Changes:
    """Notifies all followers of new facts. An inactive follower holds one number per experiment."""

    def __init__(self) -> None:
        self.followers: WeakSet[Follower] = WeakSet()

    def tell(self, experiment_id: str, number: int) -> None:
        for follower in self.followers:
            follower.note(experiment_id, number)

    def follow(self) -> Follower:
        """Return a new follower. The follower is notified while the caller holds a reference."""
        follower = Follower()
        self.followers.add(follower)
        return follower

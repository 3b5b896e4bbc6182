"""Notifies clients of new facts in all experiments of a server."""

from __future__ import annotations

import asyncio
from weakref import WeakSet


class Follower:
    """Subscription of a client to new facts: for each changed experiment, the number of its last new fact.

    The memory is limited to one number per experiment, even if ``take`` is not called for a long time.
    """

    def __init__(self) -> None:
        self._moved: dict[str, int] = {}
        self._some = asyncio.Event()

    def note(self, experiment_id: str, number: int) -> None:
        self._moved[experiment_id] = number
        self._some.set()

    async def take(self) -> dict[str, int]:
        """Wait for new facts. Return the number of the last new fact of each changed experiment, by
        experiment id.
        """
        await self._some.wait()
        moved, self._moved = self._moved, {}
        self._some.clear()
        return moved


class Changes:
    """Notifies all followers (subscriptions of clients) of new facts."""

    def __init__(self) -> None:
        self.followers: WeakSet[Follower] = WeakSet()

    def tell(self, experiment_id: str, number: int) -> None:
        for follower in self.followers:
            follower.note(experiment_id, number)

    def follow(self) -> Follower:
        """Return a new follower, which is notified as long as the caller holds a reference to this
        follower.
        """
        follower = Follower()
        self.followers.add(follower)
        return follower

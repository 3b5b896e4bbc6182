"""Which experiments have moved on, for those who follow all of a server's."""

from __future__ import annotations

import asyncio
from weakref import WeakSet


class Follower:
    """What has moved since it was taken last: one number an experiment, however long nobody takes it."""

    def __init__(self) -> None:
        self._moved: dict[str, int] = {}
        self._some = asyncio.Event()

    def note(self, experiment_id: str, number: int) -> None:
        self._moved[experiment_id] = number
        self._some.set()

    async def take(self) -> dict[str, int]:
        """Experiment -> number of its last fact; waits until there is one."""
        await self._some.wait()
        moved, self._moved = self._moved, {}
        self._some.clear()
        return moved


class Changes:
    """Tells every follower there is; one that does not listen costs an entry for each experiment."""

    def __init__(self) -> None:
        self.followers: WeakSet[Follower] = WeakSet()

    def tell(self, experiment_id: str, number: int) -> None:
        for follower in self.followers:
            follower.note(experiment_id, number)

    def follow(self) -> Follower:
        """One that is told from now on, until nobody holds it any more."""
        follower = Follower()
        self.followers.add(follower)
        return follower

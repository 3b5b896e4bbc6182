"""Notifies clients that follow all experiments of a server about new facts."""

from __future__ import annotations

import asyncio
from weakref import WeakSet


class Follower:
    """New facts since the last ``take``.

    Holds one number per experiment, however long nobody takes them.
    """

    def __init__(self) -> None:
        self._moved: dict[str, int] = {}
        self._some = asyncio.Event()

    def note(self, experiment_id: str, number: int) -> None:
        self._moved[experiment_id] = number
        self._some.set()

    async def take(self) -> dict[str, int]:
        """Return the number of the last new fact, by experiment id. Wait until there is one."""
        await self._some.wait()
        moved, self._moved = self._moved, {}
        self._some.clear()
        return moved


class Changes:
    """Notifies all followers of new facts. An inactive follower costs one entry per experiment."""

    def __init__(self) -> None:
        self.followers: WeakSet[Follower] = WeakSet()

    def tell(self, experiment_id: str, number: int) -> None:
        for follower in self.followers:
            follower.note(experiment_id, number)

    def follow(self) -> Follower:
        """Return a new follower. It is notified for as long as somebody holds a reference to it."""
        follower = Follower()
        self.followers.add(follower)
        return follower

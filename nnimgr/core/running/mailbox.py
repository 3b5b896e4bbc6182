"""Mailbox of a runner: facts, builders of facts, and requests for the next turn (pass of the runner's
loop).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState

PATIENCE_S = 0.02  # longest wait of items that are not urgent; short, so that verdicts are not delayed
MOST_PATIENT = 5_000  # at this number of items, a turn begins without a wait
MAILBOX_SIZE = 50_000

Builder = Callable[[ExperimentState], Sequence[f.Fact]]
Item = f.Fact | Builder


class Post(Protocol):
    """Function that puts an item into the runner's mailbox.

    Items with ``urgent=False`` wait for a moment, so that many items are committed together.
    """

    def __call__(self, item: Item, *, urgent: bool = True) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """Request of a user to a runner, which waits in the mailbox.

    ``build`` returns the facts that fulfil the request, given the state at the beginning of a turn.
    ``answer`` gets these facts after they are committed.
    """

    build: Builder
    answer: asyncio.Future[Sequence[f.Fact]]


class Mailbox:
    """Queue of items for the runner's next turn (pass of its loop).

    Senders first await ``room``, which limits the size of the queue. No item is ever dropped.
    """

    def __init__(self) -> None:
        self._items: deque[Item | Request] = deque()
        self._filled = asyncio.Event()
        self._urgent = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def put(self, item: Item | Request, *, urgent: bool = True) -> None:
        self._items.append(item)
        self._filled.set()
        if urgent or len(self._items) >= MOST_PATIENT:
            self._urgent.set()
        if len(self._items) >= MAILBOX_SIZE:
            self._room.clear()

    async def room(self) -> None:
        await self._room.wait()

    async def take(self, until_s: float | None) -> list[Item | Request]:
        """Wait for an item, at most ``until_s`` seconds (None: without limit). Remove and return all
        items.
        """
        await _wait(self._filled, until_s)
        if self._items and not self._urgent.is_set():
            await _wait(self._urgent, PATIENCE_S)
        items = list(self._items)
        self._items.clear()
        self._filled.clear()
        self._urgent.clear()
        self._room.set()
        return items

    def wake(self) -> None:
        self._filled.set()
        self._urgent.set()

    def metrics(self) -> Iterator[f.MetricReported]:
        return (item for item in self._items if type(item) is f.MetricReported)


async def _wait(event: asyncio.Event, seconds: float | None) -> None:
    if event.is_set():
        return
    if seconds is None:
        await event.wait()
        return
    timer = asyncio.get_running_loop().call_later(max(0.0, seconds), event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()

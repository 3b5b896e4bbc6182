"""Order in which an experiment's machines are asked to take a job, and their reasons to refuse.

Jobs of one line need the same resources. So a machine that has refused one of them would refuse all others,
and is not asked again until its state changes. The cost per job does not depend on the number of machines.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count
from typing import Generic, TypeVar

from training_services.base import JobRejected
from training_services.placement.needs import TooLarge, Waits
from training_services.placement.seat import Seat

__all__ = ["Choice"]

MOST_NAMED = 3  # machines named in one sentence
_SLACK = 64  # number of outdated heap entries that are allowed beyond one per seat

Refusal = Waits | JobRejected
S = TypeVar("S", bound=Seat)


class Choice(Generic[S]):
    """Chooses which of an experiment's machines (seats) to ask for a place for the next job of a line.

    The seat with the smallest ``load(seat)`` comes first.
    """

    def __init__(self, load: Callable[[S], float]) -> None:
        self._load = load
        self._heap: list[tuple[float, int, S]] = []
        self._current: dict[S, int] = {}  # seat that can be asked -> number of its valid heap entry
        self._number = count()
        self._refusals: dict[S, Refusal] = {}
        self._rejected = 0  # number of refusals that are rejections for good

    def offer(self, seat: S) -> None:
        """Let this seat (machine) be asked for a place. Call this when it is new or its state has changed."""
        number = self._current[seat] = next(self._number)
        heapq.heappush(self._heap, (self._load(seat), number, seat))
        if len(self._heap) > 2 * len(self._current) + _SLACK:
            self._heap = [entry for entry in self._heap if self._current.get(entry[2]) == entry[1]]
            heapq.heapify(self._heap)

    def drop(self, seat: S) -> None:
        """Remove the seat (machine), so that it is never asked for a place again."""
        self._current.pop(seat, None)
        self._forget(seat)

    def best(self) -> S | None:
        """Return the seat (machine) to ask next for a place; None if all seats have refused."""
        while self._heap:
            load, number, seat = self._heap[0]
            if self._current.get(seat) != number:
                heapq.heappop(self._heap)
            elif self._load(seat) > load:  # other experiments have placed jobs there after the entry was made
                self.offer(seat)
            else:
                return seat
        return None

    def offers(self, seat: S) -> bool:
        """Return True if the seat (machine) can be asked for a place."""
        return seat in self._current

    def refuse(self, seat: S, why: Refusal) -> None:
        """Record why the seat refuses the job.

        The seat is not asked again until ``offer`` is called for it.
        """
        self._current.pop(seat, None)
        self._rejected += isinstance(why, JobRejected) - isinstance(self._refusals.get(seat), JobRejected)
        self._refusals[seat] = why

    def verdict(self) -> Waits:
        """Return the reasons why all machines refuse the job. Raise JobRejected if no machine can ever run
        it.
        """
        if not self._refusals:
            return Waits("waits for a machine: all are drained or removed (see: nnictl machine --help)")
        if self._rejected == len(self._refusals):
            raise self._rejection()
        return Waits(*(self._sentence(first=first) for first in (True, False)))

    def _sentence(self, *, first: bool) -> str:
        told: dict[str, None] = {}
        waiting = len(self._refusals) - self._rejected
        seen = 0
        for refusal in self._waits():
            seen += 1
            told[refusal.told(first=first)] = None
            if len(told) == MOST_NAMED:
                break
        more = waiting - seen
        rest = [f"and {more} more {'machine is' if more == 1 else 'machines are'} busy or unavailable"]
        reasons = "; or ".join(
            reason.removeprefix("waits ") if position else reason for position, reason in enumerate(told)
        )
        return "; ".join([reasons, *(rest if more else [])])

    def _waits(self) -> Iterator[Waits]:
        return (refusal for refusal in self._refusals.values() if isinstance(refusal, Waits))

    def _rejection(self) -> JobRejected:
        rejections = [refusal for refusal in self._refusals.values() if isinstance(refusal, JobRejected)]
        large = [rejection for rejection in rejections if isinstance(rejection, TooLarge)]
        if len(large) < len(rejections):
            return rejections[0]
        return max(large, key=lambda rejection: rejection.size).of(len(large))

    def _forget(self, seat: S) -> None:
        self._rejected -= isinstance(self._refusals.pop(seat, None), JobRejected)

"""In which order an experiment's machines are asked for the next job, and why those that refuse do.

All jobs of an experiment need the same. So a machine that has refused one refuses all, until something
changes there: it is not asked again before, and a job costs the same with one machine and with a hundred.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count

from training_services.base import JobRejected
from training_services.keeper_seat import KeeperSeat
from training_services.needs import TooLarge, Waits

__all__ = ["Choice"]

MOST_NAMED = 3  # machines in one sentence
_SLACK = 64  # entries of the heap that are out of date, beside one for each seat

Refusal = Waits | JobRejected


class Choice:
    """``load(seat)``: how much there is to do already; the least loaded seat is asked first."""

    def __init__(self, load: Callable[[KeeperSeat], float]) -> None:
        self._load = load
        self._heap: list[tuple[float, int, KeeperSeat]] = []
        self._current: dict[KeeperSeat, int] = {}  # the number of its entry, of those to be asked
        self._number = count()
        self._refusals: dict[KeeperSeat, Refusal] = {}
        self._rejected = 0  # of them

    def offer(self, seat: KeeperSeat) -> None:
        """The seat may take a job: it is new, or something has changed there."""
        number = self._current[seat] = next(self._number)
        heapq.heappush(self._heap, (self._load(seat), number, seat))
        if len(self._heap) > 2 * len(self._current) + _SLACK:
            self._heap = [entry for entry in self._heap if self._current.get(entry[2]) == entry[1]]
            heapq.heapify(self._heap)

    def drop(self, seat: KeeperSeat) -> None:
        """The seat takes no jobs any more."""
        self._current.pop(seat, None)
        self._forget(seat)

    def best(self) -> KeeperSeat | None:
        """The next one to ask; None: all have refused."""
        while self._heap:
            load, number, seat = self._heap[0]
            if self._current.get(seat) != number:
                heapq.heappop(self._heap)
            elif self._load(seat) > load:  # other experiments have put jobs there
                self.offer(seat)
            else:
                return seat
        return None

    def refuse(self, seat: KeeperSeat, why: Refusal) -> None:
        """The seat does not take the job, nor another one before it is offered again."""
        self._current.pop(seat, None)
        self._rejected += isinstance(why, JobRejected) - isinstance(self._refusals.get(seat), JobRejected)
        self._refusals[seat] = why

    def verdict(self) -> Waits:
        """Why all refuse. Raises JobRejected if none will ever do otherwise."""
        if not self._refusals:
            return Waits("waits for a machine: there is none left (nnictl machine add brings one)")
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
        rest = [f"and {more} more {'machine is' if more == 1 else 'machines are'} taken or not there"]
        return "; ".join([*told, *(rest if more else [])])

    def _waits(self) -> Iterator[Waits]:
        return (refusal for refusal in self._refusals.values() if isinstance(refusal, Waits))

    def _rejection(self) -> JobRejected:
        rejections = [refusal for refusal in self._refusals.values() if isinstance(refusal, JobRejected)]
        large = [rejection for rejection in rejections if isinstance(rejection, TooLarge)]
        if len(large) < len(rejections):
            return rejections[0]
        return max(large, key=lambda rejection: rejection.size).of(len(large))

    def _forget(self, seat: KeeperSeat) -> None:
        self._rejected -= isinstance(self._refusals.pop(seat, None), JobRejected)

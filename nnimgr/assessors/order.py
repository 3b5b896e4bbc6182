"""Data structure for the number at one rank in a growing set, with updates in logarithmic time."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

__all__ = ["Place"]


class Place:
    """The ``rank(n)``-th smallest of n numbers, counted from 1.

    With each added number, the rank must rise by 0 or 1.
    """

    def __init__(self, rank: Callable[[int], int]) -> None:
        self._rank = rank
        self._below: list[float] = []  # heap of the negated numbers up to the rank
        self._above: list[float] = []  # heap of the other numbers

    def __len__(self) -> int:
        return len(self._below) + len(self._above)

    def add(self, number: float) -> None:
        below, above = self._below, self._above
        if below and number < -below[0]:
            heappush(below, -number)
        else:
            heappush(above, number)
        rank = self._rank(len(self))
        while len(below) < rank:
            heappush(below, -heappop(above))
        while len(below) > rank:
            heappush(above, -heappop(below))

    @property
    def number(self) -> float:
        """Number at the rank. Raises IndexError if there are no numbers."""
        return -self._below[0]

    @property
    def next(self) -> float:
        """Number after the rank, or the number at the rank if no number follows."""
        return self._above[0] if self._above else self.number

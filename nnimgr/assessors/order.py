"""Data structure for the number at a given rank, such as the median, of numbers that are added one by one."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

__all__ = ["Place"]


class Place:
    """Growing collection of numbers, of which the ``rank(n)``-th smallest of n is known. Ranks count
    from 1.

    ``rank`` must rise by 0 or 1 with each added number. Adding a number takes logarithmic time.
    """

    def __init__(self, rank: Callable[[int], int]) -> None:
        self._rank = rank
        self._below: list[
            float
        ] = []  # heap of the numbers up to the rank, negated so that the largest comes first
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
        """Number at the rank, such as the median. Raises IndexError if no numbers were added."""
        return -self._below[0]

    @property
    def next(self) -> float:
        """Next larger number after that at the rank, or the number at the rank if it is the largest."""
        return self._above[0] if self._above else self.number

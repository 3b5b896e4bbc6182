"""Shares of an experiment's machines in its jobs while some machines are still being connected.

Without shares, the first machines to connect would take all jobs.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import Generic

from training_services.placement.choice import S
from training_services.placement.needs import Waits, all_of
from training_services.placement.seat import Seat

__all__ = ["Shares"]


class Shares(Generic[S]):
    """Table of the seats (machines) whose keepers have not called yet, and of those that have their share.

    A seat that has its share gets no more jobs until the keepers of all other seats have called.
    ``arriving``: the seats whose keepers have not called yet.
    """

    def __init__(self) -> None:
        self.arriving: dict[S, None] = {}
        self._full: dict[S, None] = {}

    def add(self, seat: S) -> None:
        if seat.arriving:
            self.arriving[seat] = None

    def arrive(self, seat: S) -> list[S]:
        """Record that the seat need not be awaited any more. Return the seats that may now get jobs again."""
        self.arriving.pop(seat, None)
        return [] if self.arriving else self.grow()

    def look(self) -> list[S]:
        """Check which seats need not be awaited any more. Return the seats that may now get jobs again."""
        return [each for seat in list(self.arriving) if not seat.arriving for each in self.arrive(seat)]

    def grow(self) -> list[S]:
        """Return the seats that had their share, because the shares have grown."""
        full, self._full = self._full, {}
        return list(full)

    def refuses(self, seat: S, *, jobs: int, seats: int) -> Waits | None:
        """Return why the seat takes no job while others are arriving; None if it has not got its share.

        ``jobs``: number of all jobs of the experiment; ``seats``: number of its seats.
        """
        if len(seat.jobs) < max(1, jobs // seats):
            return None
        self._full[seat] = None
        return _waits_for(self.arriving, seat.host.name)


def _waits_for(arriving: Collection[Seat], name: str) -> Waits:
    """Return why the machine ``name``, which has its share, takes no job before these machines are there."""
    names = [seat.host.name for seat in islice(arriving, 2)]
    names += [f"{more} more machines"] if (more := len(arriving) - 2) > 0 else []
    share = f"{name} already has its share of the trials"
    return Waits(f"waits until {all_of(names)} can be reached: {share}")

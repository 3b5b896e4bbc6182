"""Transfers of checkpoints that all platforms of one experiment share, since they share its copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from training_services.base import JobEvent
from training_services.keepers.keeping import Sides, T, Transfers
from training_services.keepers.seat import KeeperSeat

__all__ = ["SharedTransfers"]


@dataclass(slots=True)
class SharedTransfers(Transfers):
    """Makes the transfers of an experiment once, for the hosts of all its platforms.

    ``put`` passes events to the core.
    """

    put: Callable[[Sequence[JobEvent]], None] = lambda events: None
    _sides: list[Sides] = field(default_factory=list)
    _made: Any = None

    def copying(self, sides: Sides, make: Callable[[Sides], T]) -> T:
        self._sides.append(sides)
        if self._made is None:
            self._made = make(Sides(self._seat, self.put, self._settled))
        return cast(T, self._made)

    def _seat(self, keeper_id: str) -> KeeperSeat | None:
        found = (sides.seat(keeper_id) for sides in self._sides)
        return next((seat for seat in found if seat is not None), None)

    def _settled(self, seat: KeeperSeat) -> None:
        for sides in self._sides:
            if sides.seat(seat.id) is seat:
                sides.settled(seat)

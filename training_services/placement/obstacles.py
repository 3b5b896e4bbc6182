"""Obstacles: reasons why no job can start on a machine now, although it has room."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from training_services.placement.seat import Seat

__all__ = ["Obstacles"]

LOOK_AGAIN_S = 5.0  # pause before an obstacle is checked again, if no event will report its end
S = TypeVar("S", bound=Seat)


class Obstacles(Generic[S]):
    """Obstacles on an experiment's machines (seats). ``look_again`` is called when they must be checked
    again.
    """

    def __init__(self, look_again: Callable[[], None]) -> None:
        self._look_again = look_again
        self._hindered: dict[S, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def find(self, seat: S) -> str | None:
        """Return why no job can start on the seat now, or None.

        If no event will report the end of this reason, set a timer that asks again.
        """
        obstacle = seat.passing_obstacle()
        if obstacle is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._look)
        obstacle = obstacle or seat.obstacle()
        if obstacle is not None:
            self._hindered[seat] = None
        return obstacle

    def take_hindered(self) -> list[S]:
        """Return the seats that had an obstacle since the last call of this method."""
        hindered, self._hindered = self._hindered, {}
        return list(hindered)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        self._look_again()

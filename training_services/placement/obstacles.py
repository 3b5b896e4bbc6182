"""Obstacles: reasons for which no job can start on a machine now, other than a lack of resources."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic

from training_services.placement.choice import S

__all__ = ["Obstacles"]

LOOK_AGAIN_S = 5.0  # pause before an obstacle is checked again, if no event will report its end


class Obstacles(Generic[S]):
    """Obstacles of an experiment's seats (machines). ``changed`` is called when they may have changed."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._hindered: dict[S, None] = {}  # seats that had an obstacle when they were last asked
        self._look: asyncio.TimerHandle | None = None

    def of(self, seat: S) -> str | None:
        """Return why no job can start on the seat now, or None.

        If no event will report the end of this reason, set a timer that checks it again.
        """
        passing = seat.passing_obstacle()
        if passing is not None and self._look is None:
            self._look = asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._look_again)
        obstacle = passing or seat.obstacle()
        if obstacle is not None:
            self._hindered[seat] = None
        return obstacle

    def take(self) -> list[S]:
        """Return the seats with an obstacle that were asked since the last call."""
        hindered, self._hindered = self._hindered, {}
        return list(hindered)

    def close(self) -> None:
        if self._look is not None:
            self._look.cancel()

    def _look_again(self) -> None:
        self._look = None
        self._changed()

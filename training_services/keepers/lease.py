"""Server's side of a lease: decides when no trial can be running any longer on a silent host.

A host loses its lease, and stops its trials, after some time without contact to the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

from training_services.keepers.hub import KeeperDesk

__all__ = ["LeaseWatch"]

# A silent host counts as lost when its last answer is older than lease * LEASE_CLOCKS + LEASE_KILL_S. The
# factor allows for clocks of different speed, and the seconds for processes that ignore SIGTERM.
LEASE_CLOCKS, LEASE_KILL_S = 1.1, 5.0


class LeaseWatch:
    """Timer that calls ``over`` when a host was silent for so long that its trials must have ended."""

    def __init__(self, desk: KeeperDesk, lease: timedelta, over: Callable[[timedelta], None]) -> None:
        self._desk, self._lease, self._over = desk, lease, over
        self._lapsed: float | None = None  # time of the last answer when ``over`` was last called
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Start the timer.

        The lease counts from now, because the previous server may have answered the keeper until now.
        """
        self._desk.answered_at = asyncio.get_running_loop().time()
        self._look()

    def cancel(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        patience = self._lease.total_seconds() * LEASE_CLOCKS + LEASE_KILL_S
        answered_at = self._desk.answered_at
        due = answered_at + patience
        if due <= loop.time():
            due = loop.time() + patience
            if self._lapsed != answered_at:
                self._lapsed = answered_at
                self._over(self._lease)
        self._timer = loop.call_at(due, self._look)

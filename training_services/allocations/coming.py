"""Allocations of a pool that were asked for, and whose keepers have not called yet."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator

__all__ = ["FAILURES", "Coming"]

FAILURES = 3  # consecutive allocations that may fail to start; after that a job is not retried
# Pause before a new allocation is created if the keeper of the last one never called. It grows from the first
# value to the second.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0


class Coming:
    """Names of the allocations of a pool that were asked for, and whose keepers have not called yet.

    ``prefix`` begins their names, which ``valid`` makes valid for the engine. ``bring`` creates one, and
    ``again`` is called when more may be created after a pause.
    """

    def __init__(
        self,
        prefix: str,
        valid: Callable[[str], str],
        bring: Callable[[str, str | None], None],
        again: Callable[[], None],
    ) -> None:
        self._prefix, self._valid, self._bring, self._again = prefix, valid, bring, again
        self._names: dict[str, None] = {}
        self._gone = 0  # number of allocations in a row whose keepers have never called
        # number of allocations, since a keeper last called, for which a retry would not help, because the
        # engine was not the cause of their end
        self._failed = 0
        self._pause: asyncio.TimerHandle | None = None

    def __contains__(self, keeper_id: object) -> bool:
        return keeper_id in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def close(self) -> None:
        if self._pause is not None:
            self._pause.cancel()

    def add(self, keeper_id: str) -> None:
        """Record an allocation whose keeper has not called yet."""
        self._names[keeper_id] = None

    def discard(self, keeper_id: str) -> None:
        """Forget an allocation that nobody waits for."""
        self._names.pop(keeper_id, None)

    def came(self, keeper_id: str) -> None:
        """Record that the keeper of an allocation has called."""
        self._names.pop(keeper_id, None)
        self._gone = self._failed = 0

    def call(self, number: int) -> None:
        """Create allocations until so many are coming, unless there is a pause."""
        if self._pause is not None:
            return
        for _ in range(number - len(self._names)):
            keeper_id = self._valid(f"{self._prefix}-{secrets.token_hex(3)}")
            self._names[keeper_id] = None
            self._bring(keeper_id, None)

    def gone(self, keeper_id: str, *, failed: bool) -> bool:
        """Record the end of a coming allocation, and pause. ``failed``: a retry may end in the same way.

        Return True if so many have failed that a waiting job has to fail.
        """
        del self._names[keeper_id]
        self._gone += 1
        self._failed += failed
        if self._pause is None:
            pause = min(FIRST_PAUSE_S * 2 ** min(self._gone, 10), LONGEST_PAUSE_S)
            self._pause = asyncio.get_running_loop().call_later(pause, self._over)
        return self._failed >= FAILURES

    def job_failed(self) -> None:
        """Count from the beginning, because a waiting job has failed."""
        self._failed = 0

    def _over(self) -> None:
        self._pause = None
        self._again()

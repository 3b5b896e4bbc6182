"""Pairs of hosts that could not reach each other, and are not given to one gang together for some time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from training_services.placement.gang import MOST_NAMED, Between, GangWants, Refused, choose_hosts
from training_services.placement.needs import Host, Need, Waits

__all__ = ["Apart"]

APART_S = 600.0


class Apart:
    """Table of the pairs of hosts that could not reach each other in an attempt of the experiment.

    ``changed`` is called when a pair may be used together again. The table is not stored: a later server
    tries the pair once more.
    """

    def __init__(self, changed: Callable[[], None], *, seconds: float = APART_S) -> None:
        self._changed, self._seconds = changed, seconds
        self._pairs: dict[frozenset[str], asyncio.TimerHandle] = {}

    def part(self, one: Host, other: Host) -> None:
        """Keep two hosts apart from now on, because they could not reach each other."""
        pair = frozenset((one.id, other.id))
        if len(pair) == 1:
            return
        if (before := self._pairs.pop(pair, None)) is not None:
            before.cancel()
        self._pairs[pair] = asyncio.get_running_loop().call_later(self._seconds, self._end, pair)

    @property
    def rule(self) -> Between | None:
        """``between``, or None while no pair is kept apart, so that nobody asks about each pair of hosts."""
        return self.between if self._pairs else None

    def between(self, one: Host, other: Host) -> Waits | None:
        """Return why a gang cannot have both hosts now; None: it can."""
        if frozenset((one.id, other.id)) not in self._pairs:
            return None
        return Waits(
            f"{one.name} and {other.name} could not reach each other, and are not tried together for "
            f"{self._seconds / 60:g} minutes after that: open ports 20000 to 29999 between them, or set "
            "gangAddress"
        )

    def why_waits(self, wants: GangWants, asked: Sequence[tuple[Need, Host]]) -> Waits | None:
        """Return why a gang would wait on these hosts even if no other job ran there; None: it would not."""
        if not self._pairs:
            return None
        found = choose_hosts(wants, asked, lambda *_: (), self.between)
        if not isinstance(found, Refused) or not found.reasons:
            return None
        told = dict.fromkeys(waits.reason for waits in found.reasons)
        return Waits(f"waits for {wants.places} that reach each other: {'; '.join(list(told)[:MOST_NAMED])}")

    def close(self) -> None:
        for timer in self._pairs.values():
            timer.cancel()
        self._pairs.clear()

    def _end(self, pair: frozenset[str]) -> None:
        del self._pairs[pair]
        self._changed()

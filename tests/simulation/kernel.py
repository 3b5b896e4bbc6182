"""Kernel of the simulation: one heap of events, virtual time, and the only source of randomness."""

from __future__ import annotations

import collections
import hashlib
import heapq
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

T0 = datetime(2026, 1, 1, tzinfo=UTC)


class Violation(AssertionError):
    """Error: a promise was broken; the message names the promise and the object."""


class Kernel:
    """Kernel that runs events in the order of their times.

    While ``faults`` is True, ``likely`` permits faults. ``severity``: factor for the frequency of faults in
    this life.
    """

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = random.Random(seed)
        self.faults = True
        self.severity = self.random.choice([0.5, 1.0, 1.0, 2.0])
        self.counts: collections.Counter[str] = collections.Counter()
        self.failure: Violation | None = None
        self._story: list[tuple[float, str, str, tuple[Any, ...]]] = []
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._events = 0

    def at(self, delay: float, act: Callable[..., None], *arguments: Any) -> None:
        """Call ``act`` after ``delay`` seconds; events of the same instant run in the order of creation."""
        self._events += 1
        heapq.heappush(self._heap, (self.now + max(0.0, delay), self._events, act, arguments))

    def run(self, until: float) -> None:
        """Run events until this time. Raises Violation."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, act, arguments = heapq.heappop(heap)
            act(*arguments)
            if self.failure is not None:
                raise self.failure
        self.now = until

    # ---- chance -------------------------------------------------------------------------------------------

    def likely(self, probability: float) -> bool:
        """Return True, with this probability, if a fault happens here."""
        return self.faults and self.random.random() < probability * self.severity

    def fault(self, kind: str, who: str, text: str = "", *arguments: Any) -> None:
        """Count an injected fault and log it."""
        self.counts[kind] += 1
        self.say(who, f"FAULT {kind} {text}", *arguments)

    # ---- the story ----------------------------------------------------------------------------------------

    def say(self, who: str, text: str, *arguments: Any) -> None:
        """Log one line of the story; ``text`` is a %-format."""
        self._story.append((self.now, who, text, arguments))

    def fail(self, sentence: str) -> None:
        """Record a broken promise; the run ends after the current event. Only the first counts."""
        if self.failure is None:
            self.failure = Violation(sentence)
            self.say("VIOLATION", "%s", sentence)

    def story(self) -> list[str]:
        return [
            f"{now:10.4f}  {who:10s} {text % arguments if arguments else text}"
            for now, who, text, arguments in self._story
        ]

    def digest(self) -> str:
        """Return the hash of the story, which is equal for two runs of the same seed."""
        return hashlib.sha256("\n".join(self.story()).encode()).hexdigest()


class Clock:
    """Clocks of a machine: a monotonic clock that drifts, and a wall clock that also jumps."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.rate = kernel.random.uniform(0.98, 1.02)
        self.jump = 0.0

    def monotonic(self) -> float:
        return self._kernel.now * self.rate

    def unix(self) -> float:
        return T0.timestamp() + self.monotonic() + self.jump

    def wall(self) -> datetime:
        return T0 + timedelta(seconds=self.monotonic() + self.jump)

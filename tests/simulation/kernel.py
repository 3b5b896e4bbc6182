"""The kernel: one heap of events, virtual time, and the only source of chance."""

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
    """A promise was broken; the message says which, of what."""


class Kernel:
    """Runs events in the order of their times. While ``faults`` holds, ``likely`` lets things go wrong.

    ``severity``: how much more often than usual they do in this life.
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
        """Have ``act`` called after so many seconds; at the same instant, first come first served."""
        self._events += 1
        heapq.heappush(self._heap, (self.now + max(0.0, delay), self._events, act, arguments))

    def run(self, until: float) -> None:
        """Let time pass. Raises Violation."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, act, arguments = heapq.heappop(heap)
            act(*arguments)
            if self.failure is not None:
                raise self.failure
        self.now = until

    # ---- chance -------------------------------------------------------------------------------------------

    def likely(self, probability: float) -> bool:
        """Whether a fault of this probability happens here."""
        return self.faults and self.random.random() < probability * self.severity

    def fault(self, kind: str, who: str, text: str = "", *arguments: Any) -> None:
        """A fault was injected: count it and tell of it."""
        self.counts[kind] += 1
        self.say(who, f"FAULT {kind} {text}", *arguments)

    # ---- the story ----------------------------------------------------------------------------------------

    def say(self, who: str, text: str, *arguments: Any) -> None:
        """One line of the story; ``text`` is a %-format."""
        self._story.append((self.now, who, text, arguments))

    def fail(self, sentence: str) -> None:
        """A promise was broken: the run ends after the present event. The first one counts."""
        if self.failure is None:
            self.failure = Violation(sentence)
            self.say("VIOLATION", "%s", sentence)

    def story(self) -> list[str]:
        return [
            f"{now:10.4f}  {who:10s} {text % arguments if arguments else text}"
            for now, who, text, arguments in self._story
        ]

    def digest(self) -> str:
        """The story's hash: two runs of a seed have the same."""
        return hashlib.sha256("\n".join(self.story()).encode()).hexdigest()


class Clock:
    """A machine's clocks: a monotonic one that drifts, and a wall clock that also jumps."""

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

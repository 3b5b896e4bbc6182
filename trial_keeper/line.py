"""The line to the server: how long to wait after a failure, and what was said of failures already."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable


FIRST_PAUSE_S = 0.05
LAST_PAUSE_S = 1.0
MOST_TROUBLES = 100


class Line:
    """Calls may be made from ``retry_at`` on. ``jitter`` gives numbers from 0 to 1."""

    def __init__(self, jitter: Callable[[], float]) -> None:
        self._jitter = jitter
        self._pause = FIRST_PAUSE_S
        self._first_of_pause = 0
        self._troubles: set[str] = set()  # said since the last answer
        self.retry_at = 0.0

    def answered(self) -> None:
        """The server is there."""
        self.hurry()
        self._troubles.clear()

    def hurry(self) -> None:
        """There is reason to try at once."""
        self.retry_at = 0.0
        self._pause = FIRST_PAUSE_S

    def failed(self, now: float, *, call: int, last: int) -> None:
        """Call number ``call`` came to nothing, when ``last`` was the last one made."""
        if call >= self._first_of_pause:  # two calls that fail together are one failure
            self.retry_at = now + self._pause * (0.5 + self._jitter())
            self._pause = min(LAST_PAUSE_S, self._pause * 2)
            self._first_of_pause = last + 1

    def is_news(self, sentence: str) -> bool:
        """Whether this trouble was not said yet: two channels may each have their own, in turn."""
        if sentence in self._troubles:
            return False
        if len(self._troubles) >= MOST_TROUBLES:
            self._troubles.clear()
        self._troubles.add(sentence)
        return True

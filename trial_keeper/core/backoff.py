"""Backoff of calls to the server: the pause after a failure, and the errors that are already logged."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable


FIRST_PAUSE_S = 0.05
LAST_PAUSE_S = 1.0
MOST_TROUBLES = 100


class Backoff:
    """Pause between calls to the server: make no call before the time ``retry_at``.

    ``jitter`` returns a random number from 0 to 1, which varies the pause.
    """

    def __init__(self, jitter: Callable[[], float]) -> None:
        self._jitter = jitter
        self._pause = FIRST_PAUSE_S
        self._first_of_pause = 0
        self._troubles: set[str] = set()  # logged since the last answer
        self.retry_at = 0.0

    def answered(self) -> None:
        """Reset the pause and the logged errors after an answer of the server."""
        self.hurry()
        self._troubles.clear()

    def hurry(self) -> None:
        """End the current pause, so that the next call to the server may be made at once."""
        self.retry_at = 0.0
        self._pause = FIRST_PAUSE_S

    def failed(self, now: float, *, call: int, last: int) -> None:
        """Begin a pause because call number ``call`` has failed. Each pause is longer than the previous one.

        ``last``: number of the newest call. If two calls in flight both fail, only one pause begins.
        """
        if call >= self._first_of_pause:  # two calls in flight that both fail count once
            self.retry_at = now + self._pause * (0.5 + self._jitter())
            self._pause = min(LAST_PAUSE_S, self._pause * 2)
            self._first_of_pause = last + 1

    def is_news(self, sentence: str) -> bool:
        """Return whether this error is not logged yet, and remember the error.

        All errors are remembered, not only the last: two kinds of calls may fail alternately, each with an
        error of its own.
        """
        if sentence in self._troubles:
            return False
        if len(self._troubles) >= MOST_TROUBLES:
            self._troubles.clear()
        self._troubles.add(sentence)
        return True

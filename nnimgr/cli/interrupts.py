"""Ctrl-C in a command that watches an experiment and stops it at Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

__all__ = ["Interrupt"]


class Interrupt:
    """Ctrl-C, which may come before there is anything to stop."""

    def __init__(self) -> None:
        self._came = False

    def hold(self) -> None:
        """From now on, keep a first Ctrl-C for ``raised``. A second one interrupts at once."""
        signal.signal(signal.SIGINT, self._keep)

    @contextlib.contextmanager
    def raised(self) -> Iterator[None]:
        """Raise KeyboardInterrupt at the first Ctrl-C, even if it came before, and ignore any further one.

        So a second Ctrl-C cannot prevent that the request to stop the experiment is sent.
        """
        signal.signal(signal.SIGINT, self._once)
        if self._came:
            self._once(signal.SIGINT, None)
        yield

    def _keep(self, number: int, frame: FrameType | None) -> None:
        if self._came:
            raise KeyboardInterrupt
        self._came = True

    def _once(self, number: int, frame: FrameType | None) -> None:
        # An empty function instead of SIG_IGN, because a server that is started now would inherit SIG_IGN.
        signal.signal(signal.SIGINT, lambda number, frame: None)
        raise KeyboardInterrupt

"""Thread that notices when the event loop is blocked, and logs the stack at this moment."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback

__all__ = ["Watchdog"]

logger = logging.getLogger(__name__)


class Watchdog:
    """Context in which a thread checks every ``every_s`` seconds whether the event loop responds.

    If the loop does not respond within ``stall_s`` seconds, its stack is logged once. Another line is logged
    when the loop continues.
    """

    def __init__(self, *, every_s: float = 0.5, stall_s: float = 0.2) -> None:
        self._every_s = every_s
        self._stall_s = stall_s
        self._leaving = threading.Event()
        self._alive = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Watchdog:
        watched = (asyncio.get_running_loop(), threading.get_ident())
        self._thread = threading.Thread(target=self._watch, args=watched, name="watchdog", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        self._alive.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self, loop: asyncio.AbstractEventLoop, thread_id: int) -> None:
        while not self._leaving.wait(self._every_s):
            self._alive.clear()
            asked_at = time.monotonic()
            try:
                loop.call_soon_threadsafe(self._alive.set)
            except RuntimeError:  # the loop is closed
                return
            if self._leaving.is_set() or self._alive.wait(self._stall_s):
                continue
            frame = sys._current_frames().get(thread_id)
            stack = "".join(traceback.format_stack(frame)) if frame is not None else "(unknown)"
            logger.warning("the event loop has been blocked for %.1f s at:\n%s", self._stall_s, stack)
            self._alive.wait()
            logger.warning("the event loop continues after %.2f s", time.monotonic() - asked_at)

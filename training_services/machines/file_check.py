"""Check of files that may be on a file system that hangs, such as that of a dead NFS server."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

__all__ = ["FileCheck"]

LIMIT_S = 0.1  # longest wait for an answer, because the event loop waits

Look = Callable[[], str | None]


class FileCheck:
    """Runs a check of files in a thread, and does not let the event loop wait long for the thread.

    ``look`` is the check: it returns a sentence about an obstacle, or None. ``hangs``: the sentence to return
    instead while ``look`` does not return. ``answered`` is called in the event loop when ``look`` has
    returned late.
    """

    def __init__(self, look: Look, *, hangs: str, answered: Callable[[], None]) -> None:
        self._look, self._hangs, self._answered = look, hangs, answered
        self._late = False  # True while an answer is awaited that has not come in time
        self._closed = False

    def obstacle(self) -> str | None:
        """Return a sentence about an obstacle, or None."""
        if self._late:
            return self._hangs
        loop = asyncio.get_running_loop()
        answer = _in_thread(self._look)
        try:
            return answer.result(LIMIT_S)
        except TimeoutError:
            self._late = True
            answer.add_done_callback(lambda _: self._call(loop))
            return self._hangs

    def close(self) -> None:
        """Stop reporting results: the function ``answered`` is not called any more."""
        self._closed = True

    def _call(self, loop: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._returned)

    def _returned(self) -> None:
        self._late = False
        if not self._closed:
            self._answered()


class _Worker:
    """Daemon thread that runs one check after the other. A hanging check does not keep the process alive."""

    def __init__(self) -> None:
        self.looks: SimpleQueue[tuple[Look, Future[str | None]]] = SimpleQueue()
        threading.Thread(target=self._work, name="file-check", daemon=True).start()

    def _work(self) -> None:
        while True:
            look, answer = self.looks.get()
            try:
                found = look()
            except Exception as error:
                found = str(error)
            _idle.append(self)
            answer.set_result(found)


_idle: list[_Worker] = []  # of all experiments; a worker whose look hangs is not among them


def _in_thread(look: Look) -> Future[str | None]:
    answer: Future[str | None] = Future()
    worker = _idle.pop() if _idle else _Worker()
    worker.looks.put((look, answer))
    return answer

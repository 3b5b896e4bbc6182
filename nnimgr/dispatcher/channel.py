"""The child's end of the pipes: lines in, lines out, and an eye on the call that runs.

A thread reads, so that the end of the server ends this process at once whatever user code is doing, and so
that a call which does not return is told to the server, with the place where it is.
"""

from __future__ import annotations

import os
import queue
import select
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from nnimgr.dispatcher.messages import Busy, FromChild, Idle, ToChild, to_child, to_line

__all__ = ["OWN_CODE", "Channel"]

OWN_CODE = os.path.dirname(os.path.abspath(__file__))
FIRST_LOOK_S = 1.0  # a call that runs longer is told, then again at each doubling
MOST_QUEUED = 8 << 20  # bytes read ahead; beyond that the pipe fills, and the server leaves metrics out


class Channel:
    """Made and used by the main thread; ``send`` may be called from any."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd, self._write_fd = read_fd, write_fd
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        # Lines put in the queue (written by the reader), taken and finished (by the main thread).
        self._given = self._taken = self._done = 0
        self._bytes_given = self._bytes_taken = 0
        self._full = False
        self._room = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._write_lock = threading.Lock()
        self._call: tuple[str, float] | None = None  # name, start on the monotonic clock
        self._told_s = 0.0  # the age at which the running call was told last
        self._main = threading.get_ident()
        threading.Thread(target=self._read, name="nnimgr-reader", daemon=True).start()

    def take(self) -> ToChild:
        """The next message; whatever was taken before counts as done."""
        self._done = self._taken
        line = self._lines.get()
        self._taken += 1
        self._bytes_taken += len(line)
        if self._full and self._bytes_given - self._bytes_taken < MOST_QUEUED // 2:
            self._full = False
            os.eventfd_write(self._room, 1)
        return to_child(line)

    @property
    def waiting(self) -> bool:
        """Whether another line lies here already."""
        return not self._lines.empty()

    def send(self, message: FromChild) -> None:
        line = to_line(message)
        with self._write_lock:
            self._write(line)

    @contextmanager
    def calling(self, name: str) -> Iterator[None]:
        """User code runs inside: Busy is sent when it takes long, Idle when it has come back."""
        if self._call is not None:  # user code has called back: the outer call goes on
            yield
            return
        self._told_s = 0.0
        self._call = (name, time.monotonic())
        try:
            yield
        finally:
            with self._write_lock:
                self._call = None
                if self._told_s:
                    self._write(to_line(Idle()))

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(self._write_fd, rest) :]
        except BrokenPipeError:  # nobody is left to work for
            os._exit(0)

    # ---- in the reading thread ----------------------------------------------------------------------------

    def _read(self) -> None:
        poller = select.poll()
        poller.register(self._room, select.POLLIN)
        poller.register(self._read_fd, select.POLLIN)
        rest = bytearray()
        while True:
            for fd, event in poller.poll(self._patience_ms()):
                if fd == self._room:
                    os.eventfd_read(self._room)
                    poller.modify(self._read_fd, select.POLLIN)
                elif event & select.POLLIN:
                    self._hand_over(rest)
                    if self._bytes_given - self._bytes_taken > MOST_QUEUED:
                        self._full = True  # before the second look: from now on ``take`` sees to the rest
                        if self._bytes_given - self._bytes_taken >= MOST_QUEUED // 2:
                            poller.modify(self._read_fd, select.POLLRDHUP)
                else:
                    os._exit(0)
            self._look()

    def _hand_over(self, rest: bytearray) -> None:
        """Read what there is; whole lines go into the queue, what is left stays in ``rest``."""
        chunk = os.read(self._read_fd, 1 << 18)
        if not chunk:
            os._exit(0)
        start = len(rest)
        rest += chunk
        end = rest.rfind(b"\n", start) + 1
        if not end:
            return
        lines = bytes(rest[:end]).splitlines()
        del rest[:end]
        for line in lines:
            self._given += 1
            self._bytes_given += len(line)
            self._lines.put(line)

    def _patience_ms(self) -> float | None:
        """Until when there is nothing to look at. None: no line is being worked on."""
        call = self._call
        if call is not None:
            due = call[1] + max(FIRST_LOOK_S, 2 * self._told_s)
            return max(0.0, due - time.monotonic()) * 1000 + 1
        return None if self._done == self._given else FIRST_LOOK_S * 1000

    def _look(self) -> None:
        call = self._call
        if call is None:
            return
        age = time.monotonic() - call[1]
        if age < max(FIRST_LOOK_S, 2 * self._told_s):
            return
        message = to_line(Busy(call=call[0], seconds=round(age, 3), stack=self._stack()))
        with self._write_lock:
            if self._call is call:
                self._told_s = age
                self._write(message)

    def _stack(self) -> str:
        """Where the main thread is, from the user's first line on."""
        import traceback

        frame: FrameType | None = sys._current_frames().get(self._main)
        if frame is None:
            return ""
        entries = traceback.extract_stack(frame)
        own = [index for index, entry in enumerate(entries) if entry.filename.startswith(OWN_CODE)]
        return "".join(traceback.format_list(entries[own[-1] + 1 if own else 0 :] or entries))

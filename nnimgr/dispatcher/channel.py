"""The child's end of the pipes: lines in, lines out, and an eye on the call that runs.

The main thread reads, without a hand-over in a metric's way. A second one watches: the end of the server ends
this process at once whatever user code is doing, and a call that does not return is told to the server, with
the place where it is.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from nnimgr.dispatcher.messages import Busy, FromChild, Idle, ToChild, to_child, to_line

__all__ = ["OWN_CODE", "Channel"]

OWN_CODE = os.path.dirname(os.path.abspath(__file__))
FIRST_LOOK_S = 1.0  # a call that runs longer is told, then again at each doubling


class Channel:
    """Made and used by the main thread; ``send`` may be called from any."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd, self._write_fd = read_fd, write_fd
        self._lines: deque[bytes] = deque()
        self._rest = bytearray()
        self._taken = 0
        self._readable = select.poll()
        self._readable.register(read_fd, select.POLLIN)
        self._write_lock = threading.Lock()
        self._call: tuple[str, float] | None = None  # name, start on the monotonic clock
        self._told_s = 0.0  # the age at which the running call was told last
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._asleep = False  # the watching thread: only the server's end, or ``_wake``, wakes it
        self._main = threading.get_ident()
        threading.Thread(target=self._watch, name="nnimgr-watch", daemon=True).start()

    def take(self) -> ToChild:
        """The next message."""
        while not self._lines:
            self._read()
        self._taken += 1
        if self._asleep:
            self._asleep = False
            os.eventfd_write(self._wake, 1)
        return to_child(self._lines.popleft())

    @property
    def waiting(self) -> bool:
        """Whether another line lies here already, or has begun to come."""
        return bool(self._lines) or bool(self._readable.poll(0))

    def _read(self) -> None:
        chunk = os.read(self._read_fd, 1 << 18)
        if not chunk:
            os._exit(0)
        start = len(self._rest)
        self._rest += chunk
        end = self._rest.rfind(b"\n", start) + 1
        if end:
            self._lines.extend(bytes(self._rest[:end]).splitlines())
            del self._rest[:end]

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

    # ---- in the watching thread ---------------------------------------------------------------------------

    def _watch(self) -> None:
        poller = select.poll()
        poller.register(self._wake, select.POLLIN)
        poller.register(self._read_fd, select.POLLRDHUP)
        seen = -1
        while True:
            call = self._call
            if call is not None:
                due = call[1] + max(FIRST_LOOK_S, 2 * self._told_s)
                patience: float | None = max(0.0, due - time.monotonic()) * 1000 + 1
            elif seen != self._taken:
                patience = FIRST_LOOK_S * 1000
            else:
                self._asleep = True
                patience = (
                    None if seen == self._taken else 0.0
                )  # ``take`` looks at the two the other way round
            seen = self._taken
            for fd, _ in poller.poll(patience):
                if fd == self._read_fd:
                    os._exit(0)
                os.eventfd_read(self._wake)
            self._look()

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

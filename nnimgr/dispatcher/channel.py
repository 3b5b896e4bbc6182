"""Connection of a child process to the server: reads and writes lines, and watches the running call of user
code.

The main thread reads lines directly, so that no hand-over between threads delays a metric. A second thread
watches. If the server ends, the second thread ends this process at once, whatever user code is doing. If a
call does not return, it reports the call and its stack to the server. A third thread exists only while a call
of user code seems to wait for further messages. It then reads lines in place of the main thread.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from nnimgr.dispatcher.messages import Busy, FromChild, Idle, ToChild, to_child, to_line

__all__ = ["OWN_CODE", "Channel"]

OWN_CODE = os.path.dirname(os.path.abspath(__file__))
FIRST_LOOK_S = 1.0  # seconds; a call that runs longer is reported, and again each time its age doubles
MOST_WORK = 0.05  # a call that has used a smaller share of a processor since its last report is waiting

Meanwhile = Callable[[ToChild], bool]


class _Call:
    """Call of user code that runs in the main thread. All times are in seconds."""

    __slots__ = ("attended", "begin", "meanwhile", "name", "told_s", "work_s")

    def __init__(self, name: str, meanwhile: Meanwhile | None) -> None:
        self.name, self.meanwhile = name, meanwhile
        self.begin = time.monotonic()
        self.told_s = 0.0  # age of the call at its last report
        self.work_s = (
            time.thread_time() if meanwhile else 0.0
        )  # processor time that the main thread had used at the last report
        self.attended = False  # True: another thread reads lines during this call

    @property
    def due_s(self) -> float:
        """Age of the call, in seconds, at which it must be reported next."""
        return max(FIRST_LOOK_S, 2 * self.told_s)


class Channel:
    """Connection of a child process to the server.

    Only the main thread creates and uses the connection, but any thread may call ``send``.
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd, self._write_fd = read_fd, write_fd
        self._lines: deque[bytes] = deque()
        self._rest = bytearray()
        self._taken = 0
        self._readable = select.poll()
        self._readable.register(read_fd, select.POLLIN)
        self._write_lock = threading.Lock()
        # held by the thread that reads lines, and by the third thread while it processes a line
        self._turn = threading.Lock()
        self._call: _Call | None = None
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._asleep = False  # True: only the end of the server or ``_wake`` wakes the watching thread
        self._main = threading.get_ident()
        threading.Thread(target=self._watch, name="nnimgr-watch", daemon=True).start()

    def take(self) -> ToChild:
        """Wait for the next message of the server and return it."""
        with self._turn:
            while not self._lines:
                self._read()
            line = self._lines.popleft()
        self._taken += 1
        if self._asleep:
            self._asleep = False
            os.eventfd_write(self._wake, 1)
        return to_child(line)

    @property
    def waiting(self) -> bool:
        """Return whether another line of the server has been read, or has begun to arrive."""
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

    @property
    def in_call(self) -> bool:
        """Return whether a ``calling`` block is active, in which user code runs."""
        return self._call is not None

    @contextmanager
    def calling(self, name: str, *, meanwhile: Meanwhile | None = None) -> Iterator[None]:
        """Watch the user code that runs inside this ``with`` block.

        Send Busy when the code takes long, and Idle when it has returned.

        If the code seems to wait, ``meanwhile`` is called in another thread with each new message, in order.
        It returns True for a message that it has processed. While user code computes, ``meanwhile`` is not
        called, because the code may not expect calls at the same time.
        """
        if self.in_call:  # user code has called back into this module, or this call comes from ``meanwhile``
            yield
            return
        call = self._call = _Call(name, meanwhile)
        try:
            yield
        finally:
            with self._turn, self._write_lock:
                self._call = None
                if call.told_s:
                    self._write(to_line(Idle()))

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(self._write_fd, rest) :]
        except BrokenPipeError:  # the server has ended
            os._exit(0)

    # ---- in the second thread, which watches --------------------------------------------------------------

    def _watch(self) -> None:
        poller = select.poll()
        poller.register(self._wake, select.POLLIN)
        poller.register(self._read_fd, select.POLLRDHUP)
        seen = -1
        while True:
            call = self._call
            if call is not None:
                due = call.begin + call.due_s
                patience: float | None = max(0.0, due - time.monotonic()) * 1000 + 1
            elif seen != self._taken:
                patience = FIRST_LOOK_S * 1000
            else:
                self._asleep = True
                patience = (
                    None if seen == self._taken else 0.0
                )  # ``take`` accesses these two fields in the opposite order
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
        age = time.monotonic() - call.begin
        if age < call.due_s:
            return
        work = time.clock_gettime(time.pthread_getcpuclockid(self._main))
        waits = work - call.work_s < MOST_WORK * (age - call.told_s)
        message = to_line(Busy(call=call.name, seconds=round(age, 3), stack=self._stack()))
        with self._write_lock:
            if self._call is not call:
                return
            call.told_s, call.work_s = age, work
            self._write(message)
        if waits and call.meanwhile is not None and not call.attended:
            call.attended = True
            threading.Thread(
                target=self._attend, args=(call, call.meanwhile), name="nnimgr-attend", daemon=True
            ).start()

    def _stack(self) -> str:
        """Return the main thread's stack as text, starting at the first line of user code."""
        import traceback

        frame: FrameType | None = sys._current_frames().get(self._main)
        if frame is None:
            return ""
        entries = traceback.extract_stack(frame)
        own = [index for index, entry in enumerate(entries) if entry.filename.startswith(OWN_CODE)]
        return "".join(traceback.format_list(entries[own[-1] + 1 if own else 0 :] or entries))

    # ---- in the third thread, during a call that waits ----------------------------------------------------

    def _attend(self, call: _Call, meanwhile: Meanwhile) -> None:
        """Process the server's messages by ``meanwhile`` until the call of user code has returned.

        Messages that ``meanwhile`` does not accept are left to the main thread.
        """
        kept = 0  # number of first lines that ``meanwhile`` has not accepted
        readable = select.poll()
        readable.register(self._read_fd, select.POLLIN)
        try:
            while True:
                with self._turn:
                    if self._call is not call:
                        return
                    if readable.poll(0):
                        self._read()
                    while kept < len(self._lines):
                        if meanwhile(to_child(self._lines[kept])):
                            del self._lines[kept]
                        else:
                            kept += 1
                readable.poll()
        except BaseException:
            # ``meanwhile`` reports exceptions of user code itself. Any other exception must end the process
            # here, because the main thread would not notice it.
            import traceback

            traceback.print_exc()
            os._exit(1)

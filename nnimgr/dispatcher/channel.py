"""The child's end of the pipes: lines in, lines out, and an eye on the call that runs.

The main thread reads, without a hand-over in a metric's way. A second one watches: the end of the server ends
this process at once whatever user code is doing, and a call that does not return is told to the server, with
the place where it is. A third one is there while a call that may wait for further lines does wait: it takes
them in the main thread's stead.
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
FIRST_LOOK_S = 1.0  # a call that runs longer is told, then again at each doubling
MOST_WORK = 0.05  # a call that has used less of a processor than this since it was looked at last only waits

Meanwhile = Callable[[ToChild], bool]


class _Call:
    """User code that runs in the main thread. All times in seconds."""

    __slots__ = ("attended", "begin", "meanwhile", "name", "told_s", "work_s")

    def __init__(self, name: str, meanwhile: Meanwhile | None) -> None:
        self.name, self.meanwhile = name, meanwhile
        self.begin = time.monotonic()
        self.told_s = 0.0  # its age when it was told last
        self.work_s = (
            time.thread_time() if meanwhile else 0.0
        )  # what its thread had used of a processor by then
        self.attended = False  # a thread takes lines in its stead

    @property
    def due_s(self) -> float:
        """The age at which it is to be told next."""
        return max(FIRST_LOOK_S, 2 * self.told_s)


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
        self._turn = threading.Lock()  # held to take lines, and to serve one in the main thread's stead
        self._call: _Call | None = None
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._asleep = False  # the watching thread: only the server's end, or ``_wake``, wakes it
        self._main = threading.get_ident()
        threading.Thread(target=self._watch, name="nnimgr-watch", daemon=True).start()

    def take(self) -> ToChild:
        """The next message."""
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

    @property
    def in_call(self) -> bool:
        """Whether user code runs: inside of ``calling``."""
        return self._call is not None

    @contextmanager
    def calling(self, name: str, *, meanwhile: Meanwhile | None = None) -> Iterator[None]:
        """User code runs inside: Busy is sent when it takes long, Idle when it has come back.

        When it seems to wait, ``meanwhile`` is called in another thread with each message that comes, in
        order; True: it has served it. Not so while user code computes, which may not expect it.
        """
        if self.in_call:  # user code has called back, or this is ``meanwhile``
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
                due = call.begin + call.due_s
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
        """Where the main thread is, from the user's first line on."""
        import traceback

        frame: FrameType | None = sys._current_frames().get(self._main)
        if frame is None:
            return ""
        entries = traceback.extract_stack(frame)
        own = [index for index, entry in enumerate(entries) if entry.filename.startswith(OWN_CODE)]
        return "".join(traceback.format_list(entries[own[-1] + 1 if own else 0 :] or entries))

    # ---- in the attending thread --------------------------------------------------------------------------

    def _attend(self, call: _Call, meanwhile: Meanwhile) -> None:
        """Serve what can be served until the call has returned; the rest stays for the main thread."""
        kept = 0  # lines at the front that are not for now
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
            # What user code raises is told and goes no further, but for the end of the process. Of its own
            # accord the main thread would not learn of that.
            import traceback

            traceback.print_exc()
            os._exit(1)

"""The keeper's loop: it waits for descriptors and threads, and carries out effects one after the other."""

from __future__ import annotations

import collections
import os
import selectors
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable

    from trial_keeper.core.effects import Effect


def now() -> float:
    """Return the seconds since the machine's boot, also those in which it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Loop:
    """Everything in it happens in one thread. ``acts`` says how an effect of each type is carried out."""

    def __init__(self) -> None:
        self.acts: dict[type, Callable[[Any], list[Effect]]] = {}
        self._selector = selectors.DefaultSelector()
        self._told: collections.deque[Callable[[], list[Effect]]] = collections.deque()  # by the threads
        self._pulse, self._beat = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.on_readable(self._pulse, self._on_told)

    def on_readable(self, fd: int, act: Callable[[], None]) -> None:
        """Call ``act`` whenever this descriptor can be read."""
        self._selector.register(fd, selectors.EVENT_READ, act)

    def on_writable(self, fd: int, act: Callable[[], None]) -> None:
        """Call ``act`` whenever this descriptor, perhaps waited for already, can be written."""
        if fd not in self._selector.get_map():
            self._selector.register(fd, selectors.EVENT_WRITE, act)

    def forget(self, fd: int) -> None:
        """Wait for this descriptor no more, if it was waited for."""
        if fd in self._selector.get_map():
            self._selector.unregister(fd)

    def wait(self, timeout: float | None) -> None:
        """Wait for what happens next, and act on it."""
        for key, _ in self._selector.select(timeout):
            key.data()

    def perform(self, effects: Iterable[Effect]) -> None:
        """Carry out effects, and those that follow from them."""
        queue = collections.deque(effects)
        while queue:
            effect = queue.popleft()
            queue.extend(self.acts[type(effect)](effect))

    def tell(self, input_: Callable[[], list[Effect]]) -> None:
        """From another thread: have the loop call this, and carry out the effects that it returns."""
        self._told.append(input_)
        try:
            os.write(self._beat, b"\0")
        except BlockingIOError:  # it will wake up anyway
            return

    def _on_told(self) -> None:
        try:
            os.read(self._pulse, 65536)
        except BlockingIOError:
            pass
        while self._told:
            self.perform(self._told.popleft()())

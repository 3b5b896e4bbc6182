"""The keeper's event loop: waits for descriptors and other threads, and carries out effects one by one.

An effect is an order that the keeper's core returns, such as "write this record".
"""

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
    """Return the seconds since the machine's boot, including suspended time."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Loop:
    """Event loop that runs the whole keeper in one thread.

    ``acts`` maps each type of effect to the function that carries out effects of this type.
    """

    def __init__(self) -> None:
        self.acts: dict[type, Callable[[Any], list[Effect]]] = {}
        self._selector = selectors.DefaultSelector()
        # Functions that other threads have passed to ``tell`` and that the loop's thread has to call.
        self._told: collections.deque[Callable[[], list[Effect]]] = collections.deque()
        self._pulse, self._beat = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.on_readable(self._pulse, self._on_told)

    def on_readable(self, fd: int, act: Callable[[], None]) -> None:
        """Call ``act`` whenever this descriptor can be read."""
        self._selector.register(fd, selectors.EVENT_READ, act)

    def on_writable(self, fd: int, act: Callable[[], None]) -> None:
        """Call ``act`` whenever the descriptor ``fd`` can be written.

        Do nothing if the descriptor is registered already.
        """
        if fd not in self._selector.get_map():
            self._selector.register(fd, selectors.EVENT_WRITE, act)

    def forget(self, fd: int) -> None:
        """Stop waiting for this descriptor. Do nothing if it was not registered."""
        if fd in self._selector.get_map():
            self._selector.unregister(fd)

    def wait(self, timeout: float | None) -> None:
        """Wait for an event, at most ``timeout`` seconds, and call the function that is registered for it."""
        for key, _ in self._selector.select(timeout):
            key.data()

    def perform(self, effects: Iterable[Effect]) -> None:
        """Carry out these effects, and all further effects that their functions return."""
        queue = collections.deque(effects)
        while queue:
            effect = queue.popleft()
            queue.extend(self.acts[type(effect)](effect))

    def tell(self, input_: Callable[[], list[Effect]]) -> None:
        """Make the loop call this function and carry out the effects that it returns.

        Called from other threads.
        """
        self._told.append(input_)
        try:
            os.write(self._beat, b"\0")
        except BlockingIOError:  # a wake-up is already in the pipe
            return

    def _on_told(self) -> None:
        try:
            os.read(self._pulse, 65536)
        except BlockingIOError:
            pass
        while self._told:
            self.perform(self._told.popleft()())

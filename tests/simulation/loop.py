"""Asyncio event loop on the virtual clock: real coroutines run on it unmodified, and it can be killed."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

from tests.simulation.kernel import Clock, Kernel


class SimLoop(asyncio.AbstractEventLoop):
    """Loop of one process. After ``alive`` is False, none of its callbacks runs again.

    ``failed`` is called with exceptions that nobody catches.
    """

    def __init__(self, kernel: Kernel, clock: Clock, failed: Callable[[str], None]) -> None:
        self._kernel = kernel
        self._clock = clock
        self._failed = failed
        self._ready: collections.deque[asyncio.Handle] = collections.deque()
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._pumping = False
        self.stalled_until = 0.0  # until then the process is stopped, or gets no CPU time
        self.alive = True

    # ---- what asyncio asks for ----------------------------------------------------------------------------

    def time(self) -> float:
        return self._clock.monotonic()

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self.alive

    def is_closed(self) -> bool:
        return not self.alive

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._enqueue(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._kernel.at((when - self.time()) / self._clock.rate, self._fire, handle)
        return handle

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run the function soon, as a thread would."""
        done = self.create_future()

        def run() -> None:
            try:
                result = func(*args)
            except Exception as error:
                if not done.cancelled():
                    done.set_exception(error)
            else:
                if not done.cancelled():
                    done.set_result(result)

        self.call_later(0.001, run)
        return done

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.alive and "exception" in context:
            self._failed(f"{context.get('message')}: {context['exception']!r}")

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: asyncio requires this method, and the kernel drops the handle at its time."""

    # ---- running ------------------------------------------------------------------------------------------

    def _enqueue(self, handle: asyncio.Handle) -> None:
        self._ready.append(handle)
        if not self._pumping and self.alive:
            self._pumping = True
            self._kernel.at(self.stalled_until - self._kernel.now, self._pump)

    def _fire(self, handle: asyncio.TimerHandle) -> None:
        if self.alive and not handle.cancelled():
            self._enqueue(handle)

    def _pump(self) -> None:
        asyncio._set_running_loop(self)
        try:
            while self._ready and self.alive:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            self._pumping = False
            asyncio._set_running_loop(None)

    def bury(self) -> None:
        """Unwind the coroutines of a dead process, so that none of them wakes up when it is collected.

        The world must no longer listen to this loop.
        """
        self.alive = False
        asyncio._set_running_loop(self)
        try:
            for _ in range(100):
                for task in list(self._tasks):
                    task.cancel()
                while self._ready:
                    handle = self._ready.popleft()
                    if not handle.cancelled():
                        handle._run()
                if not self._tasks:
                    return
        finally:
            asyncio._set_running_loop(None)

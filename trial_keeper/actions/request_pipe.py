"""Pipe through which the keeper requests shims from a spawner."""

from __future__ import annotations

import contextlib
import os
import signal

from trial_keeper import spawner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

    from trial_keeper.actions.loop import Loop


class RequestPipe:
    """Pipe to a spawner, which never blocks the keeper. ``pid``: process id of the spawner."""

    def __init__(self, fd: int, pid: int, loop: Loop) -> None:
        os.set_blocking(fd, False)
        self.pid = pid
        self._fd = fd
        self._loop = loop
        self._rest = b""  # bytes of requests that do not fit into the pipe yet

    def send(self, fields: Iterable[str]) -> None:
        """Request a shim. ``fields``: see ``spawner``."""
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGCONT)  # wake the spawner if somebody has suspended it
        self._rest += spawner.pack(map(os.fsencode, fields))
        self._write()

    def close(self) -> None:
        """Close the pipe, because the spawner has ended."""
        self._loop.forget(self._fd)
        os.close(self._fd)

    def _write(self) -> None:
        try:
            while self._rest:
                self._rest = self._rest[os.write(self._fd, self._rest) :]
        except BlockingIOError:
            self._loop.on_writable(self._fd, self._write)
            return
        except BrokenPipeError:
            self._rest = b""  # the spawner has ended; the end of the other pipe reports this
        self._loop.forget(self._fd)

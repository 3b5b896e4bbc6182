"""What the keeper reads from its pipes, and its log."""

from __future__ import annotations

import os
import time

LOG_BYTES = 5 << 20


class Lines:
    """Whole lines from a pipe that never blocks. ``ended``: nobody holds the other end any more."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._rest = b""
        self.ended = False

    def lines(self) -> list[str]:
        """All that are there now."""
        while True:
            try:
                chunk = os.read(self._fd, 65536)
            except BlockingIOError:
                break
            self._rest += chunk
            if not chunk:
                self.ended = True
                break
        *lines, self._rest = self._rest.split(b"\n")
        return [line.decode(errors="replace") for line in lines]


class Log:
    """The keeper's log: standard error, moved to ``<path>.1`` when it has grown large."""

    def __init__(self, path: str) -> None:
        self._path = path

    def write(self, sentence: str) -> None:
        """Add a line; never raises."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        try:
            os.write(2, f"[{stamp}] {sentence}\n".encode(errors="replace"))
            if os.fstat(2).st_size > LOG_BYTES:
                os.rename(self._path, f"{self._path}.1")
                redirect(self._path)
        except OSError:
            return


def redirect(path: str) -> None:
    """Standard output and error go to the end of this file. Raises OSError."""
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)

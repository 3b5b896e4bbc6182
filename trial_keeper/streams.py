"""Lines that the keeper reads from pipes, and the keeper's log."""

from __future__ import annotations

import os
import time

LOG_BYTES = 5 << 20


class Lines:
    """Reader of complete lines from the pipe ``fd``, which never blocks. ``ended``: the other end is
    closed.
    """

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._rest = b""
        self.ended = False

    def lines(self) -> list[str]:
        """Return all complete lines that have arrived since the last call."""
        while True:
            try:
                chunk = os.read(self.fd, 65536)
            except BlockingIOError:
                break
            self._rest += chunk
            if not chunk:
                self.ended = True
                break
        *lines, self._rest = self._rest.split(b"\n")
        return [line.decode(errors="replace") for line in lines]


class Log:
    """The keeper's log, which is written to standard error.

    ``path``: the file to which standard error leads. If it exceeds LOG_BYTES, it is renamed to ``<path>.1``,
    and a new file begins.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def write(self, sentence: str) -> None:
        """Write the sentence as a line with the time; never raises."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        try:
            os.write(2, f"[{stamp}] {sentence}\n".encode(errors="replace"))
            if os.fstat(2).st_size > LOG_BYTES:
                os.rename(self._path, f"{self._path}.1")
                redirect(self._path)
        except OSError:
            return


def redirect(path: str) -> None:
    """Append standard output and error to this file from now on. Raises OSError."""
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)

"""The process that runs resident trials, as the trials' code sees it (see ``trial_keeper.resident``)."""

from __future__ import annotations

import array
import ctypes
import os
import socket
import sys

from trial_keeper import shim, spawner, warm
from trial_keeper.log import complain

LARGEST = 1 << 17  # bytes of a message to the worker, which has less than a request
END = b"end"  # message to the worker
BEGUN, REFUSED, NOTE, READY = b"begun", b"refused", b"note ", b"ready"  # messages of the worker
_THREADS = "a thread of the trial runs on after its end, so the next trial gets a process of its own"


class Worker:
    """This process, as ``nni._resident`` sees it. ``channel``: socket to the shim. ``base``: the
    environment before an attempt changes it.
    """

    def __init__(self, channel: socket.socket, base: dict[bytes, bytes]) -> None:
        self._channel = channel
        self._base = base

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self._channel.fileno()

    def next(self) -> bool:
        """Wait for the next trial, and become its process. Return False if this process is to end instead."""
        if len(sys._current_frames()) > 1:
            self.note(_THREADS)
            return False
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            ctypes.CDLL(None).fflush(None)
            self._channel.send(READY)
            message, rights, _, _ = self._channel.recvmsg(LARGEST, socket.CMSG_SPACE(2 * 4))
        except OSError:
            return False
        if message == END:
            _mute()
        if message == END or not message:
            return False
        outputs = array.array("i", rights[0][2])
        for number, fd in enumerate(outputs, 1):
            os.dup2(fd, number)
            os.close(fd)
        cwd, *changes = spawner.unpack(message[4:])
        environ = dict(self._base)
        shim.change_environ(environ, changes)
        warm.label(environ, warm.WarmShim.room)
        os.environb.clear()
        os.environb.update(environ)
        os.chdir(cwd)
        self._channel.send(BEGUN)
        return True

    def refuse(self) -> None:
        """Give the present trial back to the shim."""
        self._channel.send(REFUSED)

    def note(self, sentence: str) -> None:
        """Show users why this process runs no further trial."""
        try:
            self._channel.send(NOTE + sentence.encode(errors="replace"))
        except OSError as error:
            complain(f"{sentence} ({error.strerror})")


def _mute() -> None:
    """Discard the output of this process, which runs no trial."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in (1, 2):
        os.dup2(null, number)

"""Idle shims of the spawner of resident trials (``trial_keeper.resident``), and the requests for them."""

from __future__ import annotations

import os
import select
import signal
import socket
import time

from trial_keeper import spawner

IDLE_S = 2.0  # seconds until an idle shim ends, because the GPUs of its worker count as free
LARGEST = 1 << 16  # bytes of a request to an idle shim; the socket takes that many at once

IDLE, SAID = b"idle", b"said "  # messages of shims
_COMMAND, _CWD, _CHANGES = 3, 4, 9  # indices of the fields of a request
_GPUS = b"CUDA_VISIBLE_DEVICES="
# variables that differ between the attempts of an experiment, and that a worker takes over
_OWN = frozenset(
    (
        b"NNIMGR_JOB_ID", b"NNI_CHECKPOINT_DIR", b"NNI_OUTPUT_DIR", b"NNI_RESUME_DIR", b"NNI_RESUME_REPORTS",
        b"NNI_RESUME_STEP", b"NNI_SYS_DIR", b"NNI_TRIAL_JOB_ID", b"NNI_TRIAL_SEED", b"NNI_TRIAL_SEQ_ID",
    )
)  # fmt: skip


class _Entry:
    """A shim as the spawner sees it. ``idle_at``: since when it is idle, if it is."""

    __slots__ = ("channel", "gpus", "idle_at", "likeness", "pid")

    def __init__(self, channel: socket.socket, pid: int, fields: list[bytes]) -> None:
        self.channel = channel
        self.pid = pid
        self.likeness = _likeness(fields)
        self.gpus = _gpus(fields)
        self.idle_at = 0.0


class Pool:
    """The shims of this spawner, some of which are idle. ``said``: sentences that were shown to users."""

    def __init__(self) -> None:
        self.said: set[bytes] = set()
        self._shims: dict[int, _Entry] = {}  # by descriptor of the socket
        self._idle: dict[int, _Entry] = {}  # those that are idle, with the longest wait first
        self._poll = select.poll()
        self._pair: tuple[socket.socket, socket.socket] | None = None

    def begin(self, poll: select.poll) -> None:
        """Take the object with which the spawner waits for its own pipes."""
        self._poll = poll

    def descriptors(self) -> tuple[int, ...]:
        """Return the descriptors that a shim must not inherit."""
        assert self._pair is not None
        return (*self._shims, self._pair[0].fileno())

    def wait(self) -> list[tuple[int, int]]:
        """Wait until the spawner can read one of its own pipes. Return their descriptors with events.

        All messages of shims are read before, so that a request finds the shims that are idle now.
        """
        while True:
            ready = self._poll.poll(self._wait_ms())
            own = [(fd, event) for fd, event in ready if fd not in self._shims]
            for fd, _ in ready:
                if fd in self._shims:
                    self._read(fd)
            if own:
                return own

    def _wait_ms(self) -> float | None:
        """End the shims that are idle for too long. Return the milliseconds to the next such end, or None."""
        now = time.monotonic()
        for fd, entry in list(self._idle.items()):
            left = entry.idle_at + IDLE_S - now
            if left > 0:
                return left * 1000 + 1
            self._drop(fd)
        return None

    def hand(self, fields: list[bytes]) -> int:
        """Give the request to an idle shim, and return its pid. Return 0 if none can take it.

        Then also end the idle shims whose GPUs the request is to use.
        """
        if not self._idle:
            return 0
        likeness = _likeness(fields)
        request = spawner.pack(fields)
        for fd, entry in list(self._idle.items()):
            if entry.likeness == likeness and len(request) <= LARGEST:
                try:
                    entry.channel.send(request)
                except OSError:  # the shim has been killed
                    self._drop(fd)
                    continue
                os.kill(entry.pid, signal.SIGCONT)  # somebody may have suspended it
                del self._idle[fd]
                return entry.pid
        gpus = _gpus(fields)
        for fd, entry in list(self._idle.items()):
            if not gpus.isdisjoint(entry.gpus):
                self._drop(fd)
        return 0

    def prepare(self) -> None:
        """Make the socket of a new shim, before the fork. Raises OSError."""
        self._pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def own(self) -> socket.socket:
        """Return the shim's end of its socket, in the fork that becomes the shim."""
        assert self._pair is not None
        return self._pair[1]

    def forked(self, fields: list[bytes], pid: int) -> None:
        """Remember a new shim. ``pid``: -1 if the fork has failed."""
        if self._pair is None:  # there was no socket for it
            return
        (ours, theirs), self._pair = self._pair, None
        theirs.close()
        if pid < 0:
            ours.close()
            return
        ours.setblocking(False)
        self._shims[ours.fileno()] = _Entry(ours, pid, fields)
        self._poll.register(ours.fileno(), select.POLLIN)

    def _read(self, fd: int) -> None:
        """Read all messages of a shim from its socket."""
        entry = self._shims[fd]
        while True:
            try:
                message = entry.channel.recv(LARGEST)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if message == IDLE:
                entry.idle_at = time.monotonic()
                self._idle[fd] = entry
            elif message.startswith(SAID):
                self.said.add(message[len(SAID) :])
            elif not message:
                self._drop(fd)
                return

    def _drop(self, fd: int) -> None:
        """Close the socket of a shim, so that an idle one ends."""
        self._poll.unregister(fd)
        self._idle.pop(fd, None)
        self._shims.pop(fd).channel.close()


def _likeness(fields: list[bytes]) -> tuple[object, ...]:
    """Return what is equal in two requests if one process can run both: all but the trial itself."""
    shared = sorted(change for change in fields[_CHANGES:] if change.partition(b"=")[0] not in _OWN)
    return fields[_COMMAND], fields[_CWD], _version(fields), *shared


def _version(fields: list[bytes]) -> tuple[int, ...] | None:
    """Return numbers that change with the file of the command. Return None if there is no file."""
    command = fields[_COMMAND]
    file = command if command.endswith(b".pickle") else command.rpartition(b":")[0]
    try:
        found = os.stat(os.path.join(fields[_CWD], file))
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _gpus(fields: list[bytes]) -> frozenset[bytes]:
    """Return the GPUs that an attempt sees, as far as its request says so."""
    for change in fields[_CHANGES:]:
        if change.startswith(_GPUS):
            return frozenset(filter(None, change[len(_GPUS) :].split(b",")))
    return frozenset()

"""Resident trials: a warm spawner whose shims run one trial after another in the same process.

The keeper starts it in place of ``warm`` if the experiment has ``resident``. A shim whose trial has ended
well keeps the trial's process, the *worker*, and is idle. The spawner gives the next request to an idle shim
if nothing but the trial differs. Otherwise it forks a shim. Each attempt has its own claim, output and end,
as ever, so a shim has several claims, one after the other.

Three kinds of processes talk through sockets that keep the boundaries of messages::

    spawner -> shim:    a request; its end: no request will follow
    shim -> spawner:    "idle", and "said <sentence>": other shims need not show this sentence again
    shim -> worker:     cwd and changes of the environment, with descriptors of the output; "end"; its end:
                        the worker is to end, as after any trial
    worker -> shim:     "begun", then "refused" or nothing, "note <sentence>", "ready" after the trial's end
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import array
import os
import select
import socket
import time

from trial_keeper import shim, spawner, warm
from trial_keeper.attempt import claim
from trial_keeper.idle_shims import IDLE, LARGEST, SAID, Pool
from trial_keeper.machine import procs
from trial_keeper.worker import BEGUN, END, NOTE, READY, REFUSED, Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

END_S = 2.0  # seconds that an idle worker gets to end by itself
_EARLIER = 16  # previous attempts to which a late stop may belong

_CHILDREN = "another process of the trial runs on after its end, so the next trial gets a process of its own"


def run(requests: int, failures: int, wake: int, modules: list[str]) -> NoReturn:
    """Import the modules, then run each request in an idle shim or a new one. See ``spawner.run``."""
    warm.prepare(requests, failures, wake, [*modules, "nni._resident"])
    pool = Pool()

    def make(fields: list[bytes], own_wake: int) -> shim.Shim:
        return ResidentShim(fields, own_wake, pool.own(), pool.said)

    spawner.run(requests, failures, wake, None, make, pool)
    os._exit(0)


class ResidentShim(warm.WarmShim):
    """Shim that can run several attempts, one after the other, in one worker.

    There is one object for each attempt. ``requests``: socket to the spawner. ``said``: sentences that were
    shown before.
    """

    __slots__ = (
        "_base", "_begun", "_channel", "_earlier", "_environ", "_note", "_outputs", "_ready", "_refused",
        "_requests", "_said", "_worker",
    )  # fmt: skip

    def __init__(self, fields: list[bytes], wake: int, requests: socket.socket, said: set[bytes]) -> None:
        super().__init__(fields, wake)
        self._requests = requests
        self._said = said
        self._earlier: tuple[str, ...] = ()  # beginnings of the paths of previous attempts' files
        self._base: dict[bytes, bytes] = {}  # environment before the attempt changes it
        self._environ: dict[bytes, bytes] = {}
        self._worker = 0
        self._channel: socket.socket | None = None
        self._outputs: list[int] = []  # ends of the output for another worker, if this one refuses
        self._begun = False
        self._refused = False
        self._ready = False  # True: the attempt has ended, and the worker is idle
        self._note = b""

    def run(self, environ: dict[bytes, bytes]) -> None:
        """Run the attempt, and then those that the spawner gives to this shim."""
        this: ResidentShim | None = self
        while this is not None:
            this._base = environ
            super(ResidentShim, this).run(dict(environ))
            this = this._following() if this._ready else None

    # -- the worker

    def _execute(self, environ: dict[bytes, bytes], outputs: list[int]) -> int:
        self._environ = environ
        if not self._hand_over(outputs):
            self._fork_worker(outputs)
        return self._worker

    def _hand_over(self, outputs: list[int]) -> bool:
        """Give the attempt to the idle worker. Return False if there is none."""
        if self._channel is None:
            return False
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", outputs))
        try:
            self._channel.sendmsg([spawner.pack([self._cwd, *self._changes])], [rights])
        except OSError:  # somebody has killed the worker
            procs.signal_all([self._worker], _signal.SIGKILL)
            self._channel.close()
            return False
        self._outputs = [os.dup(fd) for fd in outputs]
        self._poll.register(self._channel, select.POLLIN)
        return True

    def _fork_worker(self, outputs: list[int]) -> None:
        """Fork a worker that runs the attempt, in the current directory. Raises OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become(self._environ, outputs, parent, Worker(theirs, self._base))
        theirs.close()
        ours.setblocking(False)
        self._worker, self._channel, self._begun = pid, ours, True
        self._poll.register(ours, select.POLLIN)

    def _replace_worker(self) -> None:
        """Fork a worker in place of one that has ended before it has run any part of the attempt."""
        self._refused = False
        here = os.open(".", os.O_PATH | os.O_CLOEXEC)
        try:
            os.chdir(self._cwd)
            self._fork_worker(self._outputs)
        finally:
            os.fchdir(here)
            os.close(here)
        self._main, self._status = self._worker, None
        up = shim.uptime()
        self._append(f"started {self._main} {self._booted_at + up:.6f} {up:.6f}\n".encode(), later=True)

    def _drain(self, fd: int) -> bool:
        if self._channel is None or fd != self._channel.fileno():
            return super()._drain(fd)
        self._hear()
        return False

    def _hear(self) -> None:
        """Read the messages of the worker."""
        while self._channel is not None:
            try:
                message = self._channel.recv(LARGEST)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if message == BEGUN:
                self._begun = True
            elif message == REFUSED:
                self._refused = True
            elif message.startswith(NOTE):
                self._show(message[len(NOTE) :])
            elif message == READY:
                self._consider()
            elif not message:
                self._hang_up()

    def _hang_up(self) -> None:
        """Close the socket to the worker, which then ends as after any trial."""
        if self._channel is not None:
            self._poll.unregister(self._channel)
            self._channel.close()
            self._channel = None

    def _reap(self) -> bool:
        if self._ready:
            return True
        ended = super()._reap()
        if self._status is None:
            return ended
        self._hear()
        if (self._refused or not self._begun) and not self._stopping:
            self._hang_up()
            try:
                self._replace_worker()
            except OSError as error:
                assert self._stderr is not None
                self._stderr.write(f"the trial's process cannot be forked: {error.strerror}\n".encode())
                self._refused, self._begun = False, True
                self._status = 1 << 8  # exit code 1
                return ended
            return False
        return ended

    # -- between two attempts

    def _consider(self) -> None:
        """Decide whether the worker, whose trial has ended with status 0, may run another trial."""
        if self._status is not None or self._stopping or not self._claim_is_whole():
            self._hang_up()
        elif any(procs.start_time(pid) for pid in procs.descendants(os.getpid()) if pid != self._worker):
            self._show(_CHILDREN.encode())
            self._hang_up()
        else:
            self._status = 0
            self._ready = True

    def _claim_is_whole(self) -> bool:
        """Return whether the claim file is in its place. If not, only the end of this shim shows the end."""
        try:
            there = os.lstat(claim.path(self._prefix))
        except OSError:
            return False
        here = os.fstat(self._claim)
        return os.path.samestat(there, here) and here.st_size + len(self._unwritten) == len(self._lines)

    def _show(self, sentence: bytes) -> None:
        """Show users a note of this attempt, unless an earlier attempt has the same note."""
        if sentence not in self._said:
            self._said.add(sentence)
            self._note = b" ".join(sentence.split())
            self._tell(SAID + sentence)

    def _tell(self, message: bytes) -> None:
        """Send a message to the spawner. If it has ended, the socket shows that later."""
        try:
            self._requests.send(message)
        except OSError:
            return

    def _seal(self) -> None:
        if self._note:
            self._append(b"note %s\n" % self._note, later=True)
        super()._seal()
        if self._ready:
            self._tell(IDLE)

    def _stop(self, now: float) -> None:
        """Stop the command, unless the order was for an earlier attempt of this shim."""
        if os.path.lexists(self._prefix + claim.STOP) or not any(
            os.path.lexists(prefix + claim.STOP) for prefix in self._earlier
        ):
            super()._stop(now)

    def _following(self) -> ResidentShim | None:
        """Wait for the next request, and return its shim. End the worker and return None if none follows."""
        self._release()
        fields = self._wait()
        if fields is None:
            self._end_worker()
            return None
        following = type(self)(fields, self._wake, self._requests, self._said)
        following._pulse, following._beat = self._pulse, self._beat
        following._poll.register(self._pulse, select.POLLIN)
        following._worker, following._channel = self._worker, self._channel
        following._earlier = (*self._earlier, self._prefix)[-_EARLIER:]
        return following

    def _release(self) -> None:
        """Close what belongs to the attempt that has ended."""
        assert self._stderr is not None
        self._stderr.close()
        for fd in (self._claim, self._metrics, *self._outputs):
            os.close(fd)

    def _wait(self) -> list[bytes] | None:
        """Return the fields of the next request. Return None if the spawner sends none."""
        poll = select.poll()
        poll.register(self._pulse, select.POLLIN)
        poll.register(self._requests, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == self._pulse:
                    os.read(fd, 512)  # the worker was killed, or a stop came too late
                    continue
                try:
                    request = self._requests.recv(LARGEST)
                except OSError:
                    request = b""
                return spawner.unpack(request[4:]) if request else None

    def _end_worker(self) -> None:
        """Let the idle worker end by itself, and kill it if it does not."""
        assert self._channel is not None
        try:
            self._channel.send(END)
        except OSError:  # it has ended already
            pass
        end = time.monotonic() + END_S
        poll = select.poll()
        poll.register(self._pulse, select.POLLIN)
        while not super()._reap() and (left := end - time.monotonic()) > 0:
            if poll.poll(left * 1000 + 1):
                os.read(self._pulse, 512)
        procs.signal_all(procs.descendants(os.getpid()), _signal.SIGKILL)

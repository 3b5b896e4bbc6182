"""Files and listings that the server asked for, each streamed by a call of its own from a thread of its own.

Nothing here is remembered: a read that fails is asked for again by whoever wanted it.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import select
import threading
from _queue import SimpleQueue

from trial_keeper import connection as connections
from trial_keeper import plain, wire
from trial_keeper.connection import CallFailed
from trial_keeper.effects import Serve
from trial_keeper.lean import TYPE_CHECKING, NamedTuple
from trial_keeper.watch import Watcher

if TYPE_CHECKING:
    from typing import Callable, Generator

    from trial_keeper.connection import Connection

THREADS = 64  # more than the server asks for at once: some may hang on a connection that has died
TAKEN_S = 300.0  # so long a reader may take nothing
LOOK_S = 0.1  # without inotify
PIECE = 1 << 18
_REMEMBERED = 1000


class _Read(NamedTuple):
    order: Serve
    live: Callable[[], bool]  # whether the attempt goes on


class Reads:
    """``manager``: the path of manager.json; ``experiment``: the directory below which everything lies."""

    def __init__(self, manager: str, experiment: str) -> None:
        self._manager = manager
        self._experiment = experiment
        self._orders: SimpleQueue[_Read] = SimpleQueue()
        self._taken: collections.OrderedDict[int, None] = collections.OrderedDict()
        self._threads = 0
        self._busy = 0
        self._lock = threading.Lock()
        self._followers: set[int] = set()  # a pipe to wake each with
        self._turn = 0

    def take(self, order: Serve, live: Callable[[], bool]) -> None:
        """Serve this read, unless it is being served or was; ``live`` tells whether its attempt goes on."""
        if order.number in self._taken:
            return
        self._taken[order.number] = None
        if len(self._taken) > _REMEMBERED:
            self._taken.popitem(last=False)
        with self._lock:
            self._busy += 1
            if self._busy > self._threads and self._threads < THREADS:
                self._threads += 1
                threading.Thread(target=self._run, name="read", daemon=True).start()
        self._orders.put(_Read(order, live))

    def ended(self) -> None:
        """An attempt is sealed: who follows one of its files has read all of it soon."""
        with self._lock:
            for pipe in self._followers:
                with contextlib.suppress(BlockingIOError):
                    os.write(pipe, b"\0")

    def _run(self) -> None:
        while True:
            read = self._orders.get()
            try:
                self._serve(read)
            except connections.FAILURES:  # the server tells the reader that the link was lost
                pass
            finally:
                with self._lock:
                    self._busy -= 1

    def _serve(self, read: _Read) -> None:
        try:
            server = connections.connect(self._manager, turn=self._turn, timeout_s=TAKEN_S)
        except connections.FAILURES:
            self._turn += 1
            self._taken.pop(read.order.number, None)  # if it is asked for again, it is tried again
            raise
        with contextlib.closing(server.connection):
            headers = {**server.headers, "Transfer-Encoding": "chunked"}
            path = server.beside(f"reads/{read.order.number}")
            with contextlib.closing(self._pieces(read, server.connection)) as pieces:
                server.connection.request("POST", path, headers, pieces, chunked=True).read()

    def _pieces(self, read: _Read, caller: Connection) -> Generator[bytes, None, None]:
        try:
            if read.order.kind == wire.LISTING:
                found, complete = plain.list_files(self._experiment, read.order.directory.split("/"))
                lines = "".join(json.dumps(entry) + "\n" for entry in found)
                yield wire.read_piece(wire.DATA, lines.encode("ascii"))
                yield wire.read_end(complete=complete)
            else:
                yield from self._file(read, caller)
                yield wire.read_end()
        except FileNotFoundError as error:
            yield wire.read_end(error=wire.MISSING, sentence=str(error))
        except ValueError as error:
            yield wire.read_end(error=wire.BAD_NAME, sentence=str(error))
        except OSError as error:
            yield wire.read_end(error=wire.FAILED, sentence=error.strerror or str(error))

    def _file(self, read: _Read, caller: Connection) -> Generator[bytes, None, None]:
        order = read.order
        parts = order.directory.split("/")
        with contextlib.closing(plain.PlainFile(self._experiment, parts, order.name)) as file:
            offset = order.offset
            if order.tail is None:
                file.seek(offset)
            else:
                offset = file.seek_tail(order.tail)
            if not order.follow:
                left = file.size - offset  # one that grows faster than the link takes it has an end too
                while left > 0:
                    piece = file.read(min(PIECE, left))
                    if not piece:
                        return
                    left -= len(piece)
                    yield wire.read_piece(wire.DATA, piece)
                return
            with contextlib.closing(self._growth(file, caller)) as growth:
                while True:
                    live = read.live()  # asked first: what it wrote last is read after
                    while True:
                        piece = file.read(PIECE)
                        if not piece:
                            break
                        yield wire.read_piece(wire.DATA, piece)
                    if not live:
                        return
                    if not next(growth):
                        yield wire.read_piece(wire.WORD, b"")

    def _growth(self, file: plain.PlainFile, caller: Connection) -> Generator[bool, None, None]:
        """Each ``next`` waits for something to happen to the file or its attempt; False: only time passed.

        Raises CallFailed if the server says something on the connection ``caller`` before its turn.
        """
        woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        watcher = None
        try:
            with self._lock:
                self._followers.add(wake)
            poll, wait_s = select.poll(), LOOK_S
            poll.register(woken, select.POLLIN)
            poll.register(caller.sock, select.POLLIN)
            try:
                watcher = Watcher()
                watcher.watch_file(f"/proc/self/fd/{file.descriptor}")
                poll.register(watcher.fd, select.POLLIN)
                wait_s = wire.WORD_S
            except OSError:
                pass
            yield True  # it may have changed before it was watched
            while True:
                ready = [fd for fd, _ in poll.poll(wait_s * 1000)]
                if caller.sock.fileno() in ready:
                    if caller.has_spoken():
                        raise CallFailed("nobody reads any more")
                    ready.remove(caller.sock.fileno())
                for fd in ready:
                    with contextlib.suppress(BlockingIOError):
                        os.read(fd, 65536)
                yield bool(ready)
        finally:
            with self._lock:
                self._followers.remove(wake)
            os.close(woken)
            os.close(wake)
            if watcher is not None and watcher.fd >= 0:
                os.close(watcher.fd)

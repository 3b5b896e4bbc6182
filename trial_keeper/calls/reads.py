"""Uploads of files, folder listings and checkpoints to the server, which orders each of them as a "read".

Each read has its own call to the server and its own thread. A failed read is not retried, because the client
that needs the data asks the server again.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import select
import threading
from _queue import SimpleQueue

from trial_keeper import wire
from trial_keeper.calls import connection as connections
from trial_keeper.calls.connection import CallFailed
from trial_keeper.core.effects import Serve
from trial_keeper.lean import TYPE_CHECKING, NamedTuple
from trial_keeper.machine import untrusted_files
from trial_keeper.machine.watch import Watcher

if TYPE_CHECKING:
    from typing import Callable, Generator

    from trial_keeper.calls.connection import Connection

THREADS = 64  # above the server's limit, because some threads may hang on dead connections
TAKEN_S = 300.0  # longest time in which the server takes no data
LOOK_S = 0.1  # polling interval of a file without inotify
PIECE = 1 << 18
_REMEMBERED = 1000


class _Read(NamedTuple):
    order: Serve
    live: Callable[[], bool]  # returns whether the attempt still runs


class Reads:
    """Uploader of the files, listings and checkpoints that the server orders.

    ``manager``: path of manager.json, the file with the server's address. ``experiment``: the folder below
    which all files are.
    """

    def __init__(self, manager: str, experiment: str) -> None:
        self._manager = manager
        self._experiment = experiment
        self._orders: SimpleQueue[_Read] = SimpleQueue()
        self._taken: collections.OrderedDict[int, None] = collections.OrderedDict()
        self._threads = 0
        self._busy = 0
        self._lock = threading.Lock()
        self._followers: set[int] = set()  # write ends of pipes that wake waiting uploads
        self._turn = 0

    def take(self, order: Serve, live: Callable[[], bool]) -> None:
        """Upload what the server orders with this read, unless the same read was ordered before.

        ``live`` returns whether the attempt that writes the file still runs.
        """
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
        """Wake all uploads that wait for a file to grow, because an attempt has ended."""
        with self._lock:
            for pipe in self._followers:
                with contextlib.suppress(BlockingIOError):
                    os.write(pipe, b"\0")

    def _run(self) -> None:
        while True:
            read = self._orders.get()
            try:
                self._serve(read)
            except connections.FAILURES:  # the server reports the lost connection to the reader
                pass
            finally:
                with self._lock:
                    self._busy -= 1

    def _serve(self, read: _Read) -> None:
        try:
            server = connections.connect(self._manager, turn=self._turn, timeout_s=TAKEN_S)
        except connections.FAILURES:
            self._turn += 1
            self._taken.pop(read.order.number, None)  # serve the read if it is ordered again
            raise
        with contextlib.closing(server.connection):
            headers = {**server.headers, "Transfer-Encoding": "chunked"}
            path = server.beside(f"reads/{read.order.number}")
            with contextlib.closing(self._pieces(read, server.connection)) as pieces:
                server.connection.request("POST", path, headers, pieces, chunked=True).read()

    def _pieces(self, read: _Read, caller: Connection) -> Generator[bytes, None, None]:
        try:
            if read.order.kind == wire.LISTING:
                parts = read.order.directory.split("/")
                found, complete = untrusted_files.list_files(self._experiment, parts)
                lines = "".join(json.dumps(entry) + "\n" for entry in found)
                yield wire.read_piece(wire.DATA, lines.encode("ascii"))
                yield wire.read_end(complete=complete)
            elif read.order.kind == wire.CHECKPOINT:
                yield from self._checkpoint(read.order)
            else:
                yield from self._file(read, caller)
                yield wire.read_end()
        except FileNotFoundError as error:
            yield wire.read_end(error=wire.MISSING, sentence=str(error))
        except ValueError as error:
            yield wire.read_end(error=wire.BAD_NAME, sentence=str(error))
        except OSError as error:
            yield wire.read_end(error=wire.FAILED, sentence=error.strerror or str(error))

    def _checkpoint(self, order: Serve) -> Generator[bytes, None, None]:
        from trial_keeper.checkpoints import contents  # most keepers never need it

        source = contents.Outgoing(self._experiment, order.directory.split("/"))
        yield wire.read_piece(wire.DATA, contents.encode_list(source.entries))
        for piece in source.content(order.offset):
            yield wire.read_piece(wire.DATA if piece else wire.WORD, piece)
        yield wire.read_end(hashes=source.hashes)

    def _file(self, read: _Read, caller: Connection) -> Generator[bytes, None, None]:
        order = read.order
        parts = order.directory.split("/")
        with contextlib.closing(untrusted_files.PlainFile(self._experiment, parts, order.name)) as file:
            offset = order.offset
            if order.tail is None:
                file.seek(offset)
            else:
                offset = file.seek_tail(order.tail)
            if not order.follow:
                left = file.size - offset  # fixed now: a file may grow faster than the link transfers data
                while left > 0:
                    piece = file.read(min(PIECE, left))
                    if not piece:
                        return
                    left -= len(piece)
                    yield wire.read_piece(wire.DATA, piece)
                return
            with contextlib.closing(self._growth(file, caller)) as growth:
                while True:
                    live = read.live()  # checked first, so that the read gets the last output
                    while True:
                        piece = file.read(PIECE)
                        if not piece:
                            break
                        yield wire.read_piece(wire.DATA, piece)
                    if not live:
                        return
                    if not next(growth):
                        yield wire.read_piece(wire.WORD, b"")

    def _growth(self, file: untrusted_files.PlainFile, caller: Connection) -> Generator[bool, None, None]:
        """Wait for the file to grow: yield True after each change of the file or end of an attempt.

        Yield False after a timeout. Raises CallFailed if the server answers on ``caller`` before the upload
        is complete, because then nobody needs the data any more.
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
            yield True  # the file may have changed before the watch began
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

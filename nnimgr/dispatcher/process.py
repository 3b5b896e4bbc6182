"""The server's control of a dispatcher child: its process, its pipes, and how it ended."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from nnimgr.child import how_it_ended
from nnimgr.dispatcher.forking import ORPHANED, NotForked, Zygote
from nnimgr.dispatcher.messages import (
    Ask,
    CatchUp,
    FromChild,
    Leave,
    Metrics,
    Start,
    ToChild,
    from_child,
    to_line,
)

__all__ = ["DispatcherChild"]

MOST_PENDING = 8 << 20  # bytes that may wait for a slow child before metrics are dropped
EXIT_GRACE_S = 2.0
KILLED_S = 5.0  # longest wait for the end of a killed process
TAIL_BYTES = 4096

logger = logging.getLogger(__name__)


class DispatcherChild:
    """Child process that hosts one tuner or assessor. All calls happen in the event loop in which ``start``
    ran.

    ``on_message`` gets each message on arrival. ``on_exit`` is called once, after the last message, with one
    sentence, unless ``close`` or ``kill`` was called before. Neither callback may raise.

    Messages may be sent as soon as the object exists; they follow the message ``start``, in order. At most
    ``MOST_PENDING`` bytes may wait for a slow child. Beyond that, metrics are dropped and the child is
    ``behind``. It then reads the dropped metrics from the database after ``catch_up``, or before the next
    message that follows them in the log.

    The process is forked from the ``zygote`` if possible. Otherwise it gets its own interpreter.
    """

    def __init__(
        self,
        start: Start,
        *,
        python: str,
        environ: Mapping[str, str],
        cwd: Path,
        log_path: Path,
        zygote: Zygote | None = None,
        on_message: Callable[[FromChild], None],
        on_exit: Callable[[str], None],
    ) -> None:
        self._start = start
        self._python, self._environ, self._cwd, self._log_path = python, environ, cwd, log_path
        self._zygote = zygote
        self._on_message, self._on_exit = on_message, on_exit
        # lines that wait for the pipe to open; None: the pipe is open
        self._waiting: deque[bytes] | None = deque((to_line(start),))
        self._transport: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._log_start = 0
        self._behind = False
        self._begun = self._closing = self._killed = False
        self._nonsense = False
        self._gone = asyncio.Event()

    @property
    def pid(self) -> int | None:
        return None if self._transport is None else self._transport.get_pid()

    @property
    def behind(self) -> bool:
        """True while metrics were dropped and the child was not yet asked to read them from the database."""
        return self._behind

    @property
    def log_tail(self) -> str:
        """Last part of the log that this child has written, at most 4 KiB."""
        try:
            with self._log_path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(self._log_start, size - TAIL_BYTES))
                return file.read().decode(errors="replace")
        except OSError:
            return ""

    async def start(self) -> None:
        """Start the child process. If that fails, call ``on_exit`` with the reason."""
        self._begun = True
        try:
            log = os.open(self._log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                self._log_start = os.fstat(log).st_size
                transport = await self._fork(log) or await self._execute(log)
            finally:
                os.close(log)
        except OSError as error:
            self._exited(f"the {self._start.role}'s process could not be started: {error}")
            return
        except BaseException:
            self._gone.set()
            raise
        self._opened(transport)

    async def _fork(self, log: int) -> asyncio.SubprocessTransport | None:
        """Fork the process from the zygote. Return None if the process needs an interpreter of its own."""
        zygote = self._zygote
        if zygote is None or not zygote.can_host(self._start, python=self._python, environ=self._environ):
            return None
        try:
            name = str(self._start.name)
            return await zygote.fork(
                lambda: _Pipes(self), name=name, environ=self._environ, cwd=self._cwd, stderr=log
            )
        except NotForked as error:
            logger.warning("a %s runs in a separate interpreter: %s", self._start.role, error)
            return None

    async def _execute(self, log: int) -> asyncio.SubprocessTransport:
        """Start the process in an interpreter of its own. Raise OSError if that fails."""
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: _Pipes(self),
            self._python,
            "-P",  # no module is imported from the working directory
            "-m",
            "nnimgr.dispatcher.worker",
            stderr=log,
            env=self._environ,
            cwd=self._cwd,
            start_new_session=True,
        )
        return transport

    def send(self, message: ToChild) -> bool:
        """Queue a message to the child, and send it at once if possible.

        Return False if the message was dropped (the child is then ``behind``) or the child has ended.
        """
        if self._gone.is_set():
            return False
        if isinstance(message, Metrics) and self._pending > MOST_PENDING:
            self._behind = True
            return False
        if isinstance(message, CatchUp):
            self._behind = False
        elif self._behind and (number := _committed_before(message)):
            self._write(CatchUp(number=number))
        self._write(message)
        return True

    def catch_up(self, number: int) -> bool:
        """Make the child read the dropped metrics from the database, up to fact ``number``.

        Call this after a commit if the child is ``behind`` and all dropped metrics are in the database.
        Return False if too many bytes are still waiting; then call this again after a later commit.
        """
        if self._pending > MOST_PENDING // 2:
            return False
        return self.send(CatchUp(number=number))

    async def close(self) -> None:
        """Ask the algorithm to leave, and kill its process after 2 s. Return when the process has ended."""
        self._closing = True
        if not self._begun:
            self._gone.set()
        self.send(Leave())
        try:
            await asyncio.wait_for(self._gone.wait(), EXIT_GRACE_S)
        except TimeoutError:
            self.kill()
            try:
                await asyncio.wait_for(self._gone.wait(), KILLED_S)
            except TimeoutError:  # the kernel cannot end it now, for example because a disk hangs
                logger.warning("a process of an algorithm does not end although it was killed")

    def kill(self) -> None:
        """Kill the process now, with all processes of its session."""
        self._closing = True
        self._kill()

    # ---- pipes --------------------------------------------------------------------------------------------

    @property
    def _pending(self) -> int:
        if self._stdin is not None:
            return self._stdin.get_write_buffer_size()
        return sum(map(len, self._waiting or ()))

    def _write(self, message: ToChild) -> None:
        line = to_line(message)
        if self._waiting is not None:
            self._waiting.append(line)
        elif self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(line)

    def _opened(self, transport: asyncio.SubprocessTransport) -> None:
        self._transport = transport
        if self._gone.is_set():  # the process had ended before its pipes were opened
            transport.close()
            return
        self._stdin = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
        lines, self._waiting = self._waiting, None
        if not self._stdin.is_closing():
            self._stdin.write(b"".join(lines or ()))
        if self._killed:
            self._kill()

    def _received(self, line: bytes) -> None:
        if self._nonsense:
            return
        try:
            message = from_child(line)
        except (ValueError, TypeError, KeyError):
            self._nonsense = True
            self._kill()
            return
        self._on_message(message)

    def _kill(self) -> None:
        self._killed = True
        if self._transport is None or self._gone.is_set():
            return
        try:
            os.killpg(self._transport.get_pid(), signal.SIGKILL)
        except ProcessLookupError:
            pass

    def _ended(self, returncode: int | None) -> None:
        """Report how the process ended. Called after the process was reaped and its output was read."""
        if self._gone.is_set():
            return
        who = f"the {self._start.role}'s process"
        if self._nonsense:
            sentence = f"{who} wrote a line that is not a message, and was killed"
        elif self._transport is not None and self._transport.get_extra_info(ORPHANED):
            sentence = f"{who} ended because the process that it was forked from has ended"
        else:
            sentence = f"{who} {how_it_ended(returncode)}"
        last = next((line for line in reversed(self.log_tail.splitlines()) if line.strip()), "")
        self._exited(
            f"{sentence}; the last line of its output was: {last.strip()[:300]}" if last else sentence
        )

    def _exited(self, sentence: str) -> None:
        self._gone.set()
        if self._transport is not None:
            self._transport.close()
        if not self._closing:
            self._on_exit(sentence)


def _committed_before(message: ToChild) -> int:
    """Return the number of the last committed fact that the child should know when it gets this message.

    Return 0 if the message has no place in the log. All metrics up to this number are in the database.
    """
    return message.fed_to if isinstance(message, Ask) else getattr(message, "number", 0)


class _Pipes(asyncio.SubprocessProtocol):
    """Protocol that splits the child's output into lines.

    It reports the child's end after both the process and its output have ended.
    """

    def __init__(self, child: DispatcherChild) -> None:
        self._child = child
        self._rest = bytearray()
        self._transport: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        start = len(self._rest)
        self._rest += data
        end = self._rest.rfind(b"\n", start) + 1
        if not end:
            return
        lines = bytes(self._rest[:end]).splitlines()
        del self._rest[:end]
        for line in lines:
            self._child._received(line)

    def process_exited(self) -> None:
        # Processes that the algorithm has forked may hold the pipe open, so kill the whole session.
        assert self._transport is not None
        try:
            os.killpg(self._transport.get_pid(), signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        # A process that has left the session could still hold the pipe, so stop reading after the grace
        # period.
        asyncio.get_running_loop().call_later(EXIT_GRACE_S, self._finish)

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish()

    def _finish(self) -> None:
        assert self._transport is not None
        self._child._ended(self._transport.get_returncode())

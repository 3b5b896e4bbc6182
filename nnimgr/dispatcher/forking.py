"""The server's control of the zygote (``nnimgr.dispatcher.zygote``) and of the children forked from it.

A child of a built-in algorithm that runs in the server's own interpreter is forked from the zygote: it starts
within milliseconds and shares most of its memory. All other children get an interpreter of their own.

The zygote is started by the first request and replaced when it ends or does not answer. Its children ask the
kernel for a signal that kills them when the zygote ends. They are then restarted from the log as after any
other crash. The zygote ends with the server, so its children end with the server, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nnimgr.child import how_it_ended
from nnimgr.dispatcher.messages import Environment, Start, to_line
from nnimgr.dispatcher.registry import is_builtin

__all__ = ["ORPHANED", "NotForked", "Zygote"]

ANSWER_S = 10.0  # seconds; a zygote that does not answer within this time is replaced
MOST_REQUESTS = 64  # requests at a time: the kernel limits the descriptors in transit
ORPHANED = "orphaned"  # extra info of a transport: the child has ended because the zygote has ended
# Environment variables that determine where an interpreter finds modules, and which libraries it loads.
_INTERPRETER_VARIABLES = (
    *("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "HOME"),
    *("LD_LIBRARY_PATH", "LD_PRELOAD"),
)

logger = logging.getLogger(__name__)


class NotForked(Exception):
    """Error: the zygote cannot fork a child, because it has ended, does not answer, or lacks memory."""


class Zygote:
    """Process from which the children of built-in algorithms are forked. A server has at most one zygote."""

    def __init__(self, *, answer_s: float = ANSWER_S) -> None:
        self._answer_s = answer_s
        self._process: _Process | None = None
        self._starting = asyncio.Lock()
        self._requests = asyncio.Semaphore(MOST_REQUESTS)
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Process id of the zygote; None if the zygote does not run."""
        return None if self._process is None else self._process.pid

    def can_host(self, start: Start, *, python: str, environ: Mapping[str, str]) -> bool:
        """Return whether a forked child would have the right interpreter and libraries for this algorithm."""
        if self._closed or start.name is None or not is_builtin(start.role, start.name):
            return False
        same = all(environ.get(name) == os.environ.get(name) for name in _INTERPRETER_VARIABLES)
        return same and _is_own_interpreter(python)

    async def fork(
        self,
        make_protocol: Callable[[], asyncio.SubprocessProtocol],
        *,
        name: str,
        environ: Mapping[str, str],
        cwd: Path,
        stderr: int,
    ) -> asyncio.SubprocessTransport:
        """Fork a child from the zygote and return its transport, like ``loop.subprocess_exec``.

        ``name``: of its algorithm, from which the zygote knows what to import for later children. Raise
        NotForked or OSError.
        """
        async with self._requests:
            process = await self._running()
            child = _Forked(make_protocol(), process, answer_s=self._answer_s)
            try:
                await child.begin(name, stderr)
                async with asyncio.timeout(self._answer_s):
                    await child.born
            except TimeoutError:
                child.close()
                process.give_up()
                raise NotForked("the zygote does not answer") from None
            except BaseException:
                child.close()
                raise
        child.write(to_line(Environment(environ=dict(environ), cwd=str(cwd))))
        return child

    async def close(self) -> None:
        """End the zygote. Call this after the zygote's children have been closed."""
        self._closed = True
        async with self._starting:
            if self._process is not None:
                await self._process.close()

    async def _running(self) -> _Process:
        async with self._starting:
            if self._closed:
                raise NotForked("the server exits")
            if self._process is None:
                self._process = await _Process.start(self._ended)
            return self._process

    def _ended(self) -> None:
        self._process = None


class _Process:
    """Running zygote process, and the socket through which children are requested."""

    def __init__(
        self, process: asyncio.subprocess.Process, requests: socket.socket, on_end: Callable[[], None]
    ) -> None:
        self._process, self._requests, self._on_end = process, requests, on_end
        self._closing = False
        self._why = ""
        self._watching = asyncio.create_task(self._watch(), name="zygote:watch")

    @classmethod
    async def start(cls, on_end: Callable[[], None]) -> _Process:
        """Start a zygote process. Raise OSError if that fails."""
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            with its:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", "nnimgr.dispatcher.zygote", str(its.fileno())),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    pass_fds=(its.fileno(),),
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            raise
        return cls(process, ours, on_end)

    @property
    def pid(self) -> int:
        return self._process.pid

    def request(self, name: str, descriptors: list[int]) -> None:
        """Ask the zygote for a child of this algorithm that gets these file descriptors. Raise NotForked."""
        try:
            socket.send_fds(self._requests, [name.encode()], descriptors)
        except OSError as error:
            raise NotForked(f"the zygote cannot be asked for a child process: {error}") from error

    def give_up(self) -> None:
        """Kill a zygote that does not answer. Its children end with it."""
        self._why = "did not answer and "
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def close(self) -> None:
        self._closing = True
        self.give_up()
        await self._watching

    async def _watch(self) -> None:
        returncode = await self._process.wait()
        self._requests.close()
        self._on_end()
        if not self._closing:
            logger.error(
                "the process that built-in algorithms are forked from %s%s; another one is started, and the "
                "tuners and assessors that have ended with it are restarted",
                self._why,
                how_it_ended(returncode),
            )


class _Forked(asyncio.SubprocessTransport):
    """Transport of a forked child, with those methods of asyncio's subprocess transports that the server
    uses.
    """

    def __init__(self, protocol: asyncio.SubprocessProtocol, zygote: _Process, *, answer_s: float) -> None:
        self._extra: dict[str, Any] = {}
        super().__init__(self._extra)
        self._protocol, self._zygote, self._answer_s = protocol, zygote, answer_s
        self._loop = asyncio.get_running_loop()
        self.born: asyncio.Future[None] = self._loop.create_future()
        self._pid = 0
        self._returncode: int | None = None
        self._output_open = True
        self._closing = False
        self._overdue: asyncio.TimerHandle | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._streams: list[asyncio.BaseTransport] = []
        protocol.connection_made(self)

    async def begin(self, name: str, stderr: int) -> None:
        """Ask the zygote to fork the child. The zygote's answer sets the future ``born``.

        Raise NotForked or OSError.
        """
        # Sockets, not pipes: uvloop 0.23 closes the descriptor of a pipe twice. Meanwhile, another thread may
        # get the same number for a file of its own, which the second call then closes.
        with contextlib.ExitStack() as its:
            self._stdin, its_input = await self._connect(asyncio.Protocol, its)
            _, its_output = await self._connect(lambda: _Output(self), its)
            _, its_status = await self._connect(lambda: _Status(self), its)
            self._zygote.request(name, [its_input, its_output, stderr, its_status])

    async def _connect(
        self, make_protocol: Callable[[], asyncio.Protocol], its: contextlib.ExitStack
    ) -> tuple[asyncio.Transport, int]:
        """Open a stream. Return the server's end, and the descriptor of the child's end, which ``its``
        closes.
        """
        ours, theirs = socket.socketpair()
        its.enter_context(theirs)
        ours.setblocking(False)
        transport, _ = await self._loop.connect_accepted_socket(make_protocol, ours)
        self._streams.append(transport)
        return transport, theirs.fileno()

    def write(self, line: bytes) -> None:
        """Write a line to the child's standard input."""
        assert self._stdin is not None
        if not self._stdin.is_closing():
            self._stdin.write(line)

    # ---- methods of asyncio's transports ------------------------------------------------------------------

    def get_pid(self) -> int:
        return self._pid

    def get_returncode(self) -> int | None:
        return self._returncode

    def get_pipe_transport(self, fd: int) -> asyncio.BaseTransport | None:
        return self._stdin if fd == 0 else None

    def close(self) -> None:
        self._closing = True
        if self._overdue is not None:
            self._overdue.cancel()
        for stream in self._streams:
            stream.close()

    # ---- called when data arrives in the streams ----------------------------------------------------------

    def received(self, output: bytes) -> None:
        """Pass output of the child on to the protocol that splits it into lines."""
        self._protocol.pipe_data_received(1, output)

    def output_ended(self) -> None:
        """Handle the end of the child's output.

        The zygote then has a limited time to report how the child has ended.
        """
        self._output_open = False
        if self._returncode is None and not self._closing:
            self._overdue = self._loop.call_later(self._answer_s, self._zygote.give_up)
        self._finish()

    def answered(self, number: int) -> None:
        """Handle an answer of the zygote about the child.

        The first answer is the process id, or the negative error number of a failed fork. The second is the
        wait status.
        """
        if self._pid:
            self._exited(os.waitstatus_to_exitcode(number))
        elif number > 0:
            self._pid = number
            if not self.born.done():
                self.born.set_result(None)
        elif not self.born.done():
            self.born.set_exception(NotForked(os.strerror(-number)))

    def answers_ended(self) -> None:
        """Treat the child as ended, because the zygote has ended without its last answer about the child."""
        if self._closing:
            self.born.cancel()
        elif not self._pid:
            if not self.born.done():
                self.born.set_exception(NotForked("the zygote has ended"))
        elif self._returncode is None:
            self._extra[ORPHANED] = True
            self._exited(-signal.SIGKILL)

    def _exited(self, returncode: int) -> None:
        self._returncode = returncode
        if self._overdue is not None:
            self._overdue.cancel()
        self._protocol.process_exited()
        self._finish()

    def _finish(self) -> None:
        if self._returncode is not None and not self._output_open and not self._closing:
            self._protocol.connection_lost(None)


class _Output(asyncio.Protocol):
    """Protocol that receives a forked child's output."""

    def __init__(self, child: _Forked) -> None:
        self._child = child

    def data_received(self, data: bytes) -> None:
        self._child.received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._child.output_ended()


class _Status(asyncio.Protocol):
    """Protocol that receives the zygote's answers about one child: one number on each line."""

    def __init__(self, child: _Forked) -> None:
        self._child = child
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._child.answered(int(line))

    def connection_lost(self, exc: Exception | None) -> None:
        self._child.answers_ended()


def _is_own_interpreter(python: str) -> bool:
    """Return whether this path is the server's interpreter, perhaps under another name in the same folder."""
    own = sys.executable
    try:
        beside = os.path.samefile(os.path.dirname(python), os.path.dirname(own))
        return beside and os.path.samefile(python, own)
    except OSError:
        return False

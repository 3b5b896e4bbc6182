"""Find the server of a port, and start a server if none runs.

A server holds a lock while it runs (``nnimgr.home``). A server that is started here continues to run after
this command. It has a session of its own, and reports through a pipe when it is ready.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from nnimgr.client.errors import ClientError, ServerGone
from nnimgr.client.waits import waiting
from nnimgr.home import HOME_VARIABLE, Home, HomeError, ServerInfo
from training_services.private import open_private

if TYPE_CHECKING:
    import subprocess

    from nnimgr.client.calls import Client

__all__ = ["DEFAULT_PORT", "ServerStart", "answering", "connect", "has_left", "usable_port"]

DEFAULT_PORT = 8080
SERVER = (sys.executable, "-P", "-m", "nnimgr.server.main")
_READY_S = 60.0
_LEAVE_S = 30.0  # longest wait for a server to exit, which may still close sinks for 10 s
_EXIT_S = 10.0  # longest wait for a server to exit that is not needed any more
_SOCKET_S = 0.5  # seconds between a server's lock and its listening socket, at most
_SOCKET_LOOK_S = 0.01
_PORT_S = 0.5  # seconds between the lock and the port that a server releases when it exits, at most
_NEEDED = "This command needs a server of yours. None runs on this port, so nnictl tried to start one."
_MOST_STARTS = 3
_LOG_LINES = 20
_MOST_LOG_BYTES = 10 << 20
_LEAST_FREE_BYTES = 1 << 20  # on the disk of a server's home


class ServerStart:
    """Context in which the server of a port is started if it does not run. No other process can start it.

    Entering the context does not wait for the server, so that other checks can run meanwhile. ``client``
    waits for it, and reports a failed start. If an exception leaves the context, a server that was started is
    ended. ``only_reads``: a server that is started will run no experiment, and soon ends by itself. ``why``:
    sentence that explains why a server is needed, for an error.
    """

    def __init__(
        self,
        home: Home,
        port: int,
        *,
        no_token: bool = False,
        url_prefix: str | None = None,
        only_reads: bool = False,
        why: str = "",
        program: Sequence[str] = SERVER,
    ) -> None:
        self._home = home
        self._only_reads, self._why = only_reads, why
        self._no_token, self._url_prefix = no_token, url_prefix
        self._port = port
        self._program = program
        self._stack = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._trouble: ClientError | None = None  # reason why the server cannot be started
        self._ready = -1
        self._log_from = 0

    def __enter__(self) -> ServerStart:
        with self._stack:
            with waiting(f"waiting for another command that starts the server on port {self._port}"):
                self._stack.enter_context(self._home.starting_server(self._port))
            if self._home.server_running(self._port) is None:
                try:
                    self._start()
                except ClientError as error:
                    self._trouble = error
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            if self._process is not None and kind is not None:
                import subprocess

                with contextlib.suppress(ProcessLookupError):
                    self._process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):  # it exits by itself later
                    self._process.wait(_EXIT_S)

    @property
    def starts(self) -> bool:
        """True while a server is being started."""
        return self._process is not None

    def client(self, *, announced: bool = False) -> Client:
        """Wait until the server is ready, and return a client of it. Raise ClientError.

        ``announced``: the user has already been shown that the server starts.
        """
        if self._trouble is not None:
            raise self._trouble
        for _ in range(_MOST_STARTS):
            if self._process is not None:
                self._await_ready(self._process, announced=announced)
                # Do not wait for the server process to end, because it outlives this command.
                self._process.returncode = 0
                self._process = None
                server = self._home.server_running(self._port)
                if server is not None:
                    return _client(self._home, server)
            client = answering(self._home, self._port)
            if client is not None:
                self._check(client)
                return client
            self._start()
        raise ClientError(
            f"The server on port {self._port} exits right after each start.",
            plain=self._log_tail(),
            mend="Correct the error in its log, then repeat: {command}",
        )

    def _check(self, client: Client) -> None:
        """Raise ClientError if the running server was started with other options than the requested ones."""
        if not self._no_token and self._url_prefix is None:
            return
        server = client.get("server")
        trouble = None
        if self._no_token and server.get("needsToken", True):
            trouble = "needs its token"
        elif self._url_prefix is not None and server.get("urlPrefix") != self._url_prefix:
            trouble = f"has {server.get('urlPrefix') or 'no'} URL prefix"
        if trouble is not None:
            raise ClientError(
                f"The server on port {self._port} runs already, and it {trouble}.",
                mend=f"Choose another port: {{command}} --port {_free_port(self._port)}\n"
                f"  Or stop its experiments first: nnictl stop --port {self._port}",
            )

    def _start(self) -> None:
        import subprocess

        _check_free(self._port, self._why)
        self._ready, told = os.pipe()
        self._stack.callback(os.close, self._ready)
        path = self._home.server_log_path(self._port)
        if path.exists() and path.stat().st_size > _MOST_LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
        log = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            self._log_from = os.fstat(log).st_size
            options = ["serve", "--port", str(self._port), "--until-idle", "--ready-fd", str(told)]
            options += ["--no-token"] if self._no_token else []
            options += ["--url-prefix", self._url_prefix] if self._url_prefix is not None else []
            self._process = subprocess.Popen(
                [*self._program, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._home.path,
                # An absolute path, because the server has another working directory.
                env={**os.environ, HOME_VARIABLE: str(self._home.path)},
                pass_fds=(told,),
                start_new_session=True,
            )
        finally:
            os.close(told)
            os.close(log)

    def _await_ready(self, process: subprocess.Popen[bytes], *, announced: bool) -> None:
        with waiting(lambda: self._start_sentence(announced=announced)):
            readable, _, _ = select.select([self._ready], [], [], _READY_S)
        if readable and os.read(self._ready, 1):
            return
        if not readable:
            raise ClientError(
                f"The server on port {self._port} was not ready within {_READY_S:.0f} s, and is ended.",
                plain=self._log_tail(),
                mend="Read its log, then repeat the command: {command}",
            )
        process.wait()
        _check_free(self._port, self._why)
        raise self._failure(process.returncode)

    def _failure(self, returncode: int) -> ClientError:
        """Return the error for a server that has ended while it was starting."""
        from shutil import disk_usage

        from nnimgr.child import how_it_ended

        lines = [f"The server on port {self._port} did not start: it {how_it_ended(returncode)}."]
        mend = "Correct the error in its log, then repeat: {command}"
        if str(self._port) in "".join(self._log_lines()[-1:]):
            mend = f"Use another port, if this one is the reason: {{command}} --port {_free_port(self._port)}"
        if returncode < 0:
            mend = "Repeat: {command}"
        if disk_usage(self._home.path).free < _LEAST_FREE_BYTES:
            lines.append(f"The disk of {self._home.path} is full.")
            mend = "Free space on the disk, then repeat: {command}"
        return ClientError(*lines, plain=self._log_tail(), mend=mend)

    def _start_sentence(self, *, announced: bool) -> str:
        """Return a sentence with the last line of the started server's log. "": there is nothing new."""
        lines = self._log_lines()
        if announced and not lines:
            return ""
        sentence = f"starting the server on port {self._port}"
        if self._only_reads:
            sentence = f"starting a server on port {self._port} to read stopped experiments"
            sentence += "" if lines else "; it ends by itself soon after"
        return ": ".join([sentence, *lines[-1:]])

    def _log_tail(self) -> str:
        path = self._home.server_log_path(self._port)
        return "\n".join([*self._log_lines()[-_LOG_LINES:], f"(from {path})"])

    def _log_lines(self) -> list[str]:
        """Return the lines that the started server has written to its log."""
        with open(self._home.server_log_path(self._port), "rb") as file:
            file.seek(self._log_from)
            return file.read().decode("utf-8", "replace").splitlines()


def connect(
    home: Home,
    port: int,
    *,
    no_token: bool = False,
    url_prefix: str | None = None,
    only_reads: bool = False,
) -> Client:
    """Return a client of the port's server. Start the server if it does not run. Raise ClientError.

    ``only_reads``: see ``ServerStart``.
    """
    try:
        client = answering(home, port)
        if client is not None:
            return client
        with ServerStart(
            home, port, no_token=no_token, url_prefix=url_prefix, only_reads=only_reads, why=_NEEDED
        ) as start:
            return start.client()
    except HomeError as error:
        raise ClientError(str(error)) from error


def usable_port(home: Home, port: int) -> int:
    """Return a port for a server that may have any port: ``port``, unless a stranger has it."""
    if home.server_running(port) is not None or _trouble_of(port) is None:
        return port
    return next((server.port for server in home.servers()), None) or _free_port(port)


def _client(home: Home, server: ServerInfo) -> Client:
    from nnimgr.client.calls import Client

    path = home.server_socket_path(server.port)
    if server.pid is not None and not path.exists():
        raise ClientError(
            f"The server on port {server.port} is of an earlier version ({server.version or 'unknown'}), "
            "whose identity nnictl cannot check.",
            "Its trials continue, and the next nnictl command opens its experiments again.",
            mend=f"End it: kill {server.pid}",
        )
    return Client(server.url, path=path, token=home.token(), pid=server.pid)


def answering(home: Home, port: int) -> Client | None:
    """Return a client of the port's running server. Return None if none runs or it has just exited."""
    server = home.server_running(port)
    if server is None:
        return None
    client = _client(home, server)
    until = time.monotonic() + _SOCKET_S
    while True:
        try:
            with waiting(lambda: _silence(server)):
                client.get("server")
        except ServerGone:
            if server.pid is None and time.monotonic() < until:
                time.sleep(_SOCKET_LOOK_S)
                continue
            if server.pid is None or _is_stopped(server) or not has_left(server):
                raise
            return None
        return client


def _silence(server: ServerInfo) -> str:
    """Return a sentence about a server that has not answered yet."""
    pid = "" if server.pid is None else f" (pid {server.pid})"
    why = ": it is stopped, by SIGSTOP or a debugger" if _is_stopped(server) else ""
    return f"the server{pid} on port {server.port} has not answered yet{why}"


def _is_stopped(server: ServerInfo) -> bool:
    from nnimgr.child import is_stopped

    return server.pid is not None and is_stopped(server.pid)


def has_left(server: ServerInfo | None) -> bool:
    """Wait for a server to exit and free its port. Return whether it exited within the time limit."""
    if server is None or server.pid is None:
        return True
    with waiting(f"waiting for the server (pid {server.pid}) on port {server.port} to exit"):
        return _has_ended(server.pid)


def _has_ended(pid: int) -> bool:
    """Wait for a process to end. Return whether it ended within the time limit."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], _LEAVE_S)[0])
    finally:
        os.close(process)


def _check_free(port: int, why: str) -> None:
    """Raise ClientError, with NNI's message, if another program listens on the port.

    A server that exits releases its lock before its port, so a busy port may be free soon. ``why``: sentence
    that explains why the port is needed, or "".
    """
    until = time.monotonic() + _PORT_S
    while (trouble := _trouble_of(port)) is not None:
        if time.monotonic() >= until:
            raise ClientError(
                f"Port {port} is not idle ({trouble.strerror}).",
                *([why] if why else []),
                mend=f"Choose another port: {{command}} --port {_free_port(port)}",
            ) from trouble
        time.sleep(_SOCKET_LOOK_S)


def _trouble_of(port: int) -> OSError | None:
    """Return why no server can listen on the port, or None if one can."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error
    return None


def _free_port(after: int) -> int:
    """Return the next port above ``after`` that is free now."""
    for port in range(after + 1, min(after + 100, 65_536)):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    return after + 1

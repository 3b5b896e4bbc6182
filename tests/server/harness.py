"""Real server processes. Each has its own home and port, and is gone at the end of its test."""

from __future__ import annotations

import http.client
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnimgr.home import Home

DEADLINE_S = 90.0
_COMMAND = (sys.executable, "-m", "nnimgr.server.main", "serve")


def free_port() -> int:
    """Return a port that nobody listens on, below the range of clients' ports."""
    while True:
        port = random.randrange(20_000, 32_000)
        with closing(socket.socket()) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: Any


@dataclass(slots=True, kw_only=True)
class Server:
    """A running ``nnimgr serve``."""

    home: Home
    port: int
    process: subprocess.Popen[bytes]
    log: Path
    ready: bool  # the server has reported ready; otherwise it has ended or closed the pipe

    def call(
        self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None
    ) -> Answer:
        with closing(self.connection()) as connection:
            sent = self.bearer | {"Content-Type": "application/json"} if headers is None else dict(headers)
            text = None if body is None else json.dumps(body)
            connection.request(method, path, body=text, headers=sent)
            response = connection.getresponse()
            content = response.read()
            return Answer(response.status, dict(response.headers), json.loads(content) if content else None)

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.home.token()}"}

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.wait()

    def wait(self) -> int:
        return self.process.wait(DEADLINE_S)

    @property
    def said(self) -> str:
        return self.log.read_text()


@contextmanager
def serving(
    directory: Path, *options: str, port: int | None = None, environ: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Start a server with its home in ``directory`` and wait until it is ready or has ended."""
    port = free_port() if port is None else port
    log = directory / f"server-{len(list(directory.glob('server-*.log')))}.log"
    ready, told = os.pipe()
    try:
        with open(log, "wb") as output:
            process = subprocess.Popen(
                [*_COMMAND, "--port", str(port), "--ready-fd", str(told), *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(told,),
                env={**os.environ, "NNIMGR_HOME": str(directory / "home"), **(environ or {})},
            )
        os.close(told)
        readable, _, _ = select.select([ready], [], [], DEADLINE_S)
        if not readable:
            process.kill()
            process.wait()
        assert readable, log.read_text()
        said = bool(os.read(ready, 1))
    finally:
        os.close(ready)
    server = Server(home=Home(directory / "home"), port=port, process=process, log=log, ready=said)
    try:
        yield server
    finally:
        if process.poll() is None:
            server.end()


@contextmanager
def nothing_left(directory: Path) -> Iterator[None]:
    """When the block ends, wait until no process names this directory, and kill those that stay for 5 s."""
    try:
        yield
    finally:
        until = time.monotonic() + 5.0
        for handle in _handles(directory):
            gone, _, _ = select.select([handle], [], [], max(0.0, until - time.monotonic()))
            if not gone:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)


def _handles(directory: Path) -> Iterator[int]:
    """Yield a pidfd of each process whose command line or environment names the directory."""
    name = str(directory).encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(process.name) == os.getpid():
                continue
            handle = os.pidfd_open(int(process.name))
            try:
                ours = name in (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            except OSError:  # a process of the kernel, or one that has ended
                ours = False
            if ours:
                yield handle
            else:
                os.close(handle)

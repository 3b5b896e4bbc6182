"""Small server that speaks the keepers' protocol, and a keeper process to test with it."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import socket
import socketserver
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import trial_keeper
from trial_keeper import wire
from trial_keeper.actions import journal
from trial_keeper.attempt import claim
from trial_keeper.calls import local_http
from trial_keeper.core.recovery import DurableState
from trial_keeper.machine import procs

PACKAGE = Path(trial_keeper.__file__).parent
DEADLINE_S = 60.0
# Shell function for trials that reports a metric.
REPORT = "report() { printf 'ME%06d%s\\n' $((${#1} + 1)) \"$1\" >> $NNI_SYS_DIR/.nni/metrics; }; "


def wait_for(condition: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """Return the first true value of ``condition``, which is polled; fail at the deadline."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"waited {deadline_s} s in vain for {what}"
        time.sleep(0.005)


class Http(ThreadingHTTPServer):
    """HTTP server at a port."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a keeper was killed in the middle of its call


class LocalServer(Http):
    """HTTP server at a Unix socket."""

    address_family = socket.AF_UNIX

    def __init__(self, path: str, handler: type[BaseHTTPRequestHandler]) -> None:
        Path(path).unlink(missing_ok=True)  # left by a server that was killed
        super().__init__(path, handler)  # type: ignore[arg-type]

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)

    def get_request(self) -> tuple[socket.socket, Any]:
        return self.socket.accept()[0], ("", 0)


class Told:
    """Server's knowledge of one attempt."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.started: dict[str, Any] | None = None
        self.final: dict[str, Any] | None = None
        self.notes: list[str] = []


class FakeServer:
    """Server that takes frames once and in order, and repeats commands until they are acknowledged.

    It listens at a Unix socket in its own folder or, with ``tls``, at a port of ``address``.
    """

    def __init__(
        self, instance: str, *, address: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> None:
        self.db_id = "db-1"
        self.m_epoch = 1
        self.instance = instance
        self.jobs: dict[str, Told] = {}
        self.calls: list[dict[str, Any]] = []
        self.commands: list[list[Any]] = []
        self.acked_cmd = 0
        self.leave = False
        self.kill: list[str] = []
        self.refused: str | None = None  # reason of the refusal; None: accepted
        self.condition = threading.Condition()
        self.closing = False
        self.lease_s: float | None = None
        self.cut = False  # True: no call is answered
        self.heard: Callable[[dict[str, Any]], object] = lambda header: None
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            disable_nagle_algorithm = tls is not None  # a Unix socket has none

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.headers["Authorization"] == "Bearer secret"
                answer = server.answer(body)
                if answer is None:
                    self.close_connection = True
                    return
                content = json.dumps(answer).encode()
                self.send_response(409 if "reason" in answer else 200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._folder = tempfile.TemporaryDirectory(prefix="nnimgr-")
        if tls is not None:
            self.http = Http((address, 0), Handler)
            host, port = self.http.server_address[:2]
            self._base = f"https://{host!s}:{port}"
            self.http.socket = tls.wrap_socket(self.http.socket, server_side=True)
        else:
            path = f"{self._folder.name}/server.sock"
            self.http = LocalServer(path, Handler)
            self._base = local_http.url_of(path)
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def url(self) -> str:
        return self._base + wire.PATH.format(experiment_id="exp", keeper_id="local")

    def close(self) -> None:
        with self.condition:
            self.closing = True
            self.condition.notify_all()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()
        self._folder.cleanup()

    def command(self, kind: str, job: str, body: dict[str, Any] | None = None) -> None:
        """Add a command, which leaves with the next answer."""
        with self.condition:
            self.commands.append([len(self.commands) + 1, kind, job, body or {}])
            self.condition.notify_all()

    def told(self, job: str) -> Told:
        with self.condition:
            return self.jobs.setdefault(job, Told())

    def ended(self, job: str, deadline_s: float = DEADLINE_S) -> Told:
        """Wait for the end of the attempt and return it."""
        told = self.told(job)
        wait_for(lambda: told.final, f"the end of {job}", deadline_s)
        return told

    def answer(self, body: bytes) -> dict[str, Any] | None:
        header, payloads = wire.decode_request(body)
        self.heard(header)
        with self.condition:
            self.calls.append(header)
            number = len(self.calls)
            self.acked_cmd = max(self.acked_cmd, header["acked_cmd"])
            acks, rewind, done = self._take(header, payloads)
            self.condition.notify_all()
            if header["wait"]:
                self.condition.wait_for(
                    lambda: (
                        self.closing
                        or any(call["wait"] for call in self.calls[number:])
                        or len(self.commands) > header["seen_cmd"]
                        or self.leave
                        or bool(self.kill)
                        or self.refused is not None
                        or self.cut
                    ),
                    timeout=wire.WAIT_S if self.lease_s is None else self.lease_s / 3,
                )
            if self.closing or self.cut:
                return None
            if self.refused is not None:
                return {"error": "no", "reason": self.refused}
            return {
                "db_id": self.db_id,
                "m_epoch": self.m_epoch,
                "instance": self.instance or header["instance"],
                "acks": acks,
                "rewind": rewind,
                "done": done,
                "kill": self.kill,
                "cmds": [command for command in self.commands if command[0] > header["acked_cmd"]],
                "leave": self.leave,
                "lease_s": self.lease_s,
            }

    def _take(
        self, header: dict[str, Any], payloads: dict[str, list[bytes]]
    ) -> tuple[dict[str, int], dict[str, int], list[str]]:
        acks, rewind, done = {}, {}, []
        for job, entry in header["attempts"].items():
            told = self.jobs.setdefault(job, Told())
            for position, payload in enumerate(payloads[job], entry["from"]):
                if position > len(told.frames):
                    rewind[job] = len(told.frames)
                    break
                if position == len(told.frames):
                    told.frames.append(payload)
                else:
                    assert told.frames[position] == payload
            acks[job] = len(told.frames)
            told.started = told.started or entry["started"]
            if entry["note"] is not None and entry["note"] not in told.notes:
                told.notes.append(entry["note"])
            if entry["final"] is not None and len(told.frames) >= entry["final"]["n"]:
                told.final = entry["final"]
                done.append(job)
        return acks, rewind, done


class Host:
    """Directory of an experiment with a keeper that can be killed and restarted."""

    def __init__(self, directory: Path, *, python: str = sys.executable, package: str = str(PACKAGE)) -> None:
        self.directory = directory
        self.keeper = directory / "keeper"
        self.keeper.mkdir(parents=True)
        (self.keeper / "instance").write_text("instance-1")
        journal.rewrite(str(self.keeper / "journal"), DurableState([]).records())
        self.boot = directory / "boot_id"
        self.boot.write_text("boot-1\n")
        self.python = python
        self.package = package
        self.environ = {**os.environ, "NNIMGR_BOOT_ID_FILE": str(self.boot)}
        self.process: subprocess.Popen[bytes] | None = None
        self.server = FakeServer("instance-1")
        self.point()

    def point(self) -> None:
        """Write manager.json."""
        content = {"urls": [self.server.url], "token": "secret", "db_id": "db-1", "fingerprint": None}
        new = self.keeper / "manager.json.new"
        new.write_text(json.dumps(content))
        new.rename(self.keeper / "manager.json")

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a keeper. ``arguments`` come before its directory."""
        self.process = subprocess.Popen(
            [self.python, "-S", "-E", self.package, *arguments, str(self.keeper)],
            env=self.environ,
            close_fds=True,
        )
        return self.process

    def kill(self) -> None:
        """Kill the keeper, but not its trials."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def attempt(self, job: str, command: str, **changes: Any) -> Path:
        """Order the start of an attempt. Return its directory."""
        directory = f"trials/{job}"
        self.server.command(
            "start",
            job,
            {
                "trial_id": job,
                "attempt": 1,
                "boot_id": "boot-1",
                "directory": directory,
                "command": command,
                "cwd": str(self.directory),
                "environment": {"NNI_PLATFORM": "local", "NNI_TRIAL_JOB_ID": job},
                "parameter": '{"parameter_id": 0, "parameters": {}}',
                "log_cap": 1 << 20,
                **changes,
            },
        )
        return self.directory / directory

    def log(self) -> str:
        path = self.keeper / "keeper.log"
        return path.read_text() if path.exists() else ""

    def processes(self) -> list[int]:
        """Return all processes with this host's boot file in their environment."""
        return [pid for pid in procs.marked("NNIMGR_BOOT_ID_FILE", str(self.boot)) if pid != os.getpid()]

    def close(self) -> None:
        """End the keeper and all processes that it has started."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        wait_for(self._cleared, "the end of all processes")
        self.server.close()

    def _cleared(self) -> bool:
        left = self.processes()
        procs.signal_all(left, signal.SIGKILL)
        return not left


@contextlib.contextmanager
def host(directory: Path, **options: Any) -> Iterator[Host]:
    """Yield a host with a running keeper."""
    found = Host(directory / "experiment", **options)
    try:
        found.start()
        yield found
    finally:
        found.close()


def frame(payload: bytes) -> bytes:
    """Return one frame of a metrics file."""
    return b"ME%06d" % len(payload) + payload


@functools.lru_cache(maxsize=1)
def oldest_python() -> str | None:
    """Return a Python 3.8 that runs, from the path or from pyenv, or None."""
    versions = sorted((Path.home() / ".pyenv" / "versions").glob("3.8*/bin/python"))
    for candidate in ["python3.8", *map(str, versions)]:
        with contextlib.suppress(OSError):
            if subprocess.run([candidate, "-c", ""], capture_output=True).returncode == 0:
                return candidate
    return None


def ending(told: Told) -> tuple[object, object, object]:
    """Return reason, exit code and signal of an end."""
    final = told.final
    assert final is not None
    return final["reason"], final["code"], final["signal"]


def text(path: Path) -> str:
    """Return the content of a file; "" if it does not exist."""
    return path.read_text() if path.exists() else ""


def claim_of(here: Host, job: str) -> claim.Claim:
    """Return the attempt's claim."""
    found = claim.read(claim.prefix(str(here.keeper), job))
    assert found is not None
    return found

"""Calls without a time limit: they last for as long as the server answers other calls."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from nnimgr.client import calls
from nnimgr.client.calls import Client
from nnimgr.client.errors import ServerGone
from tests.trial_keeper.harness import DEADLINE_S, LocalServer


class Busy(BaseHTTPRequestHandler):
    """Server that is silent in the middle of each answer until it was asked twice whether it lives."""

    protocol_version = "HTTP/1.1"
    asked = threading.Semaphore(0)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.send_response(200)
        if self.path == "/healthz":
            self.send_header("Content-Length", "0")
            self.end_headers()
            self.asked.release()
            return
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"12")
        for _ in range(2):
            assert self.asked.acquire(timeout=DEADLINE_S)
        self.wfile.write(b"34")


@contextmanager
def running(path: Path) -> Iterator[None]:
    http = LocalServer(str(path), Busy)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_CALL_TIMEOUT_S", 0.05)


def test_a_busy_server_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_CALL_TIMEOUT_S", 0.5)  # enough to answer on a busy machine
    with running(tmp_path / "sock"):
        client = Client("http://127.0.0.1:1", path=tmp_path / "sock", token="t")
        assert client.call("GET", "slow", timeout_s=None) == 1234
        assert b"".join(client.stream("slow")) == b"1234"


def test_a_server_that_answers_nothing_is_not_waited_for(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "sock"))
        listener.listen()
        client = Client("http://127.0.0.1:1", path=tmp_path / "sock", token="t")
        with pytest.raises(ServerGone, match="does not answer: timed out"):
            client.call("GET", "slow", timeout_s=None)
        with pytest.raises(ServerGone, match="does not answer"):
            list(client.stream("slow"))


def test_a_stopped_server_is_named_with_the_command_that_continues_it(tmp_path: Path) -> None:
    with (
        subprocess.Popen(["sleep", "600"]) as process,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        try:
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            listener.bind(str(tmp_path / "sock"))
            listener.listen()
            client = Client("http://127.0.0.1:1", path=tmp_path / "sock", token="t", pid=process.pid)
            with pytest.raises(ServerGone) as caught:
                list(client.stream("slow"))
        finally:
            process.kill()
    assert caught.value.lines == (
        f"The server (pid {process.pid}) does not answer: it is stopped, by SIGSTOP or a debugger.",
    )
    assert caught.value.mend == f"Let it continue: kill -CONT {process.pid}"

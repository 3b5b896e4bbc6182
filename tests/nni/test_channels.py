"""NNI's channels over HTTP and WebSockets, and its client of the REST API."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from types import ModuleType
from typing import Any, ClassVar

import httpx
import pytest

from nni.experiment import rest
from nni.runtime.command_channel.http import HttpChannel
from nni.runtime.command_channel.websocket import WsChannelClient
from nni.runtime.trial_command_channel.v3 import TrialCommandChannelV3
from tests.nni.serving import serving


class Script(BaseHTTPRequestHandler):
    """Server that answers each GET with the next of ``answers``, status and JSON. ``got``: the requests."""

    answers: ClassVar[list[tuple[int, Any]]] = []
    got: ClassVar[list[tuple[str, str, Any]]] = []

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.got.append((self.command, self.path, json.loads(body or "null")))
        status, answer = self.answers.pop(0) if self.command == "GET" else (200, None)
        text = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_DELETE = do_PUT

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    Script.answers.clear()
    Script.got.clear()
    with serving(Script) as found:
        yield found


def test_commands_over_http(port: int) -> None:
    channel = HttpChannel(f"http://127.0.0.1:{port}/env/x")
    channel.send({"type": "a"})
    assert Script.got == [("PUT", "/env/x", {"type": "a"})]
    Script.answers += [(408, None), (200, {"type": "b"}), (410, None), (500, "broken")]
    assert channel.receive() == {"type": "b"} and channel.receive() is None
    with pytest.raises(OSError, match=r"answered with status 500: .*broken"):
        channel.receive()


def test_a_trial_over_http(port: int) -> None:
    channel = TrialCommandChannelV3(f"http://127.0.0.1:{port}/env/x")
    record = {"parameter_id": 1, "parameters": {"x": 2}}
    Script.answers += [(200, {"type": "parameter", "parameter": json.dumps(record)}), (410, None)]
    assert channel.receive_parameter() == record and channel.receive_parameter() is None
    channel.send_metric(type="FINAL", parameter_id=1, trial_job_id="t", sequence=0, value=0.5)
    sent = Script.got[-1][2]
    assert sent["type"] == "metric" and json.loads(sent["metric"]) == {
        "parameter_id": 1,
        "trial_job_id": "t",
        "type": "FINAL",
        "sequence": 0,
        "value": "0.5",
    }


def test_the_rest_api(port: int) -> None:
    Script.answers += [(200, {"status": "DONE"}), (200, None), (404, {"error": "no"})]
    assert rest.get(port, "/check-status", prefix="p") == {"status": "DONE"}
    assert rest.get(port, "version") is None and rest.post(port, "experiment", {"a": 1}) is None
    rest.put(port, "experiment", {"b": 1})
    rest.delete(port, "trial-jobs/x")
    assert [each[:2] for each in Script.got] == [
        ("GET", "/p/api/v1/nni/check-status"),
        ("GET", "/api/v1/nni/version"),
        ("POST", "/api/v1/nni/experiment"),
        ("PUT", "/api/v1/nni/experiment"),
        ("DELETE", "/api/v1/nni/trial-jobs/x"),
    ]
    with pytest.raises(httpx.HTTPStatusError, match="404"):
        rest.get(port, "experiment")
    with pytest.raises(RuntimeError, match="Experiment is not running"):
        rest.get(None, "experiment")


class Closed(Exception):
    """Error of the fake library: the connection is closed."""


class Connection:
    """Connection of the fake library. ``incoming``: messages of the server."""

    def __init__(self, incoming: list[str | bytes]) -> None:
        self.incoming, self.sent = incoming, list[Any]()

    def send(self, text: str) -> None:
        if self.sent and self.sent[-1] == "closed":
            raise Closed
        self.sent.append(json.loads(text))

    def recv(self) -> str | bytes:
        if not self.incoming:
            raise Closed
        return self.incoming.pop(0)

    def close(self, code: int, reason: str) -> None:
        self.sent.append("closed")


def test_commands_over_a_websocket(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(['{"type": "_nop_"}', b'{"type": "a"}', '{"type": "_bye_"}', '{"type": "b"}'])
    library: dict[str, dict[str, Any]] = {
        "websockets": {},
        "websockets.sync": {},
        "websockets.sync.client": {"connect": lambda url, max_size: connection},
        "websockets.exceptions": {"ConnectionClosed": Closed},
    }
    for name, members in library.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    channel = WsChannelClient("ws://localhost:1/tuner")
    channel.connect()
    channel.send({"type": "hello"})
    assert channel.receive() == {"type": "a"}
    assert channel.receive() is None and channel.receive() is None
    channel.send({"type": "lost"})
    channel.disconnect()
    assert connection.sent == [{"type": "hello"}, {"type": "_bye_"}, "closed"]
    assert WsChannelClient("ws://localhost:1/tuner").receive() == {"type": "b"}
    assert WsChannelClient("ws://localhost:1/tuner").receive() is None


def test_without_the_library_a_websocket_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "websockets.sync.client", None)
    monkeypatch.setitem(sys.modules, "websockets", None)
    with pytest.raises(ModuleNotFoundError, match="pip install websockets"):
        WsChannelClient("ws://localhost:1/tuner").connect()

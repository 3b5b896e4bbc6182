"""Costs that a caller without a credential can cause in a real server, and whether it sees the refusal."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.server.harness import Server, nothing_left, serving

LOGIN = "/api/v1/login"
VALIDATE = "/api/v1/validate"
PIECE = b"x" * 65536
MANY_PIECES = 320  # 20 MiB


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("bounds")
    with nothing_left(directory), serving(directory, "--require-token") as started:
        yield started


def memory_mb(server: Server) -> float:
    """Return the peak memory of the server in MiB."""
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def raw(server: Server, head: Iterable[str], body: Iterable[bytes]) -> tuple[int, bytes]:
    """Send a request with its whole body before any byte of the answer is read. Return status and answer."""
    lines = (*head, f"Host: 127.0.0.1:{server.port}", "Content-Type: application/json", "", "")
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall("\r\n".join(lines).encode())
        for piece in body:
            connection.sendall(piece)
        answer = b""
        while b"}" not in answer and (part := connection.recv(65536)):
            answer += part
    return int(answer.split()[1]), answer


def test_a_stranger_gets_a_short_answer_to_many_keys(server: Server) -> None:
    body = json.dumps({f"k{number:06}": 0 for number in range(500_000)})
    before = memory_mb(server)
    answer = httpx.post(
        f"http://127.0.0.1:{server.port}{LOGIN}", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 413
    assert answer.json() == {"error": {"message": "The request's body has more than 4096 bytes."}}
    assert memory_mb(server) < before + 20


@pytest.mark.parametrize("keys", [150, 100_000, 500_000])
def test_the_owner_gets_a_short_answer_to_many_keys(server: Server, keys: int) -> None:
    body = {f"k{number:06}": 0 for number in range(keys)}
    answer = server.call("POST", VALIDATE, body)
    assert answer.status == (413 if keys == 500_000 else 422)
    assert len(json.dumps(answer.body)) < 10_000


def test_a_long_list_of_problems_is_cut(server: Server) -> None:
    many = [{"name": 1, "log": "x", f"{number}": 0} for number in range(20_000)]
    body = {"axes": many, "brushes": {f"b{number}": {} for number in range(90)}}
    answer = server.call("POST", "/api/v1/experiments/none/analysis/parallel", body)
    assert answer.status == 422
    assert len(answer.body["error"]["problems"]) == 20
    assert "The first 20 problems are listed; there are " in answer.body["error"]["message"]


@pytest.mark.parametrize("closing", [True, False], ids=["closed", "kept"])
@pytest.mark.parametrize("form", ["length", "chunks", "chunks without an end"])
@pytest.mark.parametrize(("path", "status"), [(LOGIN, 413), (VALIDATE, 413), ("/api/v1/experiments", 401)])
def test_a_refusal_can_be_read_by_who_sends_on(
    server: Server, path: str, status: int, form: str, closing: bool
) -> None:
    head = [f"POST {path} HTTP/1.1"]
    if path == VALIDATE:
        head.append(f"Authorization: {server.bearer['Authorization']}")
    if closing:
        head.append("Connection: close")
    body: list[bytes] = [PIECE] * MANY_PIECES
    if form == "length":
        head.append(f"Content-Length: {len(PIECE) * MANY_PIECES}")
    else:
        head.append("Transfer-Encoding: chunked")
        body = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in body]
        if form == "chunks" or closing:
            body.append(b"0\r\n\r\n")
    found, answer = raw(server, head, body)
    assert found in (status, 429), answer


@pytest.mark.parametrize("path", [LOGIN, "/healthz", "/readyz"])
def test_a_client_that_asks_first_is_refused_at_once(server: Server, path: str) -> None:
    head = [f"POST {path} HTTP/1.1", "Content-Length: 20000000", "Expect: 100-continue", "Connection: close"]
    status, answer = raw(server, head, [])
    assert status in (405, 413, 429), answer
    assert b"100 Continue" not in answer


@pytest.mark.parametrize("streamed", [True, False])
def test_an_ordinary_client_reads_the_refusal(server: Server, streamed: bool) -> None:
    content = (PIECE for _ in range(MANY_PIECES)) if streamed else PIECE * MANY_PIECES
    for headers in ({}, {"Connection": "close"}):
        answer = httpx.post(
            f"http://127.0.0.1:{server.port}{VALIDATE}", content=content, headers=headers | server.bearer
        )
        assert answer.status_code == 413
        content = PIECE * MANY_PIECES


@pytest.mark.parametrize("where", ["address", "header", "trailer"])
def test_what_surrounds_a_body_is_limited_too(server: Server, where: str) -> None:
    """The HTTP library collects addresses, headers and trailers of any length."""
    begin = {
        "address": b"GET /healthz?",
        "header": b"GET /healthz HTTP/1.1\r\nx: ",
        "trailer": b"POST /login HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: ",
    }[where]
    before = memory_mb(server)
    answer = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(begin)
        with suppress(ConnectionError):  # the server closes the connection in the end
            for _ in range(2000):
                connection.sendall(PIECE)
        with suppress(ConnectionError):
            while part := connection.recv(65536):
                answer += part
    assert memory_mb(server) < before + 20
    if where != "trailer":
        assert b"431" in answer.splitlines()[0]


def test_the_server_serves_on(server: Server) -> None:
    assert server.call("GET", "/api/v1/server").status == 200
    assert "Traceback" not in server.said

"""Tests of the HTTP client for keepers on the server's machine, against a socket with scripted answers."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from trial_keeper.calls import local_http
from trial_keeper.calls.local_http import BadAnswer, LocalConnection

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Server:
    """Server at a Unix socket that sends scripted answers."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.received = b""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()

    def connect(self, *answers: bytes | tuple[bytes, ...], ends: bool = False) -> LocalConnection:
        """Connect to this server, which sends the next answer each time it has received something.

        The parts of an answer are sent with pauses between them. ``ends``: after the last answer the server
        closes the connection.
        """
        connection = LocalConnection(self.path, connect_s=5, timeout_s=5)
        accepted = self._listener.accept()[0]
        threading.Thread(target=self._serve, args=(accepted, answers, ends), daemon=True).start()
        return connection

    def _serve(
        self, accepted: socket.socket, answers: tuple[bytes | tuple[bytes, ...], ...], ends: bool
    ) -> None:
        with accepted, contextlib.suppress(OSError):  # the caller has closed the connection
            for answer in answers:
                self.received += accepted.recv(1 << 20)
                for part in (answer,) if isinstance(answer, bytes) else answer:
                    accepted.sendall(part)
                    time.sleep(0.01)
            while not ends and (part := accepted.recv(1 << 20)):
                self.received += part

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with closing(Server(tmp_path / "door")) as found:
        yield found


def test_a_call_is_sent_with_its_headers_and_its_answer_read(server: Server) -> None:
    with closing(server.connect(OK, OK)) as connection:
        for _ in range(2):  # on the same connection
            answer = connection.request("POST", "/a/b", {"Content-Length": "3"}, [b"xyz"])
            assert (answer.status, answer.reason, answer.read()) == (200, "OK", b"ok")
            assert answer.read() == b""
    head = b"POST /a/b HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: identity\r\nContent-Length: 3\r\n\r\n"
    assert server.received == 2 * (head + b"xyz")


def test_an_answer_may_come_in_pieces_and_be_read_in_pieces(server: Server) -> None:
    with closing(server.connect((OK[:20], OK[20:-1], OK[-1:]))) as connection:
        answer = connection.request("GET", "/", {})
        assert [answer.read(1), answer.read(5), answer.read(1)] == [b"o", b"k", b""]


def test_a_stream_is_sent_in_chunks_whose_head_does_not_wait(server: Server) -> None:
    def pieces() -> Iterator[bytes]:
        yield b""  # would be the end
        while b"\r\n\r\n" not in server.received:
            time.sleep(0.01)
        yield b"x" * 17
        yield b"yz"

    with closing(server.connect(b"", OK)) as connection:
        answer = connection.request("POST", "/", {"Transfer-Encoding": "chunked"}, pieces(), chunked=True)
        assert answer.read() == b"ok"
        connection.close()
    assert server.received.partition(b"\r\n\r\n")[2].startswith(b"11\r\n" + b"x" * 17 + b"\r\n")


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\nno", b"no"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno", b"no"),
        (b"HTTP/1.0 500\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", b""),
    ],
)
def test_the_connection_ends_with_an_answer_that_says_so(server: Server, answer: bytes, body: bytes) -> None:
    connection = server.connect(answer, ends=True)
    assert connection.request("GET", "/", {}).read() == body
    with pytest.raises(ConnectionError):
        connection.request("GET", "/", {})


def test_a_server_that_has_closed_an_idle_connection_is_a_connection_error(server: Server) -> None:
    with closing(server.connect(OK, ends=True)) as connection:
        assert connection.request("GET", "/", {}).read() == b"ok"
        with pytest.raises(ConnectionError):
            connection.request("GET", "/", {})


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * (1 << 19) + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok",
    ],
)
def test_what_is_not_this_http_is_a_bad_answer(server: Server, answer: bytes) -> None:
    with closing(server.connect(answer, ends=True)) as connection, pytest.raises(BadAnswer):
        connection.request("GET", "/", {}).read()


def test_a_silent_server_is_not_waited_for_without_an_end(server: Server) -> None:
    with closing(server.connect()) as connection:
        connection.sock.settimeout(0.05)
        assert not connection.has_spoken()
        with pytest.raises(TimeoutError):
            connection.request("GET", "/", {})
        assert connection.sock.gettimeout() == 0.05


def test_a_server_that_has_spoken_or_left_is_noticed(server: Server) -> None:
    with closing(server.connect(b"x", ends=True)) as connection:
        connection.sock.sendall(b"-")
        for _ in ("the x", "the end"):
            while not connection.has_spoken():
                time.sleep(0.01)


@pytest.mark.parametrize("path", ["/tmp/a b%c/ü/keepers-8080.sock", "/x"])
def test_an_address_names_the_path_of_its_socket(path: str) -> None:
    url = local_http.url_of(path)
    scheme, _, netloc = url.partition("://")
    assert scheme == local_http.SCHEME and "/" not in netloc
    assert local_http.path_of(netloc) == path


def test_a_damaged_address_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="hex"):
        local_http.path_of("%zz")

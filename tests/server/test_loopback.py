"""Who needs no token: programs of the server's own user on its machine, and nobody else."""

from __future__ import annotations

import http.client
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.server.harness import Server, serving

PATH = "/api/v1/experiments"
NOBODY = 65534
TIMES = 100

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="another user's process needs root")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("loopback")) as made:
        yield made


def status(server: Server, headers: dict[str, str] | None = None, *, method: str = "GET") -> int:
    """The answer's status for a program that knows no token."""
    with closing(server.connection()) as connection:
        connection.request(method, PATH, headers=headers or {})
        return connection.getresponse().status


def as_user(uid: int, call: Callable[[], int]) -> list[int]:
    """What the call returns in a process of another user, as often as ``TIMES``."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            for _ in range(TIMES):
                os.write(writing, b"%d\n" % call())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as answers:
        found = [int(line) for line in answers]
    os.waitpid(child, 0)
    return found


def half_closed(server: Server) -> int:
    """The status for a client that closes its sending side at once: its socket has no owner any more."""
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % PATH.encode())
        client.shutdown(socket.SHUT_WR)
        return int(client.makefile("rb").readline().split()[1])


def test_own_programs_need_no_token(server: Server) -> None:
    assert status(server) == 200
    assert server.call("GET", "/api/v1/nni/experiments-info", headers={}).status == 200


def test_an_address_of_ipv4_in_a_socket_of_ipv6(server: Server) -> None:
    connection = http.client.HTTPConnection("::ffff:127.0.0.1", server.port)
    with closing(connection):
        connection.request("GET", PATH, headers={"Host": "localhost"})
        assert connection.getresponse().status == 200


@pytest.mark.parametrize(
    "header",
    [
        *("Referer: http://localhost/", "Cookie: a=b", "Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate"),
        "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0.0.0 Safari/537.36",
        *("X-Forwarded-For: 10.0.0.1", "Forwarded: for=10.0.0.1", "Via: 1.1 proxy", "X-Real-IP: 10.0.0.1"),
        *("Authorization: Bearer wrong", "Authorization: Basic eDp5"),
    ],
)
def test_browsers_proxies_and_wrong_tokens_are_refused(server: Server, header: str) -> None:
    name, _, value = header.partition(": ")
    assert status(server, {name: value}) in (401, 429)


def test_pages_of_other_sites_are_refused(server: Server) -> None:
    for method in ("GET", "POST"):
        assert status(server, {"Origin": "http://evil.example"}, method=method) == 403
        assert status(server, {"Origin": f"http://localhost:{server.port}"}, method=method) in (401, 403, 429)


@as_root
def test_other_users_are_refused_every_time(server: Server) -> None:
    assert as_user(NOBODY, lambda: status(server)) == [401] * TIMES
    assert as_user(1, lambda: status(server)) == [401] * TIMES
    assert set(as_user(NOBODY, lambda: half_closed(server))) == {401}


def test_a_server_that_requires_the_token(tmp_path: Path) -> None:
    with serving(tmp_path, "--require-token") as server:
        assert status(server) == 401
        assert server.call("GET", PATH).status == 200

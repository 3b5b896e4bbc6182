"""The server process: its start, its messages, and its end."""

from __future__ import annotations

import http.client
import os
import re
import resource
import signal
import socket
import ssl
import sys
from contextlib import closing
from pathlib import Path

import pytest

from nnimgr import __version__
from nnimgr.server import main as command
from nnimgr.server.options import CannotServe, ServeOptions
from tests.certificates import Authority
from tests.server.harness import free_port, serving


def test_a_server_starts_serves_and_leaves(tmp_path: Path) -> None:
    with serving(tmp_path, "--require-token") as server:
        assert server.ready, server.said
        assert server.call("GET", "/api/v1/server", headers={}).status == 401
        profile = server.call("GET", "/api/v1/server")
        assert profile.status == 200
        assert profile.body["pid"] == server.process.pid and profile.body["version"] == __version__
        found = server.home.server_running(server.port)
        assert found is not None
        assert (found.pid, found.version) == (server.process.pid, __version__)
        assert found.url == f"http://127.0.0.1:{server.port}"
        assert "server" not in {name.lower() for name in profile.headers}
        assert server.end() == 0
        assert server.home.server_running(server.port) is None
        assert not server.home.server_path(server.port).exists()
        assert "the server is shutting down: SIGTERM" in server.said


def test_an_idle_server_is_small(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.call("GET", "/api/v1/openapi.json")
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        resident = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert resident is not None and int(resident[1]) < 110 * 1024


def test_too_few_open_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (64, 64))
    with pytest.raises(CannotServe, match=r"Only 64 files can be open here .* ulimit -n 4096"):
        command._allow_open_files()


def test_a_port_in_use(tmp_path: Path) -> None:
    with closing(socket.socket()) as other:
        port = free_port()
        other.bind(("127.0.0.1", port))
        other.listen()
        with serving(tmp_path, port=port) as server:
            assert not server.ready
            assert server.wait() == 1
            assert server.said == f"nnimgr: Port {port} is not idle\n"
            assert server.home.server_running(port) is None


def test_a_second_server_of_a_port_gives_up(tmp_path: Path) -> None:
    with serving(tmp_path) as first, serving(tmp_path, port=first.port) as second:
        assert not second.ready and second.wait() == 1
        found = first.home.server_running(first.port)
        assert found is not None and found.pid == first.process.pid
        assert first.call("GET", "/api/v1/server").status == 200


def test_two_servers_of_a_home(tmp_path: Path) -> None:
    with serving(tmp_path) as one, serving(tmp_path) as two:
        ports = {server.port for server in one.home.servers()}
        assert ports == {one.port, two.port}
        assert one.bearer == two.bearer


def test_after_a_kill_the_port_is_taken_again_at_once(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        assert first.end(signal.SIGKILL) == -signal.SIGKILL
        assert first.home.server_running(first.port) is None
        with serving(tmp_path, port=first.port) as second:
            assert second.ready, second.said
            assert second.call("GET", "/api/v1/server").status == 200


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_requests_wait(tmp_path: Path, how: signal.Signals) -> None:
    """A client that has sent half a request does not keep the server from ending."""
    with serving(tmp_path) as server, closing(socket.create_connection(("127.0.0.1", server.port))) as half:
        half.sendall(b"GET /api/v1/server HTTP/1.1\r\nHost: loc")
        assert server.call("GET", "/api/v1/server").status == 200
        assert server.end(how) == 0


def test_the_log_goes_to_its_file_and_holds_no_token(tmp_path: Path) -> None:
    log = tmp_path / "own.log"
    with serving(tmp_path, "--log-file", str(log), environ={"NNIMGR_LOG_LEVEL": "debug"}) as server:
        token = server.home.token()
        server.call("GET", "/api/v1/server")
        server.call("GET", f"/api/v1/{token}")
        server.call("POST", "/api/v1/server/login-code")
        assert server.end() == 0
        assert f"serves http://127.0.0.1:{server.port}" in log.read_text()
        assert log.stat().st_mode & 0o777 == 0o600
        assert server.said == ""
        assert token not in log.read_text()


def test_the_token_can_be_replaced_while_the_server_runs(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        old, other = server.home.token(), server.bearer
        login = server.call(
            "POST", "/api/v1/login", {"token": old}, headers={"Content-Type": "application/json"}
        )
        session = {"Cookie": login.headers["set-cookie"].partition(";")[0]}
        assert server.call("GET", "/api/v1/server", headers=session).status == 200
        server.home.token_path.unlink()
        assert server.call("GET", "/api/v1/server", headers=session).status == 401
        assert server.call("GET", "/api/v1/server", headers=other).status == 401
        new = server.home.token()
        assert new != old
        assert server.call("GET", "/api/v1/server").status == 200
        bearer = server.bearer
        server.home.token_path.write_text("two words")
        assert server.call("GET", "/api/v1/server", headers=bearer).status == 200
        assert server.said.count("the last token remains valid") == 1
        assert (
            "the token was replaced" in server.said
            and "has failed: its token or login code is wrong" in server.said
        )
        assert old not in server.said and new not in server.said


def test_the_keepers_door_opens_with_the_server(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(Authority().pem)
    port = free_port()
    keepers = {"LISTEN": f"127.0.0.1:{port}", "URL": "https://a.example", "CA": str(tmp_path / "ca.pem")}
    environ = {f"NNIMGR_KEEPERS_{name}": value for name, value in keepers.items()}
    with serving(tmp_path, environ=environ) as server:
        assert server.ready, server.said
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with closing(http.client.HTTPSConnection("127.0.0.1", port, context=context)) as keeper:
            keeper.request("POST", "/keepers/v1/exp/local/sync", b"x")
            assert keeper.getresponse().status == 401
        with closing(server.connection()) as probe:
            probe.request("GET", "/readyz")
            assert probe.getresponse().status == 200
        assert server.end() == 0


def test_what_cannot_be(tmp_path: Path) -> None:
    for options, environ, sentence in (
        (["--host", "no.such.host.invalid"], {}, "Cannot find the address no.such.host.invalid"),
        (["--host", "192.0.2.1"], {}, "Cannot bind 192.0.2.1"),
        (["--log-file", str(tmp_path / "no" / "log")], {}, "Cannot write the log"),
        ([], {"NNIMGR_LOG_LEVEL": "loud"}, "NNIMGR_LOG_LEVEL is 'loud'"),
        ([], {"NNIMGR_HOME": "/proc/nothing"}, "Cannot write to /proc/nothing"),
        (["--keepers-listen", "0.0.0.0"], {}, "--keepers-listen '0.0.0.0' needs a port, as in 0.0.0.0:8081."),
        (
            ["--keepers-listen", "192.0.2.1:9"],
            {},
            "--keepers-listen 192.0.2.1 is not an address of this machine",
        ),
        ([], {"NNIMGR_KEEPERS_LISTEN": "a:b"}, "NNIMGR_KEEPERS_LISTEN 'a:b' has no port from 1 to 65535."),
        ([], {"NNIMGR_KEEPERS_URL": "http://a"}, "NNIMGR_KEEPERS_URL 'http://a' must begin with https://"),
        (["--keepers-ca", str(tmp_path / "no")], {}, "/no cannot be read: No such file or directory."),
        (["--keepers-ca", __file__], {}, "test_main.py contains no certificates in PEM."),
    ):
        with serving(tmp_path, *options, environ=environ) as server:
            assert not server.ready
            assert server.wait() == 1
            assert sentence in server.said
            assert server.said.count("\n") == 1, server.said


def test_an_open_server_warns(tmp_path: Path) -> None:
    with serving(tmp_path, "--host", "0.0.0.0", "--require-token") as server:
        assert server.call("GET", "/api/v1/server").status == 200
        assert server.call("GET", "/api/v1/server", headers={}).status == 401
        assert "not encrypted" in server.said


def test_linux_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert command.main(["serve"]) == 1
    assert capsys.readouterr().err == "nnimgr: nnimgr runs on Linux only, not on darwin.\n"


@pytest.mark.parametrize("arguments", [[], ["serve", "--port", "0"], ["serve", "--port", "70000"], ["other"]])
def test_arguments_that_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        command.main(arguments)
    assert left.value.code == 2
    assert "nnimgr" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["abc", "0", "65536", "\u0663"])
def test_what_is_no_port_is_told_as_nnictl_tells_it(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["serve", "--port", value])
    told = f"error: argument --port: a port is a number from 1 to 65535, not {value!r}\n"
    assert capsys.readouterr().err.endswith(told)


def test_a_ready_fd_that_is_not_open(capsys: pytest.CaptureFixture[str]) -> None:
    descriptor = os.dup(0)
    os.close(descriptor)
    assert command.main(["serve", "--ready-fd", str(descriptor)]) == 1
    assert f"--ready-fd {descriptor} is not open" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("::1", "http://[::1]:80"),
        ("10.0.0.1", "http://10.0.0.1:80"),
    ],
)
def test_addresses(host: str, local: str) -> None:
    assert ServeOptions(port=80, host=host).local_url == local


def test_a_server_that_needs_no_token_says_so(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-token") as server:
        assert server.call("GET", "/api/v1/nni/check-status", headers={}).body == {
            "status": "INITIALIZED",
            "errors": [],
        }
        assert server.call("GET", "/api/v1/server", headers={"Host": "evil.example"}).status == 403
        assert server.call("GET", "/api/v1/server", headers={}).body["needsToken"] is False
        assert "anyone on this machine can control its experiments" in server.said


def test_a_server_without_a_token_stays_on_this_machine(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-token", "--host", "0.0.0.0") as server:
        assert not server.ready and server.wait() == 1
        assert "--no-token is only allowed with --host 127.0.0.1" in server.said

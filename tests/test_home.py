"""The home directory: its token, its locks, and what it says when it cannot be used."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nnimgr.home import Home, HomeError, ServerAlreadyRunning


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.find({"NNIMGR_HOME": str(tmp_path / "home")})


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_environment_names_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Home.find({}).path == tmp_path / "nni-experiments"
    assert Home.find({"NNIMGR_HOME": "~/other"}).path == tmp_path / "other"
    assert Home.find({"NNIMGR_HOME": ""}).path == tmp_path / "nni-experiments"


def test_finding_a_home_makes_nothing(home: Home) -> None:
    assert home.server_running(8080) is None
    assert home.servers() == []
    assert not home.path.exists()


def test_the_token_is_made_once_and_is_private(home: Home) -> None:
    token = home.token()
    assert len(token) >= 32
    assert Home(home.path).token() == token
    assert mode(home.token_path) == 0o600
    assert mode(home.private_path) == 0o700
    home.token_path.chmod(0o644)
    assert home.token() == token
    assert mode(home.token_path) == 0o600


def test_tokens_made_at_once_are_one_token(home: Home) -> None:
    start = threading.Barrier(8)
    tokens: list[str] = []

    def make() -> None:
        start.wait()
        tokens.append(home.token())

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tokens) == 8
    assert len(set(tokens)) == 1
    assert [path.name for path in home.private_path.iterdir()] == ["token"]


@pytest.mark.parametrize("text", ["", "two words", "caf\u00e9"])
def test_a_token_that_is_none_is_refused(home: Home, text: str) -> None:
    home.prepare()
    home.token_path.write_text(text, encoding="utf-8")
    with pytest.raises(HomeError, match="is not one word of ASCII"):
        home.token()


def test_a_server_runs_while_it_holds_its_lock(home: Home) -> None:
    with home.claim_server(8080) as claim:
        server = home.server_running(8080)
        assert server is not None
        assert (server.url, server.pid) == ("http://127.0.0.1:8080", None)
        claim.publish(url="http://there:8080", version="1")
        server = home.server_running(8080)
        assert server is not None
        assert (server.url, server.pid, server.version) == ("http://there:8080", os.getpid(), "1")
        assert home.servers() == [server]
        with pytest.raises(ServerAlreadyRunning, match="already runs on port 8080"):
            home.claim_server(8080)
        with home.claim_server(8081):
            assert [found.port for found in home.servers()] == [8080, 8081]
    assert home.server_running(8080) is None
    assert not home.server_path(8080).exists()


def test_a_killed_server_has_lost_its_lock(home: Home) -> None:
    program = (
        "import sys; from pathlib import Path; from nnimgr.home import Home\n"
        "claim = Home(Path(sys.argv[1])).claim_server(9000)\n"
        "claim.publish(url='http://x', version='1'); print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(home.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        server.stdout.readline()
        found = home.server_running(9000)
        assert found is not None
        assert found.pid == server.pid
        server.kill()
    assert json.loads(home.server_path(9000).read_text())["pid"] == server.pid
    assert home.server_running(9000) is None
    with home.claim_server(9000):
        found = home.server_running(9000)
        assert found is not None
        assert found.pid is None  # what the dead one said is not shown


def test_looking_never_keeps_a_server_from_its_lock(home: Home) -> None:
    home.prepare()
    enough = threading.Event()

    def look() -> None:
        while not enough.is_set():
            home.server_running(8080)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(50):
            home.claim_server(8080).close()
    finally:
        enough.set()
        for thread in threads:
            thread.join()


def test_only_one_starts_a_server(home: Home) -> None:
    inside: list[str] = []
    entered = threading.Event()

    def second() -> None:
        entered.set()
        with home.starting_server(8080):
            inside.append("second")

    with home.starting_server(8080):
        thread = threading.Thread(target=second)
        thread.start()
        entered.wait()
        inside.append("first")
    thread.join()
    assert inside == ["first", "second"]


def test_a_home_that_cannot_be_written_names_the_way_out(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    home = Home(blocked / "home")
    with pytest.raises(HomeError, match=r"Cannot write to .*/file/home \(Not a directory\); set NNIMGR_HOME"):
        home.prepare()
    with pytest.raises(HomeError, match="set NNIMGR_HOME"):
        home.claim_server(8080)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can use the files of another user")
def test_root_leaves_the_home_of_another_user_alone(home: Home) -> None:
    home.token()
    os.chown(home.private_path, 1234567, -1)
    before = sorted(home.private_path.iterdir())
    told = r"belongs to user '#1234567'\. Run the command as this user: sudo -u '#1234567' NNIMGR_HOME=\S+ n"
    with pytest.raises(HomeError, match=told):
        home.token()
    with pytest.raises(HomeError, match=told):
        home.claim_server(8080)
    with pytest.raises(HomeError, match=told), home.starting_server(8080):
        pass
    assert sorted(home.private_path.iterdir()) == before

"""Search for servers and their start: real processes that hold real locks."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nnimgr.client.errors import ClientError, ServerGone
from nnimgr.client.servers import ServerStart, connect, usable_port
from nnimgr.home import Home
from tests.cli.endings import store_ended
from tests.cli.fake import FakeExperiment, FakeServer, Told, trial
from tests.trial_keeper.harness import DEADLINE_S

PRELUDE = """\
import os, signal, sys
from nnimgr.home import Home
words = sys.argv[1:]
assert words[0] == "serve" and "--until-idle" in words
port = int(words[words.index("--port") + 1])
ready = int(words[words.index("--ready-fd") + 1])
assert os.getsid(0) == os.getpid()
"""
GOOD = """
from http.server import BaseHTTPRequestHandler
sys.path.insert(0, ROOT)
from tests.trial_keeper.harness import LocalServer

home = Home.find()
claim = home.claim_server(port)

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

http = LocalServer(str(home.server_socket_path(port)), Handler)
claim.publish(url=f"http://127.0.0.1:{port}", version="0")
open(f"started-{os.getpid()}", "w").close()
os.write(ready, b"x")
os.close(ready)
http.serve_forever()
"""
BAD = "print('it is', 'broken', file=sys.stderr)\nsys.exit(3)\n"

ROOT = Path(__file__).parent.parent.parent

Program = Callable[[str], tuple[str, ...]]


@pytest.fixture
def program(home: Home, tmp_path: Path) -> Iterator[Program]:
    """A program in the server's place. Its processes are ended with the test."""

    def program(text: str) -> tuple[str, ...]:
        path = tmp_path / "server.py"
        path.write_text(f"ROOT = {str(ROOT)!r}\n{PRELUDE}{text}")
        return sys.executable, str(path)

    yield program
    for started in home.path.glob("started-*"):
        pid = int(started.name.partition("-")[2])
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_server_is_started_once_and_outlives_the_command(home: Home, program: Program, port: int) -> None:
    command = program(GOOD)
    clients = []

    def start() -> None:
        with ServerStart(home, port, program=command) as server:
            clients.append(server.client())

    threads = [threading.Thread(target=start) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [client.port for client in clients] == [port] * 3
    assert len(list(home.path.glob("started-*"))) == 1
    assert home.server_running(port) is not None


@pytest.mark.parametrize("no_token", [True, False])
def test_a_server_is_started_as_it_is_wanted(home: Home, program: Program, port: int, no_token: bool) -> None:
    command = program(
        f"assert ('--no-token' in words) is {no_token}\n"
        f"assert ('--url-prefix' in words) is {no_token}\n" + GOOD
    )
    prefix = "a/b" if no_token else None
    with ServerStart(home, port, no_token=no_token, url_prefix=prefix, program=command) as start:
        assert start.client().port == port


def test_a_server_that_does_not_start_shows_its_last_words(home: Home, program: Program, port: int) -> None:
    home.prepare()
    home.server_log_path(port).write_text("of an earlier day\n")
    with pytest.raises(ClientError) as caught, ServerStart(home, port, program=program(BAD)) as server:
        server.client()
    assert caught.value.lines == (f"The server on port {port} did not start: it exited with status 3.",)
    assert caught.value.plain == f"it is broken\n(from {home.server_log_path(port)})"
    assert caught.value.mend == "Correct the error in its log, then repeat: {command}"
    bad = program(f"sys.exit('Cannot bind 127.0.0.1:{port}: Permission denied.')")
    with pytest.raises(ClientError) as caught, ServerStart(home, port, program=bad) as server:
        server.client()
    assert str(caught.value.mend).startswith("Use another port, if this one is the reason: {command} --port ")


def test_a_server_that_is_killed_while_it_starts(
    home: Home, program: Program, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = program("import signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    with pytest.raises(ClientError) as caught, ServerStart(home, port, program=command) as server:
        server.client()
    killed = f"The server on port {port} did not start: it was killed by signal 9 (SIGKILL)."
    assert (caught.value.lines, caught.value.mend) == ((killed,), "Repeat: {command}")
    monkeypatch.setattr("nnimgr.client.servers._LEAST_FREE_BYTES", 1 << 60)
    with pytest.raises(ClientError) as caught, ServerStart(home, port, program=command) as server:
        server.client()
    assert caught.value.lines == (killed, f"The disk of {home.path} is full.")
    assert caught.value.mend == "Free space on the disk, then repeat: {command}"


@pytest.mark.parametrize("only_reads", [False, True])
def test_a_slow_start_is_told_with_the_last_line_of_the_log(
    home: Home, program: Program, port: int, told: Told, only_reads: bool
) -> None:
    os.mkfifo(home.path.parent / "go")
    go = str(home.path.parent / "go")
    command = program(f"print('it reads much', file=sys.stderr)\nopen({go!r}, 'w').close()\n{GOOD}")

    def release() -> None:
        said.append(told.event(f"{sentence}: it reads much.").wait(DEADLINE_S))
        open(go).close()

    sentence = f"Starting the server on port {port}"
    if only_reads:
        sentence = f"Starting a server on port {port} to read stopped experiments"
    said: list[bool] = []
    releasing = threading.Thread(target=release)
    releasing.start()
    with ServerStart(home, port, program=command, only_reads=only_reads) as server:
        assert server.client(announced=True).port == port
    releasing.join()
    assert said == [True]


def test_a_start_that_only_reads_says_that_the_server_ends_by_itself(
    home: Home, program: Program, port: int, told: Told
) -> None:
    os.mkfifo(home.path.parent / "go")
    go = str(home.path.parent / "go")

    def release() -> None:
        said.append(told.event(sentence).wait(DEADLINE_S))
        open(go).close()

    sentence = f"Starting a server on port {port} to read stopped experiments; it ends by itself soon after."
    said: list[bool] = []
    releasing = threading.Thread(target=release)
    releasing.start()
    command = program(f"open({go!r}, 'w').close()\n{GOOD}")
    with ServerStart(home, port, program=command, only_reads=True) as server:
        assert server.client().port == port
    releasing.join()
    assert said == [True]


def test_a_start_by_another_command_is_told(home: Home, server: FakeServer, told: Told) -> None:
    ready = threading.Event()

    sentence = f"Waiting for another command that starts the server on port {server.port}."

    def start() -> None:
        with home.starting_server(server.port):
            ready.set()
            said.append(told.event(sentence).wait(DEADLINE_S))

    said: list[bool] = []
    starting = threading.Thread(target=start)
    starting.start()
    assert ready.wait(DEADLINE_S)
    with ServerStart(home, server.port) as start_here:
        assert start_here.client().port == server.port
    starting.join()
    assert said == [True]


def test_a_server_that_was_started_in_vain_is_ended(home: Home, program: Program, port: int) -> None:
    told = "signal.signal(15, lambda *_: sys.exit(open('ended', 'w').close()))\n"
    os.mkfifo(home.path.parent / "go")
    waits = f"{told}open({str(home.path.parent / 'go')!r}, 'w').close()\nsignal.pause()\n"
    with pytest.raises(KeyError), ServerStart(home, port, program=program(waits)):
        with open(home.path.parent / "go"):  # opening blocks until the program opens the other end
            raise KeyError
    assert (home.path / "ended").exists()
    with home.starting_server(port):
        assert home.server_running(port) is None


def test_a_port_that_something_else_has(home: Home, port: int) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(ClientError, match=f"Port {port} is not idle") as caught:
            connect(home, port)
        assert caught.value.lines[1].startswith("This command needs a server of yours.")
        assert usable_port(home, port) != port
        with pytest.raises(ClientError, match=f"Port {port} is not idle"), ServerStart(home, port) as start:
            start.client()


def test_a_port_that_its_last_server_has_not_freed_yet(
    home: Home, program: Program, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = socket.socket()
    other.bind(("127.0.0.1", port))
    other.listen()
    assert usable_port(home, port) > port
    monkeypatch.setattr("nnimgr.client.servers.time.sleep", lambda seconds: other.close())
    with ServerStart(home, port, program=program(GOOD)) as start:
        assert start.client().port == port


def test_a_running_server_is_used(server: FakeServer, home: Home) -> None:
    client = connect(home, server.port)
    assert client.url == f"http://127.0.0.1:{server.port}"


def test_a_server_that_holds_its_lock_and_does_not_answer(home: Home, port: int) -> None:
    with home.claim_server(port), pytest.raises(ServerGone, match="does not answer"):
        connect(home, port)


def test_a_server_that_is_about_to_leave_is_waited_for(home: Home, program: Program, port: int) -> None:
    """A server that holds its lock but no longer answers has to end before the next one starts."""
    leaving = (
        "import socket\nfrom pathlib import Path\nhome, port = Home(Path(sys.argv[1])), int(sys.argv[2])\n"
    )
    leaving += "claim = home.claim_server(port)\nclaim.publish(url=f'http://127.0.0.1:{port}', version='0')\n"
    leaving += "listener = socket.socket(socket.AF_UNIX)\n"
    leaving += "listener.bind(str(home.server_socket_path(port)))\nlistener.listen()\n"
    leaving += "print(flush=True)\nconnection, _ = listener.accept()\n"
    text = "import os, sys\nfrom nnimgr.home import Home\n" + leaving
    with subprocess.Popen(
        [sys.executable, "-c", text, str(home.path), str(port)], stdout=subprocess.PIPE
    ) as old:
        assert old.stdout is not None
        old.stdout.readline()
        with ServerStart(home, port, program=program(GOOD)) as server:
            assert server.client().port == port
    found = home.server_running(port)
    assert found is not None
    assert found.pid != old.pid


def test_a_home_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NNIMGR_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(ClientError, match="set NNIMGR_HOME to a directory in which you may write"):
        connect(Home.find(), 8080)


CONFIG = """\
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
trialCommand: "true"
trialConcurrency: 1
tuner: {name: Random}
goal: maximize
trainingService: {platform: local}
"""


@pytest.mark.parametrize("leaves", [False, True], ids=["stays", "leaves"])
def test_ctrl_c_in_the_foreground_stops_the_experiment(
    server: FakeServer, tmp_path: Path, leaves: bool
) -> None:
    def script(experiment: FakeExperiment) -> None:
        experiment.trials.append(trial("ta", 0, status="RUNNING"))
        experiment.profile["counts"] = {"RUNNING": 1, "SUCCEEDED": 2}
        experiment.profile["bestTrial"] = {
            "trialId": "tz",
            "sequence": 9,
            "value": 0.5,
            "parameters": {"x": 1},
        }
        server.emit(experiment, "ExperimentMoved", status="RUNNING", reason="runs")
        if leaves:  # its end is read from its folder
            asyncio.run(store_ended(server.home, "abc", tmp_path, "user"))

    server.on_create = script
    server.leaves = leaves
    (tmp_path / "exp.yml").write_text(CONFIG)
    command = [sys.executable, "-m", "nnimgr.cli.main", "create", "-c", "exp.yml", "-f", "--id", "abc"]
    with subprocess.Popen(
        [*command, "--port", str(server.port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if line.endswith("Experiment RUNNING\n"):
                break
        process.send_signal(signal.SIGINT)
        if leaves:
            process.send_signal(signal.SIGINT)  # immediately, which must not prevent the request to stop
        rest = process.stdout.read()
        assert process.stderr.read() == ""
    assert process.returncode == 130
    assert "Stopping the experiment and its trials; Ctrl-C again leaves at once." in rest
    assert "Experiment STOPPED: " in rest
    assert "Best trial: 9 (tz) with 0.5" in rest
    if leaves:
        assert "Trials: 1 SYS_CANCELED" in rest
    assert ("POST", "experiments/abc/stop") in [request[:2] for request in server.requests]


def test_a_server_gets_the_absolute_path_of_its_home(
    home: Home, program: Program, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NNIMGR_HOME", "home")  # relative to this directory, while the server runs in its home
    with ServerStart(Home.find(), port, program=program(GOOD)) as server:
        assert server.client().port == port
    assert home.server_running(port) is not None

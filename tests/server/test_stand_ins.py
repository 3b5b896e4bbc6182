"""The process of each experiment, which NNI's programs find in the index and signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nnimgr.home import Home
from nnimgr.index import Index, IndexEntry
from tests.server.harness import free_port

CONFIG = """
searchSpace: {x: {_type: choice, _value: [1, 2]}}
trialCommand: sleep 100
trialConcurrency: 1
tuner: {name: GridSearch}
goal: maximize
trainingService: {platform: local}
"""


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setenv("NNIMGR_HOME", str(tmp_path / "home"))
    (tmp_path / "exp.yml").write_text(CONFIG)
    chosen = free_port()
    yield chosen
    nnictl(tmp_path, "stop", "--all")


def nnictl(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "nnimgr.cli.main", *arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        text=True,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def until(true: Callable[[], bool]) -> None:
    """Wait until a condition holds, at most 30 s."""
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline, "this did not happen within 30 s"
        time.sleep(0.02)


def entry(experiment_id: str) -> IndexEntry:
    found = Index(Home.find()).get(experiment_id)
    assert found is not None
    return found


def process_of(experiment_id: str) -> int:
    """Wait until the experiment has a process of its own. Return its pid."""
    server = Home.find().server_running(entry(experiment_id).port or 0)
    assert server is not None

    def own() -> bool:
        return entry(experiment_id).pid not in (None, server.pid)

    until(own)
    return entry(experiment_id).pid or 0


def is_running(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def running_trials(folder: Path) -> int:
    """Return how many trials run whose code is in ``folder``."""
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            in_folder = Path(os.readlink(process / "cwd")) == folder
            count += in_folder and (process / "cmdline").read_text().startswith("sleep")
        except OSError:  # another user's process, or one that has ended
            continue
    return count


def test_sigterm_stops_one_experiment_of_the_server(tmp_path: Path, port: int) -> None:
    for name in ("aaaaaaaa", "bbbbbbbb"):
        nnictl(tmp_path, "create", "--config", "exp.yml", "--port", str(port), "--id", name)
    first, second = process_of("aaaaaaaa"), process_of("bbbbbbbb")
    assert first != second
    until(lambda: running_trials(tmp_path) == 2)

    os.kill(first, signal.SIGTERM)
    until(lambda: not is_running(first))
    assert entry("aaaaaaaa").status == "STOPPED"
    assert running_trials(tmp_path) == 1
    assert is_running(second)
    assert entry("bbbbbbbb").status == "RUNNING"


def test_a_process_that_was_killed_is_replaced_and_stops_nothing(tmp_path: Path, port: int) -> None:
    nnictl(tmp_path, "create", "--config", "exp.yml", "--port", str(port), "--id", "aaaaaaaa")
    first = process_of("aaaaaaaa")
    os.kill(first, signal.SIGKILL)
    until(lambda: entry("aaaaaaaa").pid != first)
    assert is_running(entry("aaaaaaaa").pid or 0)
    assert entry("aaaaaaaa").status == "RUNNING"


def test_a_viewed_and_a_resumed_experiment_have_processes_too(tmp_path: Path, port: int) -> None:
    nnictl(tmp_path, "create", "--config", "exp.yml", "--port", str(port), "--id", "aaaaaaaa")
    first = process_of("aaaaaaaa")
    nnictl(tmp_path, "stop", "aaaaaaaa")
    until(lambda: not is_running(first))
    nnictl(tmp_path, "view", "aaaaaaaa", "--port", str(port))
    viewing = process_of("aaaaaaaa")
    os.kill(viewing, signal.SIGTERM)
    until(lambda: not is_running(viewing))
    assert entry("aaaaaaaa").status == "STOPPED"
    nnictl(tmp_path, "resume", "aaaaaaaa", "--port", str(port))
    assert is_running(process_of("aaaaaaaa"))


def test_the_processes_end_with_a_killed_server(tmp_path: Path, port: int) -> None:
    nnictl(tmp_path, "create", "--config", "exp.yml", "--port", str(port), "--id", "aaaaaaaa")
    first = process_of("aaaaaaaa")
    server = Home.find().server_running(port)
    assert server is not None
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    until(lambda: not is_running(first))
    assert "RUNNING" in nnictl(tmp_path, "experiment", "status", "aaaaaaaa")
    until(lambda: entry("aaaaaaaa").pid != first)
    assert is_running(process_of("aaaaaaaa"))

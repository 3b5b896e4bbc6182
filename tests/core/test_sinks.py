"""Processes of sinks: what they write, what a failing one shows, and what survives a kill."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nnimgr.core.managing import sinks
from nnimgr.core.managing.sinks import SinkProcesses, SinkStart, folder_names
from nnimgr.home import Home
from nnimgr.importing.experiment import create_imported
from nnimgr.importing.trials import Foreigners
from nnimgr.rules.state import ExperimentState
from nnimgr.rules.terms import ExperimentStatus
from nnimgr.store.location import database_path
from nnimgr.store.reader import ExperimentReader
from tests.importing.test_experiment import TRIALS, configured

OWN = """
from pathlib import Path
from nnimgr.sink import Sink, SinkError

class Fails(Sink):
    def __init__(self, until):
        self.until = Path(until)
    def open(self, experiment):
        if not self.until.exists():
            raise SinkError("the place a\\udcfe is not ready")
        return 0
    def write(self, events):
        self.until.with_suffix(".done").write_text(str(events[-1].number))
"""


SILENT = """
from nnimgr.sink import Sink

class NoText(Exception):
    def __str__(self):
        raise RuntimeError("no text")

class Silent(Sink):
    def open(self, experiment):
        raise NoText
    def write(self, events): ...
"""


HANGS = """
import time
from nnimgr.sink import Sink

class Hangs(Sink):
    def open(self, experiment):
        time.sleep(600)
"""
# A server that starts a sink, prints its pid, and waits to be killed.
SERVER = """
import subprocess, sys, time
worker = [sys.executable, "-m", "nnimgr.sinks.worker"]
sink = subprocess.Popen(worker, stdin=subprocess.PIPE, text=True, start_new_session=True)
sink.stdin.write(sys.argv[1] + "\\n")
sink.stdin.flush()
print(sink.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SinkStart:
    monkeypatch.setenv("NNIMGR_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sinks, "RESTART_S", (0.01, 0.01))
    home = Home.find()
    entry = create_imported(home, configured(home), Foreigners(title="a test", trials=TRIALS))
    return SinkStart(
        title="jsonl",
        target="nnimgr.sinks.json_lines:JsonLinesSink",
        code=None,
        arguments={},
        directory=tmp_path / "sink",
        database=database_path(entry.directory),
        python=sys.executable,
        environ=os.environ,
        cwd=tmp_path,
        log_path=tmp_path / "sinks.log",
    )


def state_of(start: SinkStart) -> ExperimentState:
    reader = ExperimentReader(start.database.parents[1])
    try:
        state = reader.state()
    finally:
        reader.close()
    state.status = ExperimentStatus.RUNNING  # as if it had been resumed
    return state


def numbers(start: SinkStart) -> list[int]:
    lines = (start.directory / "events.jsonl").read_text().splitlines()
    return [json.loads(line)["number"] for line in lines]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 (another process writes the files)
            await asyncio.sleep(0.01)


async def test_everything_is_written_before_the_end(start: SinkStart) -> None:
    state = state_of(start)
    there = SinkProcesses(lambda: 1, lambda index: start)
    there.turned(state)
    await there.close()
    written = numbers(start)
    assert written == sorted(set(written)) and written[-1] == state.number
    assert not there.notices


@pytest.mark.parametrize("ended", [ExperimentStatus.STOPPED, ExperimentStatus.DONE, ExperimentStatus.ERROR])
async def test_no_process_runs_after_the_end_of_the_experiment(
    start: SinkStart, ended: ExperimentStatus
) -> None:
    state = state_of(start)
    there = SinkProcesses(lambda: 1, lambda index: start)
    last, state.number = state.number, state.number - 2
    there.turned(state)
    await until(lambda: bool(there.pids))
    state.status = ended
    there.turned(state)
    await until(lambda: not there.pids)
    assert numbers(start)[-1] < last
    state.number = last  # the user has set a tag, for example
    there.turned(state)
    await until(lambda: numbers(start)[-1] == last and not there.pids)
    state.status = ExperimentStatus.RUNNING
    there.turned(state)
    await until(lambda: bool(there.pids))
    await there.close()
    assert not there.notices


def test_a_sink_that_hangs_ends_after_its_server_was_killed(start: SinkStart, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(HANGS)
    first = {"target": "own:Hangs", "code": str(tmp_path), "arguments": {}, "directory": str(tmp_path)}
    more: dict[str, object] = {
        "database": str(start.database),
        "experiment": start.database.parts[-3],
        "closing_s": 0.01,
        "server": 0,
    }
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, json.dumps({**first, **more})], stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        sink = os.pidfd_open(pid)
        server.kill()
    with contextlib.closing(select.epoll()) as ends:
        ends.register(sink)
        assert ends.poll(60)
    os.close(sink)


async def test_a_sink_that_hangs_is_reported(
    start: SinkStart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "BEHIND_S", 0.0)
    monkeypatch.setattr(sinks, "CLOSING_S", 0.0)
    (tmp_path / "own.py").write_text(HANGS)
    there = SinkProcesses(lambda: 1, lambda index: replace(start, target="own:Hangs", code=str(tmp_path)))
    there.turned(state_of(start))
    (notice,) = there.notices.values()
    assert notice.sentence == "sinks[0] has written none of the latest events for 0 s"
    await there.close()


async def test_a_killed_process_is_started_again_and_doubles_nothing(start: SinkStart) -> None:
    state = state_of(start)
    there = SinkProcesses(lambda: 1, lambda index: start)
    last, state.number = state.number, 12
    there.turned(state)
    await until(lambda: (start.directory / "events.jsonl").exists())
    (pid,) = there.pids
    os.killpg(pid, signal.SIGKILL)
    await until(lambda: bool(there.notices))
    (notice,) = there.notices.values()
    assert notice.subject.startswith(
        "the sink jsonl has failed and is started again: its process was killed by"
    )
    state.number = last
    there.turned(state)
    await until(lambda: not there.notices)
    await there.close()
    assert numbers(start) == sorted(set(numbers(start))) and numbers(start)[-1] == last


async def test_a_failing_sink_says_why_and_is_tried_again(start: SinkStart, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    ready = tmp_path / "ready"
    own = replace(
        start, title="Fails", target="own:Fails", code=str(tmp_path), arguments={"until": str(ready)}
    )
    state = state_of(start)
    there = SinkProcesses(lambda: 1, lambda index: own)
    there.turned(state)
    await until(lambda: bool(there.notices))
    (notice,) = there.notices.values()
    assert notice.subject == "the sink Fails has failed and is started again: the place a? is not ready"
    ready.touch()
    await until(lambda: not there.notices)
    await there.close()
    assert ready.with_suffix(".done").read_text() == str(state.number)


async def test_an_error_of_a_sink_whose_text_fails_does_not_hide_itself(
    start: SinkStart, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(SILENT)
    there = SinkProcesses(
        lambda: 1, lambda index: replace(start, title="Silent", target="own:Silent", code=str(tmp_path))
    )
    there.turned(state_of(start))
    await until(lambda: bool(there.notices))
    (notice,) = there.notices.values()
    assert notice.subject == (
        "the sink Silent has failed and is started again: NoText: <exception str() failed>"
    )
    await there.close()


@pytest.mark.parametrize(
    ("target", "arguments", "told"),
    [
        ("nowhere:Sink", {}, "the sink nowhere:Sink cannot be imported: No module named 'nowhere'"),
        ("json:JSONDecoder", {}, "json:JSONDecoder is not a sink: it must be a subclass of nnimgr.sink.Sink"),
        ("nnimgr.sinks.json_lines:JsonLinesSink", {"x": 1}, "does not take these arguments"),
    ],
)
async def test_what_is_no_sink(start: SinkStart, target: str, arguments: dict[str, int], told: str) -> None:
    there = SinkProcesses(lambda: 1, lambda index: replace(start, target=target, arguments=arguments))
    there.turned(state_of(start))
    await until(lambda: bool(there.notices))
    (notice,) = there.notices.values()
    assert told in notice.subject
    await there.close()


async def test_a_database_that_was_replaced_by_an_older_one(start: SinkStart) -> None:
    start.directory.mkdir()
    cursor = {"experiment": start.database.parents[1].name, "number": 10_000}
    (start.directory / "cursor.json").write_text(json.dumps(cursor))
    there = SinkProcesses(lambda: 1, lambda index: start)
    there.turned(state_of(start))
    await until(lambda: bool(there.notices))
    (notice,) = there.notices.values()
    assert "event 10000 is written, but the experiment has only" in notice.subject
    await there.close()


def test_sinks_with_one_title_have_folders_of_their_own() -> None:
    assert folder_names(["csv", "jsonl", "csv", "csv"]) == ["csv", "jsonl", "csv-2", "csv-3"]

"""The analysis process: real children that answer, exit, crash and are cancelled."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nnimgr.analysis.errors import AnalysisFailed, BadQuestion
from nnimgr.analysis.process import Analyst
from nnimgr.analysis.wire import failure, frame, raise_failure
from tests.analysis.past import Past

PAGE = {"filter": "", "sort": "sequence", "descending": True, "offset": 0, "limit": 100}


@pytest.fixture
async def stored(past: Past) -> Path:
    past.suggest({"lr": 0.1}, {"lr": 0.2})
    await past.write()
    return Path(past.database)


@pytest.fixture
async def analyst() -> AsyncIterator[Analyst]:
    made = Analyst()
    yield made
    await made.close()


async def sequences(analyst: Analyst, database: Path, **changes: object) -> list[int]:
    answer = await analyst.ask(database, "exp", "page", PAGE | changes)
    found: list[int] = json.loads(answer)["sequences"]
    return found


async def test_questions_are_answered_by_one_process(analyst: Analyst, stored: Path, past: Past) -> None:
    assert analyst.pid is None
    both = await asyncio.gather(sequences(analyst, stored), sequences(analyst, stored, limit=1))
    assert both == [[1, 0], [1]]
    pid = analyst.pid
    past.suggest({"lr": 0.3})
    await past.write()
    assert await sequences(analyst, stored) == [2, 1, 0]
    assert analyst.pid == pid


async def test_what_is_wrong_with_a_question_comes_back(
    analyst: Analyst, stored: Path, tmp_path: Path
) -> None:
    with pytest.raises(BadQuestion, match="expected a number, found x") as refused:
        await sequences(analyst, stored, filter="lr>x")
    assert (refused.value.field, refused.value.position) == ("filter", 3)
    with pytest.raises(FileNotFoundError, match="there is no database"):
        await sequences(analyst, tmp_path / "none")
    with pytest.raises(AnalysisFailed, match="the analysis failed with KeyError"):
        await analyst.ask(stored, "exp", "what", {})
    assert await sequences(analyst, stored) == [1, 0]


async def test_a_stopped_process_is_replaced(
    analyst: Analyst, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nnimgr.analysis.process.LOOK_S", 0.05)
    await sequences(analyst, stored)
    pid = analyst.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    asked = asyncio.create_task(sequences(analyst, stored))
    waiting = asyncio.create_task(sequences(analyst, stored, limit=1))
    with pytest.raises(AnalysisFailed, match="was stopped from outside"):
        await asked
    assert await waiting == [1]
    assert analyst.pid not in (None, pid)


async def test_a_crash_is_told_and_mended(analyst: Analyst, stored: Path) -> None:
    await sequences(analyst, stored)
    pid = analyst.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    asked = asyncio.create_task(sequences(analyst, stored))
    waiting = asyncio.create_task(sequences(analyst, stored, limit=1))
    await asyncio.sleep(0)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(AnalysisFailed, match=r"was killed by signal 9 \(SIGKILL\)"):
        await asked
    assert await waiting == [1]
    assert analyst.pid != pid


async def test_it_leaves_when_it_has_nothing_to_do(stored: Path) -> None:
    analyst = Analyst(idle_s=0.05)
    assert await sequences(analyst, stored) == [1, 0]
    child = analyst._child
    assert child is not None
    assert await child.process.wait() == 0
    assert await sequences(analyst, stored) == [1, 0]
    await analyst.close()


async def test_a_question_that_crosses_its_leaving_is_asked_again(stored: Path) -> None:
    analyst = Analyst(idle_s=0.05)
    await sequences(analyst, stored)
    child = analyst._child
    assert child is not None and analyst.pid is not None
    os.kill(analyst.pid, signal.SIGSTOP)
    asked = asyncio.create_task(sequences(analyst, stored))
    await asyncio.sleep(0)
    assert child.process.stdin is not None
    child.process.stdin.transport.abort()  # as if the process had left before it could read
    os.kill(child.process.pid, signal.SIGCONT)
    assert await asked == [1, 0]
    await analyst.close()


async def test_one_that_takes_too_long_is_ended(stored: Path) -> None:
    analyst = Analyst(answer_s=30)
    await sequences(analyst, stored)
    assert analyst.pid is not None
    os.kill(analyst.pid, signal.SIGSTOP)
    analyst._answer_s = 0.01
    with pytest.raises(AnalysisFailed, match=r"longer than 0\.01 s"):
        await sequences(analyst, stored)
    assert analyst.pid is None
    await analyst.close()


async def test_cancelled_questions_disturb_nobody(analyst: Analyst, stored: Path) -> None:
    await sequences(analyst, stored)
    assert analyst.pid is not None
    os.kill(analyst.pid, signal.SIGSTOP)
    asked = [asyncio.create_task(sequences(analyst, stored, limit=limit)) for limit in (1, 2, 100)]
    await asyncio.sleep(0)
    for task in asked[:2]:
        task.cancel()
    os.kill(analyst.pid, signal.SIGCONT)
    done = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(answer) for answer in done[:2]] == [asyncio.CancelledError] * 2
    assert done[2] == [1, 0]


async def test_closing_ends_it_and_answers_nobody(analyst: Analyst, stored: Path) -> None:
    await sequences(analyst, stored)
    assert analyst.pid is not None
    os.kill(analyst.pid, signal.SIGSTOP)
    asked = [asyncio.create_task(sequences(analyst, stored)) for _ in range(2)]
    await asyncio.sleep(0)
    await analyst.close()
    for task in asked:
        with pytest.raises(AnalysisFailed, match=r"The server is shutting down\."):
            await task
    assert analyst.pid is None


def oom_score_adjustment(pid: int | None) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


async def test_it_is_the_first_to_go_where_memory_runs_out(analyst: Analyst, stored: Path) -> None:
    await sequences(analyst, stored)
    assert oom_score_adjustment(analyst.pid) == 1000


async def test_it_knows_no_secret(analyst: Analyst, stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNIMGR_SECRET_OF_TEST", "hush")
    await sequences(analyst, stored)
    process = Path(f"/proc/{analyst.pid}")
    assert b"hush" not in (process / "environ").read_bytes()
    assert b"lr" not in (process / "cmdline").read_bytes()
    assert os.getsid(int(process.name)) == int(process.name)


def test_it_ends_with_its_input() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "nnimgr.analysis.worker", "60"],
        input=b"",
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_it_dies_with_its_server() -> None:
    server = """
import asyncio, os, sys
from pathlib import Path
from nnimgr.analysis.process import Analyst
async def main():
    analyst = Analyst()
    try:
        await analyst.ask(Path("/nowhere"), "exp", "schema", {})
    except FileNotFoundError:
        print(analyst.pid, flush=True)
    sys.stdin.read()
asyncio.run(main())
"""
    with subprocess.Popen(
        [sys.executable, "-c", server], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        handle = os.pidfd_open(int(process.stdout.readline()))
        process.kill()
    assert select.select([handle], [], [], 30.0)[0]
    os.close(handle)


def test_failures_cross_the_pipe() -> None:
    assert frame({"a": 1}, b"xyz").endswith(b'{"a": 1}xyz')
    raise_failure({"length": 3})
    with pytest.raises(BadQuestion) as refused:
        raise_failure(failure(BadQuestion("sort", "no", position=None)))
    assert (refused.value.field, refused.value.message, refused.value.position) == ("sort", "no", None)


def test_the_server_needs_no_numpy() -> None:
    code = "import sys, nnimgr.server.process; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

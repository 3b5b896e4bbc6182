"""Children that are forked from the zygote: how they start, end, and survive an error of the zygote."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import uvloop

from nnimgr.builtins import BUILTINS
from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher.forking import Zygote
from nnimgr.dispatcher.zygote import PRELOADED, PRELOADED_LATER
from tests.dispatcher.hosting import Hosted, eventually, start_line
from tests.dispatcher.test_process import gone

ORPHAN = "the tuner's process ended because the process that it was forked from has ended"


@pytest.fixture
async def zygote() -> AsyncIterator[Zygote]:
    made = Zygote(answer_s=30.0)
    yield made
    await made.close()


async def forked(zygote: Zygote, directory: Path, **fields: object) -> Hosted:
    hosted = Hosted(start_line(**fields), directory, zygote=zygote)  # type: ignore[arg-type]
    await hosted.child.start()
    await hosted.expect(m.Ready)
    return hosted


def status(pid: int | None, name: str) -> str:
    """Return a line of a process's ``status`` file."""
    text = Path(f"/proc/{pid}/status").read_text()
    return next(line.partition(":")[2].strip() for line in text.splitlines() if line.startswith(f"{name}:"))


def pid_of(hosted: Hosted) -> int:
    assert hosted.child.pid is not None
    return hosted.child.pid


async def test_a_fork_serves_like_a_child_with_an_interpreter_of_its_own(
    zygote: Zygote, tmp_path: Path
) -> None:
    hosted = await forked(zygote, tmp_path)
    plain = Hosted(start_line(), tmp_path)
    await plain.child.start()
    hosted.ask(0, 1)
    plain.ask(0, 1)
    assert await hosted.suggestions(2) == await plain.suggestions(2)
    pids = pid_of(hosted), pid_of(plain)
    assert [status(pid, "PPid") for pid in pids] == [str(zygote.pid), str(os.getpid())]
    assert [status(pid, "Name") for pid in pids] == ["nnimgr-tuner"] * 2
    assert status(zygote.pid, "Name") == "nnimgr-zygote"
    assert [os.getsid(pid) for pid in pids] == list(pids)
    assert [os.readlink(f"/proc/{pid}/cwd") for pid in pids] == [str(tmp_path)] * 2
    for name in ("SigIgn", "SigCgt", "SigBlk"):
        assert status(pids[0], name) == status(pids[1], name)
    descriptors = [sorted(os.listdir(f"/proc/{pid}/fd")) for pid in pids]
    assert descriptors[0] == descriptors[1]
    await asyncio.gather(hosted.child.close(), plain.child.close())
    assert all(gone(pid) for pid in pids)
    assert not hosted.exits


MINE = """
import json, os
class Mine:
    def __init__(self):
        with open("seen", "w") as file:
            json.dump(dict(os.environ), file)
"""


async def test_the_line_before_the_first_gives_a_fork_its_environment(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "nnimgr.dispatcher.worker"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "OF_THE_SERVER": "1"},
    )
    environment = m.Environment(environ={"OF_THE_CHILD": "\udcff"}, cwd=str(tmp_path))
    start = start_line(class_name="mine.Mine", code_directory=str(tmp_path))
    assert worker.stdin is not None and worker.stdout is not None
    worker.stdin.write(m.to_line(environment) + m.to_line(start))
    await worker.stdout.read()  # the process ends by itself, since its class lacks all methods
    await worker.wait()
    worker.stdin.close()
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen["OF_THE_CHILD"] == "\udcff"
    assert "OF_THE_SERVER" not in seen


async def test_user_code_and_other_interpreters_are_not_forked(zygote: Zygote, tmp_path: Path) -> None:
    environ = dict(os.environ)

    def hosts(start: m.Start, *, python: str = sys.executable, **more: str) -> bool:
        return zygote.can_host(start, python=python, environ={**environ, **more})

    assert hosts(start_line()) and hosts(start_line("assessor"), MINE="1")
    assert hosts(start_line(), python=os.path.join(os.path.dirname(sys.executable), "python3"))
    assert not hosts(start_line(class_name="mine.Mine"))
    assert not hosts(start_line(name="Registered"))
    (tmp_path / "python").symlink_to(sys.executable)  # a link outside any virtual environment
    assert not hosts(start_line(), python=str(tmp_path / "python"))
    assert not hosts(start_line(), python=str(tmp_path / "missing"))
    assert not hosts(start_line(), PYTHONPATH=str(tmp_path))
    assert not hosts(start_line(), LD_LIBRARY_PATH=str(tmp_path))


async def test_how_a_fork_ends_is_reported(zygote: Zygote, tmp_path: Path) -> None:
    first, second = await asyncio.gather(*(forked(zygote, tmp_path) for _ in range(2)))
    os.kill(pid_of(first), signal.SIGSEGV)
    assert await first.exited() == "the tuner's process was killed by signal 11 (SIGSEGV)"
    second.ask(0)
    assert await second.suggestions(1)
    await second.child.close()


async def test_a_fork_that_fails_before_its_first_line_reports_why(zygote: Zygote, tmp_path: Path) -> None:
    hosted = Hosted(start_line(), tmp_path, zygote=zygote)
    hosted.child._cwd = tmp_path / "missing"
    await hosted.child.start()
    sentence = await hosted.exited()
    end, _, last = sentence.partition("; the last line of its output was: ")
    assert end == "the tuner's process exited with status 1" and last.startswith("FileNotFound")


async def test_children_end_with_a_killed_zygote_and_the_next_one_is_forked_again(
    zygote: Zygote, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    children = await asyncio.gather(*(forked(zygote, tmp_path) for _ in range(3)))
    killed = zygote.pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    assert [await each.exited() for each in children] == [ORPHAN] * 3
    await eventually(lambda: all(gone(pid_of(each)) for each in children))
    await eventually(lambda: "was killed by signal 9 (SIGKILL); another one is started" in caplog.text)
    after = await forked(zygote, tmp_path)
    assert zygote.pid not in (None, killed)
    assert status(pid_of(after), "PPid") == str(zygote.pid)
    await after.child.close()


async def test_a_stopped_zygote_delays_a_start_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    zygote = Zygote(answer_s=30.0)
    before = await forked(zygote, tmp_path)
    stopped = zygote.pid
    assert stopped is not None
    os.kill(stopped, signal.SIGSTOP)
    zygote._answer_s = 0.2
    hosted = await forked(zygote, tmp_path)
    assert status(pid_of(hosted), "PPid") == str(os.getpid())
    assert "runs in a separate interpreter: the zygote does not answer" in caplog.text
    assert await before.exited() == ORPHAN
    assert gone(stopped)
    zygote._answer_s = 30.0
    after = await forked(zygote, tmp_path)
    assert status(pid_of(after), "PPid") == str(zygote.pid)
    await asyncio.gather(hosted.child.close(), after.child.close())
    await zygote.close()


async def test_the_end_of_a_fork_is_noticed_though_its_zygote_is_stopped(tmp_path: Path) -> None:
    zygote = Zygote(answer_s=2.0)
    hosted, other = await asyncio.gather(*(forked(zygote, tmp_path) for _ in range(2)))
    assert zygote.pid is not None
    os.kill(zygote.pid, signal.SIGSTOP)
    os.kill(pid_of(hosted), signal.SIGKILL)
    assert await hosted.exited() == ORPHAN
    await other.child.close()
    await zygote.close()


async def test_closing_does_not_wait_for_a_stopped_zygote(tmp_path: Path) -> None:
    zygote = Zygote(answer_s=1.0)
    hosted = await forked(zygote, tmp_path)
    assert zygote.pid is not None
    os.kill(zygote.pid, signal.SIGSTOP)
    await hosted.child.close()
    await zygote.close()
    assert gone(pid_of(hosted))


SERVER = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.dispatcher.hosting import Hosted, start_line
from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher.forking import Zygote

async def main():
    zygote = Zygote()
    hosted = Hosted(start_line(), Path(sys.argv[1]), zygote=zygote)
    await hosted.child.start()
    await hosted.expect(m.Ready)
    for pid in (hosted.child.pid, zygote.pid):
        os.kill(pid, signal.SIGSTOP)  # they cannot look at their input any more
    print(hosted.child.pid, zygote.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_zygote_and_forks_die_with_the_server(tmp_path: Path) -> None:
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, str(tmp_path), stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    output, _ = await server.communicate()
    assert server.returncode == -signal.SIGKILL
    pids = list(map(int, output.split()))
    assert len(pids) == 2
    await eventually(lambda: all(map(gone, pids)))


def test_what_is_preloaded_is_what_needs_no_numpy() -> None:
    """A built-in algorithm's module is preloaded at the start unless it loads numpy."""
    script = "import sys, importlib; importlib.import_module(sys.argv[1]); print('numpy' in sys.modules)"
    for module in sorted({builtin.target.partition(":")[0] for builtin in BUILTINS}):
        done = subprocess.run(
            [sys.executable, "-c", script, module], capture_output=True, text=True, check=True
        )
        assert (done.stdout.strip() == "False") == (module in PRELOADED), module


def test_in_the_servers_loop_no_file_of_another_thread_is_closed(tmp_path: Path) -> None:
    """uvloop closes the descriptor of a pipe twice, and between the calls a thread may open a file."""
    over = threading.Event()

    async def children() -> None:
        zygote = Zygote(answer_s=30.0)
        try:
            for _ in range(100):
                hosted = await forked(zygote, tmp_path)
                await hosted.child.close()
        finally:
            await zygote.close()

    def files() -> None:
        while not over.is_set():
            os.close(os.open(os.devnull, os.O_RDONLY))

    with ThreadPoolExecutor(2) as threads:
        opening = [threads.submit(files) for _ in range(2)]
        try:
            uvloop.run(asyncio.wait_for(children(), 60.0))
        finally:
            over.set()
        for each in opening:
            each.result()


def maps(pid: int | None) -> str:
    """Return the files that are in a process's memory."""
    return Path(f"/proc/{pid}/maps").read_text()


async def test_numpy_is_in_memory_once_for_the_children_of_tpe(zygote: Zygote, tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    assert set(PRELOADED_LATER) <= {builtin.name for builtin in BUILTINS}
    first = await forked(zygote, tmp_path, name="TPE")
    assert "numpy" not in maps(zygote.pid)  # nothing waits for it
    await eventually(lambda: "numpy" in maps(zygote.pid))
    assert status(zygote.pid, "Threads") == "1"
    second = await forked(zygote, tmp_path, name="TPE")
    assert "numpy" not in maps(pid_of(first)) and "numpy" in maps(pid_of(second))
    second.ask(0)
    assert len(await second.suggestions(1)) == 1
    await asyncio.gather(first.child.close(), second.child.close())

"""The server's handle on a child: how the child starts, ends, hangs, lags, and dies with the server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher.process import DispatcherChild
from tests.dispatcher.conftest import Host, MakePast
from tests.dispatcher.hosting import DEADLINE_S, Hosted, eventually, start_line

TUNER = """
    import os, signal, subprocess, sys, threading, time

    class Mine:
        def update_search_space(self, search_space):
            self.wait = threading.Event()
        def generate_parameters(self, parameter_id, **kwargs):
            {body}
            return {{}}
        def receive_trial_result(self, *args, **kwargs): pass
"""


def gone(pid: int) -> bool:
    """Return whether the process does not exist or is a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def test_prints_and_programs_of_user_code_cannot_break_the_protocol(host: Host) -> None:
    body = "os.write(1, b'junk\\n'); print('more'); subprocess.run('echo $(cat); echo err >&2', shell=True)"
    tuner = await host(code=TUNER.format(body=body))
    tuner.ask(0)
    assert await tuner.suggestions(1) == ["{}"]
    await tuner.child.close()
    assert tuner.log.read_text().split() == ["junk", "more", "err"]


async def test_a_call_that_hangs_is_told_with_its_stack_until_it_returns(host: Host, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    tuner = await host(code=TUNER.format(body=f"open({str(tmp_path / 'gate')!r}).read()"))
    tuner.ask(0)
    busy = await tuner.expect(m.Busy)
    assert busy.call == "generate_parameters"
    assert busy.seconds >= 1
    assert busy.stack.splitlines()[0].endswith("in generate_parameters")
    assert busy.stack.count("File") == 1 and "gate" in busy.stack
    assert (await tuner.expect(m.Busy)).seconds >= 2
    (tmp_path / "gate").write_text("")
    await tuner.expect(m.Suggestion)
    await tuner.expect(m.Idle)


async def test_a_constructor_that_hangs_is_told(host: Host) -> None:
    tuner = await host(code="class Mine:\n    def __init__(self):\n        while True: pass")
    assert (await tuner.expect(m.Busy)).call == "constructor"
    tuner.child.kill()


async def test_a_signal_and_the_last_words_are_told(host: Host) -> None:
    body = "print('almost there'); os.kill(os.getpid(), signal.SIGKILL)"
    tuner = await host(code=TUNER.format(body=body))
    tuner.ask(0)
    assert await tuner.exited() == (
        "the tuner's process was killed by signal 9 (SIGKILL); the last line of its output was: almost there"
    )
    assert tuner.child.log_tail == "almost there\n"
    assert not tuner.send(m.Leave())


async def test_what_the_algorithm_forked_ends_with_it(host: Host, tmp_path: Path) -> None:
    body = f"pid = os.fork(); pid or signal.pause(); open({str(tmp_path / 'pid')!r}, 'w').write(str(pid))"
    tuner = await host(code=TUNER.format(body=body))
    tuner.ask(0)
    await tuner.suggestions(1)
    await tuner.child.close()
    forked = int((tmp_path / "pid").read_text())
    await eventually(lambda: gone(forked))


async def test_a_child_that_does_not_leave_is_killed(host: Host) -> None:
    tuner = await host(code=TUNER.format(body="self.wait.wait()"))
    await tuner.expect(m.Ready)
    tuner.ask(0)
    pid = tuner.child.pid
    assert pid is not None
    await tuner.child.close()
    assert gone(pid)
    assert not tuner.exits


async def test_an_interpreter_that_is_missing_is_told(tmp_path: Path) -> None:
    exits: list[str] = []
    child = DispatcherChild(
        start_line(),
        python=str(tmp_path / "python"),
        environ={},
        cwd=tmp_path,
        log_path=tmp_path / "log",
        on_message=lambda message: None,
        on_exit=exits.append,
    )
    await child.start()
    assert exits[0].startswith("the tuner's process could not be started: [Errno 2]")
    await child.close()


async def test_closing_before_the_start_is_harmless(tmp_path: Path) -> None:
    hosted = Hosted(start_line(), tmp_path)
    await hosted.child.close()
    assert not hosted.send(m.Leave())


async def test_a_child_ends_with_its_input_even_in_user_code(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Mine:\n    def __init__(self):\n        while True: pass\n")
    line = m.to_line(start_line(class_name="mine.Mine", code_directory=str(tmp_path)))
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "nnimgr.dispatcher.worker", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert worker.stdin is not None and worker.stdout is not None
    worker.stdin.write(line)
    async with asyncio.timeout(DEADLINE_S):
        assert isinstance(m.from_child(await worker.stdout.readline()), m.Busy)
        worker.stdin.close()
        assert await worker.wait() == 0


SERVER = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.dispatcher.hosting import Hosted, start_line
from nnimgr.dispatcher import messages as m

async def main():
    hosted = Hosted(start_line(), Path(sys.argv[1]))
    await hosted.child.start()
    await hosted.expect(m.Ready)
    os.kill(hosted.child.pid, signal.SIGSTOP)  # it cannot look at its input any more
    print(hosted.child.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_a_child_dies_with_the_server(tmp_path: Path) -> None:
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, str(tmp_path), stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    output, _ = await server.communicate()
    assert server.returncode == -signal.SIGKILL
    await eventually(lambda: gone(int(output)))


async def test_metrics_beyond_the_limit_are_left_out_and_read_from_the_database(
    host: Host, make_past: MakePast, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "gate")
    past = make_past()
    trial = past.suggested(0, {"x": 1})
    gate = str(tmp_path / "gate")
    assessor = await host(
        "assessor",
        past=past,
        code=f"""
        class Mine:
            def assess_trial(self, trial_job_id, trial_history):
                if len(trial_history) == 1:
                    open({gate!r}).read()
                return trial_history[-1]["n"] < 99
        """,
    )
    await assessor.expect(m.Ready)
    values = [{"n": n, "padding": "x" * 500_000} for n in range(100)]
    past.reported(trial, *values)
    sent = []
    for sequence, value in enumerate(values):
        text = json.dumps(value)
        sent.append(assessor.send(m.Metrics(items=((trial, 1, sequence, sequence, text),))))
        if sequence == 0:
            await assessor.expect(m.Busy)
    assert sent[:16] == [True] * 16
    assert not sent[-1]
    was_behind = assessor.child.behind
    assert not assessor.child.catch_up(past.number)
    (tmp_path / "gate").write_text("")
    await eventually(lambda: assessor.child.catch_up(past.number))
    assert (was_behind, assessor.child.behind) == (True, False)
    assert await assessor.expect(m.Judged) == m.Judged(trial_id=trial, attempt=1, position=99, report=100)

"""The Python API against a real server: functions are tuned, followed, changed and continued."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nnimgr
from nnimgr import Experiment, Run, space, tune
from nnimgr.cli.main import main as nnictl
from nnimgr.home import Home
from nnimgr.index import Index
from nnimgr.store.location import database_path
from tests.python.messages import in_lines

SPACE = {"x": space.choice([0, 1, 2, 3])}
DEADLINE_S = 60.0


def until(condition: Callable[[], Any]) -> Any:
    """Return the first true result of the condition."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def test_a_function_is_tuned(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    results = tune("mine.py:square", SPACE, minimize=True, trials=4, tuner="GridSearch", server=port)
    assert results.best_params == {"x": 2} and results.best_value == 0.0 and results.status == "DONE"
    assert [trial.parameters["x"] for trial in results.top(3)] == [2, 1, 3]
    assert [trial.value for trial in results] == [4.0, 1.0, 0.0, 1.0] and len(results) == 4
    best = results.get_best_result()
    assert (best.number, best.status, best.result, best.attempt) == (2, "SUCCEEDED", 0.0, 1)
    assert best.started is not None and best.ended is not None and best.ended >= best.started
    assert repr(best) == f"<Trial 2 ({best.id}) SUCCEEDED, value 0>" and "best 0 by trial 2" in repr(results)
    assert results.errors == []
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["trial", "status", "result", "best", "parameters"]
    assert rows[0].split() == ["0", "SUCCEEDED", "4", "4", "x=0"]
    assert "Best trial: 2" in "\n".join(rows)


def test_a_directory_whose_name_is_no_text(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / os.fsdecode(b"b\xff")
    odd.mkdir()
    monkeypatch.chdir(odd)
    with pytest.raises(nnimgr.ArgumentError) as caught:
        tune("true", SPACE, minimize=True, trials=1, server=port)
    sentence = f"trial: the name of the directory {tmp_path}/b\\xff is not valid UTF-8; rename the directory"
    assert " ".join(str(caught.value).split()) == sentence
    assert not Home.find().servers()


def test_metrics_curves_and_checkpoints_are_read(port: int) -> None:
    results = tune(
        "mine:curve", SPACE, maximize="acc", trials=2, tuner="GridSearch", server=port, show="nothing"
    )
    _, second = results
    assert second.result == {"acc": 4.0, "loss": 3} and second.value == 4.0 and second.latest == 4.0
    assert second.curve() == [(0, 1.0), (1, 2.0), (2, 3.0), (3, 4.0)]
    assert results.curves("loss") == {n: [(0, 0.0), (1, 1.0), (2, 2.0), (3, 3.0)] for n in (0, 1)}
    unknown = in_lines(r"the metric 'los'; did you mean 'loss'\? \(valid: acc, loss\)")
    for read in (second.curve, results.curves):
        with pytest.raises(nnimgr.ArgumentError, match=unknown):
            read("los")
    assert [each.step for each in second.checkpoints] == [1, 2, 3, 4] and second.legs == []
    frame = results.get_dataframe()
    assert list(frame.columns[:4]) == ["x", "value", "acc", "loss"] and list(frame.index) == [0, 1]
    assert list(frame["acc"]) == [0.0, 4.0] and list(frame["status"]) == ["SUCCEEDED"] * 2


def test_two_objectives_have_a_pareto_set(port: int) -> None:
    results = tune(
        "mine.py:curve", SPACE, maximize="acc", minimize="loss", trials=4, tuner="GridSearch", at_once=2,
        server=port, show="nothing",
    )  # fmt: skip
    assert [trial.parameters["x"] for trial in results.pareto] == [3]


def test_a_class_and_a_command_are_trials(port: int) -> None:
    options: dict[str, Any] = {"tuner": "GridSearch", "server": port, "show": "nothing"}
    assert tune("mine:Net", SPACE, maximize="acc", trials=2, **options).best_value == 4.0
    command = f"{sys.executable} -c 'import nni; nni.report_final_result(nni.get_next_parameter()[\"x\"])'"
    assert tune(command, SPACE, maximize=True, trials=2, **options).best_value == 1.0


def test_trials_without_a_result_are_not_among_the_best(port: int) -> None:
    for goal in ("maximize", "minimize"):
        options: dict[str, Any] = {"tuner": "GridSearch", "server": port, "show": "nothing", goal: True}
        results = tune("mine.py:sometimes", SPACE, trials=4, **options)
        assert [trial.number for trial in results.top()] == ([3, 2] if goal == "maximize" else [2, 3])


WITHOUT_RESULT = (
    r"2 FAILED\. Trial [01] \(\w+\) FAILED: .*ValueError: no good.*\. The experiment is DONE: 2 of 2 trials\."
)


def test_failed_trials_say_why_there_is_no_best(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    results = tune("mine.py:fails", SPACE, maximize=True, trials=2, tuner="GridSearch", server=port)
    with pytest.raises(nnimgr.NoResult, match=in_lines(WITHOUT_RESULT)):
        results.best_params  # noqa: B018 - reading the property raises the error
    first, _ = sorted(results.errors, key=lambda trial: trial.number)
    assert "ValueError: no good: 0" in first.reason
    traceback = first.logs("stderr")
    assert traceback.startswith("Traceback") and "in fails" in traceback and "_running.py" not in traceback
    assert "FAILED" in capsys.readouterr().out


def test_a_refused_resume_leaves_no_server(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    run = Experiment("mine.py:square", SPACE, trials=1, minimize=True, name="old").start(server=port)
    run.wait(show="nothing")
    run.stop()
    until(lambda: not Home.find().servers())
    database = database_path(Index(Home.find()).entries()["old"].directory)
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA user_version = 999")  # of a newer version, so the server refuses it
    with pytest.raises(nnimgr.Error, match="schema"):
        run.resume()
    until(lambda: not Home.find().servers())
    assert nnictl(["resume", "old"]) == 1
    assert "schema" in capsys.readouterr().err
    until(lambda: not Home.find().servers())


def test_the_same_name_attaches_and_continues(
    port: int, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def again(trials: int | None, **more: Any) -> Run:
        given: dict[str, Any] = {"maximize": True, "tuner": "GridSearch", "name": "my search", **more}
        return Experiment("mine.py:square", SPACE, trials=trials, **given).start(server=port)

    run = again(1)
    assert run.id.startswith("my-search-") and run.name == "my search"
    assert len(run.wait(show="nothing")) == 1
    assert again(1).id == run.id and len(run.trials) == 1
    assert len(again(2).wait(show="nothing")) == 2
    run.stop()
    until(lambda: not Home.find().servers())
    assert again(2).wait(show="nothing").status == "DONE"
    assert len(again(3).wait(show="nothing")) == 3
    assert len(again(None).wait(show="nothing")) == 3  # a limit that is not given stays
    capsys.readouterr()
    assert len(again(3).wait(show="nothing")) == 3
    assert capsys.readouterr().out == ""
    again(2).wait(show="table")
    assert capsys.readouterr().out.startswith(
        "my search has ended already, with 3 trials: nothing was run. For more: trials=6\n"
    )
    told = r"the limit of trials, 2, is reached; to raise it to 4 for this trial: raise_limit=True$"
    with pytest.raises(nnimgr.Error, match=in_lines(told)):
        run.add({"x": 0})
    again(3)
    assert len(Index(Home.find()).entries()) == 1
    with pytest.raises(
        nnimgr.ArgumentError, match=in_lines(r"with another goal\. Give this one another name")
    ):
        again(3, maximize=None, minimize=True)
    told = in_lines("runs mine.py:square, and this call gives mine.py:waits. Give this one another name")
    with pytest.raises(nnimgr.ArgumentError, match=told):
        Experiment(
            "mine.py:waits", SPACE, trials=3, maximize=True, tuner="GridSearch", name="my search"
        ).start()
    with pytest.raises(nnimgr.ArgumentError, match=in_lines(r"unknown value False \(valid: auto, live,")):
        nnimgr.tune("mine.py:square", SPACE, maximize=True, name="never", show=False)  # type: ignore[arg-type]
    assert len(Index(Home.find()).entries()) == 1
    moved = folder.parent / "moved"
    shutil.copytree(folder, moved)
    monkeypatch.chdir(moved)
    with pytest.raises(nnimgr.ArgumentError, match=in_lines(r"exists with another\s+folder of its code")):
        again(3)
    attached = Run.attach("my search")
    assert attached.status == "DONE" and attached.now.startswith("Finished: 3 of 3 trials")
    with pytest.raises(nnimgr.Error, match=in_lines("There is no experiment 'other'")):
        Run.attach("other")


def test_the_next_wait_shows_only_what_is_new(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    run = Experiment(
        "mine.py:waits", {"x": space.choice([0, 1])}, maximize=True, trials=2, tuner="GridSearch"
    ).start(server=port)
    shown = ""
    while "\n0  " not in shown:
        with pytest.raises(TimeoutError):
            run.wait(0.5, show="table")
        shown += capsys.readouterr().out
    run.trials[1].stop()
    run.wait(show="table")
    shown += capsys.readouterr().out
    rows = [line.split()[:2] for line in shown.splitlines() if line[:1].isdigit()]
    assert rows == [["0", "SUCCEEDED"], ["1", "USER_CANCELED"]]
    run.wait(show="table")
    assert "\n0  " not in capsys.readouterr().out


def test_a_start_loads_no_configuration(port: int) -> None:
    # Its classes take longer to load than the rest of a start with a running server.
    program = (
        "import sys, mine\nfrom nnimgr import Experiment, space\n"
        "if __name__ == '__main__':\n"
        "    run = Experiment(mine.square, {'x': space.uniform(0, 1)}, maximize=True, trials=1)\n"
        f"    run = run.start(server={port})\n"
        "    print({'pydantic', 'nnimgr.config', 'yaml'} & set(sys.modules))\n"
        "    run.wait(show='nothing')\n"
    )
    Path("program.py").write_text(program)
    done = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_run_is_watched_and_changed(port: int) -> None:
    run = Experiment("mine.py:waits", {"x": space.randint(1, 4)}, maximize=True, tuner="Random").start(
        server=port
    )
    with pytest.raises(TimeoutError, match=in_lines(f"experiment {run.id} has not ended")):
        run.wait(0.01, show="nothing")
    with pytest.warns(UserWarning, match="x is 0, outside randint") as caught:
        added = run.add({"x": 0})
    assert caught[0].filename == __file__
    run.update(at_once=3, trials=5, hours=None)
    assert added.parameters == {"x": 0}
    until(lambda: run.trials[added.number].status == "SUCCEEDED")
    others = until(lambda: [each for each in run.trials.with_status("RUNNING") if each.latest])
    other = others[0]
    other.pause()
    until(lambda: other.refresh().status == "PAUSED")
    saved = other.checkpoints[-1]
    with pytest.warns(UserWarning, match="x is 0, outside randint") as caught:
        fork = other.fork({"x": 0})
    assert caught[0].filename == __file__
    until(lambda: fork.refresh().status == "SUCCEEDED")
    assert fork.curve()[0] == (saved.step, float((saved.step or 0) + 1))
    other.resume()
    until(lambda: other.refresh().status == "RUNNING")
    assert f"begins {other.parameters['x']}" in other.logs(attempt=1)
    for trial in run.trials.with_status("RUNNING", "WAITING"):
        trial.stop()
    with pytest.raises(nnimgr.ArgumentError, match=in_lines("at_once: must be greater than 0")):
        run.update(at_once=0)
    with pytest.raises(IndexError, match=in_lines("there is no trial 99")):
        run.trials[99]
    run.stop()
    assert run.has_ended
    run.resume()
    assert run.url.startswith(f"http://127.0.0.1:{port}/")


def test_events_come_once_whatever_is_killed(port: int) -> None:
    run = Experiment("mine.py:square", SPACE, maximize=True, trials=3, tuner="GridSearch").start(server=port)
    seen: list[tuple[int, str]] = []
    while len(seen) < 10:
        for event in run.events(after=seen[-1][0] if seen else 0):
            assert event.number is not None
            seen.append((event.number, event.kind))
            if len(seen) == 5:
                (server,) = Home.find().servers()
                assert server.pid is not None
                os.kill(server.pid, signal.SIGKILL)
                break
    run.wait(show="nothing")
    seen += [(event.number or 0, event.kind) for event in run.events(after=seen[-1][0])]
    assert seen == [(event.number, event.kind) for event in run.events()]
    assert [number for number, _ in seen] == sorted({number for number, _ in seen})
    assert [kind for _, kind in seen].count("TrialEnded") == 3


def test_a_further_call_names_what_it_cannot_change(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESULTS", "rows")
    goal: Any = {"minimize": True, "name": "late", "trials": 1}
    sinks: list[Any] = ["csv", {"name": "jsonl", "classArgs": {"directory": "${env:RESULTS}"}}]
    tune("mine.py:square", SPACE, sinks=sinks, server=port, show="nothing", **goal)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tune("mine.py:square", SPACE, sinks=sinks, show="nothing", **goal)
    other: Any = {"sinks": ["csv"], "assessor": "Medianstop", **goal}
    for call in (
        lambda: tune("mine.py:square", SPACE, show="nothing", **other),
        lambda: Experiment("mine.py:square", SPACE, **other).start(),
    ):
        with pytest.warns(UserWarning) as caught:
            call()
        (warning,) = caught
        assert str(warning.message) == (
            "experiment 'late' exists already, with other values than this call gives for: assessor, sinks. "
            "It keeps its own. Give this one another name, or change what can be changed: "
            "Run.attach('late').update(...)"
        )
        assert (warning.filename, warning.lineno) == (__file__, call.__code__.co_firstlineno)


def test_a_wrong_argument_starts_no_server(port: int) -> None:
    with pytest.raises(nnimgr.ArgumentError) as caught:
        tune(
            "mine.py:square",
            {"x": space.uniform(2, 1)},
            maximize=True,
            at_once=0,
            tuner="Rondom",
            server=port,
        )
    lines = str(caught.value).splitlines()
    assert "at_once: must be greater than 0, not 0" in lines
    assert not Home.find().servers() and not Index(Home.find()).entries()
    with pytest.raises(nnimgr.ArgumentError, match=in_lines(r'space\["x"\]: the lower bound 2 must be')):
        tune("mine.py:square", {"x": space.uniform(2, 1)}, maximize=True, server=port)
    assert not Home.find().servers()


def test_ctrl_c_says_how_to_come_back(folder: Path, port: int) -> None:
    (folder / "script.py").write_text(
        "import os, signal, threading\nfrom nnimgr import Experiment, space\nfrom mine import waits\n"
        "if __name__ == '__main__':\n"
        "    experiment = Experiment(waits, {'x': space.randint(1, 3)}, maximize=True, name='long')\n"
        f"    run = experiment.start(server={port})\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run in the background\n"
        "    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "    run.wait()\n"
    )
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == -signal.SIGINT and "Traceback" not in done.stderr
    assert "Experiment long continues. To come back: nnimgr.Run.attach('long').wait()" in done.stdout
    run = Run.attach("long")
    assert run.status == "RUNNING"
    run.stop()


def test_a_definition_from_a_file_is_the_same_experiment(folder: Path, port: int) -> None:
    experiment = Experiment("mine.py:square", SPACE, minimize=True, trials=2, tuner="GridSearch")
    (folder / "exp.yml").write_text(experiment.yaml())
    loaded = Experiment.from_yaml("exp.yml")
    assert loaded.start(server=port).wait(show="nothing").best_value == 1.0
    (folder / "exp.yml").write_text("trialComand: true\n")
    with pytest.raises(nnimgr.ArgumentError, match=in_lines(r"exp\.yml:1:1: trialComand: unknown field")):
        Experiment.from_yaml("exp.yml")


def test_trials_are_forked_from_preloaded_modules(port: int) -> None:
    results = tune(
        "mine.py:loaded", SPACE, minimize=True, trials=2, preload=["colorsys"], server=port, show="nothing"
    )
    assert [trial.value for trial in results] == [1.0, 1.0]
    assert all(trial.logs() == "nothing else\n" for trial in results)


def test_one_process_runs_one_trial_after_another(port: int) -> None:
    results = tune(
        "mine.py:Stays", SPACE, maximize="acc", trials=4, tuner="GridSearch", preload=["colorsys"],
        resident=True, server=port, show="nothing",
    )  # fmt: skip
    assert [trial.value for trial in results] == [1.0, 2.0, 3.0, 4.0]
    assert len({trial.result["pid"] for trial in results if isinstance(trial.result, dict)}) == 1
    assert [trial.logs() for trial in results] == [
        f"trial {number} of this process\n" for number in range(1, 5)
    ]

"""Tests of the interpreter that a command begins with, and whether it can import ``nni``."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.trial_keeper.harness import wait_for
from trial_keeper.machine import interpreter, procs
from trial_keeper.machine.interpreter import SDK, Interpreters, lay_down


def program(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("name", ["python-train", "pythonx", "python3-config", "python3.11m"])
def test_a_program_that_is_only_called_alike_is_not_asked(tmp_path: Path, name: str) -> None:
    path = program(tmp_path, name, f'echo "$@" > {tmp_path}/ran')
    asked = Interpreters(str(tmp_path), lambda: None)
    wait_for(lambda: asked.ready(f"{path} --lr 1"), "the answer of python3")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["python", "python3", "python3.11"])
def test_an_interpreter_is_asked(tmp_path: Path, name: str) -> None:
    path = program(tmp_path, name, f'echo "$@" >> {tmp_path}/ran; exit 1')  # again to compile
    asked = Interpreters(str(tmp_path), lambda: None)
    wait_for(lambda: asked.ready(f"{path} train.py"), "the answer")
    assert (tmp_path / "ran").read_text().startswith("-c ")
    assert asked.path_for(f"{path} train.py") == str(tmp_path / "sdk")


@pytest.mark.parametrize("before", ["OMP_NUM_THREADS=4 A=b", "env A=b", "exec", "A=b exec env C=d"])
def test_what_comes_before_an_interpreter_is_skipped(tmp_path: Path, before: str) -> None:
    path = program(tmp_path, "python3.11", "exit 1")
    asked = Interpreters(str(tmp_path), lambda: None)
    assert asked.interpreter(f"{before} {path} train.py") == str(path)
    assert asked.interpreter(before) == asked.interpreter("python3")


@pytest.mark.parametrize("first", ["#!{}", "#!/usr/bin/env {}", "#!{} -s"])
def test_the_interpreter_of_a_script_is_asked(tmp_path: Path, first: str) -> None:
    python = program(tmp_path, "python3.11", f'echo "$@" >> {tmp_path}/ran; exit 1')
    script = tmp_path / "torchrun"
    script.write_text(f"{first.format(python)}\nprint()\n")
    script.chmod(0o755)
    asked = Interpreters(str(tmp_path), lambda: None)
    wait_for(lambda: asked.ready(f"{script} train.py"), "the answer")
    assert (tmp_path / "ran").read_text().startswith("-c ")
    assert asked.path_for(f"{script} train.py") == str(tmp_path / "sdk")


def test_one_that_never_answers_is_said_then_killed_and_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreter, "SLOW_S", 0.02)
    monkeypatch.setattr(interpreter, "LIMIT_S", 1.5)
    path = program(tmp_path, "python3", f"sleep 100 & echo $$ $! > {tmp_path}/pids; wait; exit 1")
    command = f"{path} train.py"
    changed = threading.Event()
    asked = Interpreters(str(tmp_path), changed.set)
    assert not asked.ready(command)
    sentence = wait_for(lambda: asked.trouble(command), "the sentence")
    assert str(path) in sentence
    wait_for(lambda: asked.ready(command), "the answer")
    assert asked.path_for(command) is None
    for pid in (tmp_path / "pids").read_text().split():
        wait_for(lambda pid=pid: procs.start_time(int(pid)) is None, "the end of it")  # type: ignore[misc]
    assert changed.is_set()


def test_one_that_answers_is_no_trouble(tmp_path: Path) -> None:
    asked = Interpreters(str(tmp_path), lambda: None)
    wait_for(lambda: asked.ready(f"{sys.executable} train.py"), "the answer")
    assert asked.path_for(f"{sys.executable} train.py") is None


def test_the_files_are_laid_down_by_several_at_once(tmp_path: Path) -> None:
    """Two interpreters without ``nni`` are probed at the same time."""
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(lay_down, str(tmp_path / "sdk")) for _ in range(200)]:
            done.result()
    assert sorted(path.name for path in (tmp_path / "sdk" / "nni").iterdir()) == sorted(SDK)


def test_files_that_cannot_be_laid_down_are_said(tmp_path: Path) -> None:
    path = program(tmp_path, "python3", "exit 1")
    (tmp_path / "keeper").write_text("not a directory")
    changed = threading.Event()
    asked = Interpreters(str(tmp_path / "keeper"), changed.set)
    assert not asked.ready(f"{path} train.py")
    sentence = wait_for(lambda: asked.trouble(f"{path} train.py"), "the sentence")
    assert sentence == (
        f"the start had to wait because {tmp_path}/keeper/sdk, which nni is imported from, "
        "cannot be written: Not a directory"
    )
    assert changed.is_set()
    (tmp_path / "keeper").unlink()
    (tmp_path / "keeper").mkdir()
    wait_for(lambda: asked.ready(f"{path} train.py"), "the answer")


def test_only_the_interpreter_of_the_first_command_is_asked_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin", "python", f"echo usual >> {tmp_path}/ran; exit 1")
    path = program(tmp_path, "python3", f"echo trial >> {tmp_path}/ran")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/bin")
    monkeypatch.setenv(interpreter.FIRST_COMMAND, f"{path} train.py")
    asked = Interpreters(str(tmp_path), lambda: None)
    wait_for(lambda: asked.ready(f"{path} train.py"), "the answer")
    assert (tmp_path / "ran").read_text() == "trial\n"

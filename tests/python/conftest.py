"""A home, a folder with a user's file, and a port for a real server that ends with its test."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from nnimgr.home import Home
from tests.server.harness import free_port, nothing_left

CODE = """
from typing import Any

from nni.run import Trial


def square(p: dict[str, Any]) -> float:
    return float((p["x"] - 2) ** 2)


def curve(p: dict[str, Any], trial: Trial) -> None:
    state = trial.load(default={"sum": 0.0})
    for step in trial.steps(4):
        state["sum"] += p["x"]
        trial.report(acc=state["sum"], loss=step, save=state)


def waits(p: dict[str, Any], trial: Trial) -> float:
    import time

    print("begins", p["x"], flush=True)
    state = trial.load(default={"n": 0})
    for step in trial.steps():
        time.sleep(0.02)
        state["n"] += 1
        trial.report(state["n"], save=state)
        if p["x"] == 0:
            break
    return 7.0


def loaded(p: dict[str, Any]) -> int:
    import sys

    print("nothing else")
    return int("colorsys" in sys.modules)


def fails(p: dict[str, Any]) -> float:
    raise ValueError(f"no good: {p['x']}")


def sometimes(p: dict[str, Any]) -> float:
    if p["x"] < 2:
        raise ValueError("too small")
    return float(p["x"])


class Net:
    steps = 3

    def setup(self, parameters: dict[str, Any]) -> None:
        self.total = float(parameters["x"])

    def step(self) -> dict[str, float]:
        self.total += 1
        return {"acc": self.total}


class Stays:
    steps = 2

    def setup(self, parameters: dict[str, Any]) -> None:
        self.trials = 0
        self.reset(parameters)

    def reset(self, parameters: dict[str, Any]) -> None:
        self.trials += 1
        print("trial", self.trials, "of this process")

    def step(self) -> dict[str, int]:
        import os

        return {"acc": self.trials, "pid": os.getpid()}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder with the file ``mine.py``. It is the working directory."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "mine.py").write_text(CODE)
    monkeypatch.setenv("NNIMGR_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.chdir(code)
    return code


@pytest.fixture
def port(folder: Path) -> Iterator[int]:
    with nothing_left(folder.parent):
        yield free_port()
        for server in Home.find().servers():
            if server.pid is not None:
                os.kill(server.pid, signal.SIGTERM)

"""Tests with real processes: a keeper writes down what its machine and its trials use."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import pytest

from tests.trial_keeper.harness import Host, text, wait_for
from trial_keeper.actions import usage_log
from trial_keeper.actions.files import Paths


@pytest.fixture
def quick(here: Host) -> Host:
    """Return a host whose keeper measures ten times in a second."""
    here.kill()
    here.environ["NNIMGR_USAGE_PAUSE_S"] = "0.1"
    here.start()
    return here


def lines(path: Path) -> list[list[str]]:
    return [line.split(" ") for line in text(path).splitlines()] if path.exists() else []


def test_a_running_trial_and_its_machine_are_measured(quick: Host) -> None:
    directory = quick.attempt("e-a-1", "until [ -e stop ]; do sleep 0.01; done")
    for path in (directory / ".nni" / "usage", quick.keeper / "usage"):
        wait_for(functools.partial(measured, path, 2), str(path))
        assert all(float(at) > 1e9 and float(cpus) >= 0 and int(mib) >= 0 for at, cpus, mib in lines(path))
    (quick.directory / "stop").touch()
    quick.server.ended("e-a-1")
    ended = len(lines(quick.keeper / "usage"))
    quick.attempt("e-b-1", "sleep 1000")
    wait_for(lambda: measured(quick.keeper / "usage", ended), "a measurement while the next trial runs")


def measured(path: Path, more_than: int) -> bool:
    return len(lines(path)) > more_than


@pytest.mark.parametrize("obstacle", ["folder", "link"])
def test_a_trial_that_takes_the_files_place_is_no_problem(quick: Host, obstacle: str, tmp_path: Path) -> None:
    aim = tmp_path / "aim"
    aim.write_text("mine")
    make = "mkdir .nni/usage" if obstacle == "folder" else f"ln -s {aim} .nni/usage"
    quick.attempt("e-a-1", f"cd $NNI_SYS_DIR; rm -rf .nni/usage; {make}; sleep 1000")
    before = len(lines(quick.keeper / "usage"))
    wait_for(lambda: measured(quick.keeper / "usage", before + 3), "more measurements of the machine")
    assert text(aim) == "mine"


def test_a_long_file_loses_every_second_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_log, "MOST_BYTES", 200)
    path = tmp_path / "usage"
    for number in range(100):
        usage_log.append(str(path), float(number), 1, ["0:50:300"])
        assert path.stat().st_size <= 200
    cpus = [float(line[1]) for line in lines(path)]
    assert cpus == sorted(cpus) and cpus[0] == 0.0 and cpus[-1] == 99.0
    assert os.stat(path).st_mode & 0o777 == 0o600


class Running:
    """An attempt that runs, as the log of usage sees it."""

    live = True
    shim = None

    def __init__(self, started_up: float | None) -> None:
        self.started_up = started_up


def test_the_pause_grows_with_the_age_of_the_newest_trial(tmp_path: Path) -> None:
    attempts: dict[str, Any] = {}
    log = usage_log.UsageLog(str(tmp_path), attempts, Paths(str(tmp_path), attempts), list)
    assert log.due_at() is None
    attempts["old"] = Running(started_up=100.0)
    at, due = 100.0, []
    for _ in range(6):
        log.measure(at)
        at = log.due_at() or 0.0
        due.append(at)
    assert due == [110.0, 120.0, 140.0, 180.0, 240.0, 300.0]
    log.measure(300.0)
    assert log.due_at() == 360.0
    attempts["new"] = Running(started_up=None)
    assert log.due_at() == 310.0
    attempts["new"].started_up = 305.0
    assert log.due_at() == 310.0

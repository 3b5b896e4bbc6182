"""Tests of a keeper in a job whose engine may lose processes: nothing outlives the job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.trial_keeper.harness import DEADLINE_S, oldest_python, wait_for
from tests.trial_keeper.test_wrap import Container
from trial_keeper import zipapp
from trial_keeper.machine import procs

# A trial that ignores SIGTERM, with a child in a session of its own.
STUBBORN = "trap '' TERM; setsid sh -c 'trap \"\" TERM; touch up; while :; do sleep 0.05; done' & wait; wait"
SUPERVISOR = "import subprocess, sys; sys.exit(subprocess.Popen(sys.argv[1:], start_new_session=True).wait())"


class Job(Container):
    """Job of an engine: a supervisor, which starts the guard in a session of its own."""

    def begin(self, **environ: str) -> None:
        guard = [self.python, self.package, "guard", str(self.directory / "mount"), str(self.directory)]
        with open(self.directory / "output", "wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-S", "-c", SUPERVISOR, *guard],
                env={**self.environ, **environ},
                stdout=output,
            )

    @property
    def outer(self) -> int:
        [pid] = [pid for pid in self._below() if procs.ancestors(pid)[:1] == [self.process.pid]]
        return pid

    @property
    def inner(self) -> int:
        [pid] = [pid for pid in self._below() if procs.ancestors(pid)[:1] == [self.outer]]
        return pid

    def _below(self) -> list[int]:
        return procs.descendants(self.process.pid)


@pytest.fixture(params=[sys.executable, oldest_python()], ids=["this Python", "the oldest Python"])
def here(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Job]:
    if request.param is None:
        pytest.skip("no Python 3.8 here")
    found = Job(tmp_path / "work", python=request.param, package=zipapp.build(str(tmp_path)))
    try:
        yield found
    finally:
        found.close()


def supervisor_and_group(job: Job) -> None:
    outer = job.outer
    job.process.kill()
    os.killpg(outer, signal.SIGKILL)  # as Ray does it


@pytest.mark.parametrize(
    "kill",
    [
        pytest.param(lambda job: job.process.kill(), id="the supervisor"),
        pytest.param(lambda job: os.kill(job.outer, signal.SIGKILL), id="the outer guard"),
        pytest.param(lambda job: os.kill(job.inner, signal.SIGKILL), id="the inner guard"),
        pytest.param(supervisor_and_group, id="the supervisor and the process group"),
    ],
)
def test_nothing_is_left_when_one_is_killed(here: Job, kill: Callable[[Job], None]) -> None:
    here.begin()
    here.started("e-a-1", STUBBORN)
    starts = {pid: procs.start_time(pid) for pid in procs.descendants(here.process.pid)}
    running = [pid for pid, start in starts.items() if start is not None]
    assert len(running) > 5
    kill(here)
    here.process.wait(DEADLINE_S)
    wait_for(lambda: all(procs.start_time(pid) != starts[pid] for pid in running), "the end of all")


def test_told_to_end_it_ends_what_ignores_that_in_time(here: Job) -> None:
    here.begin(NNIMGR_POD_GRACE_S="60", NNIMGR_POD_WHOLE_GRACE_S="1")
    here.started("e-a-1", STUBBORN)
    os.kill(here.outer, signal.SIGTERM)
    here.process.wait(DEADLINE_S)
    assert here.processes() == []


def test_it_ends_with_its_keeper(here: Job) -> None:
    left = here.directory / "left"
    left.mkdir()
    here.begin(NNIMGR_POD_CLEAN=str(left))
    here.attempt("e-a-1", "exit 3")
    here.server.ended("e-a-1")
    assert here.dismissed() == 3
    assert not left.exists()

"""Tests of a keeper in a container: its parent, its end, and the end of its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trial_keeper.harness import DEADLINE_S, REPORT, Host, oldest_python, wait_for
from trial_keeper import wrap, zipapp
from trial_keeper.attempt import claim
from trial_keeper.machine import procs


class Container(Host):
    """Container: a work folder, a folder of manager.json like the kubelet's, and process 1 (another pid)."""

    process: subprocess.Popen[bytes]

    def point(self) -> None:
        super().point()
        data = self.directory / "mount" / "..data"
        data.mkdir(parents=True)
        (self.keeper / "manager.json").rename(data / "manager.json")
        (data.parent / "manager.json").symlink_to("..data/manager.json")

    def wrap(self, **environ: str) -> None:
        with open(self.directory / "output", "wb") as output:
            self.process = subprocess.Popen(
                [self.python, self.package, "wrap", str(self.directory / "mount"), str(self.directory)],
                env={**self.environ, **environ},
                stdout=output,
            )

    def started(self, job: str, command: str) -> Path:
        """Start an attempt that creates the file ``up``, and wait for that file."""
        directory = self.attempt(job, command)
        wait_for((self.directory / "up").exists, f"{job}, which says {self.output()!r}")
        return directory

    def kill_keeper(self) -> None:
        """Kill the only child of process 1."""
        below = procs.descendants(self.process.pid)
        [keeper] = [pid for pid in below if procs.ancestors(pid)[:1] == [self.process.pid]]
        os.kill(keeper, signal.SIGKILL)

    def output(self) -> str:
        return (self.directory / "output").read_text()

    def left(self) -> int:
        """Wait for the end of the container and return its exit status."""
        return self.process.wait(DEADLINE_S)

    def dismissed(self) -> int:
        """Make the server dismiss the keeper. Return the container's exit status."""
        with self.server.condition:
            self.server.leave = True
            self.server.condition.notify_all()
        return self.left()


@pytest.fixture(params=[sys.executable, oldest_python()], ids=["this Python", "the oldest Python"])
def here(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Container]:
    if request.param is None:
        pytest.skip("no Python 3.8 here")
    found = Container(tmp_path / "work", python=request.param, package=zipapp.build(str(tmp_path)))
    try:
        yield found
    finally:
        found.close()


@pytest.mark.parametrize(("command", "status"), [("exit 3", 3), ("kill -SEGV $$", 128 + signal.SIGSEGV)])
def test_it_ends_when_the_server_says_so_with_the_status_of_its_attempt(
    here: Container, command: str, status: int
) -> None:
    (here.directory / ".nnimgr" / "code").mkdir(parents=True)  # code that was fetched: no attempt
    reason = here.directory / "reason"
    here.wrap(NNIMGR_POD_REASON=str(reason))
    here.attempt("e-a-1", command)
    here.server.ended("e-a-1")
    wait_for(lambda: here.server.acked_cmd == 1, "the acknowledgement")
    assert here.process.poll() is None
    assert here.dismissed() == status
    assert "starts, epoch 1" in here.output()
    assert f"leaves: {reason.read_text()}" in here.output()
    assert reason.read_text() == "no attempt is left and none will come"
    assert not (here.keeper / "keeper.log").exists()


def test_with_several_attempts_it_has_no_status_of_theirs(here: Container) -> None:
    here.wrap()
    here.attempt("e-a-1", "exit 3")
    here.attempt("e-b-1", "exit 4")
    here.server.ended("e-a-1")
    here.server.ended("e-b-1")
    assert here.dismissed() == 0


def test_told_to_end_it_stops_what_runs_and_tells_everything(here: Container) -> None:
    here.wrap(NNIMGR_POD_GRACE_S="60")
    here.started(
        "e-a-1", REPORT + "trap 'report last; exit 0' TERM; report 1; touch up; while :; do sleep 0.02; done"
    )
    here.process.terminate()
    wait_for(lambda: "is being stopped" in here.output(), "the word")
    here.process.terminate()
    assert here.left() == 128 + signal.SIGTERM
    told = here.server.told("e-a-1")
    assert told.frames == [b"1\n", b"last\n"]
    assert told.final is not None
    assert (told.final["reason"], told.final["message"]) == ("host_lost", "its host was stopped")


def test_what_ignores_that_is_killed_after_the_grace(here: Container) -> None:
    here.wrap(NNIMGR_POD_GRACE_S="0.2")
    here.started("e-a-1", "trap '' TERM; touch up; while :; do sleep 0.05; done")
    here.process.terminate()
    assert here.left() == 128 + signal.SIGKILL
    final = here.server.told("e-a-1").final
    assert final is not None and final["reason"] == "host_lost"


def test_what_was_to_be_stopped_before_is_stopped(here: Container) -> None:
    here.wrap()
    here.started("e-a-1", "trap 'touch asked' TERM; touch up; until [ -e go ]; do sleep 0.01; done; exit 0")
    here.server.command("stop", "e-a-1", {"grace": 60.0})
    wait_for((here.directory / "asked").exists, "the stop")
    here.process.terminate()
    wait_for(lambda: "is being stopped" in here.output(), "the word")
    (here.directory / "go").touch()
    here.left()
    final = here.server.told("e-a-1").final
    assert final is not None and (final["reason"], final["code"]) == ("stopped", 0)


def test_told_to_end_before_anything_ran_it_has_not_succeeded(here: Container) -> None:
    here.wrap()
    wait_for(lambda: here.server.calls, "the keeper")
    here.process.terminate()
    assert here.left() == 128 + signal.SIGTERM


def test_a_keeper_that_was_killed_is_started_again(here: Container) -> None:
    here.wrap()
    here.started("e-a-1", REPORT + "report 1; touch up; until [ -e go ]; do sleep 0.01; done; report 2")
    wait_for(lambda: here.server.told("e-a-1").frames, "a metric")
    here.kill_keeper()
    wait_for(lambda: here.server.calls[-1]["k_epoch"] == 2, "the next keeper")
    (here.directory / "go").touch()
    assert here.server.ended("e-a-1").frames == [b"1\n", b"2\n"]
    assert here.dismissed() == 0
    assert "the keeper has ended (killed by signal 9): it is started again" in here.output()


def test_a_keeper_started_again_after_the_end_was_told_goes_on_with_it(here: Container) -> None:
    here.wrap(NNIMGR_POD_GRACE_S="60")
    here.started("e-a-1", "trap '' TERM; touch up; until [ -e go ]; do sleep 0.01; done")
    here.server.cut = True
    here.process.terminate()
    wait_for((here.keeper / "ending").exists, "the word")
    here.kill_keeper()
    (here.directory / "go").touch()
    here.server.cut = False
    here.left()
    assert here.server.told("e-a-1").final is not None


def test_trials_have_a_home_and_a_temporary_folder_that_can_be_written(here: Container) -> None:
    here.environ.pop("NNIMGR_HOME", None)
    here.wrap(HOME="/nonexistent/home", TMPDIR="/nonexistent/tmp")
    here.attempt("e-a-1", "echo $HOME $TMPDIR $NNIMGR_HOME > seen")
    here.server.ended("e-a-1")
    work = here.directory
    assert (work / "seen").read_text() == f"{work}/home {work}/tmp {work}\n"
    assert (work / "home").is_dir() and (work / "tmp").is_dir()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "work").touch()
    told = subprocess.run(
        [sys.executable, zipapp.build(str(tmp_path)), "wrap", str(tmp_path), str(tmp_path / "work")],
        capture_output=True,
        text=True,
    )
    where = f"{tmp_path}/work/keeper, where a keeper works, cannot be written: Not a directory\n"
    assert (told.returncode, told.stdout) == (wrap.UNUSABLE, where)


EXIT_0 = claim.Exit(0, None, 0, signalled=False, at=2.0).line()
STOPPED = claim.Exit(0, None, 0, signalled=True, at=2.0).line()


@pytest.mark.parametrize(
    ("lines", "ended", "status"),
    [
        ([b"aborted b\n"], False, 0),
        ([b"aborted b\n"], True, 128 + signal.SIGTERM),
        ([b"shim 5 77 b\n", b"failed 1.0 no such folder\n"], False, wrap.NOT_STARTED),
        ([b"shim 5 77 b\n", b"started 6 1.0\n"], False, 128 + signal.SIGKILL),
        ([b"shim 5 77 b\n", b"started 6 1.0\n", EXIT_0], True, 0),
        ([b"shim 5 77 b\n", b"started 6 1.0\n", STOPPED], True, 128 + signal.SIGTERM),
        ([b"shim 5 77 b\n", b"started 6 1.0\n", STOPPED], False, 0),
    ],
)
def test_the_status_is_what_the_claim_says(
    tmp_path: Path, lines: list[bytes], ended: bool, status: int
) -> None:
    path = Path(claim.path(claim.prefix(str(tmp_path / wrap.KEEPER), "e-a-1")))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(lines))
    assert wrap.exit_status(str(tmp_path), ended=ended) == status

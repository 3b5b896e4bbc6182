"""Attempts of several processes that are forked from one with preloaded modules, with real processes."""

from __future__ import annotations

import os
import signal

import pytest

from tests.trial_keeper.harness import Host, ending, text, wait_for
from tests.trial_keeper.test_crew import message
from tests.trial_keeper.test_warm import order, results
from trial_keeper.machine import procs

RANKS = """
    import os, sys

    LOADED = "heavy" in sys.modules

    def train(parameters):
        print(LOADED, os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["OMP_NUM_THREADS"])
        print("oops", os.environ["RANK"], file=sys.stderr)
        return 0.5
"""


def test_each_worker_has_the_modules_its_rank_and_its_output(here: Host) -> None:
    for job in ("e-a-1", "e-a-2"):
        directory = order(here, job, RANKS, gang={"processes": "3"})
        told = here.server.ended(job)
        assert ending(told) == ("exited", 0, None), text(directory / "stderr")
        assert results(told) == [0.5]  # of rank 0 alone
        folders = [directory, directory / "ranks" / "1", directory / "ranks" / "2"]
        assert [text(folder / "stdout") for folder in folders] == [f"True {rank} 3 1\n" for rank in range(3)]
        said = [text(folder / "stderr").splitlines()[0] for folder in folders]
        assert said == [f"oops {rank}" for rank in range(3)]
    assert here.log().count("imported") == 1


def test_the_first_worker_that_fails_is_the_reason_and_ends_the_others(here: Host) -> None:
    code = """
        import os, time

        def train(parameters):
            if os.environ["RANK"] == "1":
                raise ValueError("bad")
            time.sleep(600)
    """
    order(here, "e-a-1", code, gang={"processes": "2"})
    assert ending(here.server.ended("e-a-1")) == ("exited", 1, None)
    assert message(here) == "rank 1 failed first: ValueError: bad; the other one was stopped"


@pytest.mark.parametrize("victim", ["shim", "crew"])
def test_nothing_survives_a_killed_shim_or_crew(here: Host, victim: str) -> None:
    code = """
        import os, time

        def train(parameters):
            with open(f"pid.{os.environ['RANK']}", "w") as file:
                file.write(str(os.getpid()))
            time.sleep(600)
    """
    order(here, "e-a-1", code, gang={"processes": "3"})
    wait_for(lambda: len([p for p in here.directory.glob("pid.*") if text(p)]) == 3, "the workers")
    pids = [int(text(path)) for path in here.directory.glob("pid.*")]
    (crew,) = {procs.ancestors(pid)[0] for pid in pids}
    shim = procs.ancestors(crew)[0]
    os.kill(shim if victim == "shim" else crew, signal.SIGKILL)
    told = here.server.ended("e-a-1")
    assert ending(told) == ("exited", None, None if victim == "shim" else signal.SIGKILL)
    wait_for(lambda: all(procs.start_time(pid) is None for pid in pids), "the end of all workers")

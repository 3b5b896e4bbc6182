"""Population based training under kill -9: each curve is one uninterrupted run of the trial's legs."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.disks import disk
from tests.e2e.population import COMMAND, Population, cut_newest_checkpoint, facts
from tests.e2e.test_checkpoints import Saving
from tests.processes import of_home


class Local(Saving):
    """Population on this machine."""

    population = Population(steps=48)
    legs: int

    def begin(self, *, trials: int = population.members, concurrency: int = population.concurrency) -> None:
        code = self.directory / "code"
        code.mkdir()
        self.population.write(code)
        space = {"x": {"_type": "uniform", "_value": [0, 1]}}
        self.experiment = self.create("code", {"searchSpace": space, **self.population.fields(code)})

    def tend(self) -> None:
        """Leave paused trials to the scheduler."""

    def check(self) -> None:
        self.legs = self.population.check(self.folder)

    def cut_checkpoint(self) -> bool:
        """Cut the newest checkpoint of a trial that runs, and kill the trial."""
        running = [process for process in of_home(self.home) if process.command == COMMAND]
        return bool(running) and cut_newest_checkpoint(self.draw.choice(running), self.folder)


@contextmanager
def population(seed: int, directory: Path) -> Iterator[Local]:
    made = Local(directory, random.Random(seed))
    made.begin()
    try:
        made.wait_for_trials()
        yield made
        made.finish(limit_s=240)
        made.check()
    finally:
        made.end()


@pytest.mark.kill
@pytest.mark.parametrize("seed", [1, 2])
def test_every_curve_is_that_of_its_legs(seed: int) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="nnimgr-population-") as directory,
        population(seed, Path(directory)) as made,
    ):
        for _ in range(12):
            time.sleep(made.draw.uniform(0.05, 0.4))
            match made.draw.choice(["trial", "server", "keeper", "dispatcher", "all"]):
                case "trial":
                    made.kill_trial()
                case kind:
                    made.kill(kind)
                    made.serve()


@pytest.mark.kill
def test_a_full_disk_breaks_no_curve(tmp_path: Path) -> None:
    with disk(tmp_path / "home", size="48m") as home, population(3, tmp_path) as made:
        for kind in ("trial", "keeper", "dispatcher", "trial"):
            home.fill()
            time.sleep(made.draw.uniform(0.1, 0.5))
            if kind == "trial":
                made.kill_trial()
            else:
                made.kill(kind)
            time.sleep(made.draw.uniform(0.1, 0.5))
            home.free()
            time.sleep(made.draw.uniform(0.1, 0.5))


@pytest.mark.kill
def test_a_checkpoint_that_was_cut_is_lost_and_breaks_no_curve(tmp_path: Path) -> None:
    with population(4, tmp_path) as made:
        done = 0
        while done < 4 and not made.ended():
            done += made.cut_checkpoint()
            time.sleep(made.draw.uniform(0.01, 0.1))
        assert done
    assert made.legs  # the server was there for each comparison
    lost = facts(made.folder, "CheckpointLost")
    assert lost and all("is damaged: its files have" in fact["reason"] for fact in lost)
    again = [fact for fact in facts(made.folder, "AttemptDue") if "is damaged" in fact["reason"]]
    assert len(again) == len(lost)
    assert all("the trial will continue from step" in fact["reason"] for fact in again)

"""Population based training on machines over SSH that are mistreated: each curve is that of its legs."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.population import COMMAND, Population, cut_newest_checkpoint, facts
from tests.e2e.remote import Field, field
from tests.e2e.scene import eventually
from tests.machines.bed import bed
from tests.machines.machine import Machine, kill
from tests.processes import Process, dispatchers

pytestmark = [
    pytest.mark.kill,
    pytest.mark.skipif(os.geteuid() != 0, reason="disks and processes of machines need root"),
]


class Fleet(Field):
    """Population on several machines."""

    population = Population(concurrency=4, steps=48)
    draw: random.Random
    legs: int

    def begin_population(self, seed: int) -> None:
        self.draw = random.Random(seed)
        code = self.directory / "code"
        code.mkdir()
        self.population.write(code)
        fields = self.population.fields(code)
        service = {
            "platform": "remote",
            "keepAliveInterval": 1,
            "machineList": [machine.entry() for machine in self.machines],
        }
        self.create(fields.pop("trialCommand"), silentAfter="2s", trainingService=service, **fields)
        eventually(lambda: any(trial["intermediates"] for trial in self.trials()), "a result")

    def strike(self, kind: str) -> None:
        machine = self.draw.choice(self.machines)
        match kind:
            case "trial":
                kill(self.running_trials(machine)[:1])
            case "keeper":
                machine.kill_keepers()
            case "server":
                self.restart()
            case "scheduler":
                kill(dispatchers(self.server.home.path))
            case "machine":
                machine.reboot()

    def running_trials(self, machine: Machine) -> list[Process]:
        found = [process for process in machine.processes() if process.command == COMMAND]
        self.draw.shuffle(found)
        return found

    def check_population(self) -> None:
        self.done(240.0)
        self.legs = self.population.check(self.folder)


@contextlib.contextmanager
def fleet(
    directory: Path, *, seed: int, sizes: tuple[str | None, ...] = (None, None), pause_s: float = 0.03
) -> Iterator[Any]:
    """A population that has begun on machines with disks of these sizes, and that is checked in the end.

    ``pause_s``: duration of one step of a trial.
    """
    with bed() as found:
        machines = [found.machine(size=size) for size in sizes]
        with field(directory, found, machines, kind=Fleet) as made:
            assert isinstance(made, Fleet)
            made.population = replace(made.population, pause_s=pause_s)
            made.begin_population(seed)
            yield found, made
            made.check_population()


@pytest.mark.parametrize("seed", [1, 2])
def test_every_curve_is_that_of_its_legs(tmp_path: Path, seed: int) -> None:
    with fleet(tmp_path, seed=seed) as (_, made):
        for _ in range(8):
            time.sleep(made.draw.uniform(0.05, 0.5))
            made.strike(made.draw.choice(["trial", "keeper", "server", "scheduler", "machine"]))


def test_a_full_disk_of_a_machine_breaks_no_curve(tmp_path: Path) -> None:
    with fleet(tmp_path, seed=3, sizes=("16m", "16m")) as (found, made):
        for kind in ("trial", "keeper", "scheduler"):
            machine = made.draw.choice(made.machines)
            found.disks[machine.name].fill()
            time.sleep(made.draw.uniform(0.1, 0.5))
            made.strike(kind)
            time.sleep(made.draw.uniform(0.1, 0.5))
            found.disks[machine.name].free()


def test_a_checkpoint_that_was_cut_is_lost_and_breaks_no_curve(tmp_path: Path) -> None:
    # Steps are slow, so that a trial is looked at between two decisions, also on a busy machine.
    with fleet(tmp_path, seed=4, pause_s=0.15) as (_, made):
        done = 0
        while done < 4 and made.profile()["status"] != "DONE":
            running = made.running_trials(made.draw.choice(made.machines))
            done += bool(running) and cut_newest_checkpoint(running[0], made.folder)
            time.sleep(made.draw.uniform(0.01, 0.1))
        assert done
    assert made.legs  # the server was there for each comparison
    lost = facts(made.folder, "CheckpointLost")
    said = ("is damaged: its files have", "are missing or damaged: they have")
    assert all(any(part in fact["reason"] for part in said) for fact in lost)

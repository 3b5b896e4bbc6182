"""Trials in pods that save their state, while pods, processes and the server end: no step is lost."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import SDK, ground
from tests.e2e.population import COMMAND, Population, facts
from tests.e2e.scene import eventually
from tests.e2e.test_kubernetes import LIMIT_S, Field
from tests.machines.machine import kill
from tests.processes import Process, dispatchers, holds_lock, processes
from tests.server.harness import nothing_left

# Saves its state only when its pod is being stopped, and has it copied then.
LATE_SAVER = """
import signal

def end(*_):
    nni.save_checkpoint({"step": 7, "ballast": os.urandom(10_000_000)}, step=7)
    os._exit(0)

state = nni.load_checkpoint()
if state is None:
    signal.signal(signal.SIGTERM, end)
    nni.report_intermediate_result(0)  # from now on, the end of the pod lets it save
    wait("never")
nni.report_final_result(state["step"])
"""


class Pods(Field):
    """Population whose trials run in pods."""

    population = Population(members=3, steps=12, pause_s=0.2)
    draw: random.Random

    def begin_population(self, seed: int) -> None:
        self.draw = random.Random(seed)
        code = self.directory / "code"
        shutil.copytree(SDK, code / "nni", ignore=shutil.ignore_patterns("__pycache__"))
        self.population.write(code)
        fields = {**self.population.fields(code), **self.place.config()}
        self.create(fields.pop("trialCommand"), **fields)
        eventually(lambda: any(trial["intermediates"] for trial in self.trials()), "a result", LIMIT_S)

    def strike(self, kind: str) -> None:
        match kind:
            case "trial":
                kill(self._some([process for process in self.inside() if process.command == COMMAND]))
            case "keeper":
                kill(self._some([process for process in self.inside() if holds_lock(process.pid)]))
            case "server":
                self.restart()
            case "scheduler":
                kill(dispatchers(self.server.home.path))
            case "pod":
                running = [pod for pod in self.place.pods() if pod["status"]["phase"] == "Running"]
                for pod in self._some(running):
                    self.place.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")

    def inside(self) -> list[Process]:
        """Return the processes in the experiment's pods."""
        marks = [f"pod{pod['metadata']['uid']}" for pod in self.place.pods()]
        return [each for each in processes() if any(mark in _cgroup(each.pid) for mark in marks)]

    def _some(self, found: list[Any]) -> list[Any]:
        return self.draw.sample(found, 1) if found else []


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    shared = tmp_path / "shared"
    shared.mkdir()
    with ground(shared) as place, nothing_left(tmp_path), contextlib.ExitStack() as stack:
        found = Pods(stack, tmp_path, place)
        try:
            yield found
        finally:
            if found.server.process.poll() is None:
                found.server.call("POST", f"{found.url}/stop")


def test_a_pod_that_is_deleted_stays_until_its_checkpoint_is_copied(pods: Pods) -> None:
    pods.begin(LATE_SAVER, trials=1)
    eventually(lambda: [each for each in pods.trials() if each["intermediates"]], "its handler", LIMIT_S)
    pods.place.kubectl("delete", "pod", "--all", "--wait=false")
    (trial,) = pods.done(LIMIT_S)
    assert (trial["status"], trial["attempt"], trial["finalValue"]) == ("SUCCEEDED", 2, 7.0)
    (again,) = facts(pods.folder, "AttemptDue")
    assert re.fullmatch(
        r"its host was stopped: its pod \S+ was deleted; the trial will continue from step 7", again["reason"]
    )
    assert len(facts(pods.folder, "CheckpointKept")) == 1


@pytest.mark.kill
@pytest.mark.skipif(os.geteuid() != 0, reason="processes of pods need root")
@pytest.mark.parametrize("seed", [1])
def test_every_curve_is_that_of_its_legs(pods: Pods, seed: int) -> None:
    pods.begin_population(seed)
    for kind in pods.draw.sample(["trial", "keeper", "server", "scheduler", "pod", "pod"], 6):
        time.sleep(pods.draw.uniform(0.3, 1.5))
        pods.strike(kind)
    pods.done(2 * LIMIT_S)
    pods.population.check(pods.folder)
    for fact in facts(pods.folder, "AttemptDue"):
        if "its host was stopped" in fact["reason"]:  # what it has reported is saved and copied
            assert not fact.get("rolled_back"), fact


def _cgroup(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cgroup").read_text()
    return ""

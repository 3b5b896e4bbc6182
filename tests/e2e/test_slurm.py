"""Experiments in allocations of a real Slurm cluster, behind a real server."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scene import Scene, eventually
from tests.server.harness import free_port, nothing_left, serving
from tests.slurm.cluster import SlurmCluster

LIMIT_S = 120.0
TRIALS = 4  # two in each of two allocations
TRIAL = """
import os, pathlib, time
import nni
shared = pathlib.Path({shared!r})
number = os.environ["NNI_TRIAL_SEQ_ID"]
nni.get_next_parameter()
with open(shared / f"starts-{{number}}", "a") as starts:
    starts.write(os.environ["NNIMGR_JOB_ID"] + "\\n")

def wait(name):
    while not (shared / name).exists():
        time.sleep(0.02)

nni.report_intermediate_result(0)
wait("killed")
nni.report_intermediate_result(1)
(shared / f"alone-{{number}}").touch()
if number != "0":  # one ends without a server
    wait("go")
nni.report_final_result(2)
"""


class Field(Scene):
    """An experiment on a cluster. Its server can be killed, and another takes its place."""

    def __init__(self, stack: contextlib.ExitStack, directory: Path, cluster: SlurmCluster) -> None:
        self._stack, self._port = stack, free_port()
        self.cluster = cluster
        self.shared = directory / "shared"
        for folder in (self.shared, directory / "code", directory / "nodes"):
            folder.mkdir()
        super().__init__(self._serve(directory), directory)

    def _serve(self, directory: Path) -> Any:
        return self._stack.enter_context(serving(directory, port=self._port, environ=self.cluster.environ))

    def restart(self) -> None:
        self.server = self._serve(self.directory)

    def begin(self) -> None:
        (self.directory / "code" / "trial.py").write_text(TRIAL.format(shared=str(self.shared)))
        self.create(
            f"{sys.executable} trial.py",
            trialCodeDirectory=str(self.directory / "code"),
            trialConcurrency=TRIALS,
            maxTrialNumber=TRIALS,
            trialCpuNumber=1,
            trainingService={
                "platform": "slurm",
                "timeLimit": "10m",
                "cpus": 2,
                "idle": "1s",
                "python": sys.executable,
                "workDirectory": str(self.directory / "nodes"),
            },
        )

    def release(self, name: str) -> None:
        (self.shared / name).touch()

    def starts(self, number: int) -> list[str]:
        """Return the jobs that this trial has run as."""
        file = self.shared / f"starts-{number}"
        return file.read_text().split() if file.exists() else []

    def allocations(self) -> set[str]:
        return {name for name in self.cluster.jobs() if name.startswith("nnimgr-exp-")}


@pytest.fixture
def field(tmp_path: Path) -> Iterator[Field]:
    with SlurmCluster() as cluster, nothing_left(tmp_path), contextlib.ExitStack() as stack:
        found = Field(stack, tmp_path, cluster)
        try:
            yield found
        finally:
            if found.server.process.poll() is None:
                found.server.call("POST", f"{found.url}/stop")


def test_trials_in_pilots_outlive_the_server(field: Field) -> None:
    field.begin()
    heard = "the first metric of each trial"
    eventually(
        lambda: len(trials := field.trials()) == TRIALS and all(field.metrics(t["id"]) for t in trials),
        heard,
        LIMIT_S,
    )
    before = field.allocations()
    assert len(before) == 2
    field.server.end(signal.SIGKILL)
    field.release("killed")
    alone = [field.shared / f"alone-{number}" for number in range(TRIALS)]
    eventually(lambda: all(file.exists() for file in alone), "trials that run without a server", LIMIT_S)
    field.restart()
    field.release("go")
    trials = field.done(LIMIT_S)
    assert [trial["status"] for trial in trials] == ["SUCCEEDED"] * TRIALS
    for number, trial in enumerate(trials):
        assert field.starts(number) == [f"exp-{trial['id']}-1"]
        values = [(metric["type"], metric["value"]) for metric in field.metrics(trial["id"])]
        assert values == [("PERIODICAL", 0), ("PERIODICAL", 1), ("FINAL", 2)]
    assert field.allocations() == before

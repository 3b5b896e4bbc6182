"""Experiments in allocations of a real Slurm cluster, behind a real server."""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scene import Scene, eventually
from tests.server.harness import free_port, nothing_left, serving
from tests.slurm.cluster import SlurmCluster

LIMIT_S = 600.0
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

    def begin(self, trial: str, *, trials: int, **more: Any) -> None:
        """Create the experiment of this program, whose trials run all at once."""
        (self.directory / "code" / "trial.py").write_text(trial.format(shared=str(self.shared)))
        self.create(
            f"{sys.executable} trial.py",
            trialCodeDirectory=str(self.directory / "code"),
            trialConcurrency=trials,
            maxTrialNumber=trials,
            trialCpuNumber=1,
            **more,
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
    field.begin(TRIAL, trials=TRIALS)
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


SAVING = """
import pathlib, time
import nni
nni.get_next_parameter()
step = nni.load_checkpoint()
if step is None:
    nni.report_intermediate_result(0)
    nni.save_checkpoint({{"step": 1}}, step=1)
    time.sleep(1000)
nni.report_final_result(step["step"])
"""


def test_a_trial_continues_from_the_storage_in_another_allocation(field: Field, tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    storage.mkdir()
    field.begin(SAVING, trials=1, checkpoints={"storage": f"file://{storage}"})
    trial_id = field.running()["id"]
    eventually(
        lambda: any(each["stored"] for each in field.get(f"/trials/{trial_id}")["checkpoints"]),
        "a checkpoint in the storage",
        LIMIT_S,
    )
    field.server.end(signal.SIGKILL)
    shutil.rmtree(field.folder / "checkpoints")
    (before,) = field.allocations()
    field.cluster.run("scancel", "--name", before)
    field.restart()
    (trial,) = field.done(LIMIT_S)
    assert (trial["status"], trial["attempt"]) == ("SUCCEEDED", 2)
    values = [(metric["type"], metric["value"]) for metric in field.metrics(trial["id"])]
    assert values == [("PERIODICAL", 0), ("FINAL", 1)]
    assert len(field.allocations()) == 2

"""Trials that go on from this machine to real clusters, behind a real server that is killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import test_kubernetes, test_slurm
from tests.e2e.cluster import SDK, SHARED, ground
from tests.e2e.scene import Scene, eventually
from tests.server.harness import nothing_left
from tests.slurm.cluster import SlurmCluster

AFTER_S = 3
LIMIT_S = 600.0
TRIALS = 3  # one runs here, two on the cluster
WHOLE_MACHINE = float(len(os.sched_getaffinity(0)))

TRIAL = """
import os, pathlib, time
import nni
shared = pathlib.Path(os.environ["SHARED"])
number = os.environ["NNI_TRIAL_SEQ_ID"]
nni.get_next_parameter()
with open(shared / f"starts-{number}", "a") as starts:
    starts.write(os.environ["NNIMGR_JOB_ID"] + "\\n")
nni.report_intermediate_result(0)
while not (shared / "go").exists():
    time.sleep(0.02)
nni.report_final_result(2)
"""


def _here(shared: Path) -> dict[str, Any]:
    """Return this machine as a training service, on which one trial has room."""
    command = f"SHARED={shared} {sys.executable} trial.py"
    return {"platform": "local", "trialCommand": command, "trialCpuNumber": WHOLE_MACHINE}


class _SlurmField(test_slurm.Field):
    def begin_here(self) -> None:
        """Create the experiment of three trials, of which one fits on this machine."""
        (self.directory / "code" / "trial.py").write_text(TRIAL)
        cluster = {
            "platform": "slurm",
            "timeLimit": "10m",
            "cpus": 2,
            "idle": "1s",
            "python": sys.executable,
            "workDirectory": str(self.directory / "nodes"),
            "trialCpuNumber": 1,
        }
        self.create(
            f"SHARED={self.shared} {sys.executable} trial.py",
            trialCodeDirectory=str(self.directory / "code"),
            trialConcurrency=TRIALS,
            maxTrialNumber=TRIALS,
            trainingService=[_here(self.shared), cluster],
            spill={"after": f"{AFTER_S}s"},
        )


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[_SlurmField]:
    with SlurmCluster() as cluster, nothing_left(tmp_path), contextlib.ExitStack() as stack:
        found = _SlurmField(stack, tmp_path, cluster)
        try:
            yield found
        finally:
            if found.server.process.poll() is None:
                found.server.call("POST", f"{found.url}/stop")


class _PodsField(test_kubernetes.Field):
    def begin_here(self) -> None:
        """Create the experiment of three trials, of which one fits on this machine."""
        code = self.directory / "code"
        shutil.copytree(SDK, code / "nni", ignore=shutil.ignore_patterns("__pycache__"))
        (code / "trial.py").write_text(TRIAL)
        fields = self.place.config()
        cluster = {**fields.pop("trainingService"), "trialCommand": f"SHARED={SHARED} python3 trial.py"}
        self.create(
            "python3 trial.py",
            trialCodeDirectory=str(code),
            trialConcurrency=TRIALS,
            maxTrialNumber=TRIALS,
            trainingService=[_here(self.place.shared), cluster],
            spill={"after": f"{AFTER_S}s"},
            **fields,
        )


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[_PodsField]:
    shared = tmp_path / "shared"
    shared.mkdir()
    with ground(shared) as place, nothing_left(tmp_path), contextlib.ExitStack() as stack:
        found = _PodsField(stack, tmp_path, place)
        try:
            yield found
        finally:
            if found.server.process.poll() is None:
                found.server.call("POST", f"{found.url}/stop")


def _places(field: Scene) -> dict[int, tuple[str, str | None]]:
    """Return keeper and reason of the place of each trial, by its number, as far as they have one."""
    jobs: list[tuple[int, dict[str, Any]]] = [
        (trial["sequence"], job)
        for trial in field.trials()
        for job in field.get(f"/trials/{trial['id']}")["jobs"]
    ]
    return {number: (job["keeperId"], job["placeReason"]) for number, job in jobs if job["keeperId"]}


def _until_placed(field: Scene, beginning: str) -> None:
    """Wait until all trials have places: the first here, the others where keepers are named like this."""
    places = eventually(
        lambda: found if len(found := _places(field)) == TRIALS else {}, "three places", LIMIT_S
    )
    assert places[0] == ("local", None)
    for number in (1, 2):
        keeper, reason = places[number]
        assert keeper.startswith(beginning)
        assert reason is not None and reason.startswith("local had no free place for ")


def _until_waiting(field: Scene, platform: str) -> None:
    def waiting() -> int:
        return sum(f"goes on to {platform} at" in (trial["reason"] or "") for trial in field.trials())

    eventually(lambda: waiting() == 2, "trials that wait for this machine")


def test_trials_go_on_to_slurm_and_outlive_the_server(slurm: _SlurmField) -> None:
    slurm.begin_here()
    _until_waiting(slurm, "slurm")
    slurm.server.end(signal.SIGKILL)
    slurm.restart()
    _until_placed(slurm, "slurm-exp-p-")
    eventually(lambda: all(slurm.starts(number) for number in range(TRIALS)), "three starts", LIMIT_S)
    names = {machine["name"] for machine in slurm.get("/machines")["machines"]}
    assert "this machine" in names and len(names) >= 2
    slurm.server.end(signal.SIGKILL)
    slurm.restart()
    slurm.release("go")
    trials = slurm.done(LIMIT_S)
    assert [trial["status"] for trial in trials] == ["SUCCEEDED"] * TRIALS
    assert [slurm.starts(number) for number in range(TRIALS)] == [[f"exp-{t['id']}-1"] for t in trials]


def test_trials_go_on_to_pods_and_outlive_the_server(pods: _PodsField) -> None:
    pods.begin_here()
    _until_waiting(pods, "kubernetes")
    pods.restart()
    _until_placed(pods, "kubernetes-exp-")
    eventually(lambda: all(pods.starts(number) for number in range(TRIALS)), "three starts", LIMIT_S)
    pods.restart()
    pods.release("go")
    trials = pods.done(LIMIT_S)
    assert [trial["status"] for trial in trials] == ["SUCCEEDED"] * TRIALS
    assert [pods.starts(number) for number in range(TRIALS)] == [[f"exp-{t['id']}-1"] for t in trials]

"""Experiments in allocations of a real Slurm cluster, behind a real server."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.allocated import LIMIT_S, MEET, TRIALS, AllocatedField
from tests.e2e.scene import eventually
from tests.server.harness import nothing_left
from tests.slurm.cluster import SlurmCluster

HOLD = ("-o", "/dev/null", "--wrap", "sleep 1000")  # a job that keeps its nodes, and writes no file
KILLS = int(os.environ.get("NNIMGR_TEST_SLURM_KILLS", "2"))  # of the server; 20 before a release


class Field(AllocatedField):
    """An experiment on a Slurm cluster."""

    def __init__(self, stack: contextlib.ExitStack, directory: Path, cluster: SlurmCluster) -> None:
        self.cluster = cluster
        super().__init__(stack, directory, cluster.environ)

    def service(self) -> dict[str, Any]:
        return {"platform": "slurm", "timeLimit": "10m", "signalBefore": "90s"}

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
    field.outlive_the_server()


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


REPORTING = """
import os, pathlib, time
import nni
shared = pathlib.Path({shared!r})
number = os.environ["NNI_TRIAL_SEQ_ID"]
nni.get_next_parameter()
with open(shared / f"starts-{{number}}", "a") as starts:
    starts.write(os.environ["NNIMGR_JOB_ID"] + "\\n")
step = 0
while not (shared / "go").exists():
    nni.report_intermediate_result(step)
    step += 1
    time.sleep(0.05)
nni.report_final_result(step)
"""


@pytest.mark.kill
def test_all_trials_are_adopted_whenever_the_server_is_killed(field: Field) -> None:
    field.begin(REPORTING, trials=TRIALS)
    eventually(lambda: all(field.starts(number) for number in range(TRIALS)), "the starts", LIMIT_S)
    before, dice = field.allocations(), random.Random(KILLS)
    for _ in range(KILLS):
        time.sleep(dice.uniform(0, 2))  # the server is killed at any moment after its start
        field.server.end(signal.SIGKILL)
        field.restart()
    ids = [trial["id"] for trial in field.trials()]
    reported = [len(field.metrics(trial_id)) for trial_id in ids]

    def adopted() -> bool:
        return all(len(field.metrics(name)) > count for name, count in zip(ids, reported, strict=True))

    eventually(adopted, "new metrics of each trial", LIMIT_S)
    field.release("go")
    for number, trial in enumerate(field.done(LIMIT_S)):
        assert (trial["status"], trial["attempt"]) == ("SUCCEEDED", 1)
        assert field.starts(number) == [f"exp-{trial['id']}-1"]
        values = [metric["value"] for metric in field.metrics(trial["id"])]
        assert values == list(range(len(values)))
    assert field.allocations() == before


LONG = """
import os, pathlib, time
import nni
shared = pathlib.Path({shared!r})
nni.get_next_parameter()
found = nni.load_checkpoint()
step = 0 if found is None else found["step"]
with open(shared / "begun", "a") as begun:
    begun.write(f"{{step}}\\n")
while step < 1000 and found is None:
    if nni.should_checkpoint():
        nni.save_checkpoint({{"step": step}}, step=step)
    nni.report_intermediate_result(step)
    step += 1
    time.sleep(0.1)
for step in range(step, step + 3):
    nni.report_intermediate_result(step)
nni.report_final_result(step)
"""


def test_a_trial_continues_in_the_next_pilot_when_the_time_limit_is_near(field: Field) -> None:
    """Slurm sends the signal 90 to 150 s before the time limit, here in the first 90 s."""
    field.begin(
        LONG,
        trials=1,
        service={"timeLimit": "3m"},
        maxRetries={"infrastructure": 0},
        checkpoints={"saveWithin": "20s"},
    )
    (trial,) = field.done(LIMIT_S)
    assert (trial["status"], trial["attempt"], len(field.allocations())) == ("SUCCEEDED", 2, 2)
    first, saved = map(int, (field.shared / "begun").read_text().split())
    assert first == 0 < saved
    # what the first attempt has reported after its last checkpoint is reported again, and nothing is missing
    values = [metric["value"] for metric in field.metrics(trial["id"]) if metric["type"] == "PERIODICAL"]
    assert sorted(set(values)) == list(range(saved + 3))


def test_members_of_a_gang_have_allocations_that_a_killed_server_adopts(field: Field) -> None:
    field.adopt_a_gang()


def test_a_killed_member_costs_an_attempt_and_no_step(field: Field) -> None:
    field.begin(MEET, trials=1, gang={"nodes": 2})
    field.met(1)
    path = f"/trials/{field.trials()[0]['id']}"
    eventually(lambda: field.get(path)["checkpoints"][0]["kept"], "the copy of the checkpoint", LIMIT_S)
    field.cluster.run("scancel", "--signal=KILL", "--full", "--name", max(field.allocations()))
    assert field.met(2) == ["3", "3"]
    field.release("end")
    (trial,) = field.done(LIMIT_S)
    assert (trial["status"], trial["attempt"]) == ("SUCCEEDED", 2)


def test_a_trial_gets_a_member_when_a_node_is_free(field: Field) -> None:
    field.cluster.run("sbatch", "--job-name", "other", "--cpus-per-task", "2", *HOLD)
    field.cluster.wait_for_state("other", "RUNNING")
    field.grow_a_gang(lambda: field.cluster.run("scancel", "--name", "other"))

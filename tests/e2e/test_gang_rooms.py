"""Trials with members on several machines over SSH that wait: others give up members, or are stopped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.remote import Field, field
from tests.e2e.scene import Scene, eventually
from tests.machines.bed import Bed, bed

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="machines with networks of their own need root")

WHOLE = os.cpu_count() or 1  # trialCpuNumber of a member that needs a whole machine
SAVING = """
import os, select
import nni

nni.get_next_parameter()
state = nni.load_checkpoint() or {"step": 0}
if os.environ["NNIMGR_GANG_RANK"] == "0":
    nni.save_checkpoint({"step": state["step"] + 1}, step=state["step"] + 1)
while not os.path.exists(os.environ["RECORDS"] + "/end"):
    select.select([], [], [], 0.05)
nni.report_final_result(float(state["step"]))
"""


@pytest.fixture
def found() -> Iterator[Bed]:
    with bed() as made:
        yield made


def service(remote: Field) -> dict[str, Any]:
    machines = [machine.entry() for machine in remote.machines]
    return {"platform": "remote", "keepAliveInterval": 1, "machineList": machines}


def finish(remote: Field) -> None:
    for machine in remote.machines:
        (machine.records / "end").touch()


def sizes(remote: Field) -> dict[int, list[int]]:
    """Return the numbers of members of the attempts of each trial, by the trial's number."""
    trials = {trial["sequence"]: remote.get(f"/trials/{trial['id']}")["jobs"] for trial in remote.trials()}
    return {number: [max(1, len(job["members"])) for job in jobs] for number, jobs in trials.items()}


@pytest.mark.parametrize("killed", [False, True])
def test_a_trial_gives_up_a_member_for_another_trial(tmp_path: Path, found: Bed, killed: bool) -> None:
    machines = [found.machine() for _ in range(3)]
    with field(tmp_path, found, machines) as remote:
        code = tmp_path / "code"
        code.mkdir()
        (code / "trial.py").write_text(SAVING)
        remote.create(
            "python3 trial.py",
            gang={"nodes": "1:3"},
            trialCodeDirectory=str(code),
            trialCpuNumber=WHOLE,
            maxTrialNumber=2,
            trainingService=service(remote),
        )
        assert remote.running()["reason"] == "runs with 3 of 1 to 3 members"
        remote.nnictl("update", "concurrency", "exp", "--value", "2")
        if killed:
            eventually(lambda: remote.reasons("AttemptDue"), "the next attempt", 60)
            remote.restart()
        eventually(lambda: [t["status"] for t in remote.trials()] == ["RUNNING"] * 2, "two trials", 90)
        assert sizes(remote) == {0: [3, 2], 1: [1]}
        first, _ = remote.trials()
        assert first["reason"] == (
            "another trial waits for the place of member 2; the trial will continue from step 1; it runs "
            "with 2 of 1 to 3 members"
        )
        before, after = (
            [member["keeperId"] for member in job["members"]]
            for job in remote.get(f"/trials/{first['id']}")["jobs"]
        )
        assert after == before[:2]
        finish(remote)
        assert {trial["status"] for trial in remote.done(90)} == {"SUCCEEDED"}


def test_trials_are_stopped_for_a_gang_with_a_higher_priority(tmp_path: Path, found: Bed) -> None:
    machines = [found.machine() for _ in range(3)]
    with field(tmp_path, found, machines) as remote:
        low = {"trialCpuNumber": WHOLE, "trainingService": service(remote)}
        wait = "while ! [ -e $RECORDS/end ]; do sleep 0.05; done"
        remote.create(wait, **low, preemptible=True, trialConcurrency=3, maxTrialNumber=3)
        eventually(lambda: [t["status"] for t in remote.trials()] == ["RUNNING"] * 3, "three trials", 60)
        high = Scene(remote.server, tmp_path)
        high.url = "/api/v1/experiments/high"
        body = high.body(wait, **low, priority=1, gang={"nodes": 2})
        answer = remote.server.call("POST", "/api/v1/experiments", {**body, "id": "high"})
        assert answer.status == 201, answer.body
        eventually(lambda: [t["status"] for t in high.trials()] == ["RUNNING"], "the gang", 60)
        assert sorted(trial["status"] for trial in remote.trials()) == ["RUNNING", "WAITING", "WAITING"]
        reasons = [t["reason"] for t in remote.trials() if t["status"] == "WAITING"]
        assert all("for trials of experiment high, which has a higher priority" in each for each in reasons)
        finish(remote)
        remote.done(90)

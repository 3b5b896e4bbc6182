"""Trials of an experiment make room for those of another one with a higher priority, on a real server."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scene import Scene, eventually
from tests.server.harness import Server, nothing_left, serving
from trial_keeper.machine.capacity import capacity

LOW, HIGH = "low", "high"
SAVES = """
import pathlib, time
import nni

nni.get_next_parameter()
state = nni.load_checkpoint() or {"step": 0}
go = pathlib.Path("%s")
for step in range(state["step"], 100_000):
    if go.exists():
        break
    if nni.should_checkpoint() or step %% 50 == 49:
        nni.save_checkpoint({"step": step + 1}, step=step + 1, metric=step)
    else:
        nni.report_intermediate_result(step)
    time.sleep(0.02)
nni.report_final_result(step)
"""


def scene_of(server: Server, directory: Path, name: str) -> Scene:
    found = Scene(server, directory)
    found.url = f"/api/v1/experiments/{name}"
    return found


def create(here: Scene, name: str, command: str, **more: Any) -> None:
    cpus = capacity("/")["cpus"] / 2
    fields = {"maxTrialNumber": 2, "trialConcurrency": 2, "trialCpuNumber": cpus, **more}
    body = here.body(command, **fields)
    answer = here.server.call("POST", "/api/v1/experiments", {**body, "id": name})
    assert answer.status == 201, answer.body


def are(here: Scene, status: str) -> bool:
    return [trial["status"] for trial in here.trials()] == [status, status]


@pytest.mark.parametrize("killed", [False, True])
def test_trials_make_room_and_continue_with_one_curve(tmp_path: Path, killed: bool) -> None:
    with nothing_left(tmp_path):
        with serving(tmp_path) as server:
            low, high = (scene_of(server, tmp_path, name) for name in (LOW, HIGH))
            create(low, LOW, low.script(SAVES % (tmp_path / "go-low")), preemptible=True)
            eventually(lambda: are(low, "RUNNING"), "the trials of the low priority")
            eventually(lambda: low.trials()[0]["intermediates"], "a result")
            create(high, HIGH, f"until [ -e {tmp_path}/go-high ]; do sleep 0.02; done", priority=1)
            if killed:
                eventually(lambda: low.reasons("AttemptDue"), "the end of an attempt")
                server.end(signal.SIGKILL)
            else:
                check(tmp_path, low, high)
        if killed:
            with serving(tmp_path, port=server.port) as again:
                check(tmp_path, *(scene_of(again, tmp_path, name) for name in (LOW, HIGH)))


def check(directory: Path, low: Scene, high: Scene) -> None:
    """Check that the trials of the experiment ``high`` run, and that those of ``low`` continue after them."""
    why = "was stopped for trials of experiment high, which has a higher priority; waits for "
    eventually(lambda: are(high, "RUNNING"), "the trials of the high priority")
    eventually(lambda: are(low, "WAITING") and all(t["reason"].startswith(why) for t in low.trials()), why)
    first = low.trials()[0]
    attempt = low.get(f"/trials/{first['id']}")["jobs"][0]
    assert (attempt["cause"], attempt["endReason"]) == ("preempted", "stopped")
    (directory / "go-high").touch()
    high.done()
    eventually(lambda: are(low, "RUNNING"), "the trials of the low priority")
    (directory / "go-low").touch()
    for trial in low.done():
        assert (trial["status"], trial["attempt"]) == ("SUCCEEDED", 2)
        shown = [each for each in low.metrics(trial["id"]) if each["attempt"] == trial["attempt"]]
        steps = [each["value"] for each in shown if each["type"] == "PERIODICAL"]
        assert steps == [float(step) for step in range(len(steps))]
    due = [data for _, kind, data in low.events() if kind == "AttemptDue"]
    assert len(due) == 2 and not any(each.get("lost") or each.get("failed") for each in due)
    because = "it was stopped for trials of experiment high, which has a higher priority; the trial will "
    assert all(each["reason"].startswith(because + "continue from step ") for each in due)


def test_a_trial_is_not_stopped_again_for_each_trial_of_the_other_experiment(tmp_path: Path) -> None:
    number = 4
    with nothing_left(tmp_path), serving(tmp_path) as server:
        low, high = (scene_of(server, tmp_path, name) for name in (LOW, HIGH))
        all_cpus = {"trialCpuNumber": capacity("/")["cpus"], "trialConcurrency": 1}
        saves = low.script(SAVES % (tmp_path / "go-low"))
        create(low, LOW, saves, preemptible=True, **{**all_cpus, "maxTrialNumber": 1})
        low.running()
        waits = f"until [ -e {tmp_path}/go-$NNI_TRIAL_SEQ_ID ]; do sleep 0.02; done"
        more = {"priority": 1, "maxTrialNumber": number, "suggestionsAhead": 2}
        create(high, HIGH, waits, **{**all_cpus, **more})
        for sequence in range(number):
            eventually(partial(runs_with_next, high, sequence, number), f"trial {sequence} and the next one")
            (tmp_path / f"go-{sequence}").touch()
        high.done()
        (tmp_path / "go-low").touch()
        (trial,) = low.done()
        assert (trial["status"], trial["attempt"]) == ("SUCCEEDED", 2)


def runs_with_next(here: Scene, sequence: int, number: int) -> bool:
    """Return whether this trial runs, and the next of this number of trials waits for its slot."""
    trials = {trial["sequence"]: trial["status"] for trial in here.trials()}
    return trials.get(sequence) == "RUNNING" and (sequence + 1 == number or sequence + 1 in trials)

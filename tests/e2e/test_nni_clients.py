"""NNI 3.0's own clients, as published, control an experiment of ours without a token or another flag."""

from __future__ import annotations

import csv
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scene import Scene, eventually, scene
from tests.e2e.sdks import NoSdk, sdk_python
from tests.processes import holders

LIMIT_S = 120.0
TRIAL = """
import os, time, nni
x = nni.get_next_parameter()["x"]
nni.report_intermediate_result(x)
while nni.get_sequence_id() >= 2 and not os.path.exists("go"):
    time.sleep(0.01)
nni.report_final_result(2 * x)
"""
# Every method of Experiment that does not start an experiment. Its output is one line of JSON.
CONNECTED = """
import dataclasses, json, sys
from nni.experiment import Experiment
experiment = Experiment.connect(int(sys.argv[1]))
plain = lambda value: dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value._asdict()
jobs = experiment.list_trial_jobs()
running = [job.trialJobId for job in jobs if job.status == "RUNNING"]
seen = {
    "status": experiment.get_status(),
    "jobs": {job.trialJobId: [job.status, job.sequenceId, job.hyperParameters[0].parameters] for job in jobs},
    "job": experiment.get_trial_job(jobs[0].trialJobId).finalMetricData[0].data,
    "counts": {each["trialJobStatus"]: each["trialJobNumber"] for each in experiment.get_job_statistics()},
    "metrics": {id: [(m.type, m.data) for m in found] for id, found in experiment.get_job_metrics().items()},
    "one": len(experiment.get_job_metrics(jobs[0].trialJobId)),
    "profile": experiment.get_experiment_profile()["params"]["trialConcurrency"],
    "metadata": experiment.get_experiment_metadata("exp")["id"],
    "all": [each["id"] for each in experiment.get_all_experiments_metadata()],
    "export": [[found.parameter, found.value, found.trialJobId] for found in experiment.export_data()],
}
experiment.update_trial_concurrency(2)
experiment.update_max_trial_number(7)
experiment.update_max_experiment_duration("2h")
experiment.update_search_space({"x": {"_type": "uniform", "_value": [5, 6]}})
experiment.kill_trial_job(running[0])
print("SEEN " + json.dumps(seen))
experiment.stop()
"""


@pytest.fixture
def found(tmp_path: Path) -> Iterator[Scene]:
    """An experiment with two finished trials and a running one, in the index of its home."""
    with scene(tmp_path) as made:
        made.create(made.script(TRIAL), maxTrialNumber=5, suggestionsAhead=0)
        eventually(lambda: _statuses(made) == ["SUCCEEDED", "SUCCEEDED", "RUNNING"], "three trials")
        yield made


def _statuses(found: Scene) -> list[str]:
    return [trial["status"] for trial in found.trials()]


def sdk() -> Path:
    try:
        return sdk_python("3.0")
    except NoSdk as refusal:
        pytest.skip(str(refusal))


def ran(found: Scene, *command: str) -> str:
    """Run a program of NNI's whose home is that of our server, and return its output."""
    place = found.directory / "nni-home"
    place.mkdir(exist_ok=True)
    link = place / "nni-experiments"
    if not link.exists():
        link.symlink_to(found.server.home.path)
    environ = {"HOME": str(place), "PATH": os.environ["PATH"], "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, env=environ, cwd=place, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_method_of_nnis_experiment(found: Scene) -> None:
    program = found.directory / "connected.py"
    program.write_text(CONNECTED)
    trials = found.trials()
    printed = ran(found, str(sdk()), str(program), str(found.server.port))
    seen = json.loads(next(line[5:] for line in printed.splitlines() if line.startswith("SEEN ")))
    first, second, third = (trial["id"] for trial in trials)
    values = [trial["parameters"]["x"] for trial in trials]
    assert seen["status"] == "RUNNING"
    assert seen["jobs"] == {
        first: ["SUCCEEDED", 0, {"x": values[0]}],
        second: ["SUCCEEDED", 1, {"x": values[1]}],
        third: ["RUNNING", 2, {"x": values[2]}],
    }
    assert (seen["job"], seen["counts"]) == (2 * values[0], {"SUCCEEDED": 2, "RUNNING": 1})
    assert seen["metrics"][first] == [["PERIODICAL", values[0]], ["FINAL", 2 * values[0]]]
    assert (seen["one"], seen["profile"], seen["metadata"], seen["all"]) == (1, 1, "exp", ["exp"])
    assert seen["export"] == [[{"x": values[at]}, 2 * values[at], (first, second)[at]] for at in (0, 1)]
    eventually(lambda: not holders(found.folder), "the end of all processes")
    killed = found.trials()[2]
    assert (killed["status"], killed["reason"]) == ("USER_CANCELED", "a user stopped it")
    profile = found.profile()
    assert profile["status"] == "STOPPED" and profile["limits"]["trialConcurrency"] == 2
    assert (profile["limits"]["maxTrialNumber"], profile["limits"]["maxExperimentDurationS"]) == (7, 7200)
    assert profile["searchSpace"] == {"x": {"_type": "uniform", "_value": [5, 6]}}


def test_nnis_nnictl(found: Scene) -> None:
    nnictl = str(sdk().parent / "nnictl")
    running = found.trials()[2]["id"]
    assert "Id: exp " in ran(found, nnictl, "experiment", "list")
    assert json.loads(ran(found, nnictl, "experiment", "status"))["status"] == "RUNNING"
    listed: list[dict[str, Any]] = json.loads(ran(found, nnictl, "trial", "ls"))
    assert [trial["status"] for trial in listed] == ["SUCCEEDED", "SUCCEEDED", "RUNNING"]
    ran(found, nnictl, "update", "concurrency", "--value", "3")
    assert found.profile()["limits"]["trialConcurrency"] == 3
    ran(found, nnictl, "trial", "kill", "--trial_id", running)
    eventually(lambda: found.trials()[2]["status"] == "USER_CANCELED", "the end of the trial")
    file = found.directory / "results.csv"
    ran(found, nnictl, "experiment", "export", "--type", "csv", "--filename", str(file))
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert [float(row["reward"]) for row in rows] == [
        2 * trial["parameters"]["x"] for trial in found.trials()[:2]
    ]
    assert "Stop experiment success" in ran(found, nnictl, "stop", "exp")
    eventually(lambda: not holders(found.folder), "the end of all processes")

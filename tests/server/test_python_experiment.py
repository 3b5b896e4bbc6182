"""NNI's Python API for experiments, from a script against a real server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nnimgr.home import Home
from nnimgr.index import Index
from tests.server.harness import free_port

TRIAL = """
import nni
x = nni.get_next_parameter()["x"]
nni.report_intermediate_result({"default": x, "other": "text"})
nni.report_final_result(x)
"""
SCRIPT = """
import sys
from nni.experiment import Experiment, ExperimentConfig, RunMode

port = int(sys.argv[1])

def prepared(trials, command=f"{sys.executable} trial.py"):
    experiment = Experiment("local")
    experiment.config.trial_command = command
    experiment.config.search_space = {"x": {"_type": "choice", "_value": [1, 2, 3]}}
    experiment.config.tuner.name = "GridSearch"
    experiment.config.goal = "maximize"
    experiment.config.max_trial_number = trials
    experiment.config.trial_concurrency = 1
    return experiment
"""
WHOLE = """
experiment = prepared(2)
assert experiment.run(port, run_mode=RunMode.Foreground) is True
assert experiment.get_status() == "DONE"
assert experiment.get_job_statistics() == [{"trialJobStatus": "SUCCEEDED", "trialJobNumber": 2}]
assert sorted(result.value for result in experiment.export_data()) == [1, 2]
first, second = experiment.list_trial_jobs()
assert first.hyperParameters[0].parameters == {"x": 1} and first.endTime >= first.startTime > 0
assert first.finalMetricData[0].data == 1 and first.message and first.stderrPath == ""
assert experiment.get_trial_job(second.trialJobId).sequenceId == 1
metrics = experiment.get_job_metrics()
assert [metric.data for metric in metrics[first.trialJobId]] == [{"default": 1, "other": "text"}, 1]
assert experiment.get_job_metrics(second.trialJobId)[second.trialJobId][1].type == "FINAL"
assert experiment.get_experiment_metadata(experiment.id)["port"] == port
assert experiment.get_experiment_metadata("nothing") == {}

experiment.update_max_trial_number(3)
experiment.update_trial_concurrency(2)
experiment.update_max_experiment_duration("2h")
params = experiment.get_experiment_profile()["params"]
assert (params["maxTrialNumber"], params["trialConcurrency"], params["maxExperimentDuration"]) == (3, 2, "2h")

other = Experiment.connect(port)
assert other.id == experiment.id and other.config.tuner.name == "GridSearch"
other.stop()

again = Experiment(id=experiment.id)
assert again.has_checkpoint() and not Experiment().has_checkpoint()
assert again.run_or_resume(port) is True
assert {trial.status for trial in again.list_trial_jobs()} <= {"SUCCEEDED", "SYS_CANCELED"}
assert [r.value for r in again.export_data()] == [1, 2, 3]
again.stop()

again.view(port, non_blocking=True)
assert again.get_status() == "VIEWED" and len(again.export_data()) == 3
try:
    again.update_trial_concurrency(1)
except RuntimeError as error:
    assert "readonly" in str(error), error
else:
    raise AssertionError("a viewed experiment was changed")
again.stop()
try:
    again.get_status()
except RuntimeError as error:
    assert "is not open" in str(error)
print("complete")
"""
ENDS = """
prepared(100, "sleep 100").run(port, wait_completion=False)
"""
DETACHES = """
prepared(1).start(port, run_mode=RunMode.Detach)
"""
KILLS = """
experiment = prepared(1, "sleep 100")
experiment.start(port)
while not experiment.list_trial_jobs():
    pass
experiment.kill_trial_job(experiment.list_trial_jobs()[0].trialJobId)
assert experiment._wait() is True
assert experiment.list_trial_jobs()[0].status == "USER_CANCELED"
"""
FAILS = """
experiment = prepared(9, f"{sys.executable} missing.py")
experiment.config.fail_fast = 2
assert experiment.run(port) is True
assert experiment.get_status() == "STOPPED"
"""
WRONG = """
experiment = prepared(1)
experiment.config.tuner.name = "Rondom"
try:
    experiment.start(port)
except ValueError as error:
    print(error)
"""
WAITS = """
import os, threading
experiment = prepared(1, "sleep 100")
experiment.start(port)
threading.Timer(0.5, os.kill, (os.getpid(), 2)).start()
assert experiment._wait() is None
print("interrupted")
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("NNIMGR_HOME", str(tmp_path / "home"))
    (tmp_path / "trial.py").write_text(TRIAL)
    return Home.find()


def run(folder: Path, script: str, port: int) -> str:
    """Run a script to its end. Return what it printed."""
    (folder / "script.py").write_text(SCRIPT + script)
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "script.py", str(port)]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def end_of(home: Home, port: int) -> tuple[str, bool]:
    """Return the status of the only experiment, and whether a server runs. End the server."""
    (entry,) = Index(home).entries().values()
    server = home.server_running(port)
    if server is not None and server.pid is not None:
        os.kill(server.pid, signal.SIGTERM)
    return entry.status, server is not None


def test_a_script_runs_resumes_views_and_changes_an_experiment(tmp_path: Path, home: Home) -> None:
    port = free_port()
    said = run(tmp_path, WHOLE, port)
    assert said.splitlines()[-1] == "complete"
    assert "Creating experiment, Experiment ID: " in said
    assert f"Web portal URLs: http://127.0.0.1:{port}/" in said
    assert "SUCCEEDED: 2, the best so far" in said  # of the foreground mode
    (entry,) = Index(home).entries().values()
    log = (entry.directory / "log" / "experiment.log").read_text()
    assert re.search(r"INFO \(NNIManager\) Change NNIManager status to: DONE \(.*2 of 2 trials\)", log)
    assert "INFO (NNIManager) Experiment done." in log
    assert log.splitlines()[-1].endswith("Experiment stopped.")
    assert (entry.directory / "log" / "nnictl_stdout.log").samefile(home.server_log_path(port))
    assert end_of(home, port) == ("STOPPED", False)


def test_the_end_of_the_script_stops_the_experiment(tmp_path: Path, home: Home) -> None:
    port = free_port()
    assert "Experiment stopped" in run(tmp_path, ENDS, port)
    assert end_of(home, port) == ("STOPPED", False)


def test_a_detached_experiment_survives_the_script(tmp_path: Path, home: Home) -> None:
    port = free_port()
    run(tmp_path, DETACHES, port)
    status, served = end_of(home, port)
    assert status in ("INITIALIZED", "RUNNING", "NO_MORE_TRIAL", "DONE")
    assert served


def test_a_trial_is_cancelled(tmp_path: Path, home: Home) -> None:
    run(tmp_path, KILLS, free_port())


def test_the_reason_of_an_early_end_is_printed(tmp_path: Path, home: Home) -> None:
    said = run(tmp_path, FAILS, free_port())
    assert re.search(r"\] Experiment STOPPED: .*2 .*failed", said), said
    assert re.search(r"\] Trial [01] \(\w+\) FAILED: .*missing.py", said), said
    assert re.search(r"See: nnictl log trial \w+ -T [01] --file stderr", said), said


def test_a_wrong_configuration_starts_no_server(tmp_path: Path, home: Home) -> None:
    port = free_port()
    assert run(tmp_path, WRONG, port).startswith("tuner.name: there is no built-in tuner 'Rondom'")
    assert home.server_running(port) is None
    assert not Index(home).entries()


def test_an_interrupt_stops_the_experiment(tmp_path: Path, home: Home) -> None:
    port = free_port()
    assert run(tmp_path, WAITS, port).splitlines()[-1] == "interrupted"
    assert end_of(home, port) == ("STOPPED", False)

"""NNI's verbs on real servers: four experiments at once, and one from its creation to its deletion."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from nnimgr.home import Home
from tests.e2e.scene import eventually
from tests.server.harness import free_port, nothing_left

SLEEP = "exec sleep 600"
REPORT = f"{sys.executable} report.py"
SPACE = {"x": {"_type": "quniform", "_value": [0, 1, 0.1]}}


class Shell:
    """A user's terminal: ``nnictl`` in a home of its own. ``ports`` are free."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.home = Home(directory / "home")
        self.ports: list[int] = []
        while len(self.ports) < 4:
            port = free_port()
            if port not in self.ports:
                self.ports.append(port)

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "nnimgr.cli.main", *words],
            env={**os.environ, "NNIMGR_HOME": str(self.home.path)},
            cwd=self.directory,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    def says(self, *words: str, stdin: str = "") -> str:
        """What a command prints that must succeed."""
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def refuses(self, *words: str) -> str:
        """What a command that must fail says of it."""
        done = self.run(*words)
        assert done.returncode == 1, (words, done.stdout, done.stderr)
        return done.stderr

    def create(self, experiment_id: str, *, port: int, command: str = SLEEP, **more: Any) -> None:
        config = {
            "searchSpace": SPACE,
            "trialCommand": command,
            "trialConcurrency": 1,
            "maxTrialNumber": 9,
            "experimentWorkingDirectory": str(self.directory / "work"),
            "tuner": {"name": "Random", "classArgs": {"seed": 1}},
            "trainingService": {"platform": "local"},
            **more,
        }
        (self.directory / "exp.yml").write_text(yaml.safe_dump(config))
        self.says("create", "-c", "exp.yml", "-p", str(port), "--id", experiment_id)

    def status(self, experiment_id: str) -> str:
        return str(json.loads(self.says("experiment", "status", experiment_id))["status"])

    def trials(self, experiment_id: str, *more: str) -> list[dict[str, Any]]:
        return list(json.loads(self.says("trial", "ls", experiment_id, *more)))

    def runs(self, experiment_id: str) -> bool:
        return any(trial["status"] == "RUNNING" for trial in self.trials(experiment_id))

    def done(self, experiment_id: str) -> None:
        eventually(lambda: self.status(experiment_id) == "DONE", f"the end of {experiment_id}")

    def listed(self) -> dict[str, str]:
        """The experiments of the index that are not stopped: their status."""
        done = self.run("experiment", "list", "--json")
        return {found["id"]: found["status"] for found in json.loads(done.stdout)["experiments"]}

    def free(self, *ports: int) -> bool:
        """Whether nobody listens there and a server can be started."""
        for port in ports:
            with closing(socket.socket()) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    return False
        return not any(server.port in ports for server in self.home.servers())


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with nothing_left(tmp_path):
        made = Shell(tmp_path)
        try:
            yield made
        finally:
            made.run("stop", "--all")


def test_four_experiments_on_one_server(shell: Shell) -> None:
    port = shell.ports[0]
    for experiment_id in ("aaa1", "aaa2", "bbb", "ccc"):
        shell.create(experiment_id, port=port)
    for experiment_id in ("aaa1", "aaa2", "bbb", "ccc"):
        eventually(partial(shell.runs, experiment_id), experiment_id)
    pid = shell.home.server_running(port)
    assert "There are multiple experiments, please set the experiment id..." in shell.refuses("stop")
    assert "ambiguous" in shell.refuses("stop", "aaa")
    assert shell.says("stop", "bbb").splitlines() == [
        "INFO: Stopping experiment bbb",
        "INFO: Stop experiment success.",
    ]
    assert shell.listed() == {"aaa1": "RUNNING", "aaa2": "RUNNING", "ccc": "RUNNING"}
    shell.says("stop", "aaa*")
    assert shell.home.server_running(port) == pid and not shell.free(port)
    assert shell.says("stop", "c").count("success") == 1
    assert shell.listed() == {} and shell.free(port)


def test_four_experiments_on_four_ports(shell: Shell) -> None:
    names = ("one", "two", "three", "four")
    for experiment_id, port in zip(names, shell.ports, strict=True):
        shell.create(experiment_id, port=port)
    one, two, three, four = shell.ports
    assert len(shell.home.servers()) == 4 and set(shell.listed()) == set(names)
    assert f"Port: {two} " in shell.says("experiment", "list")
    assert shell.says("experiment", "status", "-p", str(two))
    shell.says("stop", "one")
    assert shell.free(one)
    shell.says("stop", "tw")
    assert shell.free(two)
    assert "do not match" in shell.refuses("stop", "three", "--port", str(four))
    shell.says("stop", "--port", str(three))
    assert shell.free(three) and not shell.free(four)
    shell.create("again", port=one)
    shell.says("stop", "--all")
    assert shell.free(one, four)
    assert shell.listed() == {} and shell.home.servers() == []


def test_resume_after_the_server_was_killed(shell: Shell) -> None:
    port = shell.ports[0]
    shell.create("exp", port=port)
    eventually(partial(shell.runs, "exp"), "a trial")
    before = [trial["trialJobId"] for trial in shell.trials("exp")]
    server = shell.home.server_running(port)
    assert server is not None and server.pid is not None
    with open(os.pidfd_open(server.pid)) as process:
        os.kill(server.pid, 9)
        assert select.select([process], [], [], 30)[0]
    assert "The server had ended; a new one adopts the experiment." in shell.says(
        "resume"
    )  # no other one can be meant
    assert [trial["trialJobId"] for trial in shell.trials("exp")] == before
    assert "nnictl top exp" in shell.refuses("resume", "exp")


def digest(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file() and not path.name.endswith(("-shm", "-wal"))
    }


def test_an_experiment_from_its_creation_to_its_deletion(shell: Shell) -> None:
    (shell.directory / "report.py").write_text(
        "import nni\nx = nni.get_next_parameter()['x']\n"
        "nni.report_intermediate_result(x / 2)\nnni.report_final_result(x)\n"
    )
    one, two = shell.ports[:2]
    shell.create("exp", port=one, command=REPORT, maxTrialNumber=2, experimentName="mine")
    shell.done("exp")
    updates(shell)
    trials = shell.trials("exp")
    results = results_of(shell)
    files_of(shell, trials[0]["trialJobId"])
    kept = shell.says("experiment", "export", "-t", "csv", "-i")
    assert "is DONE" in shell.refuses("view", "exp")
    assert "is DONE" in shell.refuses("experiment", "delete", "exp", "--yes")
    shell.says("stop", "exp")
    folder = shell.directory / "work" / "exp"
    before = digest(folder)

    shell.says("view", "exp", "--port", str(two))
    assert shell.listed() == {"exp": "VIEWED"} and shell.free(one) and not shell.free(two)
    assert shell.status("exp") == "VIEWED"
    assert "Status: VIEWED" in shell.says("experiment", "list")
    assert shell.trials("exp") == trials and results_of(shell) == results
    assert shell.says("experiment", "export", "-t", "csv", "-i") == kept
    assert shell.says("log", "trial", "-T", trials[0]["trialJobId"], "--file", "stderr") == ""
    files_of(shell, trials[0]["trialJobId"])
    assert json.loads(shell.says("config", "show"))["experimentName"] == "mine"
    assert "Experiment VIEWED" in shell.says("top")
    assert "only viewed: it cannot be changed" in shell.refuses("update", "trialnum", "-v", "9")
    assert "has ended already" in shell.refuses("trial", "kill", "-T", trials[0]["trialJobId"])
    assert "only viewed: stop it first" in shell.refuses("resume", "exp")
    assert "is VIEWED" in shell.refuses("experiment", "delete", "exp", "--yes")
    server = shell.home.server_running(two)
    assert server is not None and server.pid is not None
    with open(os.pidfd_open(server.pid)) as process:
        os.kill(server.pid, 9)  # a view is taken up by the next server, and still runs nothing
        assert select.select([process], [], [], 30)[0]
    assert shell.status("exp") == "VIEWED"
    shell.says("stop")
    assert shell.listed() == {} and shell.free(two) and digest(folder) == before

    shell.says("resume", "exp", "--port", str(one))
    shell.done("exp")
    assert shell.trials("exp") == trials
    shell.says("stop", "exp")
    assert "Nothing was deleted." in shell.refuses("experiment", "delete", "exp")
    shell.says("experiment", "delete", "exp", stdin="y\n")
    assert not folder.exists()
    assert "There is no experiment created before." in shell.refuses("experiment", "list", "--all")


def updates(shell: Shell) -> None:
    """What is changed while it runs holds at once: a larger number of trials wakes what was done."""
    raise_it = "Raise the limit: nnictl update trialnum exp --value 4"
    done = f"INFO: The experiment is still DONE: 2 of 2 trials. {raise_it}\n"
    assert shell.says("update", "concurrency", "-v", "2") == f"INFO: Update concurrency success!\n{done}"
    assert shell.says("update", "duration", "-v", "1h") == f"INFO: Update duration success!\n{done}"
    (shell.directory / "space.json").write_text(json.dumps({"x": {"_type": "choice", "_value": [7, 8, 9]}}))
    shell.says("update", "searchspace", "-f", "space.json")
    shell.says("update", "trialnum", "-v", "4")
    eventually(lambda: len(shell.trials("exp")) == 4, "two more trials")
    shell.done("exp")
    shown = json.loads(shell.says("experiment", "show"))["params"]
    assert (shown["trialConcurrency"], shown["maxTrialNumber"]) == (2, 4)
    assert shown["maxExperimentDuration"] == 3600
    assert "must be a whole number" in shell.refuses("update", "concurrency", "-v", "0")
    (shell.directory / "wrong.json").write_text('{"x": 3}')
    refused = shell.refuses("update", "searchspace", "-f", "wrong.json")
    assert "ERROR: Update search space failed!\n  Correct wrong.json" in refused
    values = [value_of(trial) for trial in shell.trials("exp")]
    assert set(values[2:]) <= {7, 8, 9} and len(values) == 4
    best, worst = sorted(values)[-1], sorted(values)[0]
    assert [value_of(trial) for trial in shell.trials("exp", "--head", "1")] == [best]
    assert [value_of(trial) for trial in shell.trials("exp", "--tail", "1")] == [worst]


def files_of(shell: Shell, trial: str) -> None:
    """What a trial has written can be listed and fetched, whether the experiment runs or is only viewed."""
    found = json.loads(shell.says("trial", "files", "-T", trial, "--json"))
    sizes = {file["path"]: file["size"] for file in found["files"]}
    assert found["complete"] and {"stdout", "stderr", "parameter.cfg", ".nni/metrics"} <= set(sizes)
    shell.says("trial", "get", "-T", trial, "--file", ".nni/metrics", "-o", "fetched")
    assert (shell.directory / "fetched").stat().st_size == sizes[".nni/metrics"] > 0
    outside = ("trial", "get", "-T", trial, "--file", "../stdout", "-o", "fetched")
    assert "has no file ../stdout" in shell.refuses(*outside)
    (shell.directory / "fetched").unlink()


def value_of(trial: dict[str, Any]) -> float:
    return float(json.loads(json.loads(trial["finalMetricData"][0]["data"])))


def results_of(shell: Shell) -> list[dict[str, Any]]:
    """The exported results; both forms say the same."""
    found = list(json.loads(shell.says("experiment", "export", "-i")))
    rows = list(csv.DictReader(io.StringIO(shell.says("experiment", "export", "-t", "csv", "-i"))))
    assert len(found) == len(rows) == 4
    for result, row in zip(found, rows, strict=True):
        assert list(row) == ["x", "trialJobId", "reward", "intermediate"]
        assert row["trialJobId"] == result["trialJobId"]
        assert float(row["x"]) == result["parameter"]["x"] == float(row["reward"])
        assert result["intermediate"][-1] == result["value"] and len(result["intermediate"]) == 2
        assert row["intermediate"] == f"[{','.join(result['intermediate'])}]"
    return found


def test_a_registered_tuner_searches(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    (shell.directory / "ten.py").write_text(
        "from nni.tuner import Tuner\n\nclass Ten(Tuner):\n"
        "    def __init__(self, base): self.base = base\n"
        "    def update_search_space(self, space): pass\n"
        "    def generate_parameters(self, number, **kwargs): return {'x': self.base + number}\n"
        "    def receive_trial_result(self, *args, **kwargs): pass\n"
    )
    monkeypatch.setenv("NNI_CONFIG_DIR", str(shell.directory / "nni"))
    monkeypatch.setenv("PYTHONPATH", str(shell.directory))
    meta = {"algoType": "tuner", "builtinName": "Ten", "className": "ten.Ten"}
    (shell.directory / "meta.yml").write_text(yaml.safe_dump(meta))
    shell.says("algo", "register", "-m", "meta.yml")
    monkeypatch.setenv("UNRELATED", "1")
    tuner = {"name": "ten", "classArgs": {"base": 10}}
    shell.create("exp", port=shell.ports[0], command="true", maxTrialNumber=2, tuner=tuner)
    shell.done("exp")
    records = [json.loads(trial["hyperParameters"][0]) for trial in shell.trials("exp")]
    assert [record["parameters"] for record in records] == [{"x": 10}, {"x": 11}]
    shell.says("algo", "unregister", "ten")

"""Measurements of NNI 3.0 in its own interpreter: ``run_nni.py KIND ORDER``. See ``ask``. Python 3.8."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from typing import Any

BIN = os.path.dirname(sys.executable)
TRIAL = """import time
began = time.time()
import json, os
import nni
parameters = nni.get_next_parameter()
first = time.time()
for number in range(%(reports)d):
    nni.report_intermediate_result(time.time() if %(pause)r else number)
    time.sleep(%(pause)r)
nni.report_final_result(parameters["x"])
file = os.open(%(stamps)r, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(file, (json.dumps([began, first, time.time()]) + "\\n").encode())
"""
ASSESSOR = """import time
from nni.assessor import Assessor, AssessResult
class Probe(Assessor):
    def __init__(self, path):
        self.file = open(path, "a", buffering=1)
    def assess_trial(self, trial_job_id, trial_history):
        self.file.write("%.6f\\n" % (time.time() - float(trial_history[-1])))
        return AssessResult.Good
"""


def free_port() -> int:
    """Return a free port below the range of client ports."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return 10000 + port % 20000


class Experiment:
    """One experiment, created like a user's."""

    def __init__(
        self,
        order: dict[str, Any],
        *,
        trials: int,
        concurrency: int,
        reports: int = 0,
        pause: float = 0,
        assessor: bool = False,
    ) -> None:
        self.folder = order["folder"]
        self.stamps = os.path.join(self.folder, "stamps")
        self.ages = os.path.join(self.folder, "ages")
        code = os.path.join(self.folder, "code")
        os.mkdir(code)
        with open(os.path.join(code, "trial.py"), "w") as file:
            file.write(TRIAL % {"reports": reports, "pause": pause, "stamps": self.stamps})
        work = os.path.join(self.folder, "work")
        config: dict[str, Any] = {
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
            "trialCommand": sys.executable + " trial.py",
            "trialCodeDirectory": code,
            "trialConcurrency": concurrency,
            "maxTrialNumber": trials,
            "experimentWorkingDirectory": work,
            "tuner": {"name": "Random"},
            "trainingService": {"platform": "local"},
        }
        if assessor:
            with open(os.path.join(code, "probe.py"), "w") as file:
                file.write(ASSESSOR)
            config["assessor"] = {
                "className": "probe.Probe",
                "codeDirectory": code,
                "classArgs": {"path": self.ages},
            }
        path = os.path.join(code, "exp.json")
        with open(path, "w") as file:
            json.dump(config, file)
        self.port = free_port()
        self.created_at = time.time()
        subprocess.run(
            [os.path.join(BIN, "nnictl"), "create", "--config", path, "--port", str(self.port)], check=True
        )
        name = next(entry for entry in os.listdir(work) if entry != "_latest")
        self.database = f"file:{work}/{name}/db/nni.sqlite?mode=ro"

    def status(self) -> str:
        url = f"http://127.0.0.1:{self.port}/api/v1/nni/check-status"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(json.load(answer)["status"])

    def wait_done(self) -> float:
        """Wait until the experiment is done. Return that moment."""
        while self.status() != "DONE":
            if self.status() == "ERROR":
                raise RuntimeError("the experiment failed")
            time.sleep(0.1)
        return time.time()

    def stamped(self) -> list[list[float]]:
        """Return the times of each ended trial: its first line, its first report, its last line."""
        if not os.path.exists(self.stamps):
            return []
        with open(self.stamps) as file:
            return [json.loads(line) for line in file]


def noop(order: dict[str, Any]) -> dict[str, float]:
    experiment = Experiment(order, trials=order["trials"], concurrency=order["concurrency"])
    done = experiment.wait_done()
    stamped = experiment.stamped()
    return {"per_s": len(stamped) / (done - min(stamp[0] for stamp in stamped))}


def stream(order: dict[str, Any]) -> dict[str, float]:
    trials, reports = order["trials"], order["reports"]
    experiment = Experiment(order, trials=trials, concurrency=trials, reports=reports)
    connection = sqlite3.connect(experiment.database, uri=True)
    stored, last = 0, 0.0
    while stored < trials * reports:
        time.sleep(0.05)
        count = connection.execute("SELECT count(*) FROM MetricData WHERE type = 'PERIODICAL'").fetchone()[0]
        if count != stored:
            stored, last = count, time.time()
    while len(experiment.stamped()) < trials:
        time.sleep(0.1)
    return {"per_s": stored / (last - min(stamp[1] for stamp in experiment.stamped()))}


def latency(order: dict[str, Any]) -> dict[str, float]:
    experiment = Experiment(
        order, trials=2, concurrency=2, reports=order["reports"], pause=order["pause"], assessor=True
    )
    experiment.wait_done()
    with open(experiment.ages) as file:
        ages = sorted(1e3 * float(line) for line in file)
    return {"p50": ages[len(ages) // 2], "p99": ages[min(len(ages) - 1, int(0.99 * len(ages)))]}


def startup(order: dict[str, Any]) -> dict[str, float]:
    experiment = Experiment(order, trials=1, concurrency=1)
    while not experiment.stamped():
        time.sleep(0.1)
    return {"seconds": experiment.stamped()[0][0] - experiment.created_at}


def main() -> None:
    order = json.loads(sys.argv[2])
    work = {"noop": noop, "stream": stream, "latency": latency, "startup": startup}[sys.argv[1]]
    with open(order["answer"], "w") as file:
        json.dump([{"values": work(order)}], file)


if __name__ == "__main__":
    main()

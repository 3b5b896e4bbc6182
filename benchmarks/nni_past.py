"""Trials of ``past`` in NNI 3.0's own experiment folder, with NNI's manager running on it.

NNI creates the experiment and its database: it runs two sleeping trials, and is stopped. Then our trials are
written into that database as events and metrics, and NNI resumes the experiment. So NNI shows the same trials
as our server. Two sleeping trials keep the experiment running, because NNI's page sends requests only then.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks import past
from benchmarks.ground import Ground, looks
from benchmarks.peers import ask
from tests.e2e.product import free_port

SLEEPING = "import time, nni\nnni.get_next_parameter()\ntime.sleep(3600)\n"
LIMIT_S = 120.0
STOP_LIMIT_S = 90.0

_ENDED = """
SELECT trial_id, sequence, status, parameter_id, parameters, started_at / 1000, ended_at / 1000
FROM trials WHERE ended_at IS NOT NULL ORDER BY sequence
"""
_METRICS = """
SELECT m.at / 1000, m.trial_id, m.parameter_id, m.type, m.sequence, m.text
FROM metrics m JOIN trials t USING (experiment_id, trial_id, attempt) ORDER BY m.number
"""


def copy(ours: Path, theirs: Path, logs: str) -> int:
    """Add the trials of our database to NNI's, before its own. Return their number. ``logs``: their folder.

    NNI's own trials get the next numbers. Earlier attempts of trials are left out, because NNI has none.
    """
    with contextlib.closing(sqlite3.connect(f"file:{ours}?mode=ro", uri=True)) as source:
        trials, metrics = source.execute(_ENDED).fetchall(), source.execute(_METRICS).fetchall()
    with contextlib.closing(sqlite3.connect(theirs)) as target, target:
        target.execute("UPDATE TrialJobEvent SET sequenceId = sequenceId + ?", (len(trials),))
        target.executemany(
            "INSERT INTO TrialJobEvent VALUES (?, ?, ?, ?, ?, ?, NULL, 'local-env')",
            (event for trial in trials for event in _events(trial, logs)),
        )
        target.executemany(
            "INSERT INTO MetricData VALUES (?, ?, ?, ?, ?, ?)",
            ((*head, json.dumps(text)) for *head, text in metrics),
        )
    return len(trials)


def _events(trial: tuple[Any, ...], logs: str) -> Iterator[tuple[Any, ...]]:
    trial_id, sequence, status, parameter_id, parameters, started_ms, ended_ms = trial
    given = {
        "parameter_id": parameter_id,
        "parameter_source": "algorithm",
        "parameters": json.loads(parameters),
        "parameter_index": 0,
    }
    place = f"{logs}/{trial_id}"
    if started_ms is not None:
        yield started_ms, trial_id, "RUNNING", json.dumps(given), place, sequence
    yield ended_ms, trial_id, status, None if started_ms is not None else json.dumps(given), place, sequence


@dataclass(frozen=True, slots=True)
class Running:
    """NNI's manager with the trials. ``pid``: the process id of its server."""

    url: str
    pid: int
    trials: int

    def ask(self, path: str) -> Any:
        """Return an answer of NNI's own REST API. Raise OSError."""
        with urllib.request.urlopen(f"{self.url}/api/v1/nni/{path}", timeout=20) as answer:
            return json.load(answer)


@contextlib.contextmanager
def on_nni(ground: Ground, manager: Path, ours: Path) -> Iterator[Running]:
    """Run NNI with the trials of our database and two running ones. ``manager``: its interpreter.

    Raise RuntimeError, TimeoutError.
    """
    place = ground.short_folder()
    code, work = place / "code", place / "work"
    code.mkdir()
    (code / "trial.py").write_text(SLEEPING, encoding="utf-8")
    wanted = past.config_of(place, machines=()) | {
        "searchSpace": past.SPACE,
        "trialCommand": f"{manager} trial.py",
        "experimentWorkingDirectory": str(work),
    }
    del wanted["assessor"], wanted["maxTrialDuration"]  # not needed, and they must not end the two trials
    config = place / "exp.yml"
    # Not as JSON, in which NNI reads 1e-05 as text.
    config.write_text(yaml.safe_dump(wanted), encoding="utf-8")
    port = str(free_port())
    try:
        _nnictl(manager, place, "create", "--config", str(config), "--port", port)
        _both_run(_registered(place, int(port)), 2)
        name = next(iter(_registry(place)))
        _nnictl(manager, place, "stop", name)
        for _ in looks(STOP_LIMIT_S):
            if _registry(place)[name]["status"] == "STOPPED":
                break
        folder = work / name
        count = copy(ours, folder / "db" / "nni.sqlite", f"{folder}/environments/local-env/trials")
        _nnictl(manager, place, "resume", name, "--port", port)
        running = _registered(place, int(port), count)
        _both_run(running, count + 2)
        yield running
    finally:
        ask.end(place)


def _nnictl(manager: Path, place: Path, *arguments: str) -> None:
    """Run nnictl. Raise RuntimeError."""
    log = place / "log"
    with log.open("ab") as output:
        done = subprocess.run(
            [str(manager.parent / "nnictl"), *arguments],
            env=ask.environ(manager, place),
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"nnictl {arguments[0]} ended with {done.returncode}{ask.tail(log)}")


def _registry(place: Path) -> dict[str, Any]:
    text = (place / "nni-experiments" / ".experiment").read_text(encoding="utf-8")
    return dict(json.loads(text))


def _registered(place: Path, port: int, trials: int = 0) -> Running:
    (entry,) = _registry(place).values()
    return Running(url=f"http://127.0.0.1:{port}", pid=int(entry["pid"]), trials=trials)


def _both_run(running: Running, trials: int) -> None:
    """Wait until the experiment has this number of trials, two of them running. Raise RuntimeError."""
    for _ in looks(LIMIT_S, pause_s=0.5):
        try:
            status, listed = running.ask("check-status"), running.ask("trial-jobs")
        except (OSError, ValueError):  # the server does not answer yet
            continue
        if status["status"] == "ERROR":
            raise RuntimeError(f"NNI's experiment failed: {status['errors']}")
        states = [trial["status"] for trial in listed]
        if len(states) == trials and states.count("RUNNING") == 2:
            return

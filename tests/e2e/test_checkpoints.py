"""Trials that save checkpoints, under kill -9, pauses and stops: each shows one uninterrupted run.

The state of a trial is a chain of hashes, and each report shows the newest one. So a curve with a gap, a
repeated step, or a step from a wrong state differs from the curve of a run that nobody has disturbed.
"""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kill import Victim
from tests.processes import kill, of_home

STEPS = 40
TRIALS = 3

TRIAL = f"""
import os, time
import nni

parameters = nni.get_next_parameter()
state = nni.load_checkpoint() or {{"step": 0, "chain": parameters["seed"]}}
for step in range(state["step"], {STEPS}):
    time.sleep(0.05)
    state = {{"step": step + 1, "chain": (state["chain"] * 6364136223846793005 + step) % 2**53}}
    if step % 4 == 3 or nni.should_checkpoint():
        nni.save_checkpoint(state, step=step + 1, metric=state["chain"])
    else:
        nni.report_intermediate_result(state["chain"])
nni.report_final_result(state["chain"])
"""

WAITING = TRIAL.replace(
    "    time.sleep(0.05)\n",
    """    time.sleep(0.05)
    while step == 20 and not nni.should_checkpoint():
        time.sleep(0.05)
""",
)  # until it is asked to save


def chain(seed: int) -> list[int]:
    """Return the states of an uninterrupted run."""
    found = [seed]
    for step in range(STEPS):
        found.append((found[-1] * 6364136223846793005 + step) % 2**53)
    return found[1:]


class Saving(Victim):
    """Experiment whose trials save checkpoints. ``retention``: its field ``checkpoints``."""

    retention: Mapping[str, Any] = {}
    program = TRIAL

    def rolled_back(self, trial_ids: Iterable[str]) -> list[int]:
        """Return for each trial the number of reports that its last attempt has to make again."""
        with contextlib.closing(self._database()) as database:
            query = (
                "SELECT payload FROM facts WHERE kind = 'AttemptDue' AND trial_id = ? "
                "ORDER BY number DESC LIMIT 1"
            )
            payloads = [database.execute(query, (trial_id,)).fetchone()[0] for trial_id in trial_ids]
        return [json.loads(payload).get("rolled_back", 0) for payload in payloads]

    def begin(self, *, trials: int = TRIALS, concurrency: int = 2) -> None:
        code = self.directory / "code"
        code.mkdir()
        (code / "trial.py").write_text(self.program)
        self.experiment = self.create(
            "code",
            {
                "searchSpace": {"seed": {"_type": "randint", "_value": [1, 1_000_000]}},
                "trialCommand": "python3 trial.py",
                "trialCodeDirectory": str(code),
                "trialConcurrency": concurrency,
                "maxTrialNumber": trials,
                "checkpoints": self.retention,
                "maxRetries": {"userError": 100, "infrastructure": 100},
                "tuner": {"name": "Random"},
                "assessor": {"name": "Medianstop", "classArgs": {"start_step": 1000}},
            },
        )

    def trials(self) -> list[dict[str, Any]]:
        return list(json.loads(self.nnictl("trial", "ls", self.experiment, "--json"))["trials"])

    def wait_for_trials(self) -> None:
        """Return when a trial has reported something."""
        while not any(trial["intermediates"] for trial in self.trials()):
            time.sleep(0.05)

    def wait_for_checkpoints(self, trials: int) -> None:
        """Return when this number of trials have saved their state."""
        query = "SELECT count(DISTINCT trial_id) FROM checkpoints"
        with contextlib.closing(self._database()) as database:
            while database.execute(query).fetchone()[0] < trials:
                time.sleep(0.05)

    def kill_trial(self) -> None:
        """Kill -9 one process of a trial."""
        pids = [process.pid for process in of_home(self.home) if process.command == "python3 trial.py"]
        if pids:
            kill(self.draw.choice(pids))

    def act(self, verb: str) -> None:
        """Pause or resume a random trial, or ask it to save. Trials that do not allow this are left alone."""
        trial = self.draw.choice(self.trials())
        command = [self.nnictl_path, "trial", verb, self.experiment, "-T", trial["id"]]
        subprocess.run(command, env=self.environ, capture_output=True, check=False)

    def saved_when_asked(self) -> bool:
        """Return whether a trial has saved its state between two of the saves that it makes by itself."""
        with contextlib.closing(self._database()) as database:
            return bool(database.execute("SELECT 1 FROM checkpoints WHERE step % 4 <> 0").fetchall())

    def finish(self, *, limit_s: float) -> None:
        """Wait until the experiment is done, and tend it meanwhile."""
        deadline = time.monotonic() + limit_s
        while not self.ended():
            assert time.monotonic() < deadline, self.status()
            self.serve()
            self.tend()
            time.sleep(0.2)

    def save_and_load(self) -> None:
        """Put a copy of the stopped experiment, made by save and load, in its place."""
        file = str(self.directory / "saved.zip")
        self.nnictl("experiment", "save", self.experiment, "--path", file)
        self.nnictl("experiment", "delete", self.experiment, "--yes")
        self.nnictl("experiment", "load", "--path", file)

    def tend(self) -> None:
        """Resume all paused trials, so that they end."""
        for trial in self.trials():
            if trial["status"] == "PAUSED":
                self.nnictl("trial", "resume", self.experiment, "-T", trial["id"])

    def check(self) -> None:
        """Compare the shown curve of each trial with an uninterrupted run, and the files with the table."""
        with contextlib.closing(self._database()) as database:
            # a trial that was interrupted before its first checkpoint is run again as another trial
            trials = database.execute(
                "SELECT trial_id, attempt, parameters, status FROM trials WHERE status <> 'SYS_CANCELED'"
            ).fetchall()
            assert len(trials) == TRIALS
            for trial_id, attempt, parameters, status in trials:
                check_curve(database, trial_id, attempt, parameters)
                assert status == "SUCCEEDED"
                saved = database.execute(
                    "SELECT attempt, number FROM checkpoints WHERE trial_id = ? AND state = 'saved'",
                    (trial_id,),
                ).fetchall()
                assert len(saved) <= 3  # the newest two, and the one from which the last attempt continued
                for attempt_of, number in saved:
                    assert self.checkpoint(trial_id, attempt_of, number).is_dir()

    def checkpoint(self, trial_id: str, attempt: int, number: int) -> Path:
        folder = self.folder / "trials" / trial_id
        return (folder if attempt == 1 else folder / f"attempt-{attempt}") / "checkpoints" / str(number)


def check_curve(database: sqlite3.Connection, trial_id: str, attempt: int, parameters: str) -> None:
    """Compare the shown curve of a trial with an uninterrupted run."""
    rows = database.execute(
        "SELECT type, sequence, value FROM metrics WHERE trial_id = ? AND attempt = ? ORDER BY position",
        (trial_id, attempt),
    ).fetchall()
    states = chain(json.loads(parameters)["seed"])
    wanted = [("PERIODICAL", number, float(value)) for number, value in enumerate(states)]
    assert rows == [*wanted, ("FINAL", 0, float(states[-1]))], (trial_id, attempt)


@contextlib.contextmanager
def saving(seed: int, *, program: str = TRIAL, **retention: Any) -> Iterator[Saving]:
    with tempfile.TemporaryDirectory(prefix="nnimgr-checkpoints-") as directory:
        made = Saving(Path(directory), random.Random(seed))
        made.retention, made.program = retention, program
        made.begin()
        try:
            yield made
        finally:
            made.end()


@pytest.mark.kill
@pytest.mark.parametrize("seed", [1, 2])
def test_every_curve_is_that_of_one_uninterrupted_run(seed: int) -> None:
    with saving(seed) as victim:
        victim.wait_for_trials()
        for _ in range(12):
            time.sleep(victim.draw.uniform(0.05, 0.4))
            match victim.draw.choice(["trial", "server", "keeper", "all", "pause", "resume"]):
                case "trial":
                    victim.kill_trial()
                case "pause" | "resume" as verb:
                    victim.serve()
                    victim.act(verb)
                case kind:
                    victim.kill(kind)
                    victim.serve()
        victim.finish(limit_s=120)
        victim.check()


@pytest.mark.parametrize(("how", "loaded"), [([], False), (["--save"], False), (["--save"], True)])
def test_a_stopped_experiment_continues_its_trials_under_their_ids(how: list[str], loaded: bool) -> None:
    with saving(3, program=WAITING) as victim:
        victim.wait_for_trials()
        victim.wait_for_checkpoints(2)
        victim.nnictl("stop", victim.experiment, *how)
        parked = {trial["id"]: trial for trial in victim.trials() if trial["status"] == "PAUSED"}
        assert parked
        assert all("will continue from step" in trial["reason"] for trial in parked.values())
        if loaded:
            victim.save_and_load()
        victim.nnictl("resume", victim.experiment, "--port", str(victim.port))
        if how:
            assert victim.rolled_back(parked) == [0] * len(parked)
        while not victim.ended():
            victim.act("save")
        victim.finish(limit_s=60)
        assert {trial["id"] for trial in victim.trials()} >= set(parked)
        victim.check()


def test_trials_are_asked_to_save_and_their_checkpoints_are_pinned_and_fetched() -> None:
    with saving(4, program=WAITING) as victim:
        victim.wait_for_trials()
        while not victim.ended():
            victim.act("save")
        assert victim.saved_when_asked()
        victim.finish(limit_s=60)
        victim.check()
        trial = victim.trials()[0]
        verb, rest = "checkpoint", (victim.experiment, "-T", trial["id"])
        victim.nnictl("trial", verb, "pin", *rest)
        listed = json.loads(victim.nnictl("trial", verb, "ls", *rest, "--json"))["checkpoints"]
        assert [each["pinned"] for each in listed[-2:]] == [False, True]
        target = victim.directory / "fetched"
        victim.nnictl("trial", verb, "get", *rest, "--output", str(target))
        origin = victim.checkpoint(trial["id"], listed[-1]["attempt"], listed[-1]["number"])
        assert [path.name for path in target.iterdir()] == ["value.pickle"]
        assert (target / "value.pickle").read_bytes() == (origin / "value.pickle").read_bytes()


def test_a_limit_deletes_what_ended_trials_have_left() -> None:
    with saving(5, limit="1b", keepBest=1) as victim:
        victim.finish(limit_s=60)
        with contextlib.closing(victim._database()) as database:
            saved = database.execute("SELECT trial_id, attempt, number, state FROM checkpoints").fetchall()
            (last,) = database.execute(
                "SELECT trial_id FROM trials ORDER BY ended_at DESC LIMIT 1"
            ).fetchone()
        assert {state for *_, state in saved} == {"deleted"}
        folders = [victim.checkpoint(*name) for *name, _ in saved if name[0] != last]
        deadline = time.monotonic() + 20.0
        while any(folder.exists() for folder in folders):  # the keeper deletes them in the background
            assert time.monotonic() < deadline, folders
            time.sleep(0.05)

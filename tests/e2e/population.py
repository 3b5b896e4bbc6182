"""A population whose trials save their state, and the check that each curve is that of its legs.

The state of a trial is a chain of numbers that depends on its parameters, and each report shows the newest
one. A leg continues from the state that its donor has reported for its checkpoint. So a wrong origin, stale
parameters, a lost or a repeated step break the chain.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.processes import Process
from trial_keeper.machine import procs

COMMAND = "python3 trial.py"
INTERVAL = 4  # steps between two decisions about a trial

TRIAL = """
import time
import nni

parameters = nni.get_next_parameter()
state = nni.load_checkpoint() or {"step": 0, "chain": 1}
for step in range(state["step"], STEPS):
    time.sleep(PAUSE)
    add = step + int(parameters["x"] * 1e6)
    state = {"step": step + 1, "chain": (state["chain"] * 6364136223846793005 + add) % 2**53}
    while True:
        try:
            nni.save_checkpoint(state, step=step + 1, metric=state["chain"])
            break
        except OSError:  # the disk is full
            time.sleep(0.05)
while True:
    try:
        nni.report_final_result(state["chain"])
        break
    except OSError:
        time.sleep(0.05)
"""


def after(chain: int, step: int, x: float) -> int:
    """Return the state after this step of a trial with this parameter."""
    return (chain * 6364136223846793005 + step + int(x * 1e6)) % 2**53


@dataclass(frozen=True, slots=True)
class Population:
    """Size of a population, and of its trials. ``pause_s``: duration of one step."""

    members: int = 6
    concurrency: int = 3
    steps: int = 24
    pause_s: float = 0.03

    def write(self, code: Path) -> None:
        """Write the trials' program into the folder ``code``."""
        text = TRIAL.replace("STEPS", str(self.steps)).replace("PAUSE", str(self.pause_s))
        (code / "trial.py").write_text(text)

    def fields(self, code: Path) -> dict[str, Any]:
        """Return the fields of the experiment's configuration, the search space left out."""
        return {
            "trialCommand": COMMAND,
            "trialCodeDirectory": str(code),
            "trialConcurrency": self.concurrency,
            "maxTrialNumber": self.members,
            "maxRetries": {"userError": 100, "infrastructure": 100},
            "goal": "maximize",
            "tuner": {"name": "Random"},
            "scheduler": {
                "name": "PBT",
                "classArgs": {
                    "perturbation_interval": INTERVAL,
                    "synchronous": True,
                    "population_size": self.members,
                    "quantile_fraction": 0.4,
                },
            },
        }

    def check(self, folder: Path) -> int:
        """Compare all visible results of the experiment in this folder with the chains of the legs.

        Return the number of legs. It may be 0: trials run through while the server is away, and the metric
        does not rise with the steps, so a donor that was paused late may have become worse than the trial
        that would continue from it.
        """
        with contextlib.closing(_database(folder)) as database:
            database.row_factory = sqlite3.Row
            trials = database.execute("SELECT * FROM trials").fetchall()
            ends = [(trial["status"], trial["reason"]) for trial in trials]
            assert [status for status, _ in ends] == ["SUCCEEDED"] * self.members, ends
            reported = {
                (row["trial_id"], row["ran"], row["sequence"]): int(float(row["text"]))
                for row in database.execute(
                    "SELECT *, coalesce(ran_in, attempt) AS ran FROM metrics WHERE type = 'PERIODICAL'"
                )
            }
            legs = database.execute("SELECT * FROM legs ORDER BY number").fetchall()
            for trial in trials:
                own = [leg for leg in legs if leg["trial_id"] == trial["trial_id"]]
                self._follow(database, trial, own, reported)
            return len(legs)

    def _follow(
        self,
        database: sqlite3.Connection,
        trial: Any,
        legs: list[Any],
        reported: dict[tuple[str, int, int], int],
    ) -> None:
        """Follow the chain of one trial through its legs."""
        shown = database.execute(
            "SELECT type, sequence, text FROM metrics WHERE trial_id = ? AND attempt = ? ORDER BY position",
            (trial["trial_id"], trial["attempt"]),
        ).fetchall()
        chain, x = 1, _first_parameter(database, trial["trial_id"])
        # first result of a leg, or of an attempt from the beginning -> state before it, parameter
        begins: dict[int, tuple[int, float]] = {0: (chain, x)}
        for leg in sorted([*legs, *_restarts(database, trial["trial_id"])], key=lambda row: row["number"]):
            if leg["reports"] is None:
                begins = {0: (1, x)}
                continue
            donor, x = _donor(leg), json.loads(leg["parameters"])["x"]
            begins = {number: begin for number, begin in begins.items() if number < leg["reports"]}
            begins[leg["reports"]] = reported[donor], x
        *results, final = shown
        expected = 0
        for row in results:
            step = row["sequence"]
            assert step == expected or (step in begins and step > expected)  # a leg may begin further on
            expected = step + 1
            chain, x = begins.get(step, (chain, x))
            chain = after(chain, step, x)
            assert int(float(row["text"])) == chain, (trial["trial_id"], step, begins)
        # A leg from a donor's last state has only a final result; the trial may have been steps behind.
        assert expected == self.steps or self.steps in begins, (trial["trial_id"], expected, begins)
        chain, x = begins.get(self.steps, (chain, x))
        assert (final["type"], int(float(final["text"]))) == ("FINAL", chain), (trial["trial_id"], begins)
        assert json.loads(trial["parameters"])["x"] == x


def facts(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Return the payloads of all facts of this kind, in order."""
    with contextlib.closing(_database(folder)) as database:
        rows = database.execute("SELECT payload FROM facts WHERE kind = ? ORDER BY number", (kind,))
        return [json.loads(payload) for (payload,) in rows]


def cut_newest_checkpoint(process: Process, folder: Path) -> bool:
    """Kill -9 a trial's process, after half of its newest checkpoint is removed from the disk.

    Do it only if no other trial can need that checkpoint: the trial is between two decisions, and has an
    older checkpoint. On a slow machine a trial runs on while the server decides about an earlier report, so
    its steps are counted from the last decision. ``folder``: that of the experiment. Return True if it was
    done.
    """
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGSTOP)
    try:
        file = _newest_file(process.pid)
        if file is None:
            return False
        content = file.read_bytes()
        reported = pickle.loads(content)["step"] + 1  # at most: the next report may be on its way
        decided = _last_decision(folder, _variable(process.pid, "NNI_TRIAL_JOB_ID"))
        if decided is None or reported >= decided + INTERVAL:
            return False
        file.chmod(0o600)
        file.write_bytes(content[: len(content) // 2])
        os.kill(process.pid, signal.SIGKILL)
        return True
    except (ProcessLookupError, FileNotFoundError):
        return False
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)


def _newest_file(pid: int) -> Path | None:
    """Return the file of the newest of several checkpoints that a trial's process, on any host, has saved."""
    place = _variable(pid, "NNI_SYS_DIR")
    if not place:
        return None
    folder = Path(f"/proc/{pid}/root{place}/checkpoints")
    numbers = sorted(int(name) for name in os.listdir(folder) if name.isdecimal())
    return folder / str(numbers[-1]) / "value.pickle" if len(numbers) > 1 else None


def _variable(pid: int, name: str) -> str:
    """Return an environment variable of a process; "" if it has none, or has ended."""
    marks = [text for text in procs.strings(pid, "environ") if text.startswith(f"{name}=")]
    return marks[0].partition("=")[2] if marks else ""


def _last_decision(folder: Path, trial_id: str) -> int | None:
    """Return the number of reports at which the last decision about the trial was made; None if it pauses."""
    found, pausing = 0, False
    with contextlib.closing(_database(folder)) as database:
        query = "SELECT payload FROM facts WHERE kind IN ('Decided', 'AttemptDue') ORDER BY number"
        for payload in (json.loads(text) for (text,) in database.execute(query)):
            if payload["trial_id"] != trial_id:
                continue
            if payload.get("kind") == "pause":
                found, pausing = payload["rung"], True
            elif "attempt" in payload:
                pausing = False
                origin = payload.get("origin") or {}
                if origin.get("trial_id") is not None:  # it continues from another trial's state
                    found = origin["reports"]
    return None if pausing else found


def _donor(leg: Any) -> tuple[str, int, int]:
    """Return the result with which a leg begins: its trial, its attempt and its number."""
    return leg["origin_trial_id"], leg["origin_attempt"], leg["reports"] - 1


def _restarts(database: sqlite3.Connection, trial_id: str) -> list[Any]:
    """Return the facts by which a trial has begun again, because no checkpoint of its leg was left."""
    return database.execute(
        "SELECT number, NULL AS reports FROM facts WHERE kind = 'AttemptDue' AND trial_id = ? "
        "AND json_extract(payload, '$.origin') IS NULL",
        (trial_id,),
    ).fetchall()


def _first_parameter(database: sqlite3.Connection, trial_id: str) -> float:
    (payload,) = database.execute(
        "SELECT payload FROM facts WHERE kind = 'Suggested' AND trial_id = ?", (trial_id,)
    ).fetchone()
    return float(json.loads(json.loads(payload)["parameters"])["x"])


def _database(folder: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{folder}/db/nnimgr.sqlite?mode=ro", uri=True)

"""Population based training under kill -9: each curve is one uninterrupted run of the trial's legs.

The state of a trial is a chain of numbers that depends on its parameters, and each report shows the newest
one. A leg continues from the state that its donor has reported for its checkpoint. So a wrong origin, stale
parameters, a lost or a repeated step break the chain.
"""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_checkpoints import Saving

STEPS = 24
MEMBERS = 6
TRIAL = f"""
import time
import nni

parameters = nni.get_next_parameter()
state = nni.load_checkpoint() or {{"step": 0, "chain": 1}}
for step in range(state["step"], {STEPS}):
    time.sleep(0.03)
    add = step + int(parameters["x"] * 1e6)
    state = {{"step": step + 1, "chain": (state["chain"] * 6364136223846793005 + add) % 2**53}}
    nni.save_checkpoint(state, step=step + 1, metric=state["chain"])
nni.report_final_result(state["chain"])
"""


def after(chain: int, step: int, x: float) -> int:
    """Return the state after this step of a trial with this parameter."""
    return (chain * 6364136223846793005 + step + int(x * 1e6)) % 2**53


class Population(Saving):
    """Experiment whose trials are trained as a population."""

    def begin(self, *, trials: int = MEMBERS, concurrency: int = 3) -> None:
        code = self.directory / "code"
        code.mkdir()
        (code / "trial.py").write_text(TRIAL)
        self.experiment = self.create(
            "code",
            {
                "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
                "trialCommand": "python3 trial.py",
                "trialCodeDirectory": str(code),
                "trialConcurrency": concurrency,
                "maxTrialNumber": trials,
                "maxRetries": {"userError": 100, "infrastructure": 100},
                "goal": "maximize",
                "tuner": {"name": "Random"},
                "scheduler": {
                    "name": "PBT",
                    "classArgs": {
                        "perturbation_interval": 4,
                        "synchronous": True,
                        "population_size": MEMBERS,
                        "quantile_fraction": 0.4,
                    },
                },
            },
        )

    def tend(self) -> None:
        """Leave paused trials to the scheduler."""

    def check(self) -> None:
        """Compare all visible results with the chains of the legs."""
        with contextlib.closing(self._database()) as database:
            database.row_factory = sqlite3.Row
            trials = database.execute("SELECT * FROM trials").fetchall()
            assert [trial["status"] for trial in trials] == ["SUCCEEDED"] * MEMBERS
            reported = {
                (row["trial_id"], row["ran"], row["sequence"]): int(float(row["text"]))
                for row in database.execute(
                    "SELECT *, coalesce(ran_in, attempt) AS ran FROM metrics WHERE type = 'PERIODICAL'"
                )
            }
            legs = database.execute("SELECT * FROM legs ORDER BY number").fetchall()
            assert legs
            for trial in trials:
                shown = database.execute(
                    "SELECT type, sequence, text FROM metrics WHERE trial_id = ? AND attempt = ? "
                    "ORDER BY position",
                    (trial["trial_id"], trial["attempt"]),
                ).fetchall()
                self._follow(
                    trial, [leg for leg in legs if leg["trial_id"] == trial["trial_id"]], shown, reported
                )

    def _follow(
        self,
        trial: Any,
        legs: list[Any],
        shown: list[Any],
        reported: dict[tuple[str, int, int], int],
    ) -> None:
        """Follow the chain of one trial through its legs."""
        first = json.loads(self._suggested(trial["trial_id"]))["x"]
        begins: dict[int, tuple[int, float]] = {}  # first result of a leg -> state before it, parameter
        for leg in legs:
            donor = leg["origin_trial_id"], leg["origin_attempt"], leg["reports"] - 1
            begins = {number: begin for number, begin in begins.items() if number < leg["reports"]}
            begins[leg["reports"]] = reported[donor], json.loads(leg["parameters"])["x"]
        chain, x = 1, first
        *results, final = shown
        expected = 0
        for row in results:
            step = row["sequence"]
            assert step == expected or (step in begins and step > expected)  # a leg may begin further on
            expected = step + 1
            chain, x = begins.get(step, (chain, x))
            chain = after(chain, step, x)
            assert int(float(row["text"])) == chain, (trial["trial_id"], step, begins)
        assert expected == STEPS
        assert (final["type"], int(float(final["text"]))) == ("FINAL", chain)
        assert json.loads(trial["parameters"])["x"] == x

    def _suggested(self, trial_id: str) -> str:
        with contextlib.closing(self._database()) as database:
            (payload,) = database.execute(
                "SELECT payload FROM facts WHERE kind = 'Suggested' AND trial_id = ?", (trial_id,)
            ).fetchone()
        return str(json.loads(payload)["parameters"])


@pytest.mark.kill
@pytest.mark.parametrize("seed", [1, 2])
def test_every_curve_is_that_of_its_legs(seed: int) -> None:
    with tempfile.TemporaryDirectory(prefix="nnimgr-population-") as directory:
        population = Population(Path(directory), random.Random(seed))
        population.begin()
        try:
            population.wait_for_trials()
            for _ in range(12):
                time.sleep(population.draw.uniform(0.05, 0.4))
                match population.draw.choice(["trial", "server", "keeper", "dispatcher", "all"]):
                    case "trial":
                        population.kill_trial()
                    case kind:
                        population.kill(kind)
                        population.serve()
            population.finish(limit_s=120)
            population.check()
        finally:
            population.stop_all()
            for server in population.servers:
                server.kill()
                server.wait()

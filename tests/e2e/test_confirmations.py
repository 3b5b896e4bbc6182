"""The best trials are run again with other seeds, by a real server that is killed meanwhile."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.e2e.scene import Scene, eventually
from tests.server.harness import nothing_left, serving

TRIAL = """
import nni

x, seed = nni.get_next_parameter()["x"], nni.get_trial_seed()
nni.report_final_result(x + seed / 10)
"""


def test_the_best_trials_are_confirmed(tmp_path: Path) -> None:
    with nothing_left(tmp_path):
        with serving(tmp_path) as server:
            found = Scene(server, tmp_path)
            found.create(
                found.script(TRIAL),
                maxTrialNumber=3,
                goal="maximize",
                initialParameters=[{"x": 0.25}, {"x": 0.75}, {"x": 0.5}],
                confirmBest={"top": 2, "runs": 3},
            )
            eventually(lambda: found.profile()["confirmations"]["made"], "the first confirmation")
            server.end(signal.SIGKILL)
        with serving(tmp_path, port=server.port) as found.server:
            trials = found.done()
            assert [trial["source"] for trial in trials] == ["customized"] * 3 + ["confirmation"] * 6
            assert [trial["retryOf"] for trial in trials[3:5]] == [trials[1]["id"], trials[2]["id"]]
            profile = found.profile()
            assert profile["bestTrial"]["value"] == 0.75
            assert profile["reason"] == "3 of 3 trials; 6 runs repeated the best 2 trials"
            first, second = profile["confirmations"]["trials"]
            assert (first["sequence"], second["sequence"]) == (1, 2)
            assert (first["usable"], first["unusable"], first["open"]) == (3, 0, 0)
            numbers = [first[name] for name in ("mean", "deviation", "low", "high")]
            assert numbers == pytest.approx([0.95, 0.1, 0.95 - 0.24842, 0.95 + 0.24842], abs=1e-4)
            assert second["mean"] == pytest.approx(0.7)
            status = json.loads(found.nnictl("experiment", "status", "exp", "--json"))
            assert status["confirmations"] == profile["confirmations"]
            assert found.server.call("POST", f"{found.url}/stop").status < 300

"""While a tuner thinks, everything else goes on: its own trials, their assessor, REST, other experiments.

The tuner thinks until the test lets it, so that what is compared is the order of events and not time.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.e2e.scene import eventually, scene

ALGORITHMS = """
from nni.assessor import Assessor, AssessResult
from nni.tuner import Tuner

class Slow(Tuner):
    def __init__(self, gate):
        self.gate = gate
    def update_search_space(self, search_space):
        pass
    def generate_parameters(self, parameter_id, **kwargs):
        if parameter_id:
            open(self.gate).read()  # until somebody writes
        return {"x": parameter_id}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        pass

class Strict(Assessor):
    def assess_trial(self, trial_job_id, trial_history):
        return AssessResult(len(trial_history) < 3)
"""
TRIAL = """
import signal
import nni
parameters = nni.get_next_parameter()
for number in range(3):
    nni.report_intermediate_result(number)
    if parameters.get("quick"):
        nni.report_final_result(1)
        raise SystemExit
signal.pause()
"""


def test_a_tuner_that_thinks_stands_in_nobodys_way(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    (tmp_path / "slow.py").write_text(ALGORITHMS)
    with scene(tmp_path) as found:
        own = {"codeDirectory": str(tmp_path)}
        command = found.script(TRIAL)
        found.create(
            command,
            tuner={"className": "slow.Slow", "classArgs": {"gate": str(gate)}, **own},
            assessor={"className": "slow.Strict", **own},
            trialConcurrency=2,
            maxTrialNumber=6,
        )
        eventually(lambda: [t for t in found.trials() if t["status"] == "EARLY_STOPPED"], "a verdict")
        added = found.server.call("POST", f"{found.url}/trials", {"parameters": {"quick": True}})
        assert added.status == 201, added.body
        eventually(lambda: [t for t in found.trials() if t["status"] == "SUCCEEDED"], "a user's own trial")
        other = found.body("true") | {"id": "other"}
        assert found.server.call("POST", "/api/v1/experiments", other).status == 201
        url = "/api/v1/experiments/other"
        eventually(lambda: found.server.call("GET", url).body["status"] == "DONE", "another experiment")
        changed = found.server.call("PATCH", found.url, {"trialConcurrency": 3})
        assert changed.status == 200, changed.body
        assert "generate_parameters has been running for" in found.saying("has been running for")
        assert len(found.trials()) == 2
        gate.write_text("go on\n")
        eventually(lambda: len(found.trials()) == 3, "the set that was thought about")
        kinds = [
            (kind, data.get("source") or data.get("status"))
            for _, kind, data in found.events()
            if kind in ("Suggested", "TrialEnded", "ConfigChanged", "Verdict")
        ]
        assert kinds[:7] == [
            ("Suggested", "algorithm"),
            ("Verdict", None),
            ("TrialEnded", "EARLY_STOPPED"),
            ("Suggested", "customized"),
            ("TrialEnded", "SUCCEEDED"),
            ("ConfigChanged", None),
            ("Suggested", "algorithm"),
        ]

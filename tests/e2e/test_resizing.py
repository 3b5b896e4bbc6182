"""The scheduler Resources gives the last trial what the others have left free, on a real server."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.scene import scene

TRIAL = """
import time
import nni

x = nni.get_next_parameter()["x"]
state = nni.load_checkpoint() or {"step": 0}
for step in range(state["step"], 20 if x > 0.5 else 2):
    nni.save_checkpoint({"step": step + 1}, step=step + 1, metric=x)
    time.sleep(0.1)
nni.report_final_result(x)
"""


def test_the_best_trial_gets_what_is_free(tmp_path: Path) -> None:
    with scene(tmp_path) as found:
        found.create(
            found.script(TRIAL),
            maxTrialNumber=2,
            trialConcurrency=2,
            trialCpuNumber=0.5,
            goal="maximize",
            initialParameters=[{"x": 0.25}, {"x": 0.75}],
            scheduler={"name": "Resources", "classArgs": {"total": {"trialCpuNumber": 1}}},
        )
        short, long = found.done()
        assert (short["status"], long["status"]) == ("SUCCEEDED", "SUCCEEDED")
        assert (short["attempt"], long["attempt"]) == (1, 2)
        due = [data for _, kind, data in found.events() if kind == "AttemptDue"]
        assert [(data["trialId"], data["resources"]) for data in due] == [
            (long["id"], {"trialCpuNumber": 1.0})
        ]
        why = "no more trials come, and it is number 1 of 1 trials that run"
        assert due[0]["reason"].startswith(f"the scheduler gives it other resources: {why}; ")

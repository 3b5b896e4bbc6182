"""Trials that fail: tried again, told to the tuner in their own way, and run again by one command."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.scene import scene

TUNER = """
import json
import nni.tuner

class Mine(nni.tuner.Tuner):
    def __init__(self):
        self.told = []
    def update_search_space(self, search_space):
        pass
    def generate_parameters(self, parameter_id, **kwargs):
        return {"told": self.told}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        self.told.append([parameter_id, value])
    def trial_end(self, parameter_id, success, **kwargs):
        self.told.append([parameter_id, success])
"""
TRIAL = """
import os, pathlib, sys
import nni
nni.get_next_parameter()
sequence = int(os.environ["NNI_TRIAL_SEQ_ID"])
flag = pathlib.Path(os.environ["NNI_CODE_DIR"]) / f"tried-{sequence}"
if sequence == 0:
    nni.report_final_result(0.25)
elif sequence == 1:
    nni.report_final_result(9.0)
    sys.exit(3)
elif not flag.exists():
    flag.touch()
    nni.report_final_result(5.0)
    sys.exit(4)
else:
    nni.report_final_result(0.75)
"""


def test_failures_from_first_to_last(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TUNER)
    with scene(tmp_path) as here:
        here.create(
            here.script(TRIAL),
            maxTrialNumber=3,
            maxRetries={"userError": 1},
            onFailure="penalty",
            tuner={"className": "mine.Mine", "codeDirectory": str(tmp_path)},
        )
        first, second, third = here.done()
        assert [trial["status"] for trial in (first, second, third)] == ["SUCCEEDED", "FAILED", "SUCCEEDED"]
        assert second["reason"] == (
            "exited with code 3; it has failed 2 times; the tuner gets the result 0.25 instead"
        )
        assert third["parameters"] == {"told": [[0, 0.25], [0, True], [1, 0.25], [1, False]]}
        assert (third["attempt"], third["finalValue"]) == (2, 0.75)
        assert here.profile()["bestTrial"]["value"] == 0.75

        printed = here.nnictl("trial", "retry", "exp", "--failed")
        fourth = here.done()[3]
        assert (
            f"Trial {second['sequence']} ({second['id']}) is retried as trial 3 ({fourth['id']})." in printed
        )
        assert (fourth["retryOf"], fourth["status"]) == (second["id"], "SUCCEEDED")
        assert fourth["parameters"] == second["parameters"] and fourth["source"] == "rerun"
        assert here.profile()["status"] == "DONE" and len(here.trials()) == 4
        assert "No failed trial is left" in here.nnictl("trial", "rerun", "exp", "--failed")
        for trial, why in (
            (second, f"was retried already, as trial 3 ({fourth['id']})"),
            (first, "has not failed: it is SUCCEEDED"),
        ):
            answer = here.server.call("POST", f"{here.url}/rerun", {"trialIds": [trial["id"]]})
            assert answer.status == 409
            assert answer.body["error"]["message"] == f"Trial {trial['sequence']} ({trial['id']}) {why}."
        assert here.server.call("POST", f"{here.url}/rerun", {"trialIds": ["none"]}).status == 404
        json.dumps(here.events())

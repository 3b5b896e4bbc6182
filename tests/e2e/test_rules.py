"""What an experiment asks of parameter sets, with a real server: constraints, duplicates, initial sets."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from textwrap import dedent
from typing import Any

from tests.e2e.scene import Scene, scene

TRIAL = """
import nni
parameters = nni.get_next_parameter()
nni.report_final_result(sum(value for value in parameters.values() if isinstance(value, (int, float))))
"""
UNIFORM = {"_type": "uniform", "_value": [0, 1]}
OWN = """
import random
from nni.tuner import Tuner

class Ignorant(Tuner):
    def update_search_space(self, search_space):
        self.random = random.Random(1)
    def generate_parameters(self, parameter_id, **kwargs):
        return {"x": self.random.random(), "y": self.random.random()}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        assert parameters["x"] < parameters["y"]
"""


def create(found: Scene, space: Any, **fields: Any) -> None:
    body = found.body(found.script(TRIAL), **fields)
    body["searchSpace"] = space
    answer = found.server.call("POST", "/api/v1/experiments", body)
    assert answer.status == 201, answer.body


def refusal(answer: Any) -> str:
    assert answer.status == 409, answer.body
    return str(answer.body["error"]["message"])


def test_constraints_hold_from_the_first_trial_to_the_last(tmp_path: Path) -> None:
    with scene(tmp_path) as found:
        create(
            found,
            {"x": UNIFORM, "y": UNIFORM},
            tuner={"name": "TPE"},
            searchSpaceConstraints=["x < y"],
            initialParameters=[{"x": 0, "y": 0.5}, {"x": 0.75}],
            duplicates="skip",
            trialConcurrency=2,
            maxTrialNumber=9,
        )
        share = found.profile()["feasibleShare"]
        assert 0.45 < share < 0.55
        assert json.loads(found.nnictl("experiment", "status", "exp", "--json"))["feasibleShare"] == share
        sentence = "the constraint x < y is not met by x = 1, y = 0"
        wrong = {"x": 1, "y": 0}
        answer = found.server.call("POST", f"{found.url}/trials", {"parameters": wrong})
        assert sentence in refusal(answer)
        answer = found.server.call("POST", "/e/exp/api/v1/nni/trial-jobs", wrong)
        assert answer.status >= 400 and sentence in json.dumps(answer.body)
        trials = found.done()
        sets = [trial["parameters"] for trial in trials]
        assert len(sets) == 9 and all(each["x"] < each["y"] for each in sets)
        assert sets[0] == {"x": 0.0, "y": 0.5} and sets[1]["x"] == 0.75
        assert [trial["source"] for trial in trials] == ["customized"] * 2 + ["algorithm"] * 7
        space = found.directory / "space.json"
        space.write_text(json.dumps({"z": UNIFORM}))
        answer = found.server.call("PATCH", found.url, {"searchSpace": {"z": UNIFORM}})
        assert answer.status == 400 and "the search space has no parameter x" in json.dumps(answer.body)
        other = found.directory / "constraints.yml"
        other.write_text("- z > 0.5\n")
        found.nnictl("update", "searchspace", "exp", "-f", str(space), "--constraints", str(other))
        found.nnictl("update", "trialnum", "exp", "-v", "11")
        assert [trial["parameters"]["z"] > 0.5 for trial in found.done()[9:]] == [True, True]


def test_a_tuner_that_knows_nothing_of_constraints(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "ignorant.py").write_text(dedent(OWN))
    with scene(tmp_path) as found:
        create(
            found,
            {"x": UNIFORM, "y": UNIFORM},
            tuner={"className": "ignorant.Ignorant", "codeDirectory": str(own)},
            searchSpaceConstraints=["x < y", "x + y < 1"],
            maxTrialNumber=6,
        )
        sets = [trial["parameters"] for trial in found.done()]
        assert all(each["x"] < each["y"] and each["x"] + each["y"] < 1 for each in sets)
        assert not found.profile()["errors"]


def test_results_are_reused(tmp_path: Path) -> None:
    """Two trials run, the others have their results; whoever asks finds them as if they had run."""
    with scene(tmp_path) as found:
        space = {"x": {"_type": "choice", "_value": [1, 2]}}
        create(found, space, duplicates="reuse", maxTrialNumber=8, suggestionsAhead=0)
        trials = found.done()
        ran = [trial for trial in trials if trial["startedAt"] is not None]
        assert sorted(trial["parameters"]["x"] for trial in ran) == [1, 2]
        assert {trial["status"] for trial in trials} == {"SUCCEEDED"} and len(trials) == 8
        by_id = {trial["id"]: trial for trial in ran}
        for trial in trials:
            assert trial["finalValue"] == trial["parameters"]["x"]
            if trial["id"] not in by_id:
                origin = trial["reason"].partition("it has the result of trial ")[2].partition(",")[0]
                assert by_id[origin]["parameters"] == trial["parameters"]
        exported = json.loads(found.nnictl("experiment", "export", "exp"))
        assert [each["parameter"] for each in exported] == [trial["parameters"] for trial in trials]
        listed = found.server.call("GET", "/e/exp/api/v1/nni/trial-jobs").body
        assert all(trial["finalMetricData"] for trial in listed)
        history = found.get("/analysis/history")
        assert history
        with closing(found.server.connection()) as connection:
            connection.request("GET", f"{found.url}/analysis/timeline", headers=found.server.bearer)
            assert connection.getresponse().status == 200

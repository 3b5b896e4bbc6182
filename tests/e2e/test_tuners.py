"""Real experiments of each tuner: they end when it has no more to give, and a user's own is what NNI runs."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.e2e.scene import DEADLINE_S, Scene, eventually, scene
from tests.processes import dispatchers

REPORT = """
import nni
parameters = nni.get_next_parameter()
if parameters.get("x") == "fail":
    raise SystemExit(3)
nni.report_final_result(float("nan") if parameters.get("x") == "nan" else len(str(parameters)))
"""


def create(found: Scene, space: Any, tuner: dict[str, Any], **more: Any) -> None:
    """An experiment without a limit of its own."""
    body = found.body(found.script(REPORT), tuner=tuner, trialConcurrency=2, **more)
    del body["config"]["maxTrialNumber"]
    body["searchSpace"] = space
    answer = found.server.call("POST", "/api/v1/experiments", body)
    assert answer.status == 201, answer.body


@pytest.mark.parametrize(
    ("name", "space", "sets"),
    [
        (
            "batch",
            {"combine_params": {"_type": "choice", "_value": [{"x": 1}, {"x": "fail"}, {"x": 1}]}},
            [{"x": 1}, {"x": "fail"}, {"x": 1}],
        ),
        (
            "GRIDSEARCH",
            {"x": {"_type": "quniform", "_value": [0, 1, 0.5]}},
            [{"x": 0.5}, {"x": 0.0}, {"x": 1.0}],
        ),
        ("tpe", {"x": {"_type": "choice", "_value": [1, "nan", "fail"]}}, None),
    ],
)
def test_an_experiment_ends_when_its_tuner_has_no_more(
    tmp_path: Path, name: str, space: Any, sets: list[Any] | None
) -> None:
    with scene(tmp_path) as found:
        create(found, space, {"name": name})
        trials = found.done()
        given = [trial["parameters"] for trial in trials]
        if sets is None:
            assert {str(each["x"]) for each in given} == {"1", "nan", "fail"} and len(given) == 3
        else:
            assert given == sets
        assert found.said() == "the tuner has no more parameter sets"


PATIENT = """
import os, time
import nni
from nni.tuner import Tuner

result = open(os.path.join(os.path.dirname(__file__), "result.txt"), "w")

class Patient(Tuner):
    def __init__(self, sets):
        self.sets, self.reported = sets, 0
    def update_search_space(self, search_space):
        self.space = search_space
    def generate_parameters(self, parameter_id, **kwargs):
        if parameter_id >= self.sets:
            raise nni.NoMoreTrialError("that was all")
        while parameter_id and not self.reported:
            time.sleep(0.01)
        return {"x": parameter_id}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        self.reported += 1
        result.write("%d %d\\n" % (parameters["x"], value))
        result.flush()
    def _on_exit(self):
        result.write("EXIT\\n")
        result.close()
"""


def test_a_tuner_of_the_users_own(tmp_path: Path) -> None:
    """It waits in generate_parameters for another trial's result, and writes files next to itself."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "patient.py").write_text(dedent(PATIENT))
    with scene(tmp_path) as found:
        tuner = {"className": "patient.Patient", "codeDirectory": str(own), "classArgs": {"sets": 3}}
        create(found, {"anything": 1}, tuner)
        trials = found.done()
        assert [trial["parameters"]["x"] for trial in trials] == [0, 1, 2]
    lines = (own / "result.txt").read_text().splitlines()
    assert sorted(lines[:3]) == ["0 8", "1 8", "2 8"] and lines[3:] == ["EXIT"]


HEARING = """
import json, os
from nni.tuner import Tuner

folder = os.path.dirname(__file__)

class Hearing(Tuner):
    replayable = True
    def __init__(self):
        self.heard = []
    def update_search_space(self, search_space):
        pass
    def generate_parameters(self, parameter_id, **kwargs):
        return {"x": parameter_id, "heard": len(self.heard)}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        self.heard.append([parameter_id, "final", value])
    def receive_intermediate_result(self, parameter_id, parameters, value, *, sequence, trial_job_id):
        self.heard.append([parameter_id, sequence, value])
        with open(os.path.join(folder, "count.txt"), "w") as file:
            file.write(str(len(self.heard)))
    def _on_exit(self):
        with open(os.path.join(folder, "heard.json"), "w") as file:
            json.dump(self.heard, file)
"""
REPORTING = """
import os, sys, time
import nni
x = nni.get_next_parameter()["x"]
for step in range(20):
    while step >= 10 and not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    nni.report_intermediate_result(100 * x + step)
nni.report_final_result(x)
"""


def test_a_tuner_that_was_killed_gets_every_intermediate_result(tmp_path: Path) -> None:
    """It is replayed: sets that depend on the results before them have to come out as before."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "hearing.py").write_text(dedent(HEARING))
    gate, count = tmp_path / "gate", own / "count.txt"
    with scene(tmp_path) as found:
        found.create(
            found.script(REPORTING) + f" {gate}",
            tuner={"className": "hearing.Hearing", "codeDirectory": str(own)},
            trialConcurrency=2,
            maxTrialNumber=5,
        )
        eventually(lambda: count.exists() and count.read_text() == "20", "the first results")
        for process in dispatchers(found.server.home.path):
            os.kill(process.pid, signal.SIGKILL)
        gate.touch()  # the other results come while the tuner is restarted
        trials = sorted(found.done(), key=lambda each: each["sequence"])
        assert [each["call"] for each in found.profile()["errors"]] == ["process"]
    heard = json.loads((own / "heard.json").read_text())
    for x in range(5):
        expected = [*([x, step, 100 * x + step] for step in range(20)), [x, "final", x]]
        assert [each for each in heard if each[0] == x] == expected
    assert [trial["parameters"]["x"] for trial in trials] == list(range(5))
    assert trials[2]["parameters"]["heard"] >= 21


SEVERAL = """
import nni
parameters = nni.get_next_parameter()
n = parameters["n"]
if n == 5:
    raise SystemExit(3)
nni.report_intermediate_result({"cost": n, "default": 0})
nni.report_final_result({"gain": 0.5 * n, "cost": n} if n != 4 else {"gain": 100})
"""


def test_several_objectives_from_the_trial_to_the_pareto_set(tmp_path: Path) -> None:
    """The more gain the more cost, but for the trials that fail or forget the cost."""
    with scene(tmp_path) as found:
        body = found.body(
            found.script(SEVERAL),
            tuner={"name": "NSGA2", "classArgs": {"population_size": 2, "seed": 1}},
            objectives={"gain": "maximize", "cost": "minimize"},
            onFailure="penalty",
            maxTrialNumber=6,
        )
        body["searchSpace"] = {"n": {"_type": "randint", "_value": [0, 6]}}
        answer = found.server.call("POST", "/api/v1/experiments", body)
        assert answer.status == 201, answer.body
        ended = {trial["parameters"]["n"]: trial for trial in found.done(2 * DEADLINE_S)}
        assert sorted(ended) == list(range(6))
        assert [ended[n]["finalValue"] for n in range(6)] == [0.0, 0.5, 1.0, 1.5, None, None]
        assert ended[5]["status"] == "FAILED"
        assert 'is a mapping without "cost"' in ended[4]["reason"]
        profile = found.profile()
        assert (profile["bestTrial"]["parameters"], profile["optimizeMode"]) == ({"n": 3}, "maximize")
        pareto = found.get("/analysis/pareto")
        assert [each["name"] for each in pareto["objectives"]] == ["gain", "cost"]
        assert [each["values"] for each in pareto["trials"]] == [
            {"gain": 0.5 * n, "cost": float(n)} for n in (3, 2, 1, 0)
        ]
        assert profile["errors"] == []

"""Trials with NNI's own SDKs, as published and unmodified, in an experiment of ours; and several phases."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.answers import Side
from tests.e2e.metric_routes import Reported, unlike
from tests.e2e.scene import Scene, eventually, scene
from tests.e2e.sdks import VERSIONS, NoSdk, sdk_python
from tests.processes import holders
from tests.server.harness import free_port, nothing_left, serving

LIMIT_S = 120.0  # an SDK of NNI takes seconds to import, and starts a process for each metric

FLOOD = """
import nni
parameters = nni.get_next_parameter()
for number in range(1000):
    nni.report_intermediate_result(number / 16)
nni.report_final_result({"default": parameters["x"], "sdk": nni.__version__})
"""

VALUES = """
import logging, nni, numpy
print("printed")
logging.getLogger("mine").info("logged")
nni.get_next_parameter()
for value in (1, 1e-7, float("nan"), float("-inf"), "a\\u00e9\\n", {"default": 2, "\\u00e9": [1, None]},
              numpy.float32(0.5), {"default": numpy.int64(3)}):
    nni.report_intermediate_result(value)
nni.report_final_result(0.5)
nni.report_final_result(0.75)
"""

TWICE = """
import nni
nni.get_next_parameter()
print(nni.get_next_parameter(), nni.get_current_parameter())
nni.report_final_result(1)
"""

PHASES = """
import nni
while True:
    parameters = nni.get_next_parameter()
    if parameters is None:
        break
    nni.report_intermediate_result(parameters["n"])
    nni.report_final_result(parameters["n"] * 10)
"""

TUNER = """
import json, os, time
from nni import NoMoreTrialError
from nni.tuner import Tuner

HERE = os.path.dirname(os.path.abspath(__file__))

class Mine(Tuner):
    def __init__(self):
        self.given = 0
    def update_search_space(self, search_space):
        pass
    def dump_state(self):
        return self.given
    def load_state(self, state):
        self.given = state
    def generate_parameters(self, parameter_id, trial_job_id=None, **kwargs):
        if trial_job_id is not None:
            while not os.path.exists(os.path.join(HERE, "go")):
                time.sleep(0.01)
        if self.given == 3:
            raise NoMoreTrialError
        self.given += 1
        self.say("give", parameter_id, self.given)
        return {"n": self.given}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        self.say("result", parameter_id, parameters["n"], value)
    def trial_end(self, parameter_id, success, **kwargs):
        self.say("end", parameter_id, success)
    def say(self, *words):
        with open(os.path.join(HERE, "calls"), "a") as file:
            file.write(json.dumps(words) + "\\n")
"""


def sdk(version: str) -> Path:
    try:
        return sdk_python(version)
    except NoSdk as refusal:
        pytest.skip(str(refusal))


def command(here: Scene, python: Path, program: str) -> str:
    (here.directory / "trial.py").write_text(program)
    return f"{python} {here.directory / 'trial.py'}"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_thousand_metrics_just_before_the_exit_are_all_recorded_in_order(
    tmp_path: Path, version: str
) -> None:
    python = sdk(version)
    with scene(tmp_path) as here:
        here.create(command(here, python, FLOOD))
        (trial,) = here.done(LIMIT_S)
        *found, final = here.metrics(trial["id"])
        told = [(m["position"], m["type"], m["sequence"], m["text"], m["parameterId"]) for m in found]
        assert told == [(n, "PERIODICAL", n, repr(n / 16), "0") for n in range(1000)]
        assert json.loads(final["text"]) == {"default": trial["parameters"]["x"], "sdk": version}
        assert (final["type"], trial["status"]) == ("FINAL", "SUCCEEDED")
        assert trial["finalValue"] == trial["parameters"]["x"]
        texts = [metric["text"] for metric in found]
        reported = Reported(id=trial["id"], sequence=0, texts=texts, final=final["text"])
        side = Side(port=here.server.port, places={}, token=here.server.home.token())
        assert unlike(side, [reported]) == []
        assert "metric-data-latest" in unlike(side, [replace(reported, texts=texts[:-1])])
        assert {"trial-jobs", "export-data"} <= set(unlike(side, [replace(reported, final="0")]))


@pytest.mark.parametrize("version", VERSIONS)
def test_what_trials_report_print_and_log_is_kept(tmp_path: Path, version: str) -> None:
    python = sdk(version)
    with scene(tmp_path) as here:
        here.create(command(here, python, VALUES))
        (trial,) = here.done(LIMIT_S)
        assert [metric["text"] for metric in here.metrics(trial["id"])] == [
            *("1", "1e-07", "NaN", "-Infinity", '"a\\u00e9\\n"'),
            '{"default": 2, "\\u00e9": [1, null]}',
            *("0.5", '{"default": 3}', "0.5", "0.75"),
        ]
        assert trial["finalValue"] == 0.5  # NNI keeps the first
        log = here.log(trial["id"], "trial.log").decode()
        assert " PRINT printed\n" in log and "INFO (mine/MainThread) logged\n" in log


@pytest.mark.parametrize("version", VERSIONS)
def test_a_second_parameter_set_is_none_and_the_trial_says_what_went_wrong(
    tmp_path: Path, version: str
) -> None:
    python = sdk(version)
    with scene(tmp_path) as here:
        here.create(command(here, python, TWICE))
        (trial,) = here.done(LIMIT_S)
        assert (trial["status"], trial["reason"][:19]) == ("FAILED", "exited with code 1:")
        assert "nni.get_next_parameter() needs to be called before report_final_result" in trial["reason"]
        assert "PRINT None None" in here.log(trial["id"], "trial.log").decode()


def test_our_own_sdk_has_the_experiment_say_it_on_the_trial(tmp_path: Path) -> None:
    program = "import nni\nnni.get_next_parameter()\nassert nni.get_next_parameter() is None\n"
    with scene(tmp_path) as here:
        here.create(here.script(program))
        (trial,) = here.done()
        assert (trial["status"], trial["note"]) == (
            "SUCCEEDED",
            "the trial asked for parameter set 2, but each trial gets only one (multiPhase is not set): "
            "the trial gets None",
        )


@pytest.mark.parametrize("version", ["ours", *VERSIONS])
def test_a_trial_of_several_phases_gets_its_sets_though_all_but_the_trial_is_killed(
    tmp_path: Path, version: str
) -> None:
    python = "python3" if version == "ours" else sdk(version)
    port = free_port()
    (tmp_path / "algorithm.py").write_text(TUNER)
    with nothing_left(tmp_path):
        with serving(tmp_path, port=port) as server:
            here = Scene(server, tmp_path)
            tuner = {"className": "algorithm.Mine", "codeDirectory": str(tmp_path)}
            here.create(command(here, Path(python), PHASES), multiPhase=True, tuner=tuner)
            waiting = "waits for parameter set 2 from the tuner"
            eventually(lambda: here.trials() and here.trial()["reason"] == waiting, waiting, LIMIT_S)
            server.end(signal.SIGKILL)
        (keeper,) = holders(here.folder / "keeper" / "lock")
        os.kill(keeper, signal.SIGKILL)
        with serving(tmp_path, port=port) as server:
            here = Scene(server, tmp_path)
            (tmp_path / "go").touch()
            (trial,) = here.done(LIMIT_S)
            finals = [m for m in here.metrics(trial["id"]) if m["type"] == "FINAL"]
            assert [(m["parameterId"], m["text"]) for m in finals] == [("0", "10"), ("1", "20"), ("2", "30")]
            assert (trial["status"], trial["attempt"], trial["finalValue"]) == ("SUCCEEDED", 1, 30.0)
            assert "the tuner has no more" in trial["note"]
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    assert answers(calls, "result") == [["result", n, n + 1, 10 * n + 10] for n in range(3)]
    assert answers(calls, "end") == [["end", n, True] for n in range(3)]


def answers(calls: list[list[Any]], kind: str) -> list[list[Any]]:
    """The calls of a kind, in order; those that were repeated for a tuner made anew, once."""
    return [call for number, call in enumerate(calls) if call[0] == kind and call not in calls[:number]]

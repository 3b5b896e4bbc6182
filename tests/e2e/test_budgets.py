"""Advisors in real experiments, whose server and dispatcher are killed in the middle."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from nnimgr.tuners.hyperband import Hyperband
from tests.e2e.scene import Scene, eventually
from tests.processes import dispatchers
from tests.server.harness import nothing_left, serving
from tests.tuners.running import Life

TRIAL = """
import time
import nni
parameters = nni.get_next_parameter()
for epoch in range(parameters["TRIAL_BUDGET"]):
    nni.report_intermediate_result(parameters["x"] * (1 - 0.5 ** (epoch + 1)))
    time.sleep({pause})
nni.report_final_result(parameters["x"])
"""
SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}}

Kill = Callable[[], Scene]


@contextmanager
def killable(directory: Path) -> Iterator[tuple[Scene, Kill]]:
    """An experiment, and what kills its server with -9 and starts another, which also loses its children."""
    with nothing_left(directory), ExitStack() as servers:
        server = servers.enter_context(serving(directory))

        def kill() -> Scene:
            nonlocal server
            server.end(signal.SIGKILL)
            server = servers.enter_context(serving(directory, port=server.port))
            return Scene(server, directory)

        yield Scene(server, directory), kill
        server.call("POST", "/api/v1/experiments/exp/stop")


def test_hyperband_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    arguments = {"R": 9, "eta": 3, "exec_mode": "serial", "seed": 5}
    with killable(tmp_path) as (found, kill):
        found.create(
            found.script(TRIAL.format(pause=0.01)),
            tuner={"name": "Hyperband", "classArgs": arguments},
            trialConcurrency=3,
            maxTrialNumber=16,
        )
        eventually(lambda: len(found.trials()) >= 5, "five trials")
        found = kill()
        eventually(lambda: len(found.trials()) >= 11, "promotions")
        found = kill()
        given = [trial["parameters"] for trial in sorted(found.done(), key=lambda trial: trial["sequence"])]
    expected = Life(lambda: Hyperband(**arguments), SPACE)  # type: ignore[arg-type]
    expected.run(16, 3, lambda _, parameters: float(parameters["x"]))
    assert [each["TRIAL_BUDGET"] for each in given] == [1] * 9 + [3] * 3 + [9] + [3] * 3
    assert json.dumps(given) == json.dumps(expected.given)


def test_the_server_says_what_hyperband_waits_for(tmp_path: Path) -> None:
    with killable(tmp_path) as (found, kill):
        tuner = {"name": "Hyperband", "classArgs": {"R": 3, "exec_mode": "serial"}}
        script = found.script(TRIAL.format(pause=30))
        found.create(script, tuner=tuner, trialConcurrency=4, maxTrialNumber=9)
        sentence = (
            "the tuner owes a parameter set: it waits for 3 trials of bracket 1, rung 1 (budget 1), to "
            "promote the best"
        )
        found.saying(sentence)
        found = kill()
        found.saying(sentence)  # what is owed is asked for again


def test_a_stop_and_a_resume_take_nothing_from_a_bracket(tmp_path: Path) -> None:
    """The trials that the stop cuts off run again, and the best of them is promoted."""
    with killable(tmp_path) as (found, _):
        tuner = {"name": "Hyperband", "classArgs": {"R": 3, "exec_mode": "serial", "seed": 6}}
        go = tmp_path / "go"
        script = TRIAL.replace(
            "for epoch", f"import os\nwhile not os.path.exists({str(go)!r}): time.sleep(0.02)\nfor epoch"
        )
        found.create(found.script(script.format(pause=0)), tuner=tuner, trialConcurrency=3, maxTrialNumber=4)
        eventually(lambda: [each["status"] for each in found.trials()] == ["RUNNING"] * 3, "three trials")
        assert found.server.call("POST", f"{found.url}/stop").status == 200
        eventually(lambda: found.profile()["status"] == "STOPPED", "the stop")
        go.touch()
        assert found.server.call("POST", f"{found.url}/resume").status == 200
        trials = sorted(found.done(), key=lambda trial: trial["sequence"])
    assert [each["status"] for each in trials] == ["SYS_CANCELED"] * 3 + ["SUCCEEDED"] * 4
    given = [each["parameters"] for each in trials]
    assert given[3:6] == given[:3]
    assert given[6] == {**max(given[:3], key=lambda each: each["x"]), "TRIAL_BUDGET": 3}


def test_asha_stops_whoever_is_not_among_the_best(tmp_path: Path) -> None:
    """Its two halves come from one advisor; the assessor's verdicts say who was better."""
    with killable(tmp_path) as (found, kill):
        tuner = {"name": "ASHA", "classArgs": {"mode": "stopping", "max_budget": 20, "eta": 2, "seed": 3}}
        found.create(
            found.script(TRIAL.format(pause=0.05)), tuner=tuner, trialConcurrency=4, maxTrialNumber=14
        )
        eventually(lambda: any(each["status"] == "EARLY_STOPPED" for each in found.trials()), "a verdict")
        found = kill()
        trials = {trial["id"]: trial for trial in found.done(60.0)}
        verdicts = [data for _, kind, data in found.events() if kind == "Verdict"]
        stopped = {each for each, trial in trials.items() if trial["status"] == "EARLY_STOPPED"}
        assert {verdict["trialId"] for verdict in verdicts} >= stopped and 3 <= len(stopped) < 14
        assert {trial["parameters"]["TRIAL_BUDGET"] for trial in trials.values()} == {20}
        for verdict in verdicts:
            trial = trials[verdict["trialId"]]
            assert verdict["rung"] in (1, 2, 4, 8, 16) and verdict["rung"] <= verdict["position"] + 1
            (best, *_) = verdict["better"]
            assert trials[best]["parameters"]["x"] > trial["parameters"]["x"]
            if trial["status"] == "EARLY_STOPPED":
                assert trial["reason"].startswith("the assessor judged the trial bad at report ")
                assert trial["reason"].endswith(verdict["reason"])
                assert verdict["reason"].endswith(f", of trial {best}")
        finished = [each["parameters"]["x"] for each in trials.values() if each["status"] == "SUCCEEDED"]
        assert max(finished) == max(each["parameters"]["x"] for each in trials.values())


def test_a_killed_dispatcher_changes_nothing(tmp_path: Path) -> None:
    arguments = {"population_size": 3, "seed": 4, "optimize_mode": "minimize", "fraction": 0.34}
    with killable(tmp_path) as (found, _):
        script = TRIAL.replace('range(parameters["TRIAL_BUDGET"])', "range(1)").format(pause=0.2)
        tuner = {"name": "PBT", "classArgs": arguments}
        found.create(found.script(script), tuner=tuner, trialConcurrency=3, maxTrialNumber=9)
        eventually(lambda: len(found.trials()) >= 4, "the second generation")
        for process in dispatchers(found.server.home.path):
            os.kill(process.pid, signal.SIGKILL)
        given: list[Any] = [
            trial["parameters"] for trial in sorted(found.done(), key=lambda each: each["sequence"])
        ]
    folder = str(found.folder / "checkpoint")
    places = [f"{folder}/{generation}/{member}" for generation in range(3) for member in range(3)]
    assert [each["save_checkpoint_dir"] for each in given] == places
    worst = max(range(3), key=lambda member: given[member]["x"])
    best = min(range(3), key=lambda member: given[member]["x"])
    for member in range(3):
        came_from = given[3 + member]["load_checkpoint_dir"]
        assert came_from == places[best if member == worst else member] or best == worst
        assert (given[3 + member]["x"] == given[member]["x"]) == (member != worst)

"""Which parameter sets are tried: each once, whoever is killed; none is lost when the space changes."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from nnimgr.algorithm import NoMoreTrialError
from nnimgr.dispatcher.channel import Channel
from nnimgr.dispatcher.tuner import TunerHost
from tests.dispatcher.hosting import start_line
from tests.e2e.scene import Scene, eventually
from tests.processes import dispatchers, kill
from tests.server.harness import Server, nothing_left, serving

SPACE = {
    "n": {"_type": "randint", "_value": [0, 3]},
    "c": {"_type": "choice", "_value": ["a", "b", "c", "d"]},
}
# The last trials wait for the file that is named, so that the tuner can be killed before the end.
REPORT = """
import os, sys, time
import nni
parameters = nni.get_next_parameter()
nni.report_intermediate_result(parameters["n"])
time.sleep(0.05)
while nni.get_sequence_id() >= 8 and not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
nni.report_final_result(parameters["n"] + ord(parameters["c"]))
"""


class Silence:
    """A channel for a tuner that nobody listens to."""

    in_call = False

    def send(self, message: Any) -> None:
        pass

    @contextmanager
    def calling(self, name: str, *, meanwhile: Any = None) -> Iterator[None]:
        yield


def create(here: Scene, space: Any, command: str, **more: Any) -> None:
    """An experiment that ends with its tuner."""
    body = here.body(command, **more)
    del body["config"]["maxTrialNumber"]
    body["searchSpace"] = space
    answer = here.server.call("POST", "/api/v1/experiments", body)
    assert answer.status == 201, answer.body


def succeeded(here: Scene, number: int) -> None:
    eventually(
        lambda: sum(trial["status"] == "SUCCEEDED" for trial in here.trials()) >= number,
        f"{number} trials\n{here.server.said}",
    )


def kill_tuner(server: Server) -> None:
    """kill -9, once it runs."""

    def pids() -> list[int]:
        return [process.pid for process in dispatchers(server.home.path)]

    kill(*eventually(pids, "the tuner's process"))


def sets_of(trials: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(trial["parameters"], sort_keys=True) for trial in trials)


@pytest.mark.parametrize(
    "tuner",
    [
        {"name": "GridSearch"},
        {"name": "TPE", "classArgs": {"optimize_mode": "minimize", "tpe_args": {"n_startup_jobs": 3}}},
    ],
    ids=lambda tuner: str(tuner["name"]),
)
def test_each_point_is_tried_once_though_tuner_and_server_are_killed(
    tmp_path: Path, tuner: dict[str, Any]
) -> None:
    go = tmp_path / "go"
    with nothing_left(tmp_path):
        with serving(tmp_path) as server:
            here = Scene(server, tmp_path)
            create(here, SPACE, f"{here.script(REPORT)} {go}", tuner=tuner, trialConcurrency=2)
            for number in (2, 4):
                succeeded(here, number)
                kill_tuner(server)
            succeeded(here, 6)
            server.end(signal.SIGKILL)
        with serving(tmp_path, port=server.port) as server:
            here = Scene(server, tmp_path)
            eventually(lambda: server.call("GET", here.url).status == 200, "the experiment")
            succeeded(here, 8)
            kill_tuner(server)
            go.touch()
            trials = here.done()
            assert here.said() == "the tuner has no more parameter sets"
            points: list[dict[str, Any]] = [{"n": n, "c": c} for n in range(3) for c in "abcd"]
            assert sets_of(trials) == sorted(json.dumps(point, sort_keys=True) for point in points)
            assert [trial["parameterId"] for trial in trials] == sorted(
                {trial["parameterId"] for trial in trials}
            )
            jobs = [job["id"] for trial in trials for job in here.get(f"/trials/{trial['id']}")["jobs"]]
            assert jobs == [f"exp-{trial['id']}-1" for trial in trials] and len(set(jobs)) == 12
            for trial in trials:
                n, c = trial["parameters"]["n"], trial["parameters"]["c"]
                reported = [(m["type"], m["text"]) for m in here.metrics(trial["id"])]
                assert reported == [("PERIODICAL", str(n)), ("FINAL", str(n + ord(c)))]
    start = start_line(
        name=tuner["name"],
        class_args=tuner.get("classArgs", {}),
        search_space=SPACE,
        experiment_id="exp",
        database=str(here.folder / "db" / "nnimgr.sqlite"),
        rebuild_to=1_000_000,
    )
    rebuilt = TunerHost(cast(Channel, Silence()), start)
    rebuilt.build()
    with pytest.raises(NoMoreTrialError):
        rebuilt._tuner.generate_parameters(100)
    if tuner["name"] == "TPE":
        results = {(each["n"], each["c"]): value for each, value in rebuilt._tuner.results}
        assert results == {(point["n"], point["c"]): point["n"] + ord(point["c"]) for point in points}
        assert len(rebuilt._tuner.results) == 12 and not rebuilt._tuner.open


@pytest.mark.parametrize(
    ("name", "killed"), [("Batch", "server"), ("GridSearch", "tuner"), ("Random", "nobody")]
)
def test_what_waits_when_the_space_is_replaced_is_given_again(tmp_path: Path, name: str, killed: str) -> None:
    """One trial runs and two wait, of which a user stops one: its set was not wanted and stays given."""

    def space(number: int) -> dict[str, Any]:
        if name == "Batch":
            return {"all": {"_type": "choice", "_value": [{"n": n} for n in range(number)]}}
        return {"n": {"_type": "randint", "_value": [0, number]}}

    go = tmp_path / "go"
    command = f"until [ -e {go} ]; do sleep 0.02; done"
    with nothing_left(tmp_path), ExitStack() as servers:
        server = servers.enter_context(serving(tmp_path))
        here = Scene(server, tmp_path)
        create(here, space(4), command, tuner={"name": name}, suggestionsAhead=2)
        eventually(lambda: len(here.trials()) == 3, "two trials that wait")
        here.running()
        stopped = here.trials()[2]["id"]
        here.stop_trial(stopped)
        eventually(lambda: here.trials()[2]["status"] == "USER_CANCELED", "its end")
        change = "/api/v1/nni/experiment?update_type=SEARCH_SPACE"
        assert server.call("PUT", change, {"params": {"searchSpace": space(5)}}).status == 200
        eventually(lambda: here.trials()[1]["status"] == "SYS_CANCELED", "the end of what waited")
        if killed == "tuner":
            kill_tuner(server)
        elif killed == "server":
            server.end(signal.SIGKILL)
            server = servers.enter_context(serving(tmp_path, port=server.port))
            here = Scene(server, tmp_path)
            eventually(lambda: server.call("GET", here.url).status == 200, "the experiment")
        go.touch()
        tried = [trial for trial in here.done() if trial["status"] != "SYS_CANCELED"]
        assert sets_of(tried) == [json.dumps({"n": n}) for n in range(5)]
        assert [trial["id"] for trial in tried if trial["status"] != "SUCCEEDED"] == [stopped]

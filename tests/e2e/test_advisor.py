"""A real experiment with an advisor of the user's own: it stops a trial, and comes back after kill -9."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from tests.e2e.scene import Scene, eventually, scene
from tests.server.harness import nothing_left, serving

TRIAL = """
import os, sys, time
import nni
x = nni.get_next_parameter()["x"]
nni.report_intermediate_result(x)
while x < 0 or (x == 2 and not os.path.exists(sys.argv[1])):
    time.sleep(0.01)
nni.report_final_result(x)
"""

# It sends -1, 1, 2 and 3, then one more than the best result until that is 5, and stops what reports below 0.
CLIMBER = """
import json
from nni.runtime.msg_dispatcher_base import MsgDispatcherBase
from nni.runtime.tuner_command_channel import CommandType

class Climber(MsgDispatcherBase):
    def __init__(self):
        super().__init__()
        self.sets, self.sent, self.owed, self.best = [-1, 1, 2, 3], 0, 0, 0

    def handle_initialize(self, data):
        self.send(CommandType.Initialized, "")

    def handle_update_search_space(self, data):
        pass

    def handle_import_data(self, data):
        self.best = max([self.best, *(record["value"] for record in data)])
        self.sets = [x for x in self.sets if x > self.best]

    def handle_request_trial_jobs(self, data):
        self.owed += data
        self.go_on()

    def go_on(self):
        while self.owed and self.sets:
            self.owed -= 1
            self.sent += 1
            record = {"parameter_id": self.sent, "parameters": {"x": self.sets.pop(0)}}
            self.send(CommandType.NewTrialJob, json.dumps(record))
        if self.owed:
            self.send(CommandType.NoMoreTrialJobs, "")

    def handle_report_metric_data(self, data):
        value = json.loads(data["value"])
        if data["type"] == "PERIODICAL" and value < 0:
            self.send(CommandType.KillTrialJob, json.dumps(data["trial_job_id"]))
        elif data["type"] == "FINAL":
            self.best = max(self.best, value)

    def handle_trial_end(self, data):
        if data["event"] == "SUCCEEDED" and not self.sets and 3 <= self.best < 5:
            self.sets.append(self.best + 1)
        self.go_on()
"""


def create(found: Scene) -> None:
    (found.directory / "climber.py").write_text(CLIMBER)
    body = found.body(found.script(TRIAL) + f" {found.directory / 'go'}")
    del body["config"]["tuner"], body["config"]["maxTrialNumber"]
    body["config"]["advisor"] = {"className": "climber.Climber", "codeDirectory": str(found.directory)}
    answer = found.server.call("POST", "/api/v1/experiments", body)
    assert answer.status == 201, answer.body


def results(trials: list[dict[str, Any]]) -> list[tuple[int, float | None]]:
    return [(trial["parameters"]["x"], trial["finalValue"]) for trial in trials]


def test_an_advisor_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    with scene(tmp_path) as found:
        create(found)
        trials = found.done()
        assert results(trials) == [(-1, None), *((x, x) for x in range(1, 6))]
        assert trials[0]["status"] == "EARLY_STOPPED"
        assert trials[0]["reason"] == "the tuner judged the trial bad at report 1"
        assert found.said() == "the tuner has no more parameter sets"


def test_it_comes_back_when_everything_was_killed(tmp_path: Path) -> None:
    with nothing_left(tmp_path):
        with serving(tmp_path) as server:
            create(found := Scene(server, tmp_path))
            eventually(lambda: [t for t in found.trials() if t["parameters"]["x"] == 2], "trial 2")
            server.end(signal.SIGKILL)
        with serving(tmp_path, port=server.port) as again:
            found = Scene(again, tmp_path)
            (tmp_path / "go").touch()
            trials = found.done()
            # a new advisor does not know what runs already: it may try 2 again
            assert sorted(set(results(trials)[1:])) == [(x, x) for x in range(1, 6)]
            assert len(trials) in (6, 7)

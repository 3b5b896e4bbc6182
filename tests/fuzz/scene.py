"""A real server with real experiments to attack: one that runs, one that is done, one without a machine."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import tensorboard
from tests.fuzz import nni
from tests.fuzz.requests import Known, Route, Sent
from tests.server.harness import Server, nothing_left, serving

URL = "/api/v1/experiments"
RUNNING, ENDED, FAR = "running", "ended", "far"
_SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}, "y": {"_type": "choice", "_value": ["a", "b"]}}
_REPORTS = (
    "python -c 'import nni; p = nni.get_next_parameter(); "
    '[nni.report_intermediate_result({"default": i * p["x"], "loss": i}) for i in range(20)]; '
    'print(1); nni.report_final_result(p["x"])\''
)
_VIEW = {"name": "a view", "content": {}}
_LIVES = "RUNNING"  # of a TensorBoard
_FAKE_TENSORBOARD = str(Path(tensorboard.__file__).parent / "fake")
_WAIT_S = 60.0
_MOST = {"trialconcurrency": 2, "maxtrialnumber": 400}


class Scene:
    """The server, and what there is on it."""

    def __init__(self, server: Server, directory: Path) -> None:
        self.server = server
        self._directory = directory
        self._healing = threading.Lock()
        for name in (RUNNING, ENDED, FAR):
            self._create(name)
        self._until(lambda: self._status(ENDED) == "DONE")
        self._until(lambda: self._trials(RUNNING))
        self._tasks, self._views = [""], [""]  # ids that an attack may remove, so that new ones follow
        self._renew_ids()
        assert self._tasks[0] and self._views[0]
        self.known = self._known()

    @property
    def examples(self) -> dict[str, list[Any]]:
        """Bodies that are right, by their schema."""
        trials = self._trials(RUNNING) + self._trials(ENDED)
        text = f"trialCommand: sleep 600\ntrialCodeDirectory: {self._directory}\nsearchSpace: {_SPACE}\n"
        text += "trialConcurrency: 1\nmaxTrialNumber: 2\ntuner: {name: Random}\n"
        text += "trainingService: {platform: local}\n"
        axes = [{"name": name} for name in ("parameters.x", "value", "parameters.y")]
        made = self._wanted("made")
        return nni.examples(made["config"], _SPACE, trials) | {
            "CreateExperiment": [made],
            "ConfigText": [{"text": text, "cwd": str(self._directory)}],
            "AddTrial": [{"parameters": {"x": 0.5, "y": "a"}}],
            "StopTrials": [{"trialIds": trials[:3]}],
            "RerunTrials": [{"trialIds": trials[:3]}, {}],
            "ImportData": [{"records": [{"parameter": {"x": 0.1, "y": "b"}, "value": 0.5}] * 3}],
            "ChangeLabels": [{"tags": ["a", "b"], "archived": False}],
            "ParallelQuestion": [{"axes": axes, "brushes": {"value": {"range": [0, None]}}, "bins": 8}],
            "AddMachines": [{"text": "host: 127.0.0.1\nport: 9\nuser: me\npassword: x\n"}],
            "Changes": [
                {"trialConcurrency": 1},
                {"maxTrialNumber": 300, "maxExperimentDuration": "1h", "maxTrialDuration": None},
                {"searchSpace": _SPACE, "searchSpaceConstraints": ["x < 0.9"]},
                {"tuner": {"name": "TPE", "classArgs": {"optimize_mode": "minimize", "seed": 3}}},
            ],
        }

    def tame(self, route: Route, body: Any) -> Any:
        """Leave out what would start thousands of processes on this machine."""
        if isinstance(body, dict):
            found = {key: self.tame(route, value) for key, value in body.items()}
            if route.method == "PATCH" and route.path.endswith("{id}"):
                found.setdefault("trialConcurrency", 1)
            for key, value in found.items():
                most = _MOST.get(key.replace("_", "").lower())
                if most is not None and isinstance(value, int | float) and not value <= most:
                    found[key] = most
            return found
        return body

    def heal(self, sent: Sent, status: int) -> None:
        """Bring back what an attack was allowed to end."""
        if sent.method not in ("POST", "PUT", "DELETE", "PATCH") or status >= 300:
            return
        with self._healing:
            for summary in self.server.call("GET", URL).body["experiments"]:
                if summary["id"] not in (RUNNING, ENDED, FAR):
                    self.server.call("POST", f"{URL}/{summary['id']}/stop")
                    self.server.call("DELETE", f"{URL}/{summary['id']}?leaveUnreachable=true")
            for name in (RUNNING, FAR, ENDED):
                status_now = self._status(name)
                if status_now is None:
                    self._create(name)
                elif name != ENDED and status_now != "RUNNING":
                    self._renew(name)
            self._renew_ids()

    def _renew_ids(self) -> None:
        """Start a TensorBoard and save a view if an attack has removed them. Keep their ids."""
        url = f"{URL}/{ENDED}"
        for ids, noun, body in ((self._tasks, "tensorboards", {}), (self._views, "views", _VIEW)):
            listed = self.server.call("GET", f"{url}/{noun}").body.get(noun, ())
            if any(str(each["id"]) == ids[0] and each.get("status", _LIVES) == _LIVES for each in listed):
                continue
            made = self.server.call("POST", f"{url}/{noun}", body)
            if made.status == 201:  # it is refused while the experiment has no trials
                ids[0] = str(made.body["id"])

    def _renew(self, name: str) -> None:
        deadline = time.monotonic() + _WAIT_S
        while True:  # another request may resume it in between
            self.server.call("POST", f"{URL}/{name}/stop")
            deleted = self.server.call("DELETE", f"{URL}/{name}?leaveUnreachable=true")
            if deleted.status in (200, 404):
                break
            assert deleted.status in (409, 503) and time.monotonic() < deadline, deleted
        self._create(name)

    def _wanted(self, name: str) -> dict[str, Any]:
        service: dict[str, Any] = {"platform": "local"}
        if name == FAR:
            machine = {"host": "127.0.0.1", "port": 9, "user": "me", "password": "none"}
            service = {"platform": "remote", "machineList": [machine]}
        config = {
            "experimentType": "hpo",
            "trialCommand": _REPORTS if name == ENDED else "sleep 600",
            "trialCodeDirectory": str(self._directory / "code"),
            "trialConcurrency": 2,
            "maxTrialNumber": 4 if name == ENDED else 400,
            "useAnnotation": False,
            "debug": False,
            "logLevel": "info",
            "experimentWorkingDirectory": str(self._directory / "work"),
            "tuner": {"name": "Random"},
            "trainingService": service,
        }
        return {"config": config, "searchSpace": _SPACE, "id": name, "cwd": str(self._directory)}

    def _create(self, name: str) -> None:
        (self._directory / "code").mkdir(exist_ok=True)
        answer = self.server.call("POST", URL, self._wanted(name))
        assert answer.status in (200, 201), answer

    def _status(self, name: str) -> str | None:
        answer = self.server.call("GET", f"{URL}/{name}")
        return answer.body["status"] if answer.status == 200 else None

    def _trials(self, name: str) -> list[str]:
        answer = self.server.call("GET", f"{URL}/{name}/trials")
        return [trial["id"] for trial in answer.body["trials"]]

    def _known(self) -> Known:
        trials = self._trials(RUNNING)[:2] + self._trials(ENDED)
        machines = self.server.call("GET", f"{URL}/{FAR}/machines").body["machines"]
        by_name = {
            "id": (RUNNING, RUNNING, ENDED, FAR),
            "trialId": trials,
            "trialIds": trials,
            "keeper": ("local",),
            "task": self._tasks,
            "viewId": self._views,
            "experiment": (RUNNING, RUNNING, ENDED, FAR),
            "trial": trials,
            "first": ("0", "1", "-1", "1e3", "0x2"),
            "last": ("0", "3", "1e30", "Infinity"),
            "status": ("SUCCEEDED", "WAITING", "USER_CANCELED", "RUNNING"),
            "type": ("FINAL", "PERIODICAL"),
            "update_type": ("TRIAL_CONCURRENCY", "MAX_EXEC_DURATION", "SEARCH_SPACE", "MAX_TRIAL_NUM"),
            "machine": [machine[key] for machine in machines for key in ("id", "name")],
            "name": (
                *("stdout", "stderr", "trial.log", "parameter.cfg"),
                *("server", "dispatcher", "keeper-local", "nnimanager.log"),
            ),
            "path": ("stdout", ".nni/metrics", "parameter.cfg"),
            "x": ("value", "parameters.x"),
            "metric": ("value", "metrics.loss"),
            "key": ("default", "loss"),
            "filter": ("value>0.1", "status:SUCCEEDED", "x:[0,1];y:a"),
            "sort": ("sequence", "value", "parameters.x", "metrics.loss"),
            "columns": ("id,parameters.x", "value"),
            "names": ("sequence", "parameters.x"),
        }
        return Known(port=self.server.port, token=self.server.home.token(), by_name=by_name)

    def _until(self, condition: Any) -> None:
        deadline = time.monotonic() + _WAIT_S
        while not condition():
            assert time.monotonic() < deadline, self.server.said
            time.sleep(0.1)


@contextmanager
def scene(directory: Path) -> Iterator[Scene]:
    """A server in this directory with its experiments; nothing of it is left afterwards."""
    path = os.pathsep.join(filter(None, (_FAKE_TENSORBOARD, os.environ.get("PYTHONPATH"))))
    with nothing_left(directory), serving(directory, environ={"PYTHONPATH": path}) as server:
        assert server.ready, server.said
        made = Scene(server, directory)
        try:
            yield made
        finally:
            for name in (RUNNING, ENDED, FAR):
                server.call("POST", f"{URL}/{name}/stop")

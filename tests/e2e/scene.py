"""One experiment behind a real server, as its user sees it over REST."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.server.harness import Server, nothing_left, serving
from trial_keeper.machine import procs

DEADLINE_S = 90.0
LOOK_S = 0.02

T = TypeVar("T")


def eventually(look: Callable[[], T], what: str, limit_s: float = DEADLINE_S) -> T:
    """The first true value of ``look``; fails with the last one at the deadline."""
    end = time.monotonic() + limit_s
    while True:
        value = look()
        if value:
            return value
        assert time.monotonic() < end, f"waited {limit_s} s in vain for {what}: {value!r}"
        time.sleep(LOOK_S)


class Scene:
    """The experiment ``exp`` of the server that runs now; ``directory`` is the test's own."""

    def __init__(self, server: Server, directory: Path) -> None:
        self.server = server
        self.directory = directory
        self.url = "/api/v1/experiments/exp"

    @property
    def folder(self) -> Path:
        return self.directory / "work" / "exp"

    def create(self, command: str, **more: Any) -> None:
        """``more``: fields of the configuration."""
        answer = self.server.call("POST", "/api/v1/experiments", self.body(command, **more))
        assert answer.status == 201, answer.body

    def body(self, command: str, **more: Any) -> dict[str, Any]:
        """The request that creates it."""
        return {
            "config": {
                "experimentType": "hpo",
                "trialCommand": command,
                "trialCodeDirectory": str(self.directory),
                "trialConcurrency": 1,
                "maxTrialNumber": 1,
                "experimentWorkingDirectory": str(self.directory / "work"),
                "tuner": {"name": "Random"},
                "trainingService": {"platform": "local"},
                **more,
            },
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
            "id": "exp",
            "cwd": str(self.directory),
        }

    def script(self, text: str) -> str:
        """A command that runs this Python program."""
        path = self.directory / "trial.py"
        path.write_text(text)
        return f"{sys.executable} {path}"

    def processes(self, trial_id: str) -> list[int]:
        """What runs of the trial's first attempt. By its directory: other runs of these tests have its id."""
        return procs.marked("NNI_SYS_DIR", str((self.folder / "trials" / trial_id).resolve()))

    def get(self, path: str = "") -> Any:
        answer = self.server.call("GET", self.url + path)
        assert answer.status == 200, answer.body
        return answer.body

    def profile(self) -> dict[str, Any]:
        return dict(self.get())

    def said(self) -> str:
        """The reason and the notices of the experiment, all that ``nnictl experiment status`` shows of it."""
        answer = self.server.call("GET", self.url)
        if answer.status != 200:
            return str(answer.body["error"]["message"])
        notices = [notice["sentence"] for notice in answer.body["notices"]]
        return "; ".join([answer.body["reason"], *notices])

    def saying(self, part: str) -> str:
        """What is said once this is part of it."""
        return eventually(
            lambda: said if part in (said := self.said()) else "", f"{part!r}\n{self.server.said}"
        )

    def trials(self) -> list[dict[str, Any]]:
        return list(self.get("/trials?limit=1000")["trials"])

    def trial(self) -> dict[str, Any]:
        """The first trial."""
        return self.trials()[0]

    def running(self) -> dict[str, Any]:
        """The first trial, once it runs."""
        running = eventually(
            lambda: [t for t in self.trials() if t["status"] == "RUNNING"], "a running trial"
        )
        return running[0]

    def done(self, limit_s: float = DEADLINE_S) -> list[dict[str, Any]]:
        """The trials, once the experiment is DONE."""
        try:
            eventually(lambda: self.profile()["status"] == "DONE", "the end", limit_s)
        except AssertionError as error:
            stands = [
                f"{t['status']} in attempt {t['attempt']}: {t['reason']}; note: {t['note']}"
                for t in self.trials()[:5]
            ]
            raise AssertionError("\n".join([str(error), self.said(), *stands, self.server.said])) from None
        return self.trials()

    def metrics(self, trial_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            page = self.get(f"/trials/{trial_id}/metrics?after={after}&limit=10000")
            found += page["metrics"]
            after = page["nextAfter"]
        return found

    def log(self, trial_id: str, name: str) -> bytes:
        with closing(self.server.connection()) as connection:
            connection.request("GET", f"{self.url}/trials/{trial_id}/logs/{name}", headers=self.server.bearer)
            response = connection.getresponse()
            content = response.read()
            assert response.status == 200, content
            return content

    def events(self) -> list[tuple[int, str, dict[str, Any]]]:
        """Number, kind and data of everything that has happened so far, from the event stream."""
        last = self.profile()["lastNumber"]
        found: list[tuple[int, str, dict[str, Any]]] = []
        fields: dict[str, str] = {}
        with closing(self.server.connection()) as connection:
            connection.request("GET", f"{self.url}/events", headers=self.server.bearer)
            response = connection.getresponse()
            assert response.status == 200
            while not found or found[-1][0] < last:
                name, _, value = response.readline().decode().rstrip("\n").partition(": ")
                if name:
                    fields[name] = value
                elif "event" in fields:
                    found.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
                    fields = {}
        return found

    def reasons(self, kind: str) -> list[str]:
        """The reasons of all events of this kind."""
        return [data["reason"] for _, found, data in self.events() if found == kind]

    def nnictl(self, *arguments: str) -> str:
        """What a command prints."""
        environ = {**os.environ, "NNIMGR_HOME": str(self.server.home.path)}
        command = [sys.executable, "-m", "nnimgr.cli.main", *arguments, "--port", str(self.server.port)]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout

    def stop_trial(self, trial_id: str) -> None:
        assert self.server.call("POST", f"{self.url}/trials/{trial_id}/stop").status == 202

    def attempt(self, trial_id: str) -> Path:
        """The directory of the trial's first attempt."""
        return self.folder / "trials" / trial_id


@contextmanager
def scene(
    directory: Path, *, port: int | None = None, environ: Mapping[str, str] | None = None
) -> Iterator[Scene]:
    """A server for one experiment; both are ended, and nothing of them is left."""
    with nothing_left(directory), serving(directory, port=port, environ=environ) as server:
        found = Scene(server, directory)
        try:
            yield found
        finally:
            if server.process.poll() is None:
                server.call("POST", f"{found.url}/stop")


def high_water(server: Server) -> int:
    """The most memory that the server has ever held, in bytes."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])

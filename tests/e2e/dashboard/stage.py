"""A real server with experiments to look at, and what tests do to them behind the browser's back."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.e2e.dashboard.trials import CURVE, FAILING, MEMBER, TOLD
from tests.e2e.scene import eventually
from tests.server.harness import Server, free_port, nothing_left, serving

_FAKE_TENSORBOARD = str(Path(__file__).parent.parent.parent / "tensorboard" / "fake")
SPACE = {
    "lr": {"_type": "loguniform", "_value": [0.0001, 0.1]},
    "layers": {"_type": "choice", "_value": [1, 2, 4]},
    "optimizer": {"_type": "choice", "_value": ["adam", "sgd"]},
}


class Stage:
    """The server that runs now, always on the same port; ``directory`` holds its home and all experiments."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._servers = ExitStack()
        self.server = self._start()

    def _start(self) -> Server:
        environ = {"NNIMGR_USAGE_PAUSE_S": "0.2", "PYTHONPATH": _FAKE_TENSORBOARD}
        server = self._servers.enter_context(serving(self.directory, port=self.port, environ=environ))
        assert server.ready, server.said
        return server

    def kill(self) -> None:
        self.server.end(signal.SIGKILL)

    def restart(self) -> None:
        self.server = self._start()

    def close(self) -> None:
        if self.server.process.poll() is None:
            for experiment in self.ask("GET", "")["experiments"]:
                if experiment["status"] not in ("DONE", "STOPPED", "ERROR", "VIEWED"):
                    self.ask("POST", f"/{experiment['id']}/stop")
        self._servers.close()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer below ``/api/v1/experiments``."""
        answer = self.server.call(method, f"/api/v1/experiments{path}", body)
        assert answer.status < 300, (method, path, answer.body)
        return answer.body

    def sign_in(self, page: str = "/") -> str:
        """An address that signs a browser in, once, and shows a page."""
        answer = self.server.call("POST", "/api/v1/server/login-code", {"page": page})
        assert answer.status < 300, answer.body
        return str(answer.body["url"])

    def create(
        self,
        id: str,
        program: str,
        *,
        arguments: str = "",
        space: Mapping[str, Any] = SPACE,
        **more: Any,
    ) -> None:
        """Start an experiment; ``arguments``: more of its program; ``more``: of its configuration."""
        code = self.directory / "code" / id
        code.mkdir(parents=True)
        (code / "trial.py").write_text(program)
        config = {
            "experimentType": "hpo",
            "experimentName": id.replace("-", " "),
            "trialCommand": f"{sys.executable} trial.py {code} {arguments}",
            "trialCodeDirectory": str(code),
            "trialConcurrency": 4,
            "maxTrialNumber": 4,
            "experimentWorkingDirectory": str(self.directory / "work"),
            "tuner": {"name": "Random", "classArgs": {"seed": 1}},
            "trainingService": {"platform": "local"},
            **more,
        }
        self.ask("POST", "", {"config": config, "searchSpace": space, "id": id, "cwd": str(code)})

    def profile(self, id: str) -> dict[str, Any]:
        return dict(self.ask("GET", f"/{id}"))

    def wait(self, id: str, status: str) -> None:
        eventually(lambda: self.profile(id)["status"] == status, f"{id} to be {status}\n{self.server.said}")

    def trials(self, id: str) -> list[dict[str, Any]]:
        """By sequence number."""
        trials = self.ask("GET", f"/{id}/trials?limit=1000")["trials"]
        return sorted(trials, key=lambda trial: int(trial["sequence"]))

    def tell(self, id: str, sequence: int, *orders: str) -> None:
        """Have a trial of ``TOLD`` do this."""
        pipe = self.directory / "code" / id / f"pipe-{sequence}"

        def heard() -> bool:
            try:
                writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # not made, or not opened, yet
                return False
            with os.fdopen(writer, "w", encoding="utf-8") as stream:
                stream.write("".join(f"{order}\n" for order in orders))
            return True

        eventually(heard, f"trial {sequence} of {id} to listen\n{self.server.said}")


@contextmanager
def stage(directory: Path) -> Iterator[Stage]:
    """A server without experiments."""
    with nothing_left(directory):
        made = Stage(directory)
        try:
            yield made
        finally:
            made.close()


def furnish(made: Stage) -> None:
    """The experiments that most tests look at and none changes.

    ``curves``: 12 trials that succeeded; ``failures``: 2 of 4 failed; ``stopped``: by its user, with a trial
    running, after its machine was measured; ``told``: 2 trials that run, of which the first has reported;
    ``population``: 4 trials, of which the worst have continued from checkpoints of better ones.
    """
    made.create("curves", CURVE, maxTrialNumber=12, experimentName="learning curves")
    made.create("failures", FAILING)
    made.create("stopped", TOLD, trialConcurrency=1)
    made.create("told", TOLD, trialConcurrency=2, maxTrialNumber=9)
    made.create("population", MEMBER, **population(4, interval=3))
    made.tell("stopped", 0, "report 0.5")
    made.tell("told", 0, "report 0.5", "say hello from the trial", "report 0.625")
    made.tell("told", 1, "say waiting")
    eventually(lambda: made.trials("stopped")[0]["status"] == "RUNNING", "a running trial")
    eventually(lambda: measured(made, "stopped"), "a measurement of the machine")
    made.ask("POST", "/stopped/stop")
    made.wait("stopped", "STOPPED")
    made.wait("curves", "DONE")
    made.wait("failures", "DONE")
    made.wait("population", "DONE")


def population(size: int, *, interval: int) -> dict[str, Any]:
    """The configuration of trials that are compared with each other after so many results each."""
    arguments = {"perturbation_interval": interval, "synchronous": True, "population_size": size}
    return {
        "goal": "maximize",
        "trialConcurrency": size,
        "maxTrialNumber": size,
        "scheduler": {"name": "PBT", "classArgs": {**arguments, "mutations": {"lr": SPACE["lr"]}, "seed": 1}},
    }


def measured(made: Stage, id: str) -> bool:
    keepers = made.ask("GET", f"/{id}/keepers")["keepers"]
    return any(made.ask("GET", f"/{id}/keepers/{quote(keeper['id'])}/usage")["samples"] for keeper in keepers)

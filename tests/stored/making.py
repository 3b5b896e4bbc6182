"""A server of the version that makes fixtures, and the folder in which it works.

Nothing here imports nnimgr: the version is that of the Python which runs this, and it is spoken to over REST,
nnictl and signals only. The folder has the same path on every machine, so no fixture tells where it was made.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["BOOT", "EXPERIMENTS", "PLACE", "PORT", "VIEWER_PORT", "Answer", "Maker", "eventually", "get"]

PLACE = Path("/tmp/nnimgr-fixture")
PYTHON = PLACE / "python"  # a link to the virtual environment
EXPERIMENTS = PLACE / "experiments"

BOOT = "00000000-0000-4000-8000-000000000001"  # no machine's: wherever a fixture is opened, it has restarted
NO_PID = (1 << 22) + 1  # of no process of Linux: an answer may depend on whether that of the server lives
PORT, VIEWER_PORT = 18_080, 18_081
LIMIT_S = 60.0
LOOK_S = 0.02

Answer = tuple[int, str, str]  # status, content type, body


def get(port: int, path: str, *, method: str = "GET", body: Any = None) -> Answer:
    """Send one request."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)) as connection:
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, body=sent, headers={"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read().decode("utf-8", "backslashreplace")
        return response.status, response.headers.get("content-type") or "", text


def eventually(look: Callable[[], Any], what: str) -> Any:
    """Return the first true value of ``look``."""
    end = time.monotonic() + LIMIT_S
    while not (value := look()):
        if time.monotonic() > end:
            raise TimeoutError(f"waited {LIMIT_S:g} s in vain for {what}")
        time.sleep(LOOK_S)
    return value


class Maker:
    """One experiment, ``id``, and the server that runs it."""

    def __init__(self, experiment_id: str, trial: str) -> None:
        shutil.rmtree(PLACE, ignore_errors=True)
        for folder in (PLACE / "home", PLACE / "code", EXPERIMENTS):
            folder.mkdir(parents=True)
        PYTHON.symlink_to(sys.prefix)
        (PLACE / "boot").write_text(f"{BOOT}\n")
        (PLACE / "code" / "trial.py").write_text(trial)
        self.id = experiment_id
        self.folder = EXPERIMENTS / experiment_id
        self.url = f"/api/v1/experiments/{experiment_id}"
        self.environ = {
            "PATH": f"{PYTHON}/bin:/usr/bin:/bin",
            "HOME": str(PLACE / "user"),
            "NNIMGR_BOOT_ID_FILE": str(PLACE / "boot"),
        }
        self._server: subprocess.Popen[bytes] | None = None

    # ---- the server ---------------------------------------------------------------------------------------

    def serve(self, *, port: int = PORT, home: Path = PLACE / "home") -> None:
        """Start a server; return when it is ready."""
        command = [f"{PYTHON}/bin/python", "-m", "nnimgr.server.main", "serve", "--port", str(port)]
        with open(PLACE / "server.log", "ab") as log:
            self._server = subprocess.Popen(
                [*command, "--no-token"],
                env={**self.environ, "NNIMGR_HOME": str(home)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=PLACE,
            )

        def ready() -> bool:
            with contextlib.suppress(OSError):
                return get(port, "/readyz")[0] == 200
            return False

        eventually(ready, "the server")

    def leave(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the server: by SIGTERM in order, by SIGKILL in the midst of what it does."""
        assert self._server is not None
        self._server.send_signal(how)
        self._server.wait(LIMIT_S)

    def lose_power(self) -> None:
        """Kill the server, and then everything else that works here."""
        self.leave(signal.SIGKILL)
        while found := list(_processes()):
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(LOOK_S)

    def forget_pid(self) -> None:
        """Have the index name a server's process that is on no machine."""
        index = PLACE / "home" / ".experiment"
        entries = json.loads(index.read_text())
        entries[self.id]["pid"] = NO_PID
        index.write_text(json.dumps(entries, indent=4))

    def pause_keeper(self) -> None:
        """Stop the keeper as a machine does that hangs."""
        lock = str(self.folder / "keeper" / "lock")
        for pid in _processes():
            links = Path(f"/proc/{pid}/fd")
            if any(os.readlink(link) == lock for link in links.iterdir()):
                os.kill(pid, signal.SIGSTOP)

    # ---- the experiment -----------------------------------------------------------------------------------

    def call(self, method: str, path: str = "", body: Any = None) -> Any:
        """Ask for something of the experiment; return the answer."""
        status, _, text = get(PORT, self.url + path, method=method, body=body)
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {text}")
        return json.loads(text) if text else None

    def nnictl(self, *arguments: str) -> None:
        """Run a command, which must succeed."""
        subprocess.run(
            [f"{PYTHON}/bin/python", "-m", "nnimgr.cli.main", *arguments, "--port", str(PORT)],
            env={**self.environ, "NNIMGR_HOME": str(PLACE / "home")},
            cwd=PLACE / "code",
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def create(self, space: Mapping[str, Any], **more: Any) -> None:
        """Create it; ``more`` are fields of its configuration."""
        config = {
            "experimentName": self.id,
            "experimentType": "hpo",
            "trialCommand": "python trial.py",
            "trialCodeDirectory": str(PLACE / "code"),
            "trialConcurrency": 1,
            "experimentWorkingDirectory": str(EXPERIMENTS),
            "tuner": {"name": "Random", "classArgs": {"seed": 1}},
            "trainingService": {"platform": "local"},
            **more,
        }
        body = {
            "id": self.id,
            "config": config,
            "searchSpace": space,
            "environ": self.environ,
            "cwd": str(PLACE / "code"),
            "python": f"{PYTHON}/bin/python",
        }
        status, _, text = get(PORT, "/api/v1/experiments", method="POST", body=body)
        if status != 201:
            raise RuntimeError(text)

    def write(self, name: str, value: Any) -> str:
        """Write a file for a command; return its path."""
        path = PLACE / "code" / name
        path.write_text(json.dumps(value))
        return str(path)

    def counts(self) -> dict[str, int]:
        return dict(self.call("GET")["counts"])

    def status(self, wanted: str) -> None:
        """Wait until the experiment has this status."""
        eventually(lambda: self.call("GET")["status"] == wanted, f"{wanted} of {self.id}")

    def running(self, *, sequence: int) -> dict[str, Any]:
        """Wait until the trial with this number has reported something; return it."""

        def look() -> list[dict[str, Any]]:
            found = self.call("GET", "/trials?limit=1000")["trials"]
            return [t for t in found if t["sequence"] == sequence and t["latestText"] is not None]

        return dict(eventually(look, f"trial {sequence}")[0])

    def reports(self, trial: dict[str, Any], number: int) -> None:
        """Wait until the trial has reported this number of intermediate results."""
        path = f"/trials/{trial['id']}"
        eventually(lambda: self.call("GET", path)["intermediates"] == number, f"{number} results")

    def trials(self, status: str, number: int = 1) -> list[dict[str, Any]]:
        """Wait until at least this many trials have the status and have reported something; return them."""

        def look() -> list[dict[str, Any]]:
            found = self.call("GET", f"/trials?limit=1000&status={status}")["trials"]
            ready = [t for t in found if t["status"] != "RUNNING" or t["latestText"] is not None]
            return ready if len(ready) >= number else []

        return list(eventually(look, f"{number} trials that are {status}"))


def _processes() -> Iterator[int]:
    """The processes of the fixture's folder, but this one."""
    mark = str(PLACE).encode()
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z" and mark in Path(f"/proc/{name}/environ").read_bytes():
                    yield int(name)

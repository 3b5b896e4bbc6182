"""A Ray cluster for a test: one node on this machine, with its own ports and folder."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

USUAL = Path("/opt/ray-venv")  # where tests/run installs Ray
LIMIT_S = 120.0
MARK = "RAY_NNIMGR_TEST"  # in the environment of the cluster's processes
# Without these, a head node starts processes that no job needs.
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_event_stats": "0",
}


def program() -> Path | None:
    """Return Ray's command, of a Python that has Ray; None if there is none."""
    folder = Path(os.environ.get("NNIMGR_TEST_RAY") or USUAL)
    found = folder / "bin" / "ray"
    return found if found.exists() else None


class RayCluster:
    """Ray on this machine. Use as a context manager.

    ``token``: its token; None: it needs none. ``gcs``: address at which a driver joins it.
    """

    gcs = ""

    def __init__(
        self, cpus: int = 4, token: str | None = "", resources: dict[str, float] | None = None
    ) -> None:
        command = program()
        if command is None:
            pytest.skip(
                "no Ray here: NNIMGR_TEST_RAY names no folder with bin/ray, and /opt/ray-venv has none"
            )
        self._command = command
        self.token = secrets.token_hex(24) if token == "" else token
        self._cpus = cpus
        self._port = self._free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="nnimgr-ray-", dir="/tmp"))  # paths of sockets are short
        self.address = f"http://127.0.0.1:{self._port}"
        self._environ = {**os.environ, **QUIET, MARK: str(self.folder)}
        if self.token is not None:
            self._environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token}

    def __enter__(self) -> RayCluster:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the head node, with a session of its own."""
        gcs = self._free_port()
        words = [
            "start", "--head", f"--port={gcs}", "--dashboard-host=127.0.0.1",
            f"--dashboard-port={self._port}", f"--num-cpus={self._cpus}", "--object-store-memory=80000000",
            f"--temp-dir={self.folder}", "--include-log-monitor=false",
            f"--ray-client-server-port={self._free_port()}", "--min-worker-port=0", "--max-worker-port=0",
            "--dashboard-agent-listen-port=0",
        ]  # fmt: skip
        done = subprocess.run(
            [str(self._command), *words], capture_output=True, text=True, timeout=LIMIT_S, env=self._environ,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        end = time.monotonic() + LIMIT_S
        while self.ask("GET", "/api/jobs/")[0] != 200:
            assert time.monotonic() < end
            time.sleep(0.1)
        [node] = self.ask("GET", "/api/v0/nodes")[1]["data"]["result"]["result"]
        self.gcs = f"{node['node_ip']}:{gcs}"

    def kill(self, name: str = "") -> None:
        """Kill the processes whose command lines have this text; all without one."""
        for pid in self.pids(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def pids(self, name: str = "") -> list[int]:
        """Return the processes of this cluster whose command lines have this text.

        They are known by their environment, of which a keeper and its trials get nothing that is Ray's.
        """
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                environ = (folder / "environ").read_bytes().decode(errors="replace")
                if f"{MARK}={self.folder}" in environ and name in line:
                    found.append(int(folder.name))
        return found

    def close(self) -> None:
        """End all processes of the cluster, by their pids."""
        end = time.monotonic() + LIMIT_S
        while self.pids() and time.monotonic() < end:
            self.kill()
            time.sleep(0.05)
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send a request to the dashboard. Return the status, and the answer; status 0: there is none."""
        headers = {"Content-Type": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, content, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, None
        except (OSError, ValueError):
            return 0, None

    def jobs(self) -> dict[str, str]:
        """Return the states of all jobs, by their ids."""
        return {job["submission_id"]: job["status"] for job in self.ask("GET", "/api/jobs/")[1]}

    @staticmethod
    def _free_port() -> int:
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            return int(held.getsockname()[1])

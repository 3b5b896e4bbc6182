"""A stand-in for Ray's dashboard, whose jobs are real processes of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from trial_keeper.machine import procs

STOP_S = 3.0
# A job's supervisor: what Ray starts the command in, and a process that can be killed alone.
SUPERVISOR = 'sh -c "$1"; exit $?'
MIB = 1 << 20
NODE = "n0de"


@dataclass
class Job:
    """Job of the cluster. ``process``: its supervisor; None: it is pending."""

    body: dict[str, Any]
    output: Path
    process: subprocess.Popen[bytes] | None = None
    stopped: bool = False
    unwatched: bool = False  # Ray does not notice its end
    failed: tuple[str, str] | None = None  # kind of an error, and its message

    def record(self) -> dict[str, Any]:
        code = None if self.process is None or self.unwatched else self.process.poll()
        kind, message = self.failed or (None, "")
        if self.failed is None and code is None:
            status = "PENDING" if self.process is None else "RUNNING"
        elif self.stopped:
            status = "STOPPED"
        elif self.failed is not None or code != 0:
            status = "FAILED"
            if self.failed is None:
                kind, message = "JOB_ENTRYPOINT_COMMAND_ERROR", self.output.read_text()
        else:
            status = "SUCCEEDED"
        return {
            "submission_id": self.body["submission_id"],
            "status": status,
            "message": message,
            "error_type": kind,
            "driver_exit_code": None if self.failed else code,
            "driver_node_id": None if self.process is None else NODE,
        }


class FakeRay:
    """Cluster with one node. Use as a context manager. ``token``: None: it needs none.

    ``swallow``: number of submissions that are accepted and answered with an error. ``refuse``: text with
    which submissions are rejected. ``full``: jobs are pending. ``away``: the dashboard answers nothing.
    ``node_dead``: the cluster takes its node for dead.
    """

    def __init__(self, folder: Path, token: str | None = "secret", cpus: int = 4) -> None:
        self.token = token
        self.session = secrets.token_hex(4)
        self.jobs_of: dict[str, Job] = {}
        self.requests: list[str] = []
        self.swallow = 0
        self.refuse = ""
        self.full = self.away = self.node_dead = False
        self._folder, self._cpus = folder, cpus
        self._lock = threading.Lock()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._serve("GET")

            def do_POST(self) -> None:
                self._serve("POST")

            def _serve(self, method: str) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if fake.away:
                    self.close_connection = True
                    return
                given = self.headers.get("Authorization")
                status, answer = fake.answer(method, self.path, content, given)
                body = answer.encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                return None

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> FakeRay:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end_all()
        self._http.shutdown()
        self._http.server_close()

    def answer(self, method: str, path: str, content: bytes, given: str | None) -> tuple[int, str]:
        with self._lock:
            self.requests.append(f"{method} {path}")
            if self.token is not None and given != f"Bearer {self.token}":
                return (401 if given is None else 403), "Unauthorized"
            match path.partition("?")[0].strip("/").split("/"):
                case ["api", "version"]:
                    return 200, json.dumps({"ray_version": "2.60.0", "session_name": self.session})
                case ["api", "v0", "nodes"]:
                    state = "DEAD" if self.node_dead else "ALIVE"
                    resources = {"CPU": self._cpus, "memory": 1000 * MIB}
                    node = {"node_id": NODE, "state": state, "resources_total": resources}
                    return 200, json.dumps({"data": {"result": {"result": [node]}}})
                case ["api", "jobs"] if method == "POST":
                    return self._submit(json.loads(content))
                case ["api", "jobs", job_id, *more]:
                    return self._about(job_id, more)
        return 404, "no such address"

    def _submit(self, body: dict[str, Any]) -> tuple[int, str]:
        job_id = body["submission_id"]
        if self.refuse:
            return 400, self.refuse
        if job_id in self.jobs_of:
            return 500, f"ValueError: Job with submission_id {job_id} already exists."
        job = self.jobs_of[job_id] = Job(body, self._folder / f"{job_id}.log")
        if not self.full:
            self._start(job)
        if self.swallow:
            self.swallow -= 1
            return 500, "the answer was lost"
        return 200, json.dumps({"submission_id": job_id})

    def _start(self, job: Job) -> None:
        environ = {**os.environ, "RAY_AUTH_TOKEN": str(self.token), "RAY_JOB_STOP_WAIT_TIME_S": f"{STOP_S:g}"}
        with open(job.output, "ab") as output:
            job.process = subprocess.Popen(
                ["sh", "-c", SUPERVISOR, "supervisor", job.body["entrypoint"]],
                stdout=output, stderr=output, stdin=subprocess.DEVNULL, start_new_session=True, env=environ,
            )  # fmt: skip

    def _about(self, job_id: str, more: list[str]) -> tuple[int, str]:
        job = self.jobs_of.get(job_id)
        if job is None:
            return 404, f"Job {job_id} does not exist"
        if more == ["logs"]:
            return 200, json.dumps({"logs": job.output.read_text()})
        if more == ["stop"]:
            self._stop(job)
        return 200, json.dumps(job.record())

    def _stop(self, job: Job) -> None:
        if job.process is None or job.process.poll() is not None:
            return
        job.stopped = True
        below = procs.descendants(job.process.pid)
        procs.signal_all(below, signal.SIGTERM)
        threading.Timer(STOP_S, procs.signal_all, (below, signal.SIGKILL)).start()

    # ---- what happens to it -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start what is pending."""
        with self._lock:
            self.full = False
            for job in self.jobs_of.values():
                if job.process is None and job.failed is None:
                    self._start(job)

    def kill_supervisor(self, job_id: str, *, node: bool = False) -> None:
        """Kill a job's supervisor, as if its worker, or its node, had died."""
        with self._lock:
            job = self.jobs_of[job_id]
            why = "The actor died because its node has died." if node else "The actor is dead: SIGKILL."
            job.failed = "JOB_SUPERVISOR_ACTOR_DIED", f"Job supervisor actor died: {why}"
            assert job.process is not None
            job.process.kill()

    @contextlib.contextmanager
    def unchanged(self, job: Job) -> Iterator[None]:
        """Show the job as running meanwhile, whatever happens to it."""
        job.unwatched = True
        yield
        job.unwatched = False

    def fail(self, job_id: str, kind: str, message: str) -> None:
        """Let a pending job fail."""
        with self._lock:
            self.jobs_of[job_id].failed = kind, message

    def restart(self) -> None:
        """Begin another session, which knows nothing of the old one."""
        self.end_all()
        with self._lock:
            self.jobs_of.clear()
            self.session = secrets.token_hex(4)
            self.away = False

    def end_all(self) -> None:
        """Kill all supervisors, and wait until their jobs have ended."""
        with self._lock:
            processes = [job.process for job in self.jobs_of.values() if job.process is not None]
        for process in processes:
            below = procs.descendants(process.pid)
            process.kill()
            process.wait()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            procs.signal_all(below, signal.SIGKILL)

"""A fake server for the command line's tests, with the REST API and data in memory."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from nnimgr.api.models.trials import Trial as TrialRow
from nnimgr.api.models.trials import TrialDetail
from nnimgr.home import Home
from nnimgr.index import Index, IndexEntry
from nnimgr.store.location import database_path
from tests.trial_keeper.harness import DEADLINE_S, LocalServer

CANCELLED = {"status": "SYS_CANCELED", "reason": "the experiment was stopped"}
# Fields that only the answer about a single trial has.
_OF_ONE = {
    str(TrialDetail.model_fields[name].alias)
    for name in TrialDetail.model_fields.keys() - TrialRow.model_fields.keys()
}
CREATED_AT = "2026-01-02T03:04:05+00:00"


def profile(experiment_id: str, **changes: Any) -> dict[str, Any]:
    """Return a profile in the server's form."""
    found: dict[str, Any] = {
        "id": experiment_id,
        "name": "a name",
        "status": "RUNNING",
        "drain": None,
        "reason": "runs",
        "platform": "local",
        "createdAt": CREATED_AT,
        "endedAt": None,
        "durationS": 12.5,
        "counts": {},
        "bestTrial": None,
        "confirmations": None,
        "optimizeMode": "maximize",
        "limits": {
            "trialConcurrency": 2,
            "maxTrialNumber": 10,
            "maxExperimentDurationS": None,
            "maxTrialDurationS": None,
        },
        "config": {"trialCommand": "true", "experimentWorkingDirectory": "/data"},
        "searchSpace": {"x": {}},
        "feasibleShare": None,
        "port": 0,
        "errors": [],
        "notices": [],
        "lastNumber": 0,
    }
    return found | changes


def trial(trial_id: str, sequence: int, **changes: Any) -> dict[str, Any]:
    """Return a trial in the server's form."""
    found: dict[str, Any] = {
        "id": trial_id,
        "sequence": sequence,
        "status": "SUCCEEDED",
        "detail": None,
        "source": "algorithm",
        "parameterId": sequence,
        "parameters": {"x": sequence / 10},
        "retryOf": None,
        "attempt": 1,
        "createdAt": CREATED_AT,
        "startedAt": CREATED_AT,
        "endedAt": CREATED_AT,
        "reason": None,
        "note": None,
        "userNote": "",
        "tags": [],
        "finalValue": None,
        "finalText": None,
        "latestValue": None,
        "latestText": None,
        "intermediates": 0,
        "logPath": f"/data/abc/trials/{trial_id}",
        "jobs": [],
        "sets": None,
    }
    return found | changes


@dataclass
class FakeExperiment:
    """The server's data on one experiment, and its events so far."""

    profile: dict[str, Any]
    trials: list[dict[str, Any]] = field(default_factory=list)
    logs: dict[str, bytes] = field(default_factory=dict)
    cut: bool = False  # whether to cut each file before its end
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    export: list[dict[str, Any]] = field(default_factory=list)
    metrics: list[dict[str, Any]] = field(default_factory=list)
    still_running: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    forks: list[dict[str, Any]] = field(default_factory=list)
    unsaved: list[str] = field(default_factory=list)
    pareto: dict[str, Any] = field(default_factory=dict)
    tensorboards: list[dict[str, Any]] = field(default_factory=list)
    machines: list[dict[str, Any]] = field(default_factory=list)


class Told:
    """Sentences about waits that were printed."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self._awaited: dict[str, threading.Event] = {}

    def event(self, sentence: str) -> threading.Event:
        """Return an event that is set when the sentence is printed."""
        event = self._awaited.setdefault(sentence, threading.Event())
        if sentence in self.sentences:
            event.set()
        return event

    def say(self, sentence: str) -> None:
        self.sentences.append(sentence)
        if sentence in self._awaited:
            self._awaited[sentence].set()


class Refused(Exception):
    def __init__(self, status: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, **more}}


class FakeServer:
    """Fake server.

    ``requests`` holds (method, path, body) of every call. ``on_create`` may script an experiment.
    """

    def __init__(self, home: Home) -> None:
        self.home = home
        self.token = home.token()
        self.experiments: dict[str, FakeExperiment] = {}
        self.requests: list[tuple[str, str, Any]] = []
        self.on_create: Callable[[FakeExperiment], None] = lambda experiment: None
        self.on_resume: Callable[[], None] = lambda: None
        self.refuse: dict[str, Refused] = {}  # path -> answer
        self.hold: dict[tuple[str, str], threading.Event] = {}  # method and path -> event before the answer
        self.patch: dict[str, Any] = {}  # fields that an update of an experiment sets
        self.changed = threading.Condition()
        # Experiments whose event stream breaks once, after the present events.
        self.breaking: set[str] = set()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.closing = False
        self.tensorboards: list[str] = []  # experiments whose TensorBoards keep the server after a stop
        self.leaves = False  # exit when an experiment is stopped, as the server does after its last one
        self.leaving = False
        self.needs_token = True
        self.url_prefix = ""

    @contextmanager
    def running(self) -> Iterator[FakeServer]:
        with self.home.claim_server(self.port) as claim:
            handler = type("Handler", (_Handler,), {"fake": self})
            http = LocalServer(str(self.home.server_socket_path(self.port)), handler)
            http.daemon_threads = False
            thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
            claim.publish(url=f"http://127.0.0.1:{self.port}", version="0")
            thread.start()
            try:
                yield self
            finally:
                with self.changed:
                    self.closing = True
                    self.changed.notify_all()
                http.shutdown()
                thread.join()
                http.server_close()

    def add(self, experiment_id: str, *, status: str = "RUNNING", **changes: Any) -> FakeExperiment:
        """Add an experiment to this server and to the index."""
        experiment = FakeExperiment(profile(experiment_id, status=status, port=self.port, **changes))
        self.experiments[experiment_id] = experiment
        entry = IndexEntry(
            id=experiment_id,
            port=self.port,
            started_at=datetime.fromisoformat(CREATED_AT),
            ended_at=None,
            status=status,
            platform=experiment.profile["platform"],
            name="a name",
            log_dir=str(self.home.path / "data"),
        )
        Index(self.home).add(entry)
        path = database_path(entry.directory)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return experiment

    def emit(self, experiment: FakeExperiment, kind: str, **fields: Any) -> None:
        with self.changed:
            experiment.events.append((kind, fields))
            experiment.profile["lastNumber"] = len(experiment.events)
            if kind == "ExperimentMoved":
                experiment.profile["status"], experiment.profile["reason"] = (
                    fields["status"],
                    fields["reason"],
                )
            self.changed.notify_all()

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        """Return status and JSON body of a call."""
        if (method, path) == ("GET", "server"):  # request that checks whether the server runs
            leaves = not any(each.profile["status"] == "RUNNING" for each in self.experiments.values())
            server = {"port": self.port, "needsToken": self.needs_token, "urlPrefix": self.url_prefix}
            return 200, {**server, "leaves": leaves}
        self.requests.append((method, path, body))
        if self.leaving:
            raise Refused(503, "The server is leaving.")
        if path in self.refuse:
            raise self.refuse[path]
        if (method, path) == ("POST", "experiments"):
            return self._create(body)
        if (method, path) == ("POST", "server/login-code"):
            url = f"http://127.0.0.1:{self.port}"
            if self.needs_token:
                url += "/login#code=CODE"
            return 200, {"url": url, "needsToken": self.needs_token}
        match = re.fullmatch(r"experiments/([^/]+)(?:/(.+))?", path)
        experiment = self.experiments.get(match[1]) if match else None
        if match is None or experiment is None:
            raise Refused(404, f"there is no {path}")
        if path.endswith("/machines"):
            return 200, {"machines": experiment.machines, "changeable": True}
        if path.endswith("/drain"):
            return 200, next(each for each in experiment.machines if f"/{each['id']}/" in path)
        if path.endswith("/files"):
            return 200, _files(experiment)
        if path.endswith("/curve"):
            return 200, {"total": len(experiment.metrics), "metrics": experiment.metrics}
        if path.endswith("/pin"):
            return 200, {"ok": True}
        if path.endswith(("/annotation", "/tags")):
            return 200, _annotated(experiment.trials, str(match[2]).split("/"), body)
        if str(match[2]).startswith("tensorboards"):
            return 200, _tensorboards(experiment, method, path.rpartition("/")[2], body)
        return 200, self._experiment(experiment, method, match[2] or "", query, body)

    def _create(self, body: Any) -> tuple[int, Any]:
        if body["id"] in self.experiments:
            return 200, {"id": body["id"]}
        experiment = self.add(body["id"])
        self.on_create(experiment)
        return 201, {"id": body["id"]}

    def _experiment(
        self, experiment: FakeExperiment, method: str, rest: str, query: dict[str, list[str]], body: Any
    ) -> Any:
        match (method, rest.split("/")):
            case ("GET", [""]):
                return experiment.profile
            case ("PATCH", ["" | "labels"]) | ("POST", ["import"]):
                space = {"searchSpace": body["searchSpace"]} if "searchSpace" in body else {}
                experiment.profile = {**experiment.profile, **space, **self.patch}
                return experiment.profile
            case ("DELETE", [""]):
                Index(self.home).remove(experiment.profile["id"])
                return {"ok": True}
            case ("POST", ["view"]):
                experiment.profile["status"] = "VIEWED"
                return {"id": experiment.profile["id"]}
            case ("POST", ["stop"]):
                self.leaving = self.leaves
                for found in experiment.trials:
                    if found["status"] == "RUNNING":
                        self.emit(experiment, "TrialEnded", trialId=found["id"], **CANCELLED)
                self.emit(experiment, "ExperimentMoved", status="STOPPED", reason="a user stopped it")
                stopped = {"stillRunning": experiment.still_running, "serverLeaves": False}
                return {**stopped, "unsaved": experiment.unsaved, "tensorboards": self.tensorboards}
            case ("POST", ["resume"]):
                experiment.profile["status"] = "RUNNING"
                self.on_resume()
                return {"id": experiment.profile["id"]}
            case ("GET", ["export"] | ["analysis", "pareto"] | ["lineage"]):
                lineage = {"trials": [], "legs": [], "forks": experiment.forks}
                return {"export": {"trials": experiment.export}, "lineage": lineage}.get(
                    rest, experiment.pareto
                )
            case ("GET", ["metrics"]):
                return _metrics(experiment.metrics, query)
            case ("GET", ["trials"]):
                return _page(experiment.trials, query)
            case ("GET", ["trials", trial_id]):
                return next(found for found in experiment.trials if found["id"] == trial_id)
            case ("POST", ["rerun" | "trials" as last]):
                return _created(experiment, last, self.requests[-1][2])
            case (
                "POST",
                ["trials", trial_id, "stop" | "pause" | "resume" | "save" | "lost" | "fork" as verb],
            ):
                if all(found["id"] != trial_id for found in experiment.trials):
                    raise Refused(404, f"There is no trial {trial_id}.")
                made = {"id": f"{trial_id}2", "sequence": 9, "warnings": experiment.warnings}
                return made if verb == "fork" else {"ok": True}
        raise Refused(404, f"there is no {rest}")


def _created(experiment: FakeExperiment, last: str, body: Any) -> Any:
    if last == "rerun":
        return _rerun(experiment.trials, body)
    return {"id": f"{body['like']}2", "sequence": 9, "warnings": experiment.warnings}


def _tensorboards(experiment: FakeExperiment, method: str, last: str, body: Any) -> Any:
    if method == "GET":
        return {"tensorboards": experiment.tensorboards, "now": "asking a Python"}
    if method == "DELETE":
        return next(task for task in experiment.tensorboards if task["id"] == last)
    number = len(experiment.tensorboards)
    task = {
        "id": f"task{number}",
        "status": "RUNNING",
        "message": None,
        "trialIds": body["trialIds"] or [found["id"] for found in experiment.trials],
        "folders": [],
        "path": f"/tensorboard/task{number}/",
        "pid": 1,
        "startedAt": CREATED_AT,
    }
    experiment.tensorboards.append(task)
    return task


def _metrics(metrics: list[dict[str, Any]], query: dict[str, list[str]]) -> Any:
    after, limit = int(query["after"][0]), min(2, int(query["limit"][0]))
    page = metrics[after : after + limit]
    return {"metrics": page, "nextAfter": after + limit if len(page) == limit else None}


def _rerun(trials: list[dict[str, Any]], wanted: dict[str, Any]) -> Any:
    failed = wanted.get("trialIds", [found["id"] for found in trials if found["status"] == "FAILED"])
    return {"trials": [{"id": f"{each}2", "sequence": 9, "retryOf": each} for each in failed]}


def _annotated(trials: list[dict[str, Any]], path: list[str], wanted: dict[str, Any]) -> Any:
    """Change the note of the trial in the path, or the tags of the wanted trials. Return the answer."""
    if path[0] == "trials":
        noted = next(found for found in trials if found["id"] == path[1])
        noted["userNote"] = wanted["note"]
        return {"userNote": noted["userNote"], "tags": noted["tags"]}
    chosen = [found for found in trials if found["id"] in wanted["trialIds"]]
    for found in chosen:
        kept = [tag for tag in found["tags"] if tag not in wanted["remove"]]
        found["tags"] = list(dict.fromkeys([*kept, *wanted["add"]]))
    return {"trials": [{"id": found["id"], "tags": found["tags"]} for found in chosen]}


class _Handler(BaseHTTPRequestHandler):
    fake: FakeServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_PATCH(self) -> None:
        self._serve("PATCH")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def _serve(self, method: str) -> None:
        parts = urlsplit(self.path)
        path = parts.path.removeprefix("/api/v1/")
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        try:
            if (held := self.fake.hold.get((method, path))) is not None:
                assert held.wait(DEADLINE_S), path
            if self.headers["Authorization"] != f"Bearer {self.fake.token}":
                raise Refused(401, "This server needs its token.")
            log = re.fullmatch(r"experiments/([^/]+)/trials/[^/]+/(?:logs|files)/(.+)", path)
            if path.endswith("/events"):
                return self._events(path.split("/")[1])
            if log is not None:
                self.fake.requests.append((method, self.path, None))
                return self._file(self.fake.experiments[log[1]], unquote(log[2]))
            status, answer = self.fake.answer(method, path, parse_qs(parts.query), body)
        except Refused as refused:
            status, answer = refused.status, refused.body
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _file(self, experiment: FakeExperiment, name: str) -> None:
        if name not in experiment.logs:
            raise Refused(404, f"Trial has no file {name}.")
        self._chunked("text/plain", [experiment.logs[name]], cut=experiment.cut)

    def _chunked(self, kind: str, chunks: Any, *, cut: bool = False) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            self.wfile.flush()
        if cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _events(self, experiment_id: str) -> None:
        after = int(self.headers["Last-Event-ID"])
        self.fake.requests.append(("GET", f"events of {experiment_id} after {after}", None))
        try:
            self._chunked("text/event-stream", self._stream(experiment_id, after))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _stream(self, experiment_id: str, after: int) -> Iterator[bytes]:
        experiment = self.fake.experiments[experiment_id]
        yield b"retry: 1000\n\n: still here\n\n"
        sent = after
        while True:
            with self.fake.changed:
                while not self.fake.closing and len(experiment.events) <= sent:
                    self.fake.changed.wait()
                fresh = experiment.events[sent:]
            for kind, fields in fresh:
                sent += 1
                yield f"id: {sent}\nevent: {kind}\ndata: {json.dumps(fields)}\n\n".encode()
                if kind == "ExperimentMoved" and fields["status"] in ("DONE", "STOPPED", "ERROR"):
                    return
            if self.fake.closing or experiment_id in self.fake.breaking:
                self.fake.breaking.discard(experiment_id)
                return


def _files(experiment: FakeExperiment) -> dict[str, Any]:
    files = [
        {"path": name, "size": len(text), "modifiedAt": CREATED_AT}
        for name, text in sorted(experiment.logs.items())
    ]
    return {"attempt": 1, "files": files, "complete": True}


def listed(item: dict[str, Any]) -> dict[str, Any]:
    """Return a trial as lists of trials have it."""
    return {name: value for name, value in item.items() if name not in _OF_ONE}


def _page(trials: list[dict[str, Any]], query: dict[str, list[str]]) -> dict[str, Any]:
    found = [item for item in trials if item["status"] in query.get("status", [item["status"]])]
    if "search" in query:
        found = [item for item in found if query["search"][0] in item["id"]]
    if query.get("order") == ["desc"]:
        found.reverse()
    if query.get("sort") == ["value"]:
        descending = query["order"] == ["desc"]
        valued = [item for item in found if item["finalValue"] is not None]
        valued.sort(key=lambda item: float(item["finalValue"]), reverse=descending)
        found = valued + [item for item in found if item["finalValue"] is None]
    offset = int(query.get("offset", ["0"])[0])
    page = found[offset : offset + min(2, int(query["limit"][0]))]
    return {"total": len(found), "trials": [listed(item) for item in page]}

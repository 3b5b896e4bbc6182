"""Sends requests, and judges the answers: no 500, none left out, none too large, and no stall of the loop."""

from __future__ import annotations

import http.client
import json
import queue
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from tests.fuzz.nni import nni_routes, refuses
from tests.fuzz.requests import Sent, make, routes_of
from tests.fuzz.scene import Scene
from tests.fuzz.values import Bodies

__all__ = ["Report", "attack"]

MOST_ERROR = 1 << 20  # bytes of an answer that is an error
STALL_S = 0.2
_WORKERS = 3
_ANSWER_S = 60.0
_STREAM_S = 0.2
_MOST_READ = 64 << 20
_MOST_SHOWN = 1000  # bytes of an answer
_TRACEBACK = re.compile(r"Traceback[\s\S]*?\n(\w[^\n]*)")


@dataclass(slots=True)
class Report:
    """What was found. ``slow_s``: the longest time in which the server's loop answered nobody."""

    requests: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    slow_s: float = 0.0

    def __str__(self) -> str:
        return json.dumps(
            {
                "requests": self.requests,
                "statuses": dict(sorted(self.statuses.items())),
                "longest_stall_s": round(self.slow_s, 3),
                "findings": len(self.findings),
            }
        )


def attack(scene: Scene, *, requests: int, seed: int, first: int = 0) -> Report:
    """Send the requests with these numbers, several at a time. A number and a seed give one request."""
    document = scene.server.call("GET", "/api/v1/openapi.json").body
    routes = [*routes_of(document), *nni_routes()]
    bodies = Bodies(document, scene.examples)
    report, lock = Report(), threading.Lock()
    numbers: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(first, first + requests):
        numbers.put(number)
    under_way: list[tuple[float, float, str]] = []

    def work() -> None:
        while True:
            try:
                number = numbers.get_nowait()
            except queue.Empty:
                return
            draw = Random(f"{seed}:{number}")
            sent = make(draw.choice(routes), scene.known, bodies, draw, tame=scene.tame)
            began = time.monotonic()
            status, finding = answered(scene.server.port, sent)
            with lock:
                report.requests += 1
                report.statuses[status] += 1
                under_way.append((began, time.monotonic(), f"request {number}: {sent}"))
                if finding is not None:
                    report.findings.append(f"request {number}: {finding}: {sent}")
            scene.heal(sent, status)

    with probing(scene, report, under_way):
        workers = [threading.Thread(target=work, name=f"fuzz-{number}") for number in range(_WORKERS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    for traceback in _TRACEBACK.findall(scene.server.said):
        report.findings.append(f"the server's log has a traceback: {traceback}")
    return report


def answered(port: int, sent: Sent) -> tuple[int, str | None]:
    """The status of the answer (0: there is none), and what is wrong with it."""
    with socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_S) as connection:
        try:
            connection.sendall(sent.data)
        except OSError:
            pass  # it may have been refused already: the answer tells
        response = http.client.HTTPResponse(connection, method=sent.method)
        try:
            response.begin()
        except (OSError, http.client.HTTPException) as error:
            return 0, f"no answer ({type(error).__name__}: {error})"
        finding = None
        if sent.streams and response.status == 200:
            connection.settimeout(_STREAM_S)
        size, begin = 0, b""
        try:
            while size < _MOST_READ and (piece := response.read1(1 << 16)):
                size += len(piece)
                begin += piece if len(begin) < _MOST_SHOWN else b""
        except TimeoutError:
            if not sent.streams:
                finding = f"an answer without an end (status {response.status})"
        except (OSError, http.client.HTTPException) as error:
            if response.status != 200:
                finding = f"an answer that is cut off ({type(error).__name__}, status {response.status})"
        if response.status >= 500 and response.status != 503 and not refuses(sent, begin):
            finding = f"status {response.status} ({begin[:_MOST_SHOWN].decode(errors='replace')})"
        if response.status >= 400 and response.length:
            finding = f"an answer that is cut off ({response.length} bytes are missing)"
        if response.status >= 400 and size > MOST_ERROR:
            finding = f"an error of {size} bytes (status {response.status})"
        return response.status, finding


@contextmanager
def probing(scene: Scene, report: Report, under_way: list[tuple[float, float, str]]) -> Iterator[None]:
    """Watch the server from another process meanwhile, and report its stalls with what was under way."""
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.probe",
        str(scene.server.port),
        str(scene.server.process.pid),
    ]
    probe = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield
    finally:
        lines, _ = probe.communicate("\n")
    for late in map(json.loads, lines.splitlines()):
        stalled_s = min(late["took_s"], late["used_s"])
        report.slow_s = max(report.slow_s, stalled_s)
        if stalled_s > STALL_S:
            end = late["at"] + late["took_s"]
            asked = [text for began, ended, text in under_way if began < end and ended > late["at"]]
            report.findings.append(f"a stall of {stalled_s:.2f} s, with: {'; '.join(asked)}")

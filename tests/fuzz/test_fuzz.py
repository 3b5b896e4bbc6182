"""The short form of the fuzzer, and that it finds what it looks for."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from nnimgr.api.app import describe
from nnimgr.api.nni import experiment_routes, other_routes, tensorboard_routes, trial_routes
from tests.fuzz.attack import answered, attack
from tests.fuzz.nni import examples, nni_routes, refuses
from tests.fuzz.requests import Known, Route, Sent, make, routes_of
from tests.fuzz.scene import scene
from tests.fuzz.values import Bodies


def test_a_real_server_takes_hostile_requests(tmp_path: Path) -> None:
    with scene(tmp_path) as attacked:
        report = attack(attacked, requests=400, seed=7)
    assert report.requests == 400
    # How long an answer takes is a matter of this machine: the command looks at it, this test does not.
    assert [finding for finding in report.findings if not finding.startswith("a stall")] == []
    assert report.statuses[200] > 40 and report.statuses[422] > 40


def test_all_routes_of_nni_are_attacked() -> None:
    routes = nni_routes()
    tables = [*experiment_routes.ROUTES, *trial_routes.ROUTES, *tensorboard_routes.ROUTES]
    tables += [*other_routes.ROUTES, *other_routes.LOG_ROUTES]
    methods = sum(len((route.methods or set()) - {"HEAD"}) for route in tables)
    assert len({(route.method, route.path) for route in routes}) == len(routes) == 2 * methods
    titles = {route.body["title"] for route in routes if route.body is not None}
    assert titles == set(examples({}, {}, []))


def test_a_seed_is_one_sequence_of_requests() -> None:
    document = json.loads(json.dumps(describe()))
    known = Known(port=1, token="t", by_name={"id": ("a",), "trialId": ("b", "c")})

    def sent(seed: int) -> list[bytes]:
        bodies, draw = Bodies(document, {}), Random(seed)
        routes = routes_of(document)
        made = [make(draw.choice(routes), known, bodies, draw, tame=lambda _, body: body) for _ in range(300)]
        return [each.data for each in made]

    assert sent(1) == sent(1) != sent(2)
    assert len(set(sent(1))) > 250


@contextmanager
def answering(data: bytes) -> Iterator[int]:
    """A server that gives one answer, and its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    ("data", "finding"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", None),
        (b"HTTP/1.1 503 X\r\ncontent-length: 2\r\n\r\nno", None),
        (b"HTTP/1.1 500 X\r\ncontent-length: 2\r\n\r\nno", "status 500 (no)"),
        (
            b"HTTP/1.1 422 X\r\ncontent-length: 2000000\r\n\r\n" + b"x" * 2_000_000,
            "an error of 2000000 bytes",
        ),
        (b"HTTP/1.1 422 X\r\ncontent-length: 9\r\n\r\nno", "an answer that is cut off"),
        (b"", "no answer"),
    ],
)
def test_what_is_found(data: bytes, finding: str | None) -> None:
    sent = Sent(Route("GET", "/", (), None), "GET", b"GET / HTTP/1.1\r\n\r\n", streams=False)
    with answering(data) as port:
        _, found = answered(port, sent)
    assert (found is None) if finding is None else (found is not None and found.startswith(finding))


@pytest.mark.parametrize(
    ("path", "error", "expected"),
    [
        ("/api/v1/nni/trial-jobs", "reach maxTrialNum", True),
        ("/e/{experiment}/api/v1/nni/trial-jobs", "the experiment is STOPPED: resume it first", True),
        ("/api/v1/nni/experiment", "The server failed with ValueError; see the server's log.", False),
        ("/api/v1/experiments/{id}", "reach maxTrialNum", False),
    ],
)
def test_refusals_of_nni_are_not_failures(path: str, error: str, expected: bool) -> None:
    sent = Sent(Route("POST", path, (), None), "POST", b"", streams=False)
    assert refuses(sent, json.dumps({"error": error}).encode()) is expected

"""Real experiments on a real server: what clients see while servers start and end."""

from __future__ import annotations

import http.client
import json
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.server.harness import Server, nothing_left, serving

URL = "/api/v1/experiments"
SECRET = "canary-4711"


@pytest.fixture(autouse=True)
def clean(tmp_path: Path) -> Iterator[None]:
    with nothing_left(tmp_path):
        yield


def wanted(directory: Path, command: str, **more: Any) -> dict[str, Any]:
    config = {
        "experimentType": "hpo",
        "trialCommand": command,
        "trialCodeDirectory": str(directory),
        "trialConcurrency": 2,
        "maxTrialNumber": 4,
        "useAnnotation": False,
        "debug": False,
        "logLevel": "info",
        "experimentWorkingDirectory": str(directory / "work"),
        "tuner": {"name": "Random"},
        "trainingService": {"platform": "local"},
    }
    space = {"x": {"_type": "uniform", "_value": [0, 1]}}
    return {"config": config | more, "searchSpace": space, "id": "exp", "cwd": str(directory)}


def create(server: Server, body: dict[str, Any]) -> None:
    answer = server.call("POST", URL, body)
    assert answer.status == 201, answer.body


Event = tuple[int, str, dict[str, Any]]  # number, kind, data


def events(server: Server, after: int) -> Iterator[Event]:
    """Yield the events after a cursor until the stream ends. The server has answered when this returns."""
    connection = server.connection()
    headers = server.bearer | {"Last-Event-ID": str(after)}
    connection.request("GET", f"{URL}/exp/events", headers=headers)
    response = connection.getresponse()
    assert response.status == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    return parsed(connection, response)


def parsed(connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> Iterator[Event]:
    fields: dict[str, str] = {}
    with closing(connection), closing(response):
        while line := next_line(response):
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
                continue
            if "event" in fields:
                yield int(fields.get("id", 0)), fields["event"], json.loads(fields["data"])
            fields = {}


def next_line(response: http.client.HTTPResponse) -> bytes:
    try:
        line = response.readline()
    except (ConnectionError, http.client.IncompleteRead):  # the server was killed
        return b""
    return line if line.endswith(b"\n") else b""


def until_done(server: Server, after: int = 0) -> list[Event]:
    found = []
    for event in events(server, after):
        found.append(event)
        if event[1] == "ExperimentMoved" and event[2]["status"] == "DONE":
            return found
    raise AssertionError(f"the stream has ended before the experiment: {found[-3:]}\n{server.said}")


def test_an_experiment_from_its_creation_to_the_servers_leave(tmp_path: Path) -> None:
    body = wanted(tmp_path, 'echo "$GREETING"; echo oops >&2')
    body["environ"] = {"PATH": "/usr/bin:/bin", "GREETING": SECRET}
    with serving(tmp_path, "--until-idle") as server:
        create(server, body)
        assert server.call("POST", URL, body).status == 200
        assert server.call("POST", URL, wanted(tmp_path, "other")).status == 409
        seen = until_done(server)
        assert [number for number, _, _ in seen] == list(range(1, len(seen) + 1))
        profile = server.call("GET", f"{URL}/exp").body
        assert profile["status"] == "DONE" and profile["counts"]["SUCCEEDED"] == 4
        assert (server.call("GET", URL).body["experiments"][0]["id"]) == "exp"
        trial = server.call("GET", f"{URL}/exp/trials?limit=1").body["trials"][0]["id"]
        assert read(server, f"{URL}/exp/trials/{trial}/logs/stdout") == f"{SECRET}\n"
        assert read(server, f"{URL}/exp/trials/{trial}/logs/stderr?follow=true") == "oops\n"
        assert SECRET not in json.dumps([profile, seen])
        assert server.process.poll() is None  # the server continues to serve DONE experiments
        assert server.call("POST", f"{URL}/exp/stop").body == {
            "stillRunning": [],
            "left": [],
            "serverLeaves": True,
            "tensorboards": [],
            "unsaved": [],
        }
        assert server.wait() == 0
        assert "no active experiment is left" in server.said and SECRET not in server.said
    for database in (tmp_path / "work" / "exp" / "db").iterdir():
        assert SECRET.encode() not in database.read_bytes()


def read(server: Server, path: str) -> str:
    with closing(server.connection()) as connection:
        connection.request("GET", path, headers=server.bearer)
        response = connection.getresponse()
        assert response.status == 200
        return response.read().decode()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_trials_and_streams_outlive_their_server(tmp_path: Path, how: signal.Signals) -> None:
    """The next server adopts a trial that runs when its server ends. A stream continues from its cursor."""
    go = tmp_path / "go"
    starts = tmp_path / "starts"
    command = f'echo "$NNI_TRIAL_JOB_ID" >> {starts}; until [ -e {go} ]; do sleep 0.05; done'
    seen = []
    with serving(tmp_path) as first:
        create(first, wanted(tmp_path, command, maxTrialNumber=2))
        running = 0
        for event in events(first, 0):
            seen.append(event)
            running += event[1] == "JobStarted"
            if running == 2:
                break
        stream = events(first, seen[-1][0])
        first.process.send_signal(how)
        seen += list(stream)  # the stream ends with the server
        assert first.wait() == (0 if how is signal.SIGTERM else -how)
    go.touch()
    with serving(tmp_path, port=first.port) as second:
        seen += until_done(second, seen[-1][0])
        assert second.call("GET", f"{URL}/exp").body["counts"]["SUCCEEDED"] == 2
        assert second.call("POST", f"{URL}/exp/stop").status == 200
        assert list(events(second, seen[-1][0]))[-1][1] == "closed"
    assert [number for number, _, _ in seen] == list(range(1, len(seen) + 1))
    assert len(starts.read_text().splitlines()) == 2


def test_leaving_does_not_wait_for_streams(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        create(server, wanted(tmp_path, "sleep 1000", maxTrialNumber=1))
        stream = events(server, 0)
        trial = next(data["trialId"] for _, kind, data in stream if kind == "JobStarted")
        with closing(server.connection()) as connection:
            path = f"{URL}/exp/trials/{trial}/logs/stdout?follow=true"
            connection.request("GET", path, headers=server.bearer)
            log = connection.getresponse()
            assert log.status == 200
            server.process.send_signal(signal.SIGTERM)
            assert log.read() == b""
            for _ in stream:
                pass
        assert server.wait() == 0
        assert "graceful shutdown exceeded" not in server.said
    with serving(tmp_path, port=server.port) as again:
        assert again.call("POST", f"{URL}/exp/stop").status == 200

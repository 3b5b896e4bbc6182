"""TensorBoards of a real server, with a fake TensorBoard: start, list, stop, and their pages."""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from nnimgr.tensorboard.process import Interpreter, find_interpreter
from tests.e2e.scene import Scene, eventually, scene
from tests.processes import open_files

HERE = Path(__file__).parent
FAKE, ABSENT = str(HERE / "fake"), str(HERE / "absent")
TRIAL = """
import os, pathlib
import nni
folder = pathlib.Path(os.environ["NNI_OUTPUT_DIR"], "tensorboard")
folder.mkdir()
(folder / "events").write_text("of " + os.environ["NNI_TRIAL_SEQ_ID"])
nni.get_next_parameter()
nni.report_final_result(1)
"""


@contextmanager
def _two_trials(folder: Path) -> Iterator[Scene]:
    with scene(folder, environ={"PYTHONPATH": _path(FAKE), "A_SECRET": "hush"}) as found:
        found.create(found.script(TRIAL), maxTrialNumber=2)
        found.done()
        yield found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """The experiment of all tests that leave the server running."""
    with _two_trials(tmp_path_factory.mktemp("shared")) as found:
        yield found


@pytest.fixture
def done(shared: Scene) -> Iterator[Scene]:
    """An experiment with two ended trials, on a server whose Python has the fake TensorBoard."""
    yield shared
    assert shared.server.call("DELETE", "/e/exp/api/v1/nni/tensorboard-tasks").status == 200


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Scene]:
    """An experiment like that of ``done``, on a server of its own, which the test may end."""
    with _two_trials(tmp_path) as found:
        yield found


def _path(first: str) -> str:
    return os.pathsep.join(filter(None, (first, os.environ.get("PYTHONPATH"))))


def _start(found: Scene, *trial_ids: str) -> dict[str, Any]:
    body = {"trialIds": list(trial_ids)} if trial_ids else None
    answer = found.server.call("POST", f"{found.url}/tensorboards", body)
    assert answer.status == 201, answer.body
    return dict(answer.body)


def _ask(
    found: Scene,
    path: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: str | None = None,
) -> tuple[http.client.HTTPResponse, bytes]:
    with closing(found.server.connection()) as connection:
        sent = found.server.bearer if headers is None else dict(headers)
        connection.request(method, path, body=body, headers=sent)
        response = connection.getresponse()
        return response, response.read()


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return True


def test_a_tensorboard_shows_the_chosen_trials_until_it_is_stopped(done: Scene) -> None:
    first, second = (trial["id"] for trial in done.trials())
    both, single = _start(done), _start(done, second)
    assert both["trialIds"] == [first, second] and single["trialIds"] == [second]
    assert both["folders"] == [f"{done.attempt(each)}/tensorboard" for each in (first, second)]
    assert json.loads(_ask(done, f"{both['path']}runs")[1]) == {
        f"0-{first}/events": "of 0",
        f"1-{second}/events": "of 1",
    }
    assert json.loads(_ask(done, f"{single['path']}runs")[1]) == {f"1-{second}/events": "of 1"}

    listed = done.get("/tensorboards")["tensorboards"]
    assert [(each["id"], each["status"]) for each in listed] == [
        (both["id"], "RUNNING"),
        (single["id"], "RUNNING"),
    ]
    stopped = done.server.call("DELETE", f"{done.url}/tensorboards/{both['id']}")
    assert (stopped.status, stopped.body["status"], stopped.body["pid"]) == (200, "STOPPED", None)
    assert _gone(both["pid"]) and not _gone(single["pid"])
    response, body = _ask(done, f"{both['path']}runs")
    assert response.status == 404 and b"nnictl tensorboard start" in body
    assert len(list((done.folder / "tensorboard").iterdir())) == 1
    assert done.attempt(first).joinpath("tensorboard", "events").read_text() == "of 0"


async def test_the_search_says_which_python_is_asked() -> None:
    told: list[str] = []
    creator = Interpreter(sys.executable, {"PYTHONPATH": FAKE})
    assert await find_interpreter(creator, told.append) == creator
    assert told == [f"asking {sys.executable} for at most 30 s whether it has TensorBoard"]


def test_a_killed_server_leaves_no_tensorboard(own: Scene) -> None:
    task = _start(own)
    assert _ask(own, f"{task['path']}runs")[0].status == 200
    own.server.end(signal.SIGKILL)
    eventually(lambda: _gone(task["pid"]), "the end of TensorBoard")


def test_a_server_that_exits_ends_its_tensorboards(own: Scene) -> None:
    task = _start(own)
    with closing(own.server.connection()) as connection:
        connection.request("GET", f"{task['path']}endless", headers=own.server.bearer)
        assert connection.getresponse().read(1000)
        assert own.server.end() == 0
    assert _gone(task["pid"])
    assert "Traceback" not in own.server.said


def test_a_stranger_gets_401_and_tensorboard_has_no_port(done: Scene) -> None:
    task = _start(done)
    refused, _ = _ask(done, f"{task['path']}runs", headers={"User-Agent": "Mozilla/5.0"})
    assert refused.status == 401
    inodes = set(open_files(task["pid"]))
    for table in ("tcp", "tcp6", "udp"):
        rows = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        assert not inodes & {f"socket:[{row.split()[9]}]" for row in rows}
    (socket,) = (done.server.home.path / ".nnimgr").glob("tensorboard-*.sock")
    assert socket.parent.stat().st_mode & 0o077 == 0


def test_credentials_and_secrets_do_not_reach_tensorboard(done: Scene) -> None:
    task = _start(done)
    headers = done.server.bearer | {"Cookie": "nnimgr-1=session; other=1", "Accept": "text/x"}
    _, body = _ask(done, f"{task['path']}request?a=%2F", headers=headers)
    seen = json.loads(body)
    assert seen["headers"]["HTTP_ACCEPT"] == "text/x" and seen["query"] == "a=%2F"
    assert not {"HTTP_COOKIE", "HTTP_AUTHORIZATION"} & set(seen["headers"])
    assert "A_SECRET" not in seen["environ"]
    assert done.server.home.token() not in body.decode()


def test_answers_are_made_fit_for_our_address(done: Scene) -> None:
    task = _start(done)
    moved, _ = _ask(done, f"{task['path']}moved")
    assert (moved.status, moved.headers["Location"]) == (302, f"{task['path']}runs?x=1")
    page, _ = _ask(done, f"{task['path']}page")
    assert page.headers["Content-Security-Policy"] == "default-src 'self';frame-ancestors 'self'"
    assert page.headers["X-Frame-Options"] == "SAMEORIGIN" and page.headers["Set-Cookie"] is None
    assert _ask(done, task["path"].rstrip("/"))[0].headers["Location"] == task["path"]


def test_a_browser_may_post_to_tensorboard_from_our_pages_only(done: Scene) -> None:
    task = _start(done)
    code = done.server.call("POST", "/api/v1/server/login-code").body["url"].partition("code=")[2]
    login, _ = _ask(
        done,
        "/api/v1/login",
        method="POST",
        headers={"Content-Type": "application/json"},
        body=json.dumps({"code": code}),
    )
    assert login.status == 200
    browser = {"Cookie": login.headers["Set-Cookie"].partition(";")[0], "Content-Type": "text/plain"}
    own = browser | {"Origin": f"http://127.0.0.1:{done.server.port}"}
    address = f"{task['path']}request"
    allowed, body = _ask(done, address, method="POST", headers=own, body="tags=1")
    assert allowed.status == 200 and json.loads(body)["body"] == "tags=1"
    for foreign in (browser, browser | {"Origin": "http://evil.example"}):
        assert _ask(done, address, method="POST", headers=foreign, body="tags=1")[0].status == 403


def test_a_crash_is_shown_with_its_reason(done: Scene) -> None:
    task = _start(done)
    response, _ = _ask(done, f"{task['path']}crash")
    assert response.status == 503
    path = f"/tensorboards/{task['id']}"
    eventually(lambda: done.get(path)["status"] == "ERROR", "the end of TensorBoard")
    assert (
        done.get(path)["message"] == "TensorBoard exited with status 3; its last output: the disk is on fire"
    )


def test_nnis_routes(done: Scene) -> None:
    first, second = (trial["id"] for trial in done.trials())
    nni = "/e/exp/api/v1/nni"
    started = done.server.call("POST", f"{nni}/tensorboard", {"trials": f"{second},{first}"})
    assert started.status == 200, started.body
    task = started.body
    assert task == {
        "id": task["id"],
        "status": "RUNNING",
        "trialJobIdList": [second, first],
        "trialLogDirectoryList": [f"{done.attempt(each)}/tensorboard" for each in (second, first)],
        "pid": task["pid"],
        "port": str(done.server.port),
        "path": f"/tensorboard/{task['id']}/",
    }
    assert done.server.call("GET", f"{nni}/tensorboard/{task['id']}").body == task
    assert done.server.call("PUT", f"{nni}/tensorboard/{task['id']}").body == task
    listed = done.server.call("GET", f"{nni}/tensorboard-tasks").body
    assert [each for each in listed if each["status"] == "RUNNING"] == [task]
    stopped = done.server.call("DELETE", f"{nni}/tensorboard/{task['id']}").body
    assert stopped == {key: value for key, value in task.items() if key != "pid"} | {"status": "STOPPED"}
    again = done.server.call("POST", f"{nni}/tensorboard", {"trials": first}).body
    assert done.server.call("DELETE", f"{nni}/tensorboard-tasks").status == 200
    assert _gone(again["pid"])
    unknown = done.server.call("POST", f"{nni}/tensorboard", {"trials": "nope1"})
    assert (unknown.status, unknown.body) == (404, {"error": "There is no trial nope1."})


def test_requests_that_are_refused(done: Scene) -> None:
    path = f"{done.url}/tensorboards"
    assert done.server.call("POST", path, {"trialIds": ["nope1"]}).status == 404
    many = done.server.call("POST", path, {"trialIds": [f"t{number}" for number in range(201)]})
    assert many.status == 409 and "at most 200 trials" in many.body["error"]["message"]
    assert done.server.call("GET", f"{path}/nope1").status == 404
    tasks = [_start(done) for _ in range(8)]
    full = done.server.call("POST", path)
    assert full.status == 409
    assert f"nnictl tensorboard stop exp {tasks[0]['id']}" in full.body["error"]["message"]


def test_without_tensorboard_a_sentence_names_the_command_that_installs_it(tmp_path: Path) -> None:
    environ = {"PYTHONPATH": _path(ABSENT), "PATH": "/usr/bin:/bin"}
    with scene(tmp_path, environ=environ) as found:
        found.create(found.script(TRIAL))
        (trial,) = found.done()
        answer = found.server.call("POST", f"{found.url}/tensorboards")
        assert answer.status == 409
        command = f"{sys.executable} -m pip install tensorboard"
        assert answer.body["error"]["message"].endswith(f"Install it: {command}")
        old = found.server.call("POST", "/api/v1/nni/tensorboard", {"trials": trial["id"]})
        assert old.status == 400 and old.body["error"].endswith(command)

"""NNI's routes about an experiment: the exact answers of NNI 3.0."""

from __future__ import annotations

import dataclasses
import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from nnimgr.api import dashboard
from nnimgr.api.app import create_app
from nnimgr.api.auth import AllowedHosts
from nnimgr.rules import facts as f
from tests.api.lab import BASE, BEARER, PORT, Lab
from tests.api.stored_life import SPACE, full_config
from tests.rules.driver import T0

NNI = "/api/v1/nni"
BOTH = pytest.mark.parametrize("base", [NNI, "/e/exp/api/v1/nni"])
T0_MS = int(T0.timestamp() * 1000)


def is_empty(answer: httpx.Response) -> bool:
    return (answer.status_code, answer.content) == (200, b"") and headers_of(answer) == "application/json"


def headers_of(answer: httpx.Response) -> str:
    """Check NNI's headers of an answer, and return its content type."""
    wanted = "Origin, X-Requested-With, Content-Type, Accept"
    assert answer.headers["access-control-allow-headers"] == wanted
    assert answer.headers["access-control-allow-methods"] == "PUT,POST,GET,DELETE,OPTIONS"
    return answer.headers["content-type"]


def says(answer: httpx.Response, status: int) -> str:
    """Return the message of an error in NNI's format."""
    assert answer.status_code == status, answer.text
    assert headers_of(answer) == "application/json; charset=utf-8"
    body = answer.json()
    assert list(body) == ["error"]
    return str(body["error"])


@BOTH
async def test_version_is_bare(lab: Lab, base: str) -> None:
    answer = await lab.client.get(f"{base}/version")
    assert (answer.status_code, answer.text) == (200, "3.0.0")
    assert headers_of(answer) == "application/json; charset=utf-8"


@BOTH
async def test_status(lab: Lab, base: str) -> None:
    assert (await lab.client.get(f"{base}/check-status")).text == '{"status":"RUNNING","errors":[]}'


async def test_status_under_nnis_names(lab: Lab) -> None:
    lab.life.take(f.ConfigChanged(changes={}, limits=f.Limits(trial_concurrency=2, max_trial_number=1)))
    await lab.runner.commit()
    assert (await lab.client.get(f"{NNI}/check-status/")).json()["status"] == "NO_MORE_TRIAL"
    lab.life.take(f.ExperimentStopRequested())
    await lab.runner.commit()
    assert (await lab.client.get(f"{NNI}/check-status")).json()["status"] == "STOPPING"


async def test_an_error_says_why(lab: Lab) -> None:
    lab.life.take(f.AlgorithmFailed(role=f.Role.TUNER, call="start", sentence="no such class", hopeless=True))
    lab.life.end(0)
    lab.life.end(1)
    await lab.runner.commit()
    found = (await lab.client.get(f"{NNI}/check-status")).json()
    assert found["status"] == "ERROR" and "no such class" in found["errors"][0]


async def test_an_experiment_whose_disk_is_full(lab: Lab) -> None:
    lab.manager.runner, lab.manager.troubles = None, "the disk is full"
    answer = await lab.client.get(f"{NNI}/check-status")
    assert answer.json() == {"status": "ERROR", "errors": ["the disk is full"]}


async def test_before_there_is_an_experiment(lab: Lab) -> None:
    lab.manager.latest = None
    assert (await lab.client.get(f"{NNI}/check-status")).text == '{"status":"INITIALIZED","errors":[]}'
    assert "no experiment" in says(await lab.client.get(f"{NNI}/experiment"), 404)
    assert (await lab.client.get("/e/exp/api/v1/nni/experiment")).status_code == 200


async def test_an_experiment_that_is_not_there(lab: Lab) -> None:
    assert says(await lab.client.get("/e/other/api/v1/nni/experiment"), 404) == "there is no experiment other"
    assert says(await lab.client.delete("/e/other/api/v1/nni/experiment"), 404)


@BOTH
async def test_profile(lab: Lab, base: str) -> None:
    config = full_config(lab.manager.folder)
    names = list(config)
    names.insert(names.index("trialCommand"), "searchSpace")
    names.remove("maxExperimentDuration")
    names.insert(names.index("maxTrialNumber"), "maxExperimentDuration")
    params = {name: SPACE if name == "searchSpace" else config[name] for name in names}
    lab.life.take(f.ExperimentStopRequested(), after=timedelta(seconds=7, milliseconds=500))
    lab.life.end(0, None, reason=f.EndReason.STOPPED)
    lab.life.end(1, None, reason=f.EndReason.STOPPED)
    await lab.runner.commit()
    expected = {
        "params": params,
        "id": "exp",
        "execDuration": 7,
        "logDir": str(lab.manager.folder),
        "startTime": T0_MS,
        "endTime": T0_MS + 7500,
        "nextSequenceId": 2,
        "revision": lab.life.state.number,
    }
    answer = await lab.client.get(f"{base}/experiment")
    assert answer.text == json.dumps(expected, separators=(",", ":"))


async def test_a_profile_has_no_end_while_it_runs(lab: Lab) -> None:
    assert "endTime" not in (await lab.client.get(f"{NNI}/experiment")).json()


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("TRIAL_CONCURRENCY", "trialConcurrency", 5),
        ("MAX_EXEC_DURATION", "maxExperimentDuration", 7200),
        ("MAX_EXEC_DURATION", "maxExperimentDuration", "2h"),
        ("MAX_TRIAL_NUM", "maxTrialNumber", 20),
        ("SEARCH_SPACE", "searchSpace", {"y": {"_type": "choice", "_value": [1, 2]}}),
    ],
)
async def test_updates_as_nnis_clients_send_them(lab: Lab, kind: str, name: str, value: Any) -> None:
    profile = (await lab.client.get(f"{NNI}/experiment")).json()
    profile["params"][name] = value
    profile["params"]["experimentName"] = "not to be changed"
    assert is_empty(await lab.client.put(f"{NNI}/experiment?update_type={kind}", json=profile))
    params = (await lab.client.get(f"{NNI}/experiment")).json()["params"]
    assert params[name] == value and params["experimentName"] == "lab"


@pytest.mark.parametrize(
    ("query", "body", "part"),
    [
        ("?update_type=NOPE", {"params": {}}, "update_type must be one of"),
        ("", {"params": {}}, "update_type must be one of"),
        ("?update_type=MAX_TRIAL_NUM", {}, "params"),
        ("?update_type=MAX_TRIAL_NUM", [], "params"),
        ("?update_type=TRIAL_CONCURRENCY", {"params": {"trialConcurrency": 0}}, "trialConcurrency"),
        ("?update_type=TRIAL_CONCURRENCY", {"params": {}}, "trialConcurrency"),
    ],
)
async def test_updates_that_are_refused(lab: Lab, query: str, body: Any, part: str) -> None:
    assert part in says(await lab.client.put(f"{NNI}/experiment{query}", json=body), 400)


@pytest.mark.parametrize("content", [b"{", b"NaN", b"\xff", b"[" * 100_000])
async def test_a_body_that_is_no_json(lab: Lab, content: bytes) -> None:
    answer = await lab.client.put(f"{NNI}/experiment?update_type=MAX_TRIAL_NUM", content=content)
    assert says(answer, 400).startswith("The request's body is not JSON")


async def test_stopping_is_certain_when_it_is_answered(lab: Lab) -> None:
    assert is_empty(await lab.client.delete(f"{NNI}/experiment"))
    assert lab.life.state.stop_requested and lab.manager.stopped == []
    assert (await lab.client.get(f"{NNI}/check-status")).json()["status"] == "STOPPING"


async def test_stopping_an_experiment_that_nobody_runs(lab: Lab) -> None:
    lab.manager.runner = None
    assert is_empty(await lab.client.delete("/e/exp/api/v1/nni/experiment"))
    assert lab.manager.stopped == [("exp", False)]


async def test_create(lab: Lab) -> None:
    config = full_config(lab.manager.folder)
    answer = await lab.client.post(f"{NNI}/experiment", json={**config, "searchSpace": SPACE})
    assert answer.text == '{"experiment_id":"fresh"}'
    (new,) = lab.manager.created
    assert new.config == config and new.search_space == SPACE and new.id is None
    answer = await lab.client.post("/e/mine/api/v1/nni/experiment", json={**config, "searchSpace": SPACE})
    assert answer.text == '{"experiment_id":"mine"}'
    assert is_empty(await lab.client.post("/e/exp/api/v1/nni/experiment", json={}))
    assert lab.manager.resumed == [("exp", None)]


async def test_imports(lab: Lab) -> None:
    assert (await lab.client.get(f"{NNI}/experiment/imported-data")).text == "[]"
    sent = '[{"parameter":{"x": 1.0, "b":1e-7},"value":0.10, "trialJobId":"é"}]'
    assert is_empty(await lab.client.post(f"{NNI}/experiment/import-data", content=sent.encode()))
    assert is_empty(await lab.client.post(f"{NNI}/experiment/import-data", json=[]))
    answer = await lab.client.get(f"{NNI}/experiment/imported-data")
    texts = ['[{"parameter":{"x":1,"b":1e-7},"value":0.1,"trialJobId":"é"}]', "[]"]
    assert answer.text == json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("sent", [{}, [1], [{"parameter": {}}], [{"value": 1}], "x"])
async def test_imports_that_are_refused(lab: Lab, sent: Any) -> None:
    assert says(await lab.client.post(f"{NNI}/experiment/import-data", json=sent), 400)


async def test_statistics(lab: Lab) -> None:
    lab.life.start(1)
    lab.life.end(1)
    lab.life.take(f.StopRequested(trial_id=lab.life.trial(2), kind=f.StopKind.PAUSE))
    await lab.runner.commit()
    answer = await lab.client.get(f"{NNI}/job-statistics")
    assert answer.text == (
        '[{"trialJobStatus":"WAITING","trialJobNumber":2},{"trialJobStatus":"SUCCEEDED","trialJobNumber":1}]'
    )
    lab.life.take(f.StopRequested(trial_id=lab.life.trial(0)))
    await lab.runner.commit()
    stored = (await lab.client.get(f"{NNI}/job-statistics")).json()
    assert {"trialJobStatus": "USER_CANCELED", "trialJobNumber": 1} in stored
    lab.manager.runner = None
    assert len((await lab.client.get(f"{NNI}/job-statistics")).json()) >= 2


@pytest.fixture
def registry(lab: Lab) -> dict[str, Any]:
    """Create an index with this experiment, one whose process is gone, and one that was stopped."""
    entry: dict[str, Any] = {
        "id": "exp",
        "port": 1,
        "startTime": 1,
        "endTime": "N/A",
        "status": "INITIALIZED",
        "platform": "local",
        "experimentName": "",
        "tag": [],
        "pid": None,
        "webuiUrl": [],
        "logDir": "/work",
        "prefixUrl": None,
    }
    gone = {**entry, "id": "gone", "status": "RUNNING", "pid": 2**22 + 1}
    alive = {**entry, "id": "alive", "status": "RUNNING", "pid": os.getpid(), "extra": "kept"}
    stopped = {**entry, "id": "stopped", "status": "STOPPED"}
    entries = {item["id"]: item for item in (entry, gone, alive, stopped)}
    lab.manager.home.prepare()
    lab.manager.home.index_path.write_text(json.dumps(entries))
    return entries


async def test_the_registry(lab: Lab, registry: dict[str, Any]) -> None:
    before = lab.manager.home.index_path.read_text()
    found = (await lab.client.get(f"{NNI}/experiments-info")).text
    registry["exp"] |= {"port": PORT, "status": "RUNNING", "pid": os.getpid()}
    registry["gone"]["status"] = "STOPPED"
    del registry["gone"]["port"]
    assert found == json.dumps(list(registry.values()), separators=(",", ":"))
    assert lab.manager.home.index_path.read_text() == before


@BOTH
async def test_metadata(lab: Lab, registry: dict[str, Any], base: str) -> None:
    found = (await lab.client.get(f"{base}/experiment-metadata")).text
    assert found == json.dumps(
        registry["exp"] | {"port": PORT, "status": "RUNNING", "pid": os.getpid()}, separators=(",", ":")
    )


async def test_metadata_that_is_not_there(lab: Lab) -> None:
    assert says(await lab.client.get(f"{NNI}/experiment-metadata"), 404)


@pytest.mark.parametrize(
    ("method", "path", "what"),
    [
        ("PUT", "/experiment?update_type=MAX_TRIAL_NUM", "update experiment profile"),
        ("POST", "/experiment/import-data", "import data"),
        ("POST", "/trial-jobs", "add customized trial job"),
        ("DELETE", "/trial-jobs/abcde", "cancel trial job"),
    ],
)
async def test_an_experiment_that_is_viewed(lab: Lab, method: str, path: str, what: str) -> None:
    lab.manager.views = True
    lab.manager.runner = None
    assert (await lab.client.get(f"{NNI}/check-status")).text == '{"status":"VIEWED","errors":[]}'
    answer = await lab.client.request(method, f"{NNI}{path}", json=[])
    assert says(answer, 500) == f"Error: can not {what} in readonly mode!"


async def test_unknown_routes(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "index.html").write_text("<html></html>")
    monkeypatch.setattr(dashboard, "_FOLDER", tmp_path)
    for path in ("nope", "experiment/import-data"):  # as NNI's server, which has one page for all addresses
        page = await lab.client.get(f"{NNI}/{path}")
        assert (page.status_code, page.text) == (200, "<html></html>")
    for method in ("POST", "PUT", "DELETE"):
        answer = await lab.client.request(method, f"{NNI}/check-status")
        assert (answer.status_code, answer.text) == (404, "Not Found")


async def test_features_in_another_form(lab: Lab) -> None:
    put = await lab.client.put(f"{NNI}/experiment/cluster-metadata", json={"nni_manager_ip": {}})
    assert (put.status_code, put.content) == (200, b"")
    assert says(await lab.client.put(f"{NNI}/experiment/cluster-metadata", json=[]), 400)
    assert (await lab.client.get(f"{NNI}/tensorboard-tasks")).json() == []
    assert (await lab.client.delete(f"{NNI}/tensorboard-tasks")).status_code == 200
    bodies: list[Any] = [{}, {"trials": " , "}, {"trials": 5}, []]
    for body in bodies:
        refused = await lab.client.post(f"{NNI}/tensorboard", json=body)
        assert "must name trials" in says(refused, 400)
    unknown = await lab.client.post(f"{NNI}/tensorboard", json={"trials": "abcde"})
    assert says(unknown, 404) == "There is no trial abcde."
    assert says(await lab.client.get(f"{NNI}/tensorboard/abcde"), 500) == "Tensorboard task not found"
    netron = await lab.client.get("/netron/index.html")
    assert netron.status_code == 404 and "model.onnx" in netron.text


async def test_log_files(lab: Lab) -> None:
    folder = lab.manager.directory("exp") / "log"
    folder.mkdir(exist_ok=True)
    (folder / "nnimanager.log").write_text("a line\n")
    (folder / "other.log").write_text("not a log of NNI\n")
    for address in ("/logs", "/e/exp/logs"):
        answer = await lab.client.get(f"{address}/nnimanager.log")
        assert (answer.status_code, answer.text) == (200, "a line\n")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        for name in ("other.log", "dispatcher.log", "nothing"):
            assert "the logs are nnimanager.log" in says(await lab.client.get(f"{address}/{name}"), 404)
        assert b"SQLite" not in (await lab.client.get(f"{address}/..%2Fdb%2Fnnimgr.sqlite")).content


async def test_a_failure_of_ours(lab: Lab) -> None:
    lab.manager.failure = RuntimeError("secret")
    assert says(await lab.client.get(f"{NNI}/experiment"), 500) == (
        "The server failed with RuntimeError; see the server's log."
    )


async def test_the_token_is_needed(lab: Lab) -> None:
    assert (await lab.stranger.get(f"{NNI}/check-status")).status_code == 401


async def test_a_prefix(lab: Lab) -> None:
    app = create_app(dataclasses.replace(lab.parts, url_prefix="a/b"), hosts=AllowedHosts("127.0.0.1"))
    transport = httpx.ASGITransport(app=cast(Any, app))
    async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=BEARER) as client:
        for base in (NNI, "/e/exp/api/v1/nni"):
            assert (await client.get(f"/a/b{base}/check-status")).json()["status"] == "RUNNING"
            answer = await client.get(f"{base}/check-status")
            assert (answer.status_code, answer.text) == (404, 'Outside prefix "/a/b"')
        assert (await client.get(f"/a{NNI}/check-status")).status_code == 404
        assert (await client.get("/api/v1/server")).json()["urlPrefix"] == "a/b"


async def test_large_bodies(lab: Lab) -> None:
    """The limit is NNI's 50 MB, which is more than that of other routes."""
    assert is_empty(await lab.client.post(f"{NNI}/experiment/import-data", content=b" " * (9 << 20) + b"[]"))
    answer = await lab.client.post(
        f"{NNI}/experiment/import-data", content=b"", headers={"content-length": str(51 << 20)}
    )
    assert answer.status_code == 413

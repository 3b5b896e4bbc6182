"""Experiments over REST."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from nnimgr.config import ConfigError, Problem
from nnimgr.core.running.notices import Notice
from nnimgr.core.running.requests import RequestRefused
from nnimgr.core.running.runner import RunnerClosed
from nnimgr.rules import facts as f
from nnimgr.rules.decisions import recorded_as
from nnimgr.store.errors import StoreError
from nnimgr.tensorboard.tasks import TensorBoards
from tests.api.lab import EXPERIMENT, PORT, Lab
from tests.api.stored_life import SPACE
from tests.api.streaming import opened

URL = "/api/v1/experiments"
SECRET = "canary-4711"


def body(**more: Any) -> dict[str, Any]:
    return {"config": {"trialCommand": "true"}, "searchSpace": {}, **more}


async def test_create(lab: Lab) -> None:
    surroundings = {"environ": {"TOKEN": SECRET}, "cwd": "/tmp", "python": "/usr/bin/python3"}
    answer = await lab.client.post(URL, json=body(id="mine", **surroundings))
    assert (answer.status_code, answer.json()) == (201, {"id": "mine"})
    (new,) = lab.manager.created
    assert (new.environ, new.cwd, new.python) == ({"TOKEN": SECRET}, "/tmp", "/usr/bin/python3")
    again = await lab.client.post(URL, json=body(id="mine", **surroundings))
    assert (again.status_code, again.json()) == (200, {"id": "mine"})


async def test_create_with_the_servers_own_environment(lab: Lab) -> None:
    assert (await lab.client.post(URL, json=body())).status_code == 201
    assert lab.manager.created[0].environ is None


async def test_an_id_that_is_taken(lab: Lab) -> None:
    answer = await lab.client.post(URL, json=body(id="taken"))
    assert (answer.status_code, answer.json()) == (
        409,
        {"error": {"message": "there is another experiment taken"}},
    )


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"searchSpace": {}}, "body.config"),
        (body(id="a/b"), "body.id"),
        (body(id="../x"), "body.id"),
        (body(unknown=1), "body.unknown"),
        (body(environ={"A": 1}), "body.environ.A"),
        ({"config": [], "searchSpace": {}}, "body.config"),
        ("text", "body"),
    ],
)
async def test_a_request_that_is_not_as_wanted(lab: Lab, sent: Any, field: str) -> None:
    answer = await lab.client.post(URL, json=sent)
    assert answer.status_code == 422
    problems = answer.json()["error"]["problems"]
    assert field in [problem["field"] for problem in problems]
    assert not lab.manager.created


async def test_what_was_sent_is_not_repeated(lab: Lab) -> None:
    answer = await lab.client.post(URL, json=body(environ={"A": [SECRET]}, cwd=[SECRET]))
    assert answer.status_code == 422
    assert SECRET not in answer.text


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"config": {"x": NaN}, "searchSpace": {}}',
        b'{"config": {"x": 1e999}, "searchSpace": {}}',
        b'{"config": {"x": ' + b"9" * 5000 + b'}, "searchSpace": {}}',
        b'{"config": {"x": ' + b"[" * 100 + b"]" * 100 + b'}, "searchSpace": {}}',
        b"[" * 100_000,
        json.dumps({"config": {"x": list(range(20_000))}, "searchSpace": {}}).encode(),
    ],
)
async def test_hostile_json(lab: Lab, raw: bytes) -> None:
    answer = await lab.client.post(URL, content=raw, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["message"]
    assert not lab.manager.created


async def test_a_configuration_that_cannot_be_used(lab: Lab) -> None:
    lab.manager.failure = ConfigError(
        [Problem(field="tuner.name", message="is not known", valid=("Random",), nearest="Random")]
    )
    answer = await lab.client.get(EXPERIMENT)
    assert answer.status_code == 400
    assert answer.json()["error"]["problems"] == [
        {"field": "tuner.name", "message": "is not known", "valid": ["Random"], "nearest": "Random"}
    ]


async def test_list(lab: Lab) -> None:
    (summary,) = (await lab.client.get(URL)).json()["experiments"]
    assert summary["id"] == "exp" and summary["name"] == "lab"
    assert summary["status"] == "NO_MORE_TRIAL"  # a status from the index of another server
    assert summary["served"] is True and summary["durationS"] == 1.5


async def test_an_ended_experiment_shows_that_its_scheduler_could_do_nothing(lab: Lab) -> None:
    scheduler = {"scheduler": {"name": "ASHA"}}
    lab.life.take(f.ConfigChanged(changes=scheduler, limits=lab.life.state.limits))
    lab.life.start(0)
    pause = f.Decided(trial_id=lab.life.trial(0), kind=f.DecisionKind.PAUSE, cause=1, reason="because")
    lab.life.take(*recorded_as(lab.life.state, pause))
    await lab.runner.commit()
    assert (await lab.client.get(EXPERIMENT)).json()["notices"] == []  # the runner's own notices count
    lab.life.take(f.ExperimentStopRequested())
    for sequence in (0, 1):
        lab.life.end(sequence, None, reason=f.EndReason.STOPPED, signal=15)
    await lab.runner.commit()
    profile = (await lab.client.get(EXPERIMENT)).json()
    assert profile["status"] == "STOPPED"
    assert [notice["sentence"] for notice in profile["notices"]] == [
        "the scheduler ASHA left trials as they were, because they had saved no checkpoint when it compared "
        "them; let the trials call nni.save_checkpoint before that"
    ]


async def test_profile(lab: Lab) -> None:
    lab.life.start(0)
    lab.life.metric(0, 0, 0.25, "FINAL")
    lab.life.end(0)
    lab.life.take(
        f.AlgorithmFailed(role=f.Role.ASSESSOR, call="assess_trial", sentence="it raised", traceback="Trace")
    )
    await lab.runner.commit()
    lab.runner.notices = {"tuner": Notice(subject="runs", seconds=3.0, detail="stack")}
    profile = (await lab.client.get(EXPERIMENT)).json()
    assert profile["id"] == "exp" and profile["name"] == "lab" and profile["status"] == "RUNNING"
    assert profile["counts"]["SUCCEEDED"] == 1
    assert profile["bestTrial"] == {
        "trialId": lab.life.trial(0),
        "sequence": 0,
        "value": 0.25,
        "endedAt": "2026-01-01T00:00:00Z",
        "parameters": {"x": 1},
    }
    assert profile["optimizeMode"] == "minimize"
    assert profile["limits"] == {
        "trialConcurrency": 2,
        "maxTrialNumber": 10,
        "maxExperimentDurationS": 3600.0,
        "maxTrialDurationS": None,
    }
    assert profile["searchSpace"] == SPACE
    assert profile["config"]["trialCommand"] == "true" and profile["platform"] == "local"
    assert profile["port"] == PORT and profile["served"] is True
    assert profile["createdAt"] == "2026-01-01T00:00:00Z" and profile["endedAt"] is None
    assert profile["durationS"] == 7
    notice = {"subject": "runs", "seconds": 3.0, "sentence": "runs for 3 s", "detail": "stack"}
    assert profile["notices"] == [{"about": "tuner", **notice}]
    assert profile["lastNumber"] == lab.runner.last_number
    (error,) = profile["errors"]
    assert error == {
        "at": "2026-01-01T00:00:00Z",
        "role": "assessor",
        "call": "assess_trial",
        "sentence": "it raised",
        "traceback": "Trace",
        "trialId": None,
    }


@pytest.mark.parametrize("parameters", [[1, 2], "text", None])
async def test_parameters_may_be_of_any_form(lab: Lab, parameters: Any) -> None:
    lab.life.take(
        f.Suggested(
            trial_id=lab.life.trial(2),
            sequence=2,
            source=f.SuggestionSource.ALGORITHM,
            parameter_id=2,
            parameters=json.dumps(parameters),
        )
    )
    for sequence in range(3):
        lab.life.start(sequence)
        lab.life.metric(sequence, 0, 1.0 - sequence, "FINAL")
        lab.life.end(sequence)
    await lab.runner.commit()
    best = (await lab.client.get(EXPERIMENT)).json()["bestTrial"]
    assert (best["sequence"], best["parameters"]) == (2, parameters)


async def test_a_profile_says_why_nothing_goes_on(lab: Lab) -> None:
    lab.manager.runner, lab.manager.troubles = None, "the database cannot be written: disk full"
    profile = (await lab.client.get(EXPERIMENT)).json()
    assert profile["reason"] == "the database cannot be written: disk full"
    assert profile["served"] is False


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("PATCH", ""),
        ("POST", "/stop"),
        ("POST", "/resume"),
        ("POST", "/import"),
        ("GET", "/export"),
        ("GET", "/trials"),
        ("GET", "/trials/abcde"),
        ("POST", "/trials"),
        ("GET", "/metrics"),
        ("GET", "/events"),
        ("GET", "/trials/abcde/logs/stdout"),
    ],
)
async def test_an_unknown_experiment(lab: Lab, method: str, path: str) -> None:
    bodies: dict[str, dict[str, Any]] = {"/import": {"records": []}, "/trials": {"parameters": {}}}
    sent = None if method == "GET" else bodies.get(path, {})
    answer = await lab.client.request(method, f"{URL}/other{path}", json=sent)
    assert (answer.status_code, answer.json()) == (
        404,
        {"error": {"message": "there is no experiment other"}},
    )


@pytest.mark.parametrize(
    ("failure", "status", "message"),
    [
        (RequestRefused("not now"), 409, "not now"),
        (RunnerClosed(), 503, "the experiment is being closed; try again"),
        (StoreError("disk full"), 503, "disk full"),
        (PermissionError(13, "Permission denied", "/x"), 503, "/x: Permission denied."),
        (FileNotFoundError("there is no database /x"), 404, "there is no database /x"),
        (ZeroDivisionError("secret"), 500, "The server failed with ZeroDivisionError; see the server's log."),
    ],
)
async def test_failures_have_their_status(lab: Lab, failure: Exception, status: int, message: str) -> None:
    lab.manager.failure = failure
    answer = await lab.client.get(EXPERIMENT)
    assert (answer.status_code, answer.json()) == (status, {"error": {"message": message}})


async def test_change(lab: Lab) -> None:
    answer = await lab.client.patch(EXPERIMENT, json={"maxTrialNumber": 20, "trialConcurrency": 3})
    assert answer.status_code == 200
    assert answer.json()["limits"]["maxTrialNumber"] == 20
    assert answer.json()["config"]["trialConcurrency"] == 3
    lifted = await lab.client.patch(EXPERIMENT, json={"maxTrialNumber": None})
    assert lifted.json()["limits"]["maxTrialNumber"] is None


async def test_rules_are_changed_and_removed(lab: Lab) -> None:
    rules = {"metric": 0.9, "plateau": {"trials": 20, "improvement": 0.001}, "runningTrials": "stop"}
    answer = await lab.client.patch(EXPERIMENT, json={"stopWhen": rules})
    assert (answer.status_code, answer.json()["config"]["stopWhen"]) == (200, rules)
    lifted = await lab.client.patch(EXPERIMENT, json={"stopWhen": None})
    assert "stopWhen" not in lifted.json()["config"]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"maxTrialNumber": -1}, 400),
        ({"stopWhen": {}}, 400),
        ({"trialCommand": "rm"}, 400),
        ({"x": float("inf")}, 422),
        ([], 422),
    ],
)
async def test_changes_that_are_refused(lab: Lab, changes: Any, status: int) -> None:
    answer = await lab.client.patch(
        EXPERIMENT, content=json.dumps(changes), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == status
    assert answer.json()["error"]["problems"]


async def test_view_shows_and_refuses_changes(lab: Lab) -> None:
    lab.manager.runner = None
    assert (await lab.client.post(f"{EXPERIMENT}/view")).json() == {"id": "exp"}
    shown = (await lab.client.get(EXPERIMENT)).json()
    assert shown["status"] == "VIEWED"
    assert shown["reason"].startswith("the experiment does not run and cannot be changed; its last state: ")
    assert (await lab.client.get(f"{EXPERIMENT}/trials")).status_code == 200
    assert (await lab.client.patch(EXPERIMENT, json={"trialConcurrency": 3})).status_code == 409


async def test_delete(lab: Lab) -> None:
    assert (await lab.client.delete(EXPERIMENT)).json() == {"ok": True, "left": []}
    assert lab.manager.deleted == ["exp"]
    left = await lab.client.delete(f"{EXPERIMENT}?leaveUnreachable=true")
    assert left.json() == {"ok": True, "left": ["on gpu1, something"]}
    assert (await lab.client.delete("/api/v1/experiments/other")).status_code == 404


async def test_stop_says_whether_its_server_leaves_then(lab: Lab) -> None:
    lab.manager.runner = None
    assert not (await lab.client.post(f"{EXPERIMENT}/stop")).json()["serverLeaves"]
    lab.parts.shutdown.until_idle = True
    assert (await lab.client.post(f"{EXPERIMENT}/stop")).json()["serverLeaves"]


async def test_stop_says_which_tensorboards_keep_its_server(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.manager.runner, lab.parts.shutdown.until_idle = None, True
    monkeypatch.setattr(TensorBoards, "shown", ["exp"])
    stopped = (await lab.client.post(f"{EXPERIMENT}/stop")).json()
    assert (stopped["serverLeaves"], stopped["tensorboards"]) == (False, ["exp"])


async def test_stop_and_resume(lab: Lab) -> None:
    assert (await lab.client.post(f"{EXPERIMENT}/stop")).json() == {
        "stillRunning": [],
        "unsaved": [],
        "left": [],
        "serverLeaves": False,
        "tensorboards": [],
    }
    lab.runner.unsaved = ["abcde"]
    saved = (await lab.client.post(f"{EXPERIMENT}/stop", json={"save": True})).json()
    assert saved["unsaved"] == ["abcde"]
    detached = await lab.client.post(f"{EXPERIMENT}/stop", json={"detach": True})
    assert detached.json()["stillRunning"] == ["abcde"]
    assert lab.manager.stopped == [("exp", False), ("exp", False), ("exp", True)]
    assert (await lab.client.post(f"{EXPERIMENT}/resume")).json() == {"id": "exp"}
    sent = {"environ": {"A": "b"}, "cwd": "/tmp", "python": "/p"}
    assert (await lab.client.post(f"{EXPERIMENT}/resume", json=sent)).status_code == 200
    (_, first), (_, second) = lab.manager.resumed
    assert first is None
    assert second is not None and second.environ == {"A": "b"}


async def test_import(lab: Lab) -> None:
    records = [{"parameter": {"x": 0.5}, "value": 1}, {"parameter": {"x": 1}, "value": {"default": 2}}]
    answer = await lab.client.post(f"{EXPERIMENT}/import", json={"records": records})
    assert (answer.status_code, answer.json()) == (200, {"ok": True, "given": 2, "warnings": []})
    imported = [r.fact for r in lab.life.log if isinstance(r.fact, f.DataImported)]
    assert [json.loads(fact.records) for fact in imported] == [records]
    odd = [{"parameter": {"x": 2}, "value": "abc"}, {"parameter": {"x": 2}, "value": 3}]
    answer = await lab.client.post(f"{EXPERIMENT}/import", json={"records": odd})
    assert answer.json()["given"] == 1
    assert answer.json()["warnings"] == [
        "result number 1 was left out: its value is 'abc', which is not a number",
        "result number 2 does not fit the search space: x is 2, outside uniform [0, 1]. "
        "The tuner was given it all the same, but may ignore it",
    ]
    bad = await lab.client.post(f"{EXPERIMENT}/import", json={"records": [{"parameter": 1}]})
    assert bad.status_code == 422


async def test_export(lab: Lab) -> None:
    assert (await lab.client.get(f"{EXPERIMENT}/export")).json() == {"trials": []}
    for sequence, value in enumerate([0.5, 0.25]):
        lab.life.start(sequence)
        lab.life.metric(sequence, 0, value / 2)
        lab.life.take(f.MetricReported(lab.life.job(sequence), 1, "PERIODICAL", 1, "0", None, "NaN"))
        lab.life.metric(sequence, 2, value, "FINAL")
        lab.life.end(sequence)
    await lab.runner.commit()
    answer = await lab.client.get(f"{EXPERIMENT}/export")
    assert answer.headers["content-type"] == "application/json"
    first, second = answer.json()["trials"]
    assert first == {
        "trialId": lab.life.trial(0),
        "sequence": 0,
        "parameterId": 0,
        "parameters": {"x": 1},
        "value": 0.5,
        "text": "0.5",
        "intermediates": None,
    }
    assert second["value"] == 0.25
    full = (await lab.client.get(f"{EXPERIMENT}/export?intermediate=true")).json()["trials"]
    assert [trial["intermediates"] for trial in full] == [[0.25, None], [0.125, None]]


async def test_an_export_without_a_database_is_refused(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def results() -> Iterator[object]:
        yield from ()
        raise FileNotFoundError("there is no database")

    monkeypatch.setattr(lab.manager.reading, "results", results)
    answer = await lab.client.get(f"{EXPERIMENT}/export")
    assert (answer.status_code, answer.json()["error"]["message"]) == (404, "there is no database")


async def test_an_export_is_cut_off_when_its_experiment_is_deleted(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lab.life.start(0)
    lab.life.metric(0, 0, 0.5, "FINAL")
    lab.life.end(0)
    await lab.runner.commit()
    (page,) = lab.manager.reading.results()

    def results() -> Iterator[object]:
        yield page
        raise FileNotFoundError("there is no database")

    monkeypatch.setattr(lab.manager.reading, "results", results)
    async with opened(lab.app, f"{EXPERIMENT}/export") as stream:
        assert (await stream.next_message())["status"] == 200
        assert (await stream.next_message())["more_body"]
    assert "an answer was only sent in part: there is no database" in caplog.text


async def test_labels(lab: Lab) -> None:
    answer = await lab.client.patch(f"{EXPERIMENT}/labels", json={"tags": ["one", "\u00e4"]})
    assert (answer.status_code, answer.json()) == (200, {"tags": ["one", "\u00e4"], "archived": False})
    answer = await lab.client.patch(f"{EXPERIMENT}/labels", json={"archived": True})
    assert answer.json() == {"tags": ["one", "\u00e4"], "archived": True}
    (summary,) = (await lab.client.get(URL)).json()["experiments"]
    assert (summary["tags"], summary["archived"]) == (["one", "\u00e4"], True)
    assert (await lab.client.patch(f"{URL}/nobody/labels", json={})).status_code == 404


@pytest.mark.parametrize(
    "sent", [{"tags": [""]}, {"tags": ["x" * 65]}, {"tags": ["x"] * 51}, {"tag": []}, {"archived": "perhaps"}]
)
async def test_bad_labels_are_refused(lab: Lab, sent: dict[str, Any]) -> None:
    assert (await lab.client.patch(f"{EXPERIMENT}/labels", json=sent)).status_code == 422
    assert lab.manager.tags == ()


async def test_half_a_character_is_no_label(lab: Lab) -> None:
    answer = await lab.client.patch(
        f"{EXPERIMENT}/labels",
        content=b'{"tags": ["\\ud800"]}',
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 422


async def test_the_list_has_what_only_the_database_knows(lab: Lab) -> None:
    lab.life.start(0)
    await lab.runner.commit()
    lab.manager.runner = None
    (summary,) = (await lab.client.get(URL)).json()["experiments"]
    assert summary["maxTrialNumber"] == 10 and summary["trialConcurrency"] == 2
    assert (summary["optimizeMode"], summary["counts"]["RUNNING"]) == ("minimize", 1)
    assert summary["owner"]


async def test_what_it_is_doing_now(lab: Lab) -> None:
    lab.life.start(0)
    lab.life.final(0, 0.5, 0)
    lab.life.end(0)
    await lab.runner.commit()
    told = (await lab.client.get(EXPERIMENT)).json()["now"]
    assert told.startswith("2 of 2 slots busy, 1 of 10 finished; 2 trials are being started; ")
    assert told.endswith("best 0.5, trial 0.")
    lab.manager.troubles = "the disk is full"
    told = (await lab.client.get(EXPERIMENT)).json()["now"]
    assert told.startswith("The experiment is not running: the disk is full;")
    lab.manager.troubles, lab.manager.runner = None, None
    told = (await lab.client.get(EXPERIMENT)).json()["now"]
    assert told.startswith("The experiment is not open on this server; its stored status is RUNNING: runs;")
    lab.manager.views = True
    told = (await lab.client.get(EXPERIMENT)).json()["now"]
    assert told.startswith("Open for viewing only: the experiment does not run")


async def test_the_configuration_as_text_can_be_used_again(lab: Lab) -> None:
    text = (await lab.client.get(EXPERIMENT)).json()["configText"]
    assert text.startswith("experimentName: lab\n")
    again = (await lab.client.post("/api/v1/validate", json={"text": text})).json()
    assert again["problems"] == [] and again["plan"]["parameters"] == [{"name": "x", "type": "uniform"}]


async def test_a_wrong_record_of_an_import_is_named(lab: Lab) -> None:
    records: list[dict[str, Any]] = [{"parameter": {"x": number}, "value": number} for number in range(1000)]
    records[777] = {"parameter": 3, "value": 1}
    answer = await lab.client.post(f"{EXPERIMENT}/import", json={"records": records})
    assert answer.status_code == 422
    (problem,) = answer.json()["error"]["problems"]
    assert problem["field"] == "body.records.777.parameter"
    records[777] = {"parameter": {}, "value": [1, None, {"default": 2.5}]}
    answer = await lab.client.post(f"{EXPERIMENT}/import", json={"records": records})
    assert answer.status_code == 200
    (text,) = lab.manager.reading.imports()
    assert json.loads(text) == records

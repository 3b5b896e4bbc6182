"""Trials and metrics over REST."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest

from nnimgr.rules import facts as f
from tests.api.lab import EXPERIMENT, Lab
from tests.rules.driver import PLACE


@pytest.fixture
async def finished(lab: Lab) -> Lab:
    """Create four trials: two ended with 0.5 and with NaN, and two are placed after them."""
    for sequence, (value, text) in enumerate([(0.5, "0.5"), (None, "NaN")]):
        lab.life.start(sequence)
        lab.life.metric(sequence, 0, 0.1)
        lab.life.take(f.MetricReported(lab.life.job(sequence), 1, "FINAL", 0, "0", value, text))
        lab.life.end(sequence)
    await lab.runner.commit()
    return lab


async def trials(lab: Lab, query: str = "") -> tuple[int, list[dict[str, Any]]]:
    answer = await lab.client.get(f"{EXPERIMENT}/trials{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()["total"], answer.json()["trials"]


async def test_a_failed_trial_and_its_attempts_have_causes(lab: Lab) -> None:
    limits = replace(lab.life.state.limits, max_failed_attempts=1)
    lab.life.take(f.ConfigChanged(changes={}, limits=limits))
    lab.life.start(0)
    lab.life.end(0, None, signal=9, cause=f.Cause.OUT_OF_MEMORY)
    lab.life.start(0, 2)
    lab.life.end(0, 1, attempt=2)
    await lab.runner.commit()
    answer = (await lab.client.get(f"{EXPERIMENT}/trials/{lab.life.trial(0)}")).json()
    assert [job["cause"] for job in answer["jobs"]] == ["out_of_memory", "user_error"]
    assert answer["cause"] == "user_error"
    _, (first, second) = await trials(lab, "?limit=2")
    assert (first["cause"], second["cause"]) == ("user_error", None)


@pytest.mark.parametrize(
    ("query", "total", "sequences"),
    [
        ("", 4, [0, 1, 2, 3]),
        ("?offset=1&limit=2", 4, [1, 2]),
        ("?offset=9", 4, []),
        ("?order=desc", 4, [3, 2, 1, 0]),
        ("?status=SUCCEEDED", 2, [0, 1]),
        ("?status=SUCCEEDED&status=WAITING", 4, [0, 1, 2, 3]),
        ("?status=FAILED", 0, []),
        ("?sort=value&order=desc&status=SUCCEEDED", 2, [0, 1]),
        ("?search=3", 1, [3]),
        ("?search=%25", 0, []),
        ("?search=%22x%22", 4, [0, 1, 2, 3]),
    ],
)
async def test_pages_filters_and_orders(finished: Lab, query: str, total: int, sequences: list[int]) -> None:
    found, page = await trials(finished, query)
    assert found == total
    assert [trial["sequence"] for trial in page] == sequences


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "offset=-1",
        "sort=x",
        "order=up",
        "status=DONE",
        "offset=1e9",
        "search=" + "x" * 201,
    ],
)
async def test_queries_that_are_refused(lab: Lab, query: str) -> None:
    answer = await lab.client.get(f"{EXPERIMENT}/trials?{query}")
    assert answer.status_code == 422
    assert answer.json()["error"]["problems"][0]["field"].startswith("query.")


@pytest.mark.parametrize("sort", ["x", "parameters.", "parametersx"])
async def test_a_sort_that_is_refused_names_the_valid_ones(lab: Lab, sort: str) -> None:
    answer = await lab.client.get(f"{EXPERIMENT}/trials?sort={sort}")
    (problem,) = answer.json()["error"]["problems"]
    assert problem["field"] == "query.sort"
    assert problem["message"].startswith("must be one of sequence, value, status, ")
    assert problem["message"].endswith(", parameters.NAME or metrics.KEY")


async def test_numbers_that_are_not_finite_are_null(finished: Lab) -> None:
    _, page = await trials(finished)
    assert (page[0]["finalValue"], page[0]["finalText"]) == (0.5, "0.5")
    assert (page[1]["finalValue"], page[1]["finalText"]) == (None, "NaN")


async def test_a_trial_with_its_attempts(finished: Lab) -> None:
    trial = finished.life.trial(0)
    shown = (await finished.client.get(f"{EXPERIMENT}/trials/{trial}")).json()
    assert shown["id"] == trial and shown["status"] == "SUCCEEDED" and shown["intermediates"] == 1
    (job,) = shown["jobs"]
    assert job["id"] == finished.life.job(0) and job["exitCode"] == 0 and job["endReason"] == "exited"
    assert job["keeperId"] == "local" and job["gpus"] == [] and job["frames"] == 2
    assert job["logPath"] == shown["logPath"]
    missing = await finished.client.get(f"{EXPERIMENT}/trials/zzzzz")
    assert (missing.status_code, missing.json()["error"]["message"]) == (404, "There is no trial zzzzz.")


async def test_a_trial_whose_second_attempt_waits_has_the_files_of_its_first(lab: Lab) -> None:
    life, address = lab.life, f"{EXPERIMENT}/trials/{lab.life.trial(0)}"
    life.start(0)
    lab.service.logs[life.job(0), "stdout"] = b"the first attempt"
    life.wait_reason = "no free GPU"
    life.take(f.JobLost(job_id=life.job(0), reason="the host was restarted"))
    await lab.runner.commit()
    shown = (await lab.client.get(address)).json()
    assert (shown["attempt"], shown["status"]) == (2, "WAITING")
    assert [job["keeperId"] for job in shown["jobs"]] == ["local", None]
    assert shown["logPath"] == shown["jobs"][0]["logPath"]
    assert (await lab.client.get(f"{address}/logs/stdout")).content == b"the first attempt"
    assert (await lab.client.get(f"{address}/files")).json()["attempt"] == 1
    life.take(f.JobPlaced(job_id=life.job(0, 2), place=PLACE, cmd_seq=9))
    await lab.runner.commit()
    shown = (await lab.client.get(address)).json()
    assert shown["logPath"] == shown["jobs"][1]["logPath"] == f"{shown['jobs'][0]['logPath']}/attempt-2"


async def test_add(lab: Lab) -> None:
    parameters = {"x": 0.5, "deep": {"y": [1]}}
    answer = await lab.client.post(f"{EXPERIMENT}/trials", json={"parameters": parameters})
    assert answer.status_code == 201
    told = ["deep is not in the search space, which has x"]
    assert answer.json() == {"id": lab.life.trial(2), "sequence": 2, "warnings": told}
    shown = (await lab.client.get(f"{EXPERIMENT}/trials/{lab.life.trial(2)}")).json()
    assert shown["parameters"] == parameters and shown["source"] == "customized"


async def test_add_a_trial_like_another(lab: Lab) -> None:
    async def add(**sent: Any) -> httpx.Response:
        return await lab.client.post(f"{EXPERIMENT}/trials", json={"like": lab.life.trial(0), **sent})

    path = f"{EXPERIMENT}/trials"
    before = (await lab.client.get(f"{path}/{lab.life.trial(0)}")).json()["parameters"]
    made = (await add()).json()
    shown = (await lab.client.get(f"{path}/{made['id']}")).json()
    assert (shown["parameters"], shown["source"], made["warnings"]) == (before, "customized", [])
    assert (await add(parameters={**before, "x": 7})).json()["warnings"] == ["x is 7, outside uniform [0, 1]"]
    assert (await add(parameters={**before, "x": "much"})).status_code == 409
    assert (await add(like="zzzzz")).status_code == 404


async def test_add_a_trial_above_the_limit(lab: Lab) -> None:
    changed = await lab.client.patch(EXPERIMENT, json={"maxTrialNumber": lab.runner.state.counted})
    assert changed.status_code == 200
    refused = await lab.client.post(f"{EXPERIMENT}/trials", json={"like": lab.life.trial(0)})
    assert refused.status_code == 409
    assert '"raiseLimit": true' in refused.json()["error"]["message"]
    wanted = {"like": lab.life.trial(0), "raiseLimit": True}
    assert (await lab.client.post(f"{EXPERIMENT}/trials", json=wanted)).status_code == 201
    assert lab.runner.config.max_trial_number == lab.runner.state.counted


@pytest.mark.parametrize("sent", [{}, {"parameters": 1}, {"parameters": {}, "more": 1}, []])
async def test_add_something_else(lab: Lab, sent: Any) -> None:
    assert (await lab.client.post(f"{EXPERIMENT}/trials", json=sent)).status_code == 422


async def test_stop_several(finished: Lab) -> None:
    life = finished.life
    running, ended = life.trial(2), life.trial(0)
    answer = await finished.client.post(
        f"{EXPERIMENT}/trials/stop", json={"trialIds": [ended, running, "zzzzz", running]}
    )
    assert answer.status_code == 202
    assert answer.json() == {
        "stopped": [running],
        "refused": [
            {"trialId": ended, "reason": f"Trial 0 ({ended}) has ended already: it is SUCCEEDED."},
            {"trialId": "zzzzz", "reason": "There is no trial zzzzz."},
        ],
    }
    assert life.state.trials[running].target is f.StopKind.USER
    none = await finished.client.post(f"{EXPERIMENT}/trials/stop", json={"trialIds": []})
    assert none.status_code == 422


async def test_stop(finished: Lab) -> None:
    running, ended = finished.life.trial(2), finished.life.trial(0)
    stopped = await finished.client.post(f"{EXPERIMENT}/trials/{running}/stop")
    assert (stopped.status_code, stopped.json()) == (202, {"ok": True})
    assert any(isinstance(r.fact, f.StopRequested) for r in finished.life.log)
    late = await finished.client.post(f"{EXPERIMENT}/trials/{ended}/stop")
    assert late.status_code == 409
    assert late.json()["error"]["message"] == f"Trial 0 ({ended}) has ended already: it is SUCCEEDED."
    unknown = await finished.client.post(f"{EXPERIMENT}/trials/zzzzz/stop")
    assert unknown.status_code == 404


async def test_pause_and_resume(finished: Lab) -> None:
    running, ended = finished.life.trial(2), finished.life.trial(0)
    path = f"{EXPERIMENT}/trials/{running}"
    early = await finished.client.post(f"{path}/resume")
    assert early.status_code == 409 and "only a paused trial can be resumed" in early.text
    paused = await finished.client.post(f"{path}/pause")
    assert (paused.status_code, paused.json()) == (202, {"ok": True})
    assert finished.life.state.trials[running].target is f.StopKind.PAUSE
    again = await finished.client.post(f"{path}/pause")
    assert again.status_code == 202
    resumed = await finished.client.post(f"{path}/resume")
    assert resumed.status_code == 202 and finished.life.state.trials[running].target is None
    late = await finished.client.post(f"{EXPERIMENT}/trials/{ended}/pause")
    assert late.status_code == 409 and "has ended already" in late.text


async def test_checkpoints(finished: Lab) -> None:
    running = finished.life.trial(2)
    position = finished.life.state.jobs[finished.life.job(2)].recorded
    saved = f.CheckpointReported(
        job_id=finished.life.job(2), position=position, number=1, step=7, size=20, files=1
    )
    finished.life.take(saved)
    await finished.runner.commit()
    shown = (await finished.client.get(f"{EXPERIMENT}/trials/{running}")).json()["checkpoints"]
    assert [{**each, "at": None} for each in shown] == [
        {
            "attempt": 1,
            "number": 1,
            "step": 7,
            "size": 20,
            "files": 1,
            "at": None,
            "state": "saved",
            "kept": False,
            "stored": False,
            "pinned": False,
        }
    ]


async def test_lost(finished: Lab) -> None:
    running, ended = finished.life.trial(2), finished.life.trial(0)
    early = await finished.client.post(f"{EXPERIMENT}/trials/{running}/lost")
    assert early.status_code == 409 and "only an UNKNOWN trial" in early.text
    finished.life.take(f.KeeperSilent(keeper_id="local", reason="the keeper on ash has not called for 30 s"))
    lost = await finished.client.post(f"{EXPERIMENT}/trials/{running}/lost")
    assert (lost.status_code, lost.json()) == (202, {"ok": True})
    assert any(isinstance(r.fact, f.LossDeclared) for r in finished.life.log)
    late = await finished.client.post(f"{EXPERIMENT}/trials/{ended}/lost")
    assert late.status_code == 409 and "has ended already" in late.text


async def test_changes_need_an_open_experiment(finished: Lab) -> None:
    finished.manager.runner = None
    answer = await finished.client.post(f"{EXPERIMENT}/trials", json={"parameters": {}})
    assert answer.status_code == 409
    assert "resume" in answer.json()["error"]["message"]
    assert (await finished.client.get(f"{EXPERIMENT}/trials")).status_code == 200


async def test_metrics(finished: Lab) -> None:
    everything = (await finished.client.get(f"{EXPERIMENT}/metrics")).json()
    assert everything["nextAfter"] is None
    assert [metric["text"] for metric in everything["metrics"]] == ["0.1", "0.5", "0.1", "NaN"]
    assert everything["metrics"][3]["value"] is None
    finals = (await finished.client.get(f"{EXPERIMENT}/metrics?type=FINAL")).json()["metrics"]
    assert [metric["text"] for metric in finals] == ["0.5", "NaN"]
    trial = finished.life.trial(1)
    of_one = (await finished.client.get(f"{EXPERIMENT}/metrics?trialId={trial}")).json()
    assert of_one == (await finished.client.get(f"{EXPERIMENT}/trials/{trial}/metrics")).json()
    assert {metric["trialId"] for metric in of_one["metrics"]} == {trial}
    assert (await finished.client.get(f"{EXPERIMENT}/trials/zzzzz/metrics")).status_code == 404


async def test_metrics_come_in_pages(finished: Lab) -> None:
    found, after = [], 0
    while True:
        page = (await finished.client.get(f"{EXPERIMENT}/metrics?limit=3&after={after}")).json()
        found += [metric["number"] for metric in page["metrics"]]
        if page["nextAfter"] is None:
            break
        after = page["nextAfter"]
    assert len(found) == 4 and found == sorted(found)


async def test_a_bad_metric_query(lab: Lab) -> None:
    for query in ("type=OTHER", "limit=0", "after=-1", "limit=10001"):
        assert (await lab.client.get(f"{EXPERIMENT}/metrics?{query}")).status_code == 422


async def test_failed_trials_are_run_again_once(finished: Lab) -> None:
    life = finished.life
    nothing = await finished.client.post(f"{EXPERIMENT}/rerun")
    assert (nothing.status_code, nothing.json()) == (201, {"trials": []})
    for sequence in (2, 3):
        life.start(sequence)
        life.end(sequence, 1)
    await finished.runner.commit()
    named = await finished.client.post(f"{EXPERIMENT}/rerun", json={"trialIds": [life.trial(3)] * 2})
    (again,) = named.json()["trials"]
    assert again["retryOf"] == life.trial(3)
    both = (await finished.client.post(f"{EXPERIMENT}/rerun", json={})).json()["trials"]
    assert [trial["retryOf"] for trial in both] == [life.trial(2)]
    assert (await finished.client.get(EXPERIMENT)).json()["retried"] == 2
    assert finished.manager.reading.count_retried() == 2
    shown = (await finished.client.get(f"{EXPERIMENT}/trials/{again['id']}")).json()
    assert (shown["source"], shown["retryOf"], shown["sequence"]) == (
        "rerun",
        life.trial(3),
        again["sequence"],
    )
    before = (await finished.client.get(f"{EXPERIMENT}/trials/{life.trial(3)}")).json()
    assert (shown["retriedAs"], before["retriedAs"]) == (None, again["id"])
    for trial, status, message in (
        (
            life.trial(3),
            409,
            f"Trial 3 ({life.trial(3)}) was retried already, as trial {again['sequence']} ({again['id']}).",
        ),
        (life.trial(0), 409, f"Trial 0 ({life.trial(0)}) has not failed: it is SUCCEEDED."),
        ("zzzzz", 404, "There is no trial zzzzz."),
    ):
        answer = await finished.client.post(f"{EXPERIMENT}/rerun", json={"trialIds": [trial]})
        assert (answer.status_code, answer.json()["error"]["message"]) == (status, message)


# ---- repeated requests


async def test_a_repeated_request_adds_one_trial(lab: Lab) -> None:
    async def add(x: float, **headers: str) -> httpx.Response:
        return await lab.client.post(f"{EXPERIMENT}/trials", json={"parameters": {"x": x}}, headers=headers)

    key = {"Idempotency-Key": "9f1c"}
    first = await add(0.5, **key)
    assert first.status_code == 201
    assert (await add(0.5, **key)).json() == first.json()
    other = await add(0.25, **key)
    assert other.status_code == 409
    assert f"has added trial {first.json()['id']} with other parameters" in other.json()["error"]["message"]
    assert (await add(0.5)).json()["id"] != first.json()["id"]
    for wrong in ("", "x" * 101, "a b"):
        assert (await add(0.5, **{"Idempotency-Key": wrong})).status_code == 422


async def test_a_curve_of_few_points(lab: Lab) -> None:
    lab.life.start(0)
    for position in range(50):
        lab.life.metric(0, position, 1.0 if position == 17 else 0.0)
    await lab.runner.commit()
    path = f"{EXPERIMENT}/trials/{lab.life.trial(0)}"
    whole = (await lab.client.get(f"{path}/curve")).json()
    assert (whole["attempt"], whole["total"], len(whole["metrics"])) == (1, 50, 50)
    few = (await lab.client.get(f"{path}/curve", params={"points": 10})).json()
    assert few["total"] == 50 and len(few["metrics"]) <= 10
    assert 17 in [metric["position"] for metric in few["metrics"]]
    behind = (await lab.client.get(f"{path}/metrics", params={"after": few["after"]})).json()
    assert behind == {"metrics": [], "nextAfter": None}
    assert (await lab.client.get(f"{EXPERIMENT}/trials/zzzzz/curve")).status_code == 404
    assert (await lab.client.get(f"{path}/curve", params={"points": 3})).status_code == 422


async def test_an_unknown_query_parameter_is_refused(lab: Lab) -> None:
    answer = await lab.client.get(f"{EXPERIMENT}/trials?statuss=FAILED&limit=3")
    assert answer.status_code == 422
    (problem,) = answer.json()["error"]["problems"]
    assert problem["field"] == "query.statuss"
    assert problem["message"].startswith("this route has no such parameter: it has offset, limit, status, ")
    assert problem["message"].endswith("; did you mean status?")
    (problem,) = (await lab.client.get("/api/v1/hosts?x=1")).json()["error"]["problems"]
    assert problem["message"] == "this route has no such parameter: it has none"

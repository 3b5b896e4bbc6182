"""Routes of the analyses: their questions, answers and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from nnimgr.analysis.errors import AnalysisFailed
from nnimgr.api import models
from nnimgr.rules import facts as f
from tests.analysis.given import unpack
from tests.api.lab import EXPERIMENT, Lab

ANALYSIS = f"{EXPERIMENT}/analysis"
PACKED = "application/vnd.nnimgr.columns"


async def tell(lab: Lab) -> None:
    """Let trial 0 succeed after two intermediate metrics, and let trial 1 run with one."""
    lab.life.start(0)
    lab.life.metric(0, 0, 0.25)
    lab.life.metric(0, 1, 0.5)
    lab.life.metric(0, 2, 0.75, "FINAL")
    lab.life.end(0)
    lab.life.start(1)
    lab.life.metric(1, 0, 0.3)
    await lab.runner.commit()


async def packed(lab: Lab, path: str, wanted: Any = None) -> Any:
    answer = await (lab.client.get(path) if wanted is None else lab.client.post(path, json=wanted))
    assert (answer.status_code, answer.headers["content-type"]) == (200, PACKED), answer.text
    return unpack(answer.content)


async def test_parallel(lab: Lab) -> None:
    await tell(lab)
    wanted = {
        "axes": [{"name": "parameters.x"}, {"name": "value", "log": True}],
        "brushes": {"status": {"values": ["SUCCEEDED"]}},
        "bins": 16,
    }
    header, found = await packed(lab, f"{ANALYSIS}/parallel", wanted)
    assert (header["total"], header["selected"]) == (3, 1)
    assert [axis["name"] for axis in header["axes"]] == ["parameters.x", "value"]
    assert found["sequences"].tolist() == [0]


async def test_curves(lab: Lab) -> None:
    await tell(lab)
    header, found = await packed(lab, f"{ANALYSIS}/curves?lines=1&sequence=0&sequence=1")
    assert header["total"] == 2
    assert found["y"].tolist() == pytest.approx([0.25, 0.5, 0.3])
    header, _ = await packed(lab, f"{ANALYSIS}/curves?index=0&from=0.28&to=1&filter=status:RUNNING")
    assert header["total"] == 1


async def test_density(lab: Lab) -> None:
    await tell(lab)
    _, found = await packed(lab, f"{ANALYSIS}/density?x=parameters.x&y=value&yLog=true&bins=8")
    assert found["count"].tolist() == [1] and found["mean"].tolist() == [0.75]


async def test_rungs_are_where_trials_were_stopped(lab: Lab) -> None:
    await tell(lab)
    header, _ = await packed(lab, f"{ANALYSIS}/rungs")
    assert (header["by"], header["rungs"]) == ("step", [])
    lab.life.take(f.Verdict(trial_id=lab.life.trial(1), attempt=1, position=0))
    await lab.runner.commit()
    header, found = await packed(lab, f"{ANALYSIS}/rungs?lines=10")
    assert [(rung["to"], rung["reached"], rung["stopped"]) for rung in header["rungs"]] == [(1, 2, 1)]
    assert found["sequence"].tolist() == [0, 1]
    assert [verdict["sequence"] for verdict in header["verdicts"]] == [1]


async def test_timeline_goes_on_to_now_while_the_experiment_is_open(lab: Lab) -> None:
    await tell(lab)
    header, found = await packed(lab, f"{ANALYSIS}/timeline?pixels=100")
    assert header["lanes"] == [
        {"keeperId": "local", "gpu": None, "part": part} for part in range(len(header["lanes"]))
    ]
    live = header["end"]
    lab.manager.runner = None
    header, found = await packed(lab, f"{ANALYSIS}/timeline?from=0&pixels=100")
    assert header["end"] == 0 < live  # all facts happened at the same instant
    assert set(found["sequence"].tolist()) <= {0, 1, 2}


@pytest.mark.parametrize(
    ("question", "model"),
    [
        ("importance", models.Importance),
        ("history?points=10&mode=maximize", models.History),
        ("stopped?by=assessor&limit=5", models.StoppedTrials),
        ("pareto?limit=5&filter=value>0", models.ParetoSet),
    ],
)
async def test_json_answers_are_as_described(lab: Lab, question: str, model: Any) -> None:
    await tell(lab)
    answer = await lab.client.get(f"{ANALYSIS}/{question}")
    assert answer.status_code == 200
    assert model.model_validate_json(answer.content).model_dump(mode="json") == answer.json()


async def test_history_is_told(lab: Lab) -> None:
    await tell(lab)
    answer = (await lab.client.get(f"{ANALYSIS}/history")).json()
    assert (answer["minimise"], answer["results"]) == (True, 1)
    assert [(point["sequence"], point["value"]) for point in answer["points"]] == [(0, 0.75)]


async def test_too_few_trials_have_a_sentence(lab: Lab) -> None:
    await tell(lab)
    answer = (await lab.client.get(f"{ANALYSIS}/importance")).json()
    assert answer["sentence"] == "Importance needs 20 trials with a result; there are 1."


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("curves?filter=x", "filter"),
        ("curves?key=loss", "key"),
        ("curves?points=1", "query.points"),
        ("curves?from=nan&index=1", "query.from"),
        ("density?x=parameters.y", "x"),
        ("density?y=value", "query.x"),
        ("importance?mode=most", "query.mode"),
        ("history?metric=metrics.loss", "metric"),
        ("timeline?pixels=0", "query.pixels"),
        ("stopped?by=nobody", "query.by"),
        ("rungs?lines=0", "query.lines"),
        ("rungs?filter=nothing>1", "filter"),
    ],
)
async def test_what_is_wrong_is_named(lab: Lab, path: str, field: str) -> None:
    answer = await lab.client.get(f"{ANALYSIS}/{path}")
    assert answer.status_code == 422
    assert [problem["field"] for problem in answer.json()["error"]["problems"]] == [field]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"axes": []}, "body.axes"),
        ({"axes": [{"name": "parameters.y"}]}, "axes"),
        ({"axes": [{"name": "status", "colour": "red"}]}, "body.axes.0.colour"),
        ({"brushes": {"value": {}}}, "body.brushes.value"),
        ({"brushes": {"value": {"range": [0, 1], "values": [1]}}}, "body.brushes.value"),
        ({"brushes": {"speed": {"values": [1]}}}, "brushes"),
        ({"top": 0}, "body.top"),
        ({"filter": "nothing>1"}, "filter"),
        ({"metric": "metrics.loss"}, "metric"),
    ],
)
async def test_what_is_wrong_with_a_question_is_named(lab: Lab, change: Any, field: str) -> None:
    answer = await lab.client.post(f"{ANALYSIS}/parallel", json={"axes": [{"name": "status"}], **change})
    assert answer.status_code == 422, answer.text
    assert [problem["field"] for problem in answer.json()["error"]["problems"]] == [field]


async def test_there_is_no_such_experiment(lab: Lab) -> None:
    answer = await lab.client.get("/api/v1/experiments/nothing/analysis/history")
    assert answer.status_code == 404


async def test_an_analysis_that_fails_says_why(lab: Lab) -> None:
    lab.analyst.failure = AnalysisFailed("The analysis process was killed by signal 9.")
    answer = await lab.client.get(f"{ANALYSIS}/history")
    assert answer.status_code == 500
    assert answer.json()["error"]["message"] == "The analysis process was killed by signal 9."


async def test_strangers_get_nothing(lab: Lab) -> None:
    assert (await lab.stranger.get(f"{ANALYSIS}/history")).status_code == 401
    assert lab.analyst.asked == []

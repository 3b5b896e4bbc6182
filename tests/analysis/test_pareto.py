"""The Pareto set: its members, and the limit of the answer."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from nnimgr.analysis.column import Array
from nnimgr.analysis.errors import BadQuestion
from nnimgr.analysis.front import undominated
from nnimgr.analysis.pareto import pareto
from tests.analysis.given import FAILED, MAXIMISED, MINIMISED, SUCCEEDED, GivenColumns, GivenSnapshot
from tests.analysis.past import Past

BOTH = GivenSnapshot(config={"objectives": {"accuracy": "maximize", "latency": "minimize"}})
ACCURACY = [0.5, 0.9, 0.9, 0.7, 0.9, 0.95, np.nan]
LATENCY = [1.0, 5.0, 4.0, 4.0, 4.0, 9.0, 0.0]


def ask(columns: GivenColumns, snapshot: GivenSnapshot = BOTH, **arguments: Any) -> dict[str, Any]:
    return dict(json.loads(pareto(columns, snapshot.taken, {"limit": 100, **arguments})))


def given(**more: Any) -> GivenColumns:
    return GivenColumns(7, {"metrics.latency": LATENCY}, value=ACCURACY, **more)


def sequences(answer: dict[str, Any]) -> list[int]:
    return [trial["sequence"] for trial in answer["trials"]]


def by_definition(points: Array) -> list[bool]:
    return [
        not any(bool((other <= point).all() and (other < point).any()) for other in points)
        for point in points
    ]


@pytest.mark.parametrize("objectives", [1, 2, 3, 4, 5])
def test_the_front_is_what_nothing_dominates(objectives: int) -> None:
    rng = np.random.default_rng(objectives)
    for rows, values in [(0, 9), (1, 9), (40, 3), (90, 0), (300, 4), (300, 12), (250, 0)]:
        points = rng.random((rows, objectives))
        if values:
            points = np.floor(points * values)
        elif rows > 200:  # every point is in the front
            points /= points.sum(axis=1, keepdims=True)
        assert undominated(points).tolist() == by_definition(points)


def test_many_points_that_few_coordinates_tell_apart() -> None:
    rng = np.random.default_rng(0)
    points = rng.random((3000, 4)) ** 0.25
    points[:, 3] = np.floor(points[:, 3] * 3)
    found = undominated(points)
    front = points[found]
    for point, kept in zip(points, found, strict=True):
        beaten = bool(((front <= point).all(axis=1) & (front < point).any(axis=1)).any())
        assert beaten is not bool(kept)


def test_points_that_are_equal_in_one_coordinate() -> None:
    """The lower half of the first coordinate is higher, or all equal, in the last coordinate."""
    rng = np.random.default_rng(1)
    for last in (np.repeat([5.0, 3.0], 500), np.repeat([3.0, 5.0], 500), np.full(1000, 2.0)):
        points = rng.random((1000, 4))
        points[:, :3] /= points[:, :3].sum(axis=1, keepdims=True)
        points = points[np.argsort(points[:, 0])]
        points[:, 3] = last
        assert undominated(points).all()


def test_no_other_trial_is_better_in_one_objective_and_as_good_in_the_others() -> None:
    answer = ask(given(ended=np.arange(7.0)))
    assert sequences(answer) == [5, 2, 4, 0]
    assert answer["trials"][1] == {
        "sequence": 2,
        "trialId": "t2",
        "endedS": 2.0,
        "values": {"accuracy": 0.9, "latency": 4.0},
    }
    assert (answer["results"], answer["total"]) == (6, 4)
    assert answer["objectives"] == [
        {"name": "accuracy", "mode": "maximize", "column": "value", "min": 0.5, "max": 0.95},
        {"name": "latency", "mode": "minimize", "column": "metrics.latency", "min": 1.0, "max": 9.0},
    ]


def test_only_trials_that_have_succeeded_and_match() -> None:
    status = [SUCCEEDED] * 5 + [FAILED] * 2
    assert sequences(ask(given(status=status))) == [2, 4, 0]
    assert sequences(ask(given(), filter="latency<4.5;sequence>2")) == [4]
    with pytest.raises(BadQuestion, match="memory"):
        ask(given(), filter="memory>1")


def test_before_any_result() -> None:
    answer = ask(GivenColumns(2))
    assert (answer["results"], answer["total"], answer["trials"]) == (0, 0, [])
    assert answer["objectives"][1] == {
        "name": "latency",
        "mode": "minimize",
        "column": "metrics.latency",
        "min": None,
        "max": None,
    }


@pytest.mark.parametrize(("snapshot", "best"), [(MAXIMISED, [5]), (MINIMISED, [0])])
def test_without_objectives_it_is_the_best_trial(snapshot: GivenSnapshot, best: list[int]) -> None:
    answer = ask(given(), snapshot)
    assert sequences(answer) == best
    assert [each["name"] for each in answer["objectives"]] == ["default"]


def test_of_many_trials_some_are_told_from_end_to_end() -> None:
    line = np.arange(50.0)
    columns = GivenColumns(50, {"metrics.latency": line}, value=line)
    answer = ask(columns, limit=4)
    assert answer["total"] == 50 and sequences(answer) == [49, 33, 16, 0]
    assert sequences(ask(columns, limit=50)) == list(range(49, -1, -1))


async def test_from_the_database(past: Past) -> None:
    past.state.config["objectives"] = {"accuracy": "maximize", "latency": "minimize"}
    past.suggest({"lr": 0.1}, {"lr": 0.2}, {"lr": 0.3})
    for sequence, result in enumerate(({"accuracy": 0.5, "latency": 2}, {"accuracy": 0.4, "latency": 1})):
        past.finish(sequence, json.dumps(result))
    past.finish(2, json.dumps({"accuracy": 0.9}))
    await past.write()
    columns = past.refresh()
    answer = json.loads(pareto(columns, BOTH.taken, {"limit": 10}))
    assert [(trial["sequence"], trial["values"]) for trial in answer["trials"]] == [
        (0, {"accuracy": 0.5, "latency": 2.0}),
        (1, {"accuracy": 0.4, "latency": 1.0}),
    ]
    assert np.isnan(columns.arrays["value"][2])

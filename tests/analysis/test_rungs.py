"""Rungs: the trials that came to each, continued from it, and were stopped there."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nnimgr.analysis.rungs import rungs
from nnimgr.rules import facts as f
from nnimgr.store.bulk import snapshot
from nnimgr.store.bulk_runs import MetricPoint, Opinion, StoppedAt
from tests.analysis.given import EARLY_STOPPED, RUNNING, SUCCEEDED, GivenColumns, GivenSnapshot, unpack
from tests.analysis.past import Past

NONE = 2**32 - 1


def ask(
    columns: GivenColumns, snapshot: GivenSnapshot | None = None, **arguments: Any
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    snapshot = GivenSnapshot() if snapshot is None else snapshot
    return unpack(rungs(columns, snapshot.taken, {"lines": 1000, **arguments}))


def points(header: dict[str, Any], found: dict[str, NDArray[Any]]) -> list[tuple[Any, ...]]:
    """Return each point as its rung's end, its trial, its value, its fate and the next point's trial."""
    fates = next(column["categories"] for column in header["columns"] if column["name"] == "fate")
    sequences = [*found["sequence"].tolist()]
    return [
        (
            header["rungs"][rung]["to"],
            sequence,
            None if np.isnan(value) else pytest.approx(value),
            fates[fate],
            None if after == NONE else sequences[after],
        )
        for rung, sequence, value, fate, after in zip(
            found["rung"], sequences, found["value"], found["fate"], found["next"].tolist(), strict=True
        )
    ]


def halving() -> GivenColumns:
    """Three configurations with budget 1. Two got budget 3 and one of them 9, where it still runs."""
    return GivenColumns(
        6,
        {
            "parameters.TRIAL_BUDGET": [1.0, 1.0, 1.0, 3.0, 3.0, 9.0],
            "parameters.lr": [0.1, 0.2, 0.3, 0.3, 0.1, 0.3],
            "parameters.act": np.array([0, 0, 1, 1, 0, 1], np.uint8),
        },
        categories={"parameters.act": ["relu", "tanh"]},
        status=[SUCCEEDED] * 5 + [RUNNING],
        value=[0.5, 0.4, 0.6, 0.7, 0.65, np.nan],
        latest=[0.5, 0.4, 0.6, 0.7, 0.65, 0.72],
    )


def test_a_promoted_configuration_is_a_further_trial() -> None:
    header, found = ask(halving())
    assert (header["by"], header["total"], header["lines"], header["verdicts"]) == ("budget", 3, 3, [])
    assert points(header, found) == [
        (1, 0, 0.5, "promoted", 4),
        (1, 1, 0.4, "left", None),
        (1, 2, 0.6, "promoted", 3),
        (3, 3, 0.7, "promoted", 5),
        (3, 4, 0.65, "left", None),
        (9, 5, 0.72, "running", None),  # its latest value, because it has no final one yet
    ]
    assert header["rungs"][0] == {
        "from": 1,
        "to": 1,
        "reached": 3,
        "cut": {"sequence": 0, "value": 0.5},
        "promoted": 2,
        "stopped": 0,
        "running": 0,
        "left": 1,
    }
    assert header["rungs"][2]["cut"] is None


def test_the_worst_that_went_on_depends_on_what_is_best() -> None:
    config = {"tuner": {"classArgs": {"optimize_mode": "minimize"}}}
    header, _ = ask(halving(), GivenSnapshot(config=config))
    assert header["minimise"]
    assert header["rungs"][0]["cut"] == {"sequence": 2, "value": 0.6}


def test_a_trial_that_was_run_again_is_the_one_that_goes_on() -> None:
    columns = GivenColumns(
        4,
        {"parameters.TRIAL_BUDGET": [1.0, 1.0, 3.0, 3.0], "parameters.lr": [0.1, 0.1, 0.1, 0.2]},
        value=[np.nan, 0.5, 0.6, 0.7],
    )
    found = points(*ask(columns))
    assert [(sequence, fate, after) for _, sequence, _, fate, after in found] == [
        (0, "left", None),
        (1, "promoted", 2),
        (2, "left", None),
        (3, "left", None),  # belongs to another configuration
    ]


def test_the_filter_leaves_out_points_and_what_leads_to_them() -> None:
    header, found = ask(halving(), filter="sequence<3")
    assert [(at, fate, after) for at, _, _, fate, after in points(header, found)] == [
        (1, "promoted", None),
        (1, "left", None),
        (1, "promoted", None),
    ]
    assert [rung["reached"] for rung in header["rungs"]] == [3, 0, 0]
    assert header["total"] == 3


def reports(trial: int, *values: float) -> list[tuple[int, MetricPoint]]:
    return [(1, MetricPoint(f"t{trial}", 1, step, value)) for step, value in enumerate(values)]


def stopping() -> tuple[GivenColumns, GivenSnapshot]:
    """Trial 0 is stopped at its first report, 1 at its third, 2 runs and has reported twice, 3 four times."""
    columns = GivenColumns(4, status=[EARLY_STOPPED, EARLY_STOPPED, RUNNING, SUCCEEDED])
    snapshot = GivenSnapshot(
        points=[
            *reports(0, 0.1, 0.15, 0.2),  # two more reports after the verdict
            *reports(1, 0.2, 0.3, 0.35),
            *reports(2, 0.3, 0.4),
            *reports(3, 0.4, 0.5, 0.6, 0.7),
        ],
        verdicts=[StoppedAt(11, "t0", 1, 1, 1), StoppedAt(12, "t1", 1, 2, 3)],
        metrics={("t0", 1, 1): (1, 0.15, "0.15"), ("t1", 1, 2): (2, 0.35, "0.35")},
        opinions={11: Opinion("0.1 is below the best third", ("t3", "gone"))},
    )
    return columns, snapshot


def test_stopped_trials_have_the_same_rungs_as_those_that_go_on() -> None:
    header, found = ask(*stopping())
    assert header["by"] == "step"
    assert points(header, found) == [
        (1, 0, 0.1, "stopped", None),
        (1, 1, 0.2, "promoted", 1),
        (1, 2, 0.3, "running", None),
        (1, 3, 0.4, "promoted", 3),
        (3, 1, 0.35, "stopped", None),
        (3, 3, 0.6, "promoted", None),  # continued to the end
    ]
    assert header["verdicts"] == [
        {"sequence": 0, "reason": "0.1 is below the best third", "better": [3]},
        {"sequence": 1, "reason": "why t1", "better": []},  # the assessor gave no better trials
    ]


def test_an_assessor_without_rungs_has_them_where_it_stopped() -> None:
    columns, snapshot = stopping()
    snapshot.all_verdicts = [StoppedAt(12, "t1", 1, 2)]
    header, found = ask(columns, snapshot)
    assert [rung["to"] for rung in header["rungs"]] == [3]
    assert [(sequence, fate) for _, sequence, _, fate, _ in points(header, found)] == [
        (0, "left"),  # not stopped by the assessor
        (1, "stopped"),
        (3, "promoted"),
    ]


def test_many_steps_become_ranges() -> None:
    count = 40
    columns = GivenColumns(count + 1, status=[EARLY_STOPPED] * count + [SUCCEEDED])
    story = [point for trial in range(count + 1) for point in reports(trial, *np.arange(trial + 1.0))]
    snapshot = GivenSnapshot(
        points=story,
        verdicts=[StoppedAt(trial + 1, f"t{trial}", 1, trial) for trial in range(count)],
        metrics={(f"t{trial}", 1, trial): (trial, float(trial), "") for trial in range(count)},
    )
    header, found = ask(columns, snapshot)
    assert len(header["rungs"]) == 12
    assert (header["rungs"][0]["from"], header["rungs"][-1]["to"]) == (1, count)
    assert all(before["to"] + 1 == after["from"] for before, after in pairwise(header["rungs"]))
    assert sum(rung["stopped"] for rung in header["rungs"]) == count
    assert [rung["reached"] for rung in header["rungs"]] == [
        count + 2 - rung["from"] for rung in header["rungs"]
    ]
    assert points(header, found)[0][1:4] == (0, 0.0, "stopped")


def test_a_trial_that_succeeded_in_spite_of_a_verdict_was_not_stopped() -> None:
    columns, snapshot = stopping()
    columns.arrays["status"][1] = SUCCEEDED
    header, _ = ask(columns, snapshot)
    assert [(rung["to"], rung["stopped"]) for rung in header["rungs"]] == [(1, 1)]


def test_a_verdict_on_an_earlier_attempt_does_not_count() -> None:
    columns, snapshot = stopping()
    columns.arrays["attempt"][0] = 2
    header, _ = ask(columns, snapshot)
    assert [rung["to"] for rung in header["rungs"]] == [3]


def test_of_many_configurations_those_that_came_far_are_drawn() -> None:
    ladder = [
        (budget, config) for budget, step in ((1, 1), (3, 10), (9, 100)) for config in range(0, 1000, step)
    ]
    columns = GivenColumns(
        len(ladder),
        {
            "parameters.TRIAL_BUDGET": [float(budget) for budget, _ in ladder],
            "parameters.lr": [float(config) for _, config in ladder],
        },
        value=np.arange(float(len(ladder))),
    )
    header, found = ask(columns, lines=60)
    assert (header["total"], header["lines"]) == (1000, 60)
    assert [rung["reached"] for rung in header["rungs"]] == [1000, 100, 10]
    drawn = np.bincount(found["rung"])
    assert drawn.tolist() == [
        60,
        35,
        10,
    ]  # all ten that came furthest, and for the other rungs half of the remaining lines each
    first = found["sequence"][found["rung"] == 0]
    assert first.min() < 50 and first.max() > 950


def test_without_verdicts_and_budgets_there_is_none() -> None:
    header, found = ask(GivenColumns(3), GivenSnapshot(points=reports(0, 0.5)))
    assert (header["rungs"], header["total"], header["lines"]) == ([], 0, 0)
    assert len(found["sequence"]) == 0
    many = GivenColumns(100, {"parameters.TRIAL_BUDGET": np.arange(100.0)})
    assert ask(many)[0]["rungs"] == []  # an ordinary parameter


async def test_what_a_verdict_says_is_read_from_the_database(past: Past) -> None:
    past.suggest(*[{"lr": 0.1, "layers": 1, "act": "relu"}] * 3)
    for sequence, value in enumerate((0.9, 0.2, 0.1)):
        past.start(sequence)
        past.report(sequence, 0, str(value), "PERIODICAL")
    best, told, silent = (past.trial(sequence) for sequence in range(3))
    past.take(f.Verdict(trial_id=told, attempt=1, position=0, reason="0.2 is low", rung=1, better=(best,)))
    past.take(f.Verdict(trial_id=silent, attempt=1, position=0))
    await past.write()
    columns = past.refresh()
    with snapshot(past.database, "exp") as taken:
        header, _ = unpack(rungs(columns, taken, {"lines": 10}))
    assert [(rung["to"], rung["reached"], rung["stopped"]) for rung in header["rungs"]] == [(1, 3, 2)]
    first, second = header["verdicts"]
    assert first == {"sequence": 1, "reason": "0.2 is low", "better": [0]}
    assert (second["sequence"], second["better"]) == (2, [])
    assert "assessor" in second["reason"]  # the trial's own reason

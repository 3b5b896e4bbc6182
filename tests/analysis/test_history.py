"""The best result so far."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from nnimgr.analysis.errors import BadQuestion
from nnimgr.analysis.history import history
from tests.analysis.given import FAILED, MAXIMISED, MINIMISED, SUCCEEDED, GivenColumns, GivenSnapshot


def ask(columns: GivenColumns, snapshot: GivenSnapshot = MAXIMISED, **arguments: Any) -> dict[str, Any]:
    return dict(json.loads(history(columns, snapshot.taken, {"points": 100, **arguments})))


def points(answer: dict[str, Any]) -> list[tuple[int, float]]:
    return [(point["sequence"], point["value"]) for point in answer["points"]]


VALUES = [3.0, np.nan, 1.0, 3.0, 5.0, 4.0, 9.0]


def test_only_trials_that_were_better_than_all_before() -> None:
    answer = ask(GivenColumns(7, value=VALUES, ended=np.arange(7.0)))
    assert points(answer) == [(0, 3), (4, 5), (6, 9)]
    assert answer["points"][1] == {"sequence": 4, "trialId": "t4", "endedS": 4.0, "value": 5.0}
    assert (answer["results"], answer["improvements"], answer["lastSequence"]) == (6, 3, 6)


@pytest.mark.parametrize(("snapshot", "mode"), [(MINIMISED, None), (MAXIMISED, "minimize")])
def test_low_values_are_good_if_the_tuner_or_the_user_says_so(
    snapshot: GivenSnapshot, mode: str | None
) -> None:
    answer = ask(GivenColumns(7, value=VALUES), snapshot, mode=mode)
    assert answer["minimise"] and points(answer) == [(0, 3), (2, 1)]


def test_trials_that_have_failed_do_not_count() -> None:
    status = [SUCCEEDED] * 6 + [FAILED]
    assert points(ask(GivenColumns(7, value=VALUES, status=status))) == [(0, 3), (4, 5)]


def test_runs_that_confirm_other_trials_do_not_count() -> None:
    columns = GivenColumns(7, value=VALUES)
    columns.arrays["source"][6] = columns.categories["source"].index("confirmation")
    assert points(ask(columns)) == [(0, 3), (4, 5)]


def test_a_filter_and_another_metric() -> None:
    columns = GivenColumns(4, {"metrics.loss": [4.0, 5.0, np.nan, 7.0]})
    assert points(ask(columns, metric="metrics.loss", filter="sequence>0")) == [(1, 5), (3, 7)]
    with pytest.raises(BadQuestion, match="there is no column metrics"):
        ask(columns, metric="metrics.accuracy")


def test_of_many_improvements_the_largest_are_kept() -> None:
    values = [1.0, 1.1, 1.2, 8.0, 8.1, 8.2, 8.3]
    answer = ask(GivenColumns(7, value=values), points=3)
    assert points(answer) == [(0, 1.0), (3, 8.0), (6, 8.3)]
    assert answer["improvements"] == 7


def test_no_trials() -> None:
    answer = ask(GivenColumns(0))
    assert (answer["points"], answer["lastSequence"]) == ([], None)

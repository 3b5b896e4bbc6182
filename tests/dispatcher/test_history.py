"""Reading an experiment's past: what is read, and that no query scans all facts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nnimgr.dispatcher.history import History
from nnimgr.store import past as stored
from tests.dispatcher.past import EXPERIMENT, Past


@pytest.fixture
def past(tmp_path: Path) -> Iterator[Past]:
    with closing(Past(tmp_path / "past.sqlite", {"x": {"_type": "uniform", "_value": [0, 1]}})) as past:
        yield past


def test_metrics_of_trials_come_in_parts_and_in_the_order_of_these(
    past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "_TRIALS_AT_ONCE", 2)
    trials = [past.suggested(number, {"x": 0.5}) for number in range(5)]
    for trial in trials[:4]:
        past.reported(trial, 1, 2)
    past.reported(trials[0], 3, attempt=2)
    past.reported(trials[1], 4, attempt=2)  # after the last fact that is asked for
    with closing(History(str(past.path), EXPERIMENT)) as found:
        asked = [trials[3], trials[4], trials[0], trials[1]]
        answer = dict(found.metrics_of(asked, up_to=past.number - 1))
    assert list(answer) == asked
    assert [item[1:] for item in answer[trials[0]]] == [(1, 0, 0, "1"), (1, 1, 1, "2"), (2, 0, 0, "3")]
    assert [len(answer[trial]) for trial in asked] == [2, 0, 3, 2]


def test_metrics_of_a_trial_are_not_looked_for_in_all_of_them(past: Past) -> None:
    with closing(sqlite3.connect(past.path)) as db:
        plan = db.execute(f"EXPLAIN QUERY PLAN {stored._METRICS_OF}", (EXPERIMENT, "[]", 1)).fetchall()
    assert any("(experiment_id=? AND trial_id=?)" in row[3] for row in plan), plan


def test_later_metrics_and_the_set_of_a_metric_are_found_by_an_index(past: Past) -> None:
    with closing(sqlite3.connect(past.path)) as db:
        for query, key, index in (
            (stored._NUMBERED_METRICS, (0, 9), "number>? AND number<?"),
            (stored._NAMED_SET, ("t", 1, 0), "trial_id=? AND attempt=? AND position=?"),
        ):
            explained = f"EXPLAIN QUERY PLAN {query.replace('{search}', '')}"
            plan = db.execute(explained, (EXPERIMENT, *key)).fetchall()
            assert len(plan) == 1 and index in plan[0][3], plan

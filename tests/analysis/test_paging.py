"""Pages from the columns equal pages from the database."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nnimgr.analysis.errors import BadQuestion
from nnimgr.analysis.paging import page
from nnimgr.rules.facts import TrialStatus
from nnimgr.store.bulk import snapshot
from nnimgr.store.reader import TRIAL_SORTS, ExperimentReader
from tests.analysis.past import SECOND, Past

SPACE = {"act": {"_type": "choice", "_value": ["tanh", "gelu", 8, 16, True]}}


@pytest.fixture
async def past(tmp_path: Path) -> AsyncIterator[Past]:
    """Ten trials with ties, values that are not numbers, and some trials that have not ended."""
    made = Past(tmp_path, SPACE)
    finals = ["3", "1", "NaN", "2", "1", '"x"', '{"default": 1, "acc": 5}', '{"default": 7, "acc": 4}']
    acts: list[Any] = ["tanh", "gelu", 16, 8, True, "tanh", "none", 16]
    for sequence, (final, act) in enumerate(zip(finals, acts, strict=True)):
        made.suggest({"act": act, "x": -sequence})
        made.finish(sequence, final, after=(sequence % 3) * SECOND)
    made.suggest({"x": 1}, {"x": 2})
    made.start(8)
    await made.write()
    yield made
    await made.close()


def ask(past: Past, **arguments: Any) -> tuple[int, list[int]]:
    defaults = {"filter": "", "sort": "sequence", "descending": False, "offset": 0, "limit": 100}
    with snapshot(past.database, "exp") as taken:
        columns = past.refresh()
        answer = json.loads(page(columns, taken, defaults | arguments))
    return answer["total"], answer["sequences"]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("sort", TRIAL_SORTS)
async def test_both_sort_alike(past: Past, tmp_path: Path, sort: str, descending: bool) -> None:
    reader = ExperimentReader(tmp_path)
    cases: list[dict[str, Any]] = [
        {},
        {"statuses": [TrialStatus.SUCCEEDED]},
        {"search": "-"},
        {"offset": 2, "limit": 3},
        {"search": "7"},
        {"search": "%"},
    ]
    for more in cases:
        total, rows = reader.trials(sort=sort, descending=descending, **more)
        assert ask(past, sort=sort, descending=descending, **more) == (total, [row.sequence for row in rows])
    reader.close()


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"sort": "parameters.x"}, [7, 6, 5, 4, 3, 2, 1, 0, 8, 9]),
        ({"sort": "parameters.x", "descending": True}, [9, 8, 0, 1, 2, 3, 4, 5, 6, 7]),
        ({"sort": "metrics.acc"}, [7, 6, 0, 1, 2, 3, 4, 5, 8, 9]),
        ({"sort": "parameters.act"}, [3, 2, 7, 1, 6, 0, 5, 4, 8, 9]),
        ({"sort": "parameters.act", "descending": True}, [4, 0, 5, 6, 1, 2, 7, 3, 8, 9]),
        ({"filter": "x<-5", "sort": "value"}, [6, 7]),
        ({"filter": "x<0", "search": "-6", "statuses": ["SUCCEEDED", "FAILED"]}, [6]),
        ({"statuses": ["FAILED"]}, []),
    ],
)
async def test_orders_that_only_columns_have(past: Past, arguments: dict[str, Any], found: list[int]) -> None:
    assert ask(past, **arguments) == (len(found), found)


async def test_only_these_trials(past: Past) -> None:
    ids = [past.trial(3), past.trial(1), "nobody"]
    assert ask(past, trial_ids=ids) == (2, [1, 3])
    assert ask(past, trial_ids=[]) == (0, [])


async def test_a_column_that_is_not_there(past: Past) -> None:
    with pytest.raises(BadQuestion, match=r"there is no column parameters\.ac; did you mean parameters\.act"):
        ask(past, sort="parameters.ac")

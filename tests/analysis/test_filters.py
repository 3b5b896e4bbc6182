"""The filter grammar: valid filters, error positions, and matching trials."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from nnimgr.analysis.columns import Columns
from nnimgr.analysis.errors import BadQuestion
from nnimgr.analysis.filters import matching, parse_filter, parse_names
from nnimgr.rules.state import trial_id_of
from nnimgr.store.annotations import annotate
from tests.analysis.past import SECOND, Past

SPACE = {
    "lr": {"_type": "loguniform", "_value": [1e-5, 1]},
    "act": {"_type": "choice", "_value": ["relu", "tanh", "1"]},
    "batch": {"_type": "choice", "_value": [16, 32, True]},
    "loss": {"_type": "uniform", "_value": [0, 1]},
    "status": {"_type": "uniform", "_value": [0, 1]},
    "odd name: a;b": {"_type": "uniform", "_value": [0, 1]},
}
SETS = [
    {"lr": 0.1, "act": "relu", "batch": 16, "loss": 0.1, "status": 5, "odd name: a;b": 1},
    {"lr": 0.2, "act": "tanh", "batch": 32, "loss": 0.2, "status": 6, "odd name: a;b": 2},
    {"lr": 0.3, "act": "1", "batch": True, "loss": 0.3, "status": 7, "odd name: a;b": 3},
    {"lr": 0.4, "act": "relu"},
]
FINALS = ["0.5", "NaN", '{"default": 0.25, "loss": 9, "acc": 1}']
SECOND_ID, LAST_ID = trial_id_of("exp", 1), trial_id_of("exp", 3)


@pytest.fixture
async def columns(tmp_path: Path) -> AsyncIterator[Columns]:
    """Four trials: three have succeeded, the last one waits for its start."""
    past = Past(tmp_path, SPACE)
    for sequence, (parameters, final) in enumerate(zip(SETS, FINALS, strict=False)):
        past.suggest(parameters)
        past.finish(sequence, final, after=(sequence + 1) * SECOND)
    past.suggest(SETS[3])
    await past.write()
    yield past.refresh()
    await past.close()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", [0, 1, 2, 3]),
        (" ; ;", [0, 1, 2, 3]),
        ("Trial No.:1", [1]),
        ("trial no.:[1,2]", [1, 2]),
        ("sequence>=2", [2, 3]),
        (f"Trial id:{SECOND_ID}", [1]),
        (f"id:[{SECOND_ID}, {LAST_ID}]", [1, 3]),
        (f"id≠{SECOND_ID}", [0, 2, 3]),
        (f"id:{SECOND_ID[1:]}", [1]),
        ("Status:SUCCEEDED", [0, 1, 2]),
        ("status:[waiting, Running]", [3]),
        ("Status≠SUCCEEDED", [3]),
        ("Default metric>0.3", [0]),
        ("default metric:0.25", [2]),
        ("Default  metric:[0.25,0.5]", [0, 2]),
        ("value≠0.5", [2]),
        ("value:null", [1, 3]),
        ("value≠null", [0, 2]),
        ("duration<=2", [0, 1]),
        ("created>0", [1, 2, 3]),
        ("created>2026-01-01T00:00:01Z", [2, 3]),
        ("created<2026-01-01", []),
        ("lr>0.2", [2, 3]),
        ("parameters.lr < 0.2 ; Status : SUCCEEDED", [0]),
        ("lr:[0.1,0.3];lr≠0.2", [0, 2]),
        ("lr!=[0.1,0.3]", [3]),
        ("act:relu", [0, 3]),
        ("act≠relu", [1, 2]),
        ('act:"1"', [2]),
        ("act:1", [2]),
        ("act:[relu,tanh]", [0, 1, 3]),
        ("act:gelu", []),
        ("act:" + '{"":' + "[" * 3900, []),
        ("batch:16", [0]),
        ("batch:16.0", [0]),
        ("batch:true", [2]),
        ("batch:1", []),
        ('batch:"16"', []),
        ("batch>16", [1]),
        ("batch:null", [3]),
        ("batch:[null,16]", [0, 3]),
        ("batch≠null", [0, 1, 2]),
        ("parameters.loss>0.1", [1, 2]),
        ("metrics.loss:9", [2]),
        ("acc:1", [2]),
        ("parameters.status:6", [1]),
        ('"odd name: a;b">=2', [1, 2]),
    ],
)
def test_which_trials_match(columns: Columns, text: str, found: list[int]) -> None:
    assert np.flatnonzero(matching(columns, text)).tolist() == found


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("lr", 2, 'an operator after "lr" (":" for equal, or > < >= <= ≠), found the end of the filter'),
        ("lr=3", 4, 'after "lr=3"'),
        (":3", 0, "expected a column's name, found"),
        ("lr:", 3, "expected a value, found the end of the filter"),
        ("lr>;", 3, 'expected a value, found ";"'),
        ("lr:[1", 5, 'expected "," or "]", found the end of the filter'),
        ("lr:[1,]", 6, 'expected a value, found "]"'),
        ("lr:[1,2] 3", 9, 'expected ";" or the end, found "3"'),
        ('act:"relu', 4, "expected a value with a closing quote"),
        ('act:"\\ud800"', 4, "expected a value of valid Unicode"),
        ('"\\ud800":1', 0, "expected a column's name of valid Unicode"),
        ('act:"relu" x', 11, 'expected ";" or the end'),
        ("lr>x", 3, "expected a number, found x"),
        ("lr>nan", 3, "expected a number, found nan"),
        ("lr>1;lr<[1,2]", 9, "expected one value after <, found brackets"),
        ("lr:[1,2,3]", 4, "expected two numbers, from and to, in brackets, found 3"),
        ("created>tomorrow", 8, "expected seconds or an instant such as"),
        ("status:DONE", 7, "expected one of WAITING, RUNNING"),
        ("act>relu", 0, "expected : or ≠ after act, which has no numbers, found >"),
        ("id>3", 0, "expected : or ≠ after id"),
        ("loss>1", 0, "expected parameters.loss or metrics.loss, because both columns exist"),
        ("lr>1; momentun:1", 6, 'there is no column "momentun"'),
        ("statuss:1", 0, 'there is no column "statuss"; did you mean status'),
    ],
)
def test_what_is_refused(columns: Columns, text: str, position: int, message: str) -> None:
    with pytest.raises(BadQuestion) as refused:
        matching(columns, text)
    assert message in refused.value.message
    assert (refused.value.field, refused.value.position) == ("filter", position)


def test_terms_say_where_they_were() -> None:
    (first, second) = parse_filter('a b : "x;y" ; c >= [1, 2]')
    assert (first.name, first.operator, first.position, first.several) == ("a b", ":", 0, False)
    assert (first.values[0].text, first.values[0].quoted, first.values[0].position) == ("x;y", True, 6)
    assert (second.name, second.operator, second.position, second.several) == ("c", ">=", 14, True)
    assert [value.text for value in second.values] == ["1", "2"]


def test_names() -> None:
    assert parse_names(' a, "b,c" ,d e', field="names") == ["a", "b,c", "d e"]
    assert parse_names("", field="names") == []
    with pytest.raises(BadQuestion, match="expected a name"):
        parse_names("a,,b", field="names")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("tags:base", [0, 2]),
        ("Tags : base", [0, 2]),
        ("tags:[base, 7]", [0, 1, 2]),
        ("tags:7; tags:base", []),
        ("tags≠base", [1, 3]),
        ("tags:null", [3]),
        ("tags:[null, 7]", [1, 3]),
        ("tags≠null", [0, 1, 2]),
        ('tags:"null"', [2]),
        ("tags:bas", []),
    ],
)
def test_terms_about_tags(columns: Columns, text: str, found: list[int]) -> None:
    tags = {0: {"base"}, 1: {"7"}, 2: {"base", "null"}, 3: set[str]()}
    columns.tags = {sequence: frozenset(each) for sequence, each in tags.items()}
    assert np.flatnonzero(matching(columns, text)).tolist() == found


def test_tags_have_no_order(columns: Columns) -> None:
    with pytest.raises(BadQuestion, match="expected : or ≠ after tags"):
        matching(columns, "tags>a")


async def test_tags_are_followed_without_a_new_fact(tmp_path: Path) -> None:
    past = Past(tmp_path)
    past.suggest({"lr": 0.1}, {"lr": 0.2})
    await past.write()
    columns = past.refresh()
    assert not matching(columns, "tags:a").any()
    for tags, expected in ((["a", "b"], [True, False]), (["b"], [False, False])):
        annotate(tmp_path, trial_id_of("exp", 0), tags=tags)
        before = columns.annotated
        assert past.refresh(columns).annotated > before
        assert matching(columns, "tags:a").tolist() == expected
    await past.close()

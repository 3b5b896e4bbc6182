"""PED-ANOVA on functions whose answer is known."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from nnimgr.analysis.importance import importance
from tests.analysis.given import MAXIMISED, MINIMISED, GivenColumns, GivenSnapshot

ROWS = 2000


def ask(columns: GivenColumns, snapshot: GivenSnapshot = MINIMISED, **arguments: Any) -> dict[str, Any]:
    return dict(json.loads(importance(columns, snapshot.taken, arguments)))


def shares(columns: GivenColumns, snapshot: GivenSnapshot = MINIMISED, **arguments: Any) -> dict[str, float]:
    return {p["name"]: p["importance"] for p in ask(columns, snapshot, **arguments)["parameters"]}


def uniform(names: str, seed: int = 3) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {f"parameters.{name}": random.uniform(-1, 1, ROWS) for name in names}


def test_the_parameter_that_decides_comes_first_and_noise_last() -> None:
    given = uniform("abc")
    loss = 4 * given["parameters.a"] ** 2 + given["parameters.b"] ** 2
    answer = ask(GivenColumns(ROWS, given, value=loss))
    assert (answer["trials"], answer["best"], answer["sentence"]) == (ROWS, ROWS // 10, None)
    assert [p["name"] for p in answer["parameters"]] == ["a", "b", "c"]
    found = {p["name"]: p["importance"] for p in answer["parameters"]}
    assert sum(found.values()) == pytest.approx(1)
    assert found["a"] > 0.6 and found["c"] < 0.05
    assert all(0 < p["error"] < 0.1 for p in answer["parameters"])


def test_it_is_about_the_best_ones_not_about_the_whole() -> None:
    """b changes the value far more, but not among the best trials, which are the only ones that count."""
    given = uniform("ab")
    a, b = given["parameters.a"], given["parameters.b"]
    loss = np.where(b > 0.9, 1000.0, 0.0) + a**2
    found = shares(GivenColumns(ROWS, given, value=loss))
    assert np.var(np.where(b > 0.9, 1000.0, 0.0)) > 1000 * np.var(a**2)
    assert found["a"] > 0.9


def test_what_is_maximised_is_the_other_end() -> None:
    given = uniform("ab")
    value = (
        np.where(given["parameters.a"] > 0.8, 1 + given["parameters.b"] / 10, 0)
        + given["parameters.b"] * 1e-3
    )
    columns = GivenColumns(ROWS, given, value=value)
    best = shares(columns, MAXIMISED)
    assert best["a"] > 0.5
    assert shares(columns, MAXIMISED, mode="minimize")["b"] > 0.8


def test_a_logarithmic_parameter_is_looked_at_logarithmically() -> None:
    random = np.random.default_rng(5)
    lr = 10 ** random.uniform(-6, 0, ROWS)
    given = {**uniform("b"), "parameters.lr": lr}
    loss = (np.log10(lr) + 4.5) ** 2 + given["parameters.b"] ** 2
    assert shares(GivenColumns(ROWS, given, logarithmic=["parameters.lr"], value=loss))["lr"] > 0.7
    assert shares(GivenColumns(ROWS, given, value=loss))["lr"] < 0.5  # nearly all values are in one part


def test_categories_and_nested_choices() -> None:
    random = np.random.default_rng(6)
    kind = random.choice([0, 1, 2], ROWS).astype(np.uint8)
    inner = np.where(kind == 1, random.uniform(0, 1, ROWS), np.nan)
    columns = GivenColumns(
        ROWS,
        {"parameters.net/_name": kind, "parameters.net/size": inner, **uniform("x")},
        categories={"parameters.net/_name": ["a", "b", "c"]},
        value=np.where(kind == 1, 1 + np.nan_to_num(inner), 5 + random.uniform(0, 1, ROWS)),
    )
    found = shares(columns)
    assert list(found) == ["net/_name", "net/size", "x"]
    assert found["x"] < 0.05


def test_the_draws_are_the_same_each_time() -> None:
    given = uniform("ab")
    loss = given["parameters.a"] ** 2
    assert ask(GivenColumns(ROWS, given, value=loss)) == ask(GivenColumns(ROWS, given, value=loss))


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([1.0] * 19 + [np.nan] * 5, "Importance needs 20 trials with a result; there are 19."),
        ([2.5] * 24, "All 24 results are the same: no parameter makes a difference."),
    ],
)
def test_why_there_is_none(value: list[float], sentence: str) -> None:
    answer = ask(GivenColumns(24, {"parameters.a": np.arange(24.0)}, value=value))
    assert (answer["sentence"], answer["parameters"]) == (sentence, [])


def test_parameters_that_never_changed() -> None:
    columns = GivenColumns(30, {"parameters.a": [1.0] * 30}, value=np.arange(30.0))
    assert ask(columns)["sentence"] == "All parameters are constant, or none makes a difference."


def test_a_filter_leaves_trials_out() -> None:
    given = uniform("a")
    columns = GivenColumns(ROWS, given, value=given["parameters.a"])
    assert ask(columns, filter="sequence<100")["trials"] == 100


def test_a_choice_gets_what_its_options_decide() -> None:
    """Parameters of an option that few of the best trials have get no share by chance."""
    random = np.random.default_rng(7)
    kind = random.choice([0, 1], ROWS).astype(np.uint8)
    good, bad = random.uniform(0, 1, ROWS), random.uniform(0, 1, ROWS)
    columns = GivenColumns(
        ROWS,
        {
            "parameters.net/_name": kind,
            "parameters.net/a": np.where(kind == 0, good, np.nan),
            "parameters.net/b": np.where(kind == 1, bad, np.nan),
        },
        categories={"parameters.net/_name": ["a", "b"]},
        value=np.where(kind == 0, 1.0, 2.0) + random.normal(0, 0.35, ROWS),
    )
    found = shares(columns)
    assert found["net/_name"] > 0.8


def test_the_budget_of_a_tuner_is_left_out() -> None:
    random = np.random.default_rng(8)
    budget = random.choice([1.0, 3.0, 9.0], ROWS)
    given = {**uniform("a"), "parameters.TRIAL_BUDGET": budget}
    columns = GivenColumns(ROWS, given, value=10 - budget + given["parameters.a"])
    assert list(shares(columns)) == ["a"] or not shares(columns)

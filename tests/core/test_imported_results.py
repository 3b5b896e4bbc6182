"""Imported results: what the tuner gets of them, and what the user is told about the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nnimgr.config import read_canonical
from nnimgr.core.running.imported_results import judge
from tests.api.stored_life import SPACE, full_config


def judged(*records: tuple[Any, Any]) -> tuple[int, list[str]]:
    config = read_canonical({**full_config(Path("/data")), "searchSpace": SPACE})
    found = judge(config, [{"parameter": parameter, "value": value} for parameter, value in records])
    return found.given, found.warnings


def test_results_that_fit_are_given_without_a_word() -> None:
    assert judged(({"x": 0.5}, 1), ({"x": 1}, '{"default": 2}')) == (2, [])


def test_the_first_result_with_an_error_is_named_and_the_others_are_counted() -> None:
    good, bad = ({"x": 0.5}, 1), ({"x": 0.5}, "abc")
    told = "result number 2 was left out: its value is 'abc', which is not a number"
    assert judged(good, bad, good) == (2, [told])
    assert judged(good, bad, bad) == (1, [f"{told}. Another result was left out"])
    assert judged(good, bad, bad, bad) == (1, [f"{told}. 2 other results were left out"])


@pytest.mark.parametrize(
    ("parameter", "reasons"),
    [
        ({"x": 99}, "x is 99, outside uniform [0, 1]"),
        (
            {"x": 0.5, "zz": 3},
            "zz is not in the search space, which has x",
        ),
        ({}, "x is missing"),
        ([0.5], "the parameter set must be a mapping of parameters, not [0.5]"),
    ],
)
def test_parameters_outside_of_the_search_space_are_given_and_named(parameter: Any, reasons: str) -> None:
    told = f"result number 2 does not fit the search space: {reasons}"
    given = "The tuner was given {} all the same, but may ignore {}"
    assert judged(({"x": 0.5}, 1), (parameter, 2)) == (2, [f"{told}. {given.format('it', 'it')}"])
    both = f"{told}. Another result does not fit it either. {given.format('them', 'them')}"
    assert judged(({"x": 0.5}, "abc"), (parameter, 2), (parameter, 3))[1][1] == both

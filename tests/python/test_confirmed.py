"""Confirmed trials in the Python API."""

from __future__ import annotations

from typing import Any, cast

import pytest

from nnimgr.python.connection import Connection
from nnimgr.python.results import Results
from tests.cli.fake import profile, trial
from tests.python.test_definition import config


class GivenConnection:
    """Connection to an experiment with these confirmations."""

    def __init__(self, confirmations: Any) -> None:
        self.id = "abc"
        self._profile = profile("abc", confirmations=confirmations)

    def get(self, *path: str, **query: Any) -> Any:
        return trial(path[-1], 12, finalValue=0.94) if path else self._profile

    def pages(self, **query: Any) -> Any:
        return [
            trial("ta", 20, finalValue=0.99, source="confirmation"),
            trial("tb", 12, finalValue=0.94),
            trial("tc", 3, finalValue=None),
        ]


def results(confirmations: Any) -> Results:
    return Results(cast(Connection, GivenConnection(confirmations)))


def test_the_confirmed_trials() -> None:
    found = {"trialId": "tb", "mean": 0.9, "deviation": 0.1, "low": 0.8, "high": 1.0}
    found |= {"usable": 4, "unusable": 1, "open": 0}
    alone = {**found, "deviation": None, "low": None, "high": None, "usable": 1}
    first, second = results({"trials": [found, alone]}).confirmed
    assert (first.trial.number, first.trial.value) == (12, 0.94)
    assert first[1:] == (0.9, 0.1, (0.8, 1.0), 4, 1, 0)
    assert (second.deviation, second.interval, second.usable) == (None, None, 1)


def test_without_confirmations_there_are_none() -> None:
    assert results(None).confirmed == []


def test_a_run_that_confirms_a_trial_is_not_among_the_top() -> None:
    assert [each.number for each in results(None).top()] == [12]


@pytest.mark.parametrize(
    ("argument", "field"), [(3, {"top": 3}), ({"top": 2, "runs": 9}, {"top": 2, "runs": 9})]
)
def test_the_argument(argument: Any, field: Any) -> None:
    assert config(confirm_best=argument)["confirmBest"] == field
    assert "confirmBest" not in config()

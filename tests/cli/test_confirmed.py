"""Confirmed trials on the command line."""

from __future__ import annotations

from typing import Any

from nnimgr.cli.progress import Progress, created_trials, finished_trials
from nnimgr.cli.summary import confirmed_lines
from nnimgr.client.calls import Event
from tests.cli.fake import profile


def confirmed(**changes: Any) -> dict[str, Any]:
    found = {
        "trialId": "k3x9z",
        "sequence": 12,
        "parameters": {"x": 1},
        "value": 0.94,
        "usable": 5,
        "unusable": 0,
        "open": 0,
        "mean": 0.92,
        "deviation": 0.01,
        "low": 0.91,
        "high": 0.93,
    }
    return found | changes


def with_runs(*trials: dict[str, Any], made: int = 5, open: int = 0, **changes: Any) -> dict[str, Any]:
    found = {"top": 3, "runs": 5, "made": made, "open": open, "trials": list(trials)}
    return profile("abc", confirmations=found, **changes)


def test_a_line_for_each_confirmed_trial() -> None:
    shown = with_runs(
        confirmed(),
        confirmed(usable=3, unusable=2, sequence=7, trialId="b8e2q"),
        confirmed(usable=1, unusable=4, deviation=None, low=None, high=None),
        confirmed(usable=0, mean=None, low=None, high=None, open=5),
        confirmed(usable=0, mean=None, low=None, high=None, unusable=5),
    )
    assert confirmed_lines(shown) == [
        "trial 12 (k3x9z): mean 0.92 (95 % interval: 0.91 to 0.93), 5 of 5 runs; 0.94 in the search",
        "trial 7 (b8e2q): mean 0.92 (95 % interval: 0.91 to 0.93), 3 of 5 runs, 2 without a usable result; "
        "0.94 in the search",
        "trial 12 (k3x9z): mean 0.92, 1 of 5 runs, 4 without a usable result; 0.94 in the search",
        "trial 12 (k3x9z): no result yet, 0 of 5 runs; 0.94 in the search",
        "trial 12 (k3x9z): no usable result, 0 of 5 runs, 5 without a usable result; 0.94 in the search",
    ]
    assert confirmed_lines(profile("abc")) == []


def test_confirmations_are_not_counted_as_trials() -> None:
    shown = with_runs(made=5, open=2, counts={"SUCCEEDED": 12, "FAILED": 1, "RUNNING": 2})
    assert (created_trials(shown), finished_trials(shown)) == (10, 10)


def test_a_confirmation_is_never_the_best_so_far() -> None:
    progress = Progress.of(with_runs())
    suggested = {"trialId": "ta", "sequence": 9, "parameters": {}, "source": "confirmation"}
    progress.apply(Event("Suggested", 1, suggested))
    value = {"trialId": "ta", "type": "FINAL", "value": 0.99, "text": "0.99"}
    progress.apply(Event("MetricReported", 2, value))
    ended = {"trialId": "ta", "status": "SUCCEEDED", "reason": ""}
    assert progress.apply(Event("TrialEnded", 3, ended)) == "Trial 9 (ta) SUCCEEDED: 0.99"
    assert progress.best is None

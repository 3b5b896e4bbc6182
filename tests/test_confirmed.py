"""Mean, deviation and interval of confirmed trials."""

from __future__ import annotations

import pytest

from nnimgr.confirmed import ConfirmedTrial, Run, confirmations_of

RULE = {"top": 2, "runs": 5}


def confirmed(*values: float | None, open: int = 0) -> ConfirmedTrial:
    runs = [Run(confirms="a", ended=True, value=value) for value in values]
    runs += [Run(confirms="a", ended=False, value=None)] * open
    (found,) = confirmations_of(RULE, [("a", 0, "{}", 1.0)], runs, mode="maximize").trials
    return found


def test_the_numbers_of_a_trial() -> None:
    found = confirmed(2.0, 4.0, 4.0, 5.0, 5.0, None, open=2)
    assert (found.usable, found.unusable, found.open, found.value) == (5, 1, 2, 1.0)
    assert found.mean == 4.0 and found.deviation == pytest.approx(1.224745)
    # 2.776 is the quantile 0.975 of Student's t distribution with 4 degrees of freedom
    half = 2.7764 * 1.224745 / 5**0.5
    assert (found.low, found.high) == (pytest.approx(4.0 - half), pytest.approx(4.0 + half))


@pytest.mark.parametrize("runs", range(2, 31))
def test_the_quantiles_are_those_of_the_t_distribution(runs: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    values = [float(number % 3) for number in range(runs)]
    found = confirmed(*values)
    low, high = stats.t.interval(0.95, runs - 1, loc=found.mean, scale=stats.sem(values))
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_too_few_results() -> None:
    found = confirmed(None, open=1)
    assert (found.mean, found.deviation, found.low, found.high) == (None, None, None, None)
    found = confirmed(0.5)
    assert (found.mean, found.deviation, found.low, found.high) == (0.5, None, None, None)


def test_huge_results_have_no_infinite_numbers() -> None:
    found = confirmed(1.7e308, -1.7e308)
    assert found.mean == 0.0 and found.low is None and found.high is None


@pytest.mark.parametrize(("mode", "order"), [("maximize", "bac"), ("minimize", "abc")])
def test_the_best_mean_comes_first_and_trials_without_results_last(mode: str, order: str) -> None:
    trials = [(name, number, "{}", 0.0) for number, name in enumerate("abc")]
    values = {"a": (0.1, 0.3), "b": (0.9, 0.7), "c": (None, None)}
    runs = [Run(confirms=name, ended=True, value=value) for name in "abc" for value in values[name]]
    found = confirmations_of(RULE, trials, runs, mode=mode)
    assert "".join(trial.trial_id for trial in found.trials) == order
    assert (found.top, found.runs, found.made, found.open) == (2, 5, 6, 0)

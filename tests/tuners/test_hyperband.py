"""Hyperband's brackets, whatever happens to their trials."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from nnimgr.algorithm import NoMoreTrialError
from nnimgr.tuners.bohb import BOHB
from nnimgr.tuners.budgets import split
from nnimgr.tuners.hyperband import Hyperband
from tests.tuners.running import Life

SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}}
NESTED = {
    "n": {"_type": "randint", "_value": [0, 50]},
    "c": {
        "_type": "choice",
        "_value": [{"_name": "a", "y": {"_type": "qlognormal", "_value": [0, 1, 0.5]}}, {"_name": "b"}],
    },
}
# (configurations, budget) of each rung of each bracket, by algorithm 1 of the paper: R = 81, eta = 3.
TABLE = [
    [(81, 1), (27, 3), (9, 9), (3, 27), (1, 81)],
    [(34, 3), (11, 9), (3, 27), (1, 81)],
    [(15, 9), (5, 27), (1, 81)],
    [(8, 27), (2, 81)],
    [(5, 81)],
]
RUNS = sum(size for bracket in TABLE for size, _ in bracket)


def key(parameters: Any) -> str:
    return json.dumps(split(parameters)[0], sort_keys=True)


@pytest.mark.parametrize("concurrency", [1, 4, 100])
@pytest.mark.parametrize("mode", ["serial", "parallelism"])
def test_brackets_are_those_of_the_paper(concurrency: int, mode: str) -> None:
    life = Life(lambda: Hyperband(R=81, exec_mode=mode, seed=1, optimize_mode="minimize"), SPACE)
    life.run(RUNS, concurrency, lambda _, parameters: parameters["x"])
    if mode == "serial" or concurrency == 1:
        assert [each["TRIAL_BUDGET"] for each in life.given] == [
            budget for bracket in TABLE for size, budget in bracket for _ in range(size)
        ]
        at = 0
        for bracket in TABLE:
            before: list[Any] = []
            for size, _ in bracket:
                rung = life.given[at : at + size]
                at += size
                assert not before or {key(each) for each in rung} == {key(each) for each in before[:size]}
                before = sorted(rung, key=lambda each: each["x"])
    else:
        # Another bracket starts while one waits. Each bracket's trials are the same as if it ran alone.
        life.run(3 * RUNS, concurrency, lambda _, parameters: parameters["x"])
        most = Counter(key(each) for each in life.given)
        assert max(most.values()) <= 5
        for each, times in most.items():
            budgets = [one["TRIAL_BUDGET"] for one in life.given if key(one) == each]
            assert budgets == [budgets[0] * 3**step for step in range(times)]


@pytest.mark.parametrize("concurrency", [1, 4, 100])
@pytest.mark.parametrize("mode", ["serial", "parallelism"])
@pytest.mark.parametrize("failing", [2, 3, 1])
def test_failures_block_nothing_and_are_not_promoted(concurrency: int, mode: str, failing: int) -> None:
    """Every second or third trial fails, or all trials do."""
    life = Life(lambda: Hyperband(R=27, exec_mode=mode, seed=2), NESTED)
    failed = set()

    def value(parameter_id: int, parameters: Any) -> float | None:
        if parameter_id % failing == 0:
            failed.add((key(parameters), parameters["TRIAL_BUDGET"]))
            return None
        return float(parameters["n"])

    life.run(400, concurrency, value)
    assert len(life.given) == 400
    promoted = {(key(each), each["TRIAL_BUDGET"]) for each in life.given}
    for configuration, budget in failed:
        assert (configuration, 3 * budget) not in promoted
    assert (failing == 1) == (len({key(each) for each in life.given}) == 400)


@pytest.mark.parametrize("make", [Hyperband, BOHB])
@pytest.mark.parametrize("concurrency", [1, 5])
def test_a_rebuilt_one_goes_on_alike(make: Any, concurrency: int) -> None:
    life = Life(lambda: make(seed=3, optimize_mode="minimize"), NESTED)
    for trials in range(0, 150, 10):
        life.run(trials, concurrency, lambda number, parameters: None if number % 7 == 3 else parameters["n"])
        again: Any = life.rebuilt()
        ids = list(range(trials, trials + 8))
        there, here = again.generate_multiple_parameters(ids), life.tuner.generate_multiple_parameters(ids)
        assert json.dumps(there) == json.dumps(here) and there
        for parameter_id, parameters in zip(ids, here, strict=False):
            life.tuner.trial_end(parameter_id, False, untried=True)
            life.tuner.take_back(parameter_id, parameters)


def test_a_finite_space_ends_when_all_is_tried_and_promoted() -> None:
    space = {"x": {"_type": "choice", "_value": list(range(20))}}
    for mode in ("serial", "parallelism"):
        for concurrency in (1, 4, 100):
            life = Life(lambda mode=mode: Hyperband(R=27, exec_mode=mode, seed=4), space)  # type: ignore[misc]
            life.run(10_000, concurrency, lambda _, parameters: parameters["x"])
            assert life.exhausted
            assert {each["x"] for each in life.given} == set(range(20))
            best = [each["TRIAL_BUDGET"] for each in life.given if each["x"] == 19]
            assert best[-1] == 27
            with pytest.raises(NoMoreTrialError):
                life.rebuilt().generate_multiple_parameters([100_000])


def test_it_says_what_it_waits_for() -> None:
    life = Life(lambda: Hyperband(R=9, exec_mode="serial", seed=5), SPACE)
    assert life.ask(12) == 9
    assert life.tuner.why_waiting() == (
        "it waits for 9 trials of bracket 1, rung 1 (budget 1), to promote the best"
    )
    for parameter_id in range(8):
        life.end(parameter_id, 1.0)
        assert life.ask(1) == 0
    assert life.tuner.why_waiting().startswith("it waits for a trial of bracket 1, rung 1 ")
    with pytest.raises(NoMoreTrialError, match="waits for a trial"):
        life.tuner.generate_parameters(99)
    life.end(8, 2.0)
    assert life.ask(5) == 3 and {each["TRIAL_BUDGET"] for each in life.open.values()} == {3}


def test_sets_that_were_never_tried_are_given_again() -> None:
    life = Life(lambda: Hyperband(R=9, exec_mode="serial", seed=6), SPACE)
    life.ask(9)
    for parameter_id in range(8):
        life.end(parameter_id, float(parameter_id))
    new = life.open.pop(8)
    life.tuner.trial_end(8, False, untried=True)
    life.tuner.take_back(8, new)
    assert life.ask(3) == 1 and life.given[9]["TRIAL_BUDGET"] == 1
    life.end(9, 99.0)
    life.ask(3)
    promoted = life.open.pop(10)
    assert promoted == {**life.given[9], "TRIAL_BUDGET": 3}
    life.tuner.trial_end(10, False, untried=True)
    life.tuner.take_back(10, promoted)
    assert life.ask(3) == 1 and life.given[-1] == promoted


def test_a_trial_that_is_cut_off_or_run_again_by_hand_keeps_its_place() -> None:
    tuner = Hyperband(R=3, exec_mode="serial", seed=7, optimize_mode="minimize")
    tuner.update_search_space(SPACE)
    given = tuner.generate_multiple_parameters([0, 1, 2])
    tuner.trial_end(0, False, again=True)  # runs again when the experiment is resumed
    tuner.trial_end(1, False)
    tuner.receive_trial_result(2, given[2], 5.0)
    tuner.trial_end(2, True)
    assert tuner.generate_multiple_parameters([3]) == []
    tuner.receive_trial_result(1, given[1], 1.0)  # a user has run the trial again
    tuner.trial_end(1, True)
    tuner.receive_trial_result(0, given[0], 7.0)
    tuner.trial_end(0, True)
    assert tuner.generate_multiple_parameters([3, 4]) == [{**given[1], "TRIAL_BUDGET": 3}]


def test_a_new_space_begins_new_brackets() -> None:
    life = Life(lambda: Hyperband(R=9, exec_mode="serial", seed=8), SPACE)
    life.ask(9)
    life.tuner.update_search_space({"y": {"_type": "uniform", "_value": [2, 3]}})
    assert life.ask(1) == 1 and 2 <= life.given[-1]["y"] <= 3
    for parameter_id in range(9):
        life.end(parameter_id, 1.0)
    assert life.ask(20) > 0 and all("y" in each for each in life.given[9:])


def test_bohb_learns_where_good_configurations_are() -> None:
    def distance(make: Any) -> float:
        space = {name: {"_type": "uniform", "_value": [0, 1]} for name in "abcd"}
        life = Life(lambda: make(seed=9, optimize_mode="minimize"), space)

        def value(_: int, parameters: Any) -> float:
            return float(sum((parameters[name] - 0.3) ** 2 for name in "abcd"))

        life.run(300, 4, value)
        late = [value(0, each) for each in life.given[200:] if each["TRIAL_BUDGET"] == 1]
        return sum(late) / len(late)

    assert distance(BOHB) < 0.7 * distance(lambda **more: Hyperband(R=3, **more))


def test_bohb_counts_results_without_a_budget_as_of_the_largest() -> None:
    tuner = BOHB(seed=10, optimize_mode="minimize", random_fraction=0.0, min_bandwidth=1e-6)
    tuner.update_search_space(SPACE)
    tuner.import_data([{"parameter": {"x": 0.7 + n / 1000}, "value": n} for n in range(4)])
    tuner.import_data([{"parameter": {"x": n / 100}, "value": 99 + n} for n in range(20)])
    drawn = [each["x"] for each in tuner.generate_multiple_parameters(list(range(9)))]
    assert all(abs(x - 0.7) < 0.1 for x in drawn)

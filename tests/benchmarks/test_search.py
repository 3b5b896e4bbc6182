"""The comparison of tuners: its loop, its statistics, and its stored runs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks import search_budget
from benchmarks.search_loops import NotThere, Searcher, run, tuner
from benchmarks.search_problems import BRANIN, PROBLEMS, Parameters, Problem
from benchmarks.search_runs import Runs
from benchmarks.search_statistics import compare, median
from nnimgr import search_space as spaces
from nnimgr.algorithm import Tuner
from nnimgr.tuners.random import RandomTuner

SEEDS = [Random(seed) for seed in range(30)]


class Counting(Searcher):
    """Suggests successive numbers, and records the calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def ask(self, number: int) -> Parameters:
        self.calls.append(f"ask {number}")
        return {"x": number}

    def tell(self, number: int, parameters: Parameters, loss: float) -> None:
        self.calls.append(f"tell {number}: {loss:g}")


def test_the_oldest_pending_one_is_told_next() -> None:
    searcher = Counting()
    problem = Problem("", {}, lambda parameters: 10.0 * parameters["x"])
    assert run(searcher, problem, trials=4, concurrency=2) == [0, 10, 20, 30]
    assert searcher.calls == [
        *("ask 0", "ask 1", "tell 0: 0", "ask 2", "tell 1: 10", "ask 3", "tell 2: 20", "tell 3: 30"),
    ]


@pytest.mark.parametrize("problem", PROBLEMS[:5], ids=lambda problem: problem.name)
def test_a_problem_is_a_function_of_its_parameters(problem: Problem) -> None:
    space = spaces.parse(problem.space)
    drawn = [spaces.sample(space, Random(seed)) for seed in range(20)]
    losses = [problem.loss(parameters) for parameters in drawn]
    assert losses == [problem.loss(json.loads(json.dumps(parameters))) for parameters in drawn]
    assert all(map(math.isfinite, losses)) and len(set(losses)) > 10


def test_the_functions_have_the_minima_that_are_known() -> None:
    branin, hartmann, ackley, rosenbrock = (problem.loss for problem in PROBLEMS[:4])
    assert branin({"x": math.pi, "y": 2.275}) == pytest.approx(0.397887, abs=1e-5)
    well = (0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573)
    assert hartmann({f"x{n}": x for n, x in enumerate(well)}) == pytest.approx(-3.32237, abs=1e-4)
    assert ackley({f"x{n}": 0 for n in range(10)}) == pytest.approx(0, abs=1e-9)
    assert rosenbrock({f"x{n}": 1 for n in range(4)}) == 0


def test_a_difference_is_told_from_chance() -> None:
    chance = [rng.uniform(0, 4) for rng in SEEDS]
    same, lower = [rng.gauss(1, 0.5) for rng in SEEDS], [rng.gauss(0, 0.5) for rng in SEEDS]
    found = compare([(same, same, chance), (lower, same, chance), (same, lower, chance)])
    assert found.problems[0].value == 0 and found.problems[0].low < 0 < found.problems[0].high
    assert (found.below, found.above) == (1, 1)
    assert found.problems[1].value == pytest.approx(-0.5, abs=0.3)
    assert found.mean.low < found.mean.value < found.mean.high
    assert median([1.0, 2.0, 9.0]).value == 2


def test_runs_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "runs.json"
    with Runs(file, trials=6, seeds=2) as runs:
        found = runs.best("Random", BRANIN)
    kept = json.loads(file.read_text(encoding="utf-8"))
    assert sorted(kept.values()) == sorted(found)
    file.write_text(json.dumps({key: 1.5 for key in kept}), encoding="utf-8")
    with Runs(file, trials=6, seeds=2) as runs:
        assert runs.best("Random", BRANIN) == [1.5, 1.5]
        runs.forget("Random")
        assert runs.best("Random", BRANIN) == found


def test_a_tuner_that_is_not_there_says_so() -> None:
    with pytest.raises(NotThere, match="no built-in tuner 'Nobody'"):
        tuner("Nobody", 0)


class Halving(Tuner):
    """Trains each set a little, and good ones to the end as soon as that is known."""

    def __init__(self) -> None:
        self._random = RandomTuner(seed=0)
        self._waiting: list[int] = []
        self._best = math.inf
        self._next: list[dict[str, Any]] = []

    def update_search_space(self, search_space: dict[str, Any]) -> None:
        self._random.update_search_space(search_space)

    def generate_multiple_parameters(self, parameter_id_list: list[int], **kwargs: Any) -> list[Any]:
        found = []
        for parameter_id in parameter_id_list:
            if self._next:
                found.append(self._next.pop())
            else:
                own = self._random.generate_parameters(parameter_id)
                found.append({**own, search_budget.BUDGET: 9})
        return found

    def receive_trial_result(self, parameter_id: int, parameters: Any, value: Any, **kwargs: Any) -> None:
        if value < self._best and parameters[search_budget.BUDGET] == 9:
            self._best = value
            self._next.append({**parameters, search_budget.BUDGET: search_budget.MOST})


def test_epochs_are_counted_until_the_target_is_reached() -> None:
    target = search_budget.best_of_chance(seed=1, trials=10)
    used = search_budget.epochs_to(Halving(), target, most=100_000)
    assert 9 * 4 + search_budget.MOST <= used < 100_000
    assert search_budget.epochs_to(Halving(), -1.0, most=500) >= 500

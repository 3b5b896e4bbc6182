"""The tuners that see a search space as a unit cube: their suggestions, and their quality."""

from __future__ import annotations

import importlib.util
import json
import math
import random
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnimgr import search_space
from nnimgr.algorithm import NoMoreTrialError, Rules
from nnimgr.tuners.anneal import AnnealTuner
from nnimgr.tuners.cmaes import CmaesTuner
from nnimgr.tuners.cube import Cube, distances
from nnimgr.tuners.evolution import EvolutionTuner
from nnimgr.tuners.gp import GPTuner
from nnimgr.tuners.learning import LearningTuner
from nnimgr.tuners.metis import MetisTuner
from nnimgr.tuners.qmc import QmcTuner
from nnimgr.tuners.random import RandomTuner
from nnimgr.tuners.smac import SMACTuner
from tests.test_search_space import CALM, raw_spaces
from tests.tuners.test_tpe import BRANIN, MIXED, branin, mixed, search

LINE = {"x": {"_type": "uniform", "_value": [-10, 10]}}
FINITE = {"n": {"_type": "randint", "_value": [0, 4]}, "c": {"_type": "choice", "_value": ["a", None, 1.5]}}
LEAN = {"selection_num_warm_up": 100, "selection_num_starting_points": 4}
SMAC = pytest.param(
    SMACTuner,
    {"optimize_mode": "minimize"},
    id="SMAC",
    marks=pytest.mark.skipif(importlib.util.find_spec("smac") is None, reason="smac is an extra"),
)
CHEAP = [
    pytest.param(EvolutionTuner, {"population_size": 4, "optimize_mode": "minimize"}, id="Evolution"),
    pytest.param(AnnealTuner, {}, id="Anneal"),
    pytest.param(AnnealTuner, {"parallel_optimize": True, "constant_liar_type": "mean"}, id="Anneal, lying"),
    pytest.param(CmaesTuner, {"population_size": 4}, id="CMAES"),
]
GP = pytest.param(GPTuner, {"cold_start_num": 3, "optimize_mode": "minimize", **LEAN}, id="GP")
METIS = pytest.param(
    MetisTuner,
    {"cold_start_num": 3, "optimize_mode": "minimize", "no_resampling": False}
    | {"selection_num_starting_points": 4},
    id="Metis",
)
QMC = pytest.param(QmcTuner, {}, id="QMC")
MODELS = [*CHEAP, GP, METIS, SMAC]
ALL = [*MODELS, QMC]

LOSSES = [1e300, -1e300, 0.5, 1e-300, -3.0, 7.0, 0.0]
RANDOM = random.Random(0)

Make = Callable[..., LearningTuner]


def made(make: Make, space: Any, **arguments: Any) -> LearningTuner:
    tuner = make(**{"seed": 0, **arguments})
    tuner.update_search_space(space)
    return tuner


def goes_on(make: Make, raw: dict[str, Any], arguments: dict[str, Any], interrupted_at: int) -> None:
    """Check that sets are inside the space, and that a rebuilt tuner gives the same sets as the first.

    Every fourth trial fails, and two trials run at once.
    """
    space = search_space.parse(raw)
    first, again = made(make, raw, **arguments), made(make, raw, **arguments)
    running: dict[int, Any] = {}
    for parameter_id in range(interrupted_at + 4):
        try:
            found = first.generate_parameters(parameter_id)
        except NoMoreTrialError:
            return
        assert list(found) == list(raw)
        assert search_space.contains(space, found) == []
        plain = json.loads(json.dumps(found, allow_nan=False))
        if parameter_id >= interrupted_at:
            assert json.dumps(again.generate_parameters(parameter_id)) == json.dumps(found)
        else:
            again.recall(parameter_id, plain)
        running[parameter_id] = plain
        if len(running) > 2:
            done = min(running)
            parameters = running.pop(done)
            for tuner in (first, again):
                if done % 4:
                    tuner.receive_trial_result(done, parameters, LOSSES[done % 7])
                tuner.trial_end(done, bool(done % 4))


@settings(CALM, max_examples=20)
@given(raw_spaces(), st.sampled_from([*CHEAP, QMC]), st.integers(8, 30))
def test_any_space_is_served_and_a_rebuilt_tuner_goes_on(raw: Any, tuner: Any, interrupted_at: int) -> None:
    goes_on(*(tuner.values[0], raw, tuner.values[1]), interrupted_at)


@settings(CALM, max_examples=5)
@given(raw_spaces(), st.sampled_from([GP, METIS]))
def test_any_space_is_served_by_gaussian_processes(raw: Any, tuner: Any) -> None:
    goes_on(*(tuner.values[0], raw, tuner.values[1]), 10)


@settings(CALM, max_examples=4)
@given(raw_spaces())
def test_any_space_is_served_by_smac(raw: Any) -> None:
    pytest.importorskip("smac")
    goes_on(SMACTuner, raw, {}, 18)


@pytest.mark.parametrize(("make", "arguments"), ALL)
def test_a_nested_space_of_all_types(make: Make, arguments: dict[str, Any]) -> None:
    goes_on(make, MIXED, arguments, 20)


@pytest.mark.parametrize(("make", "arguments"), ALL)
@pytest.mark.parametrize("space", [{}, {"c": {"_type": "choice", "_value": ["only"]}, **LINE}, LINE])
def test_small_spaces(make: Make, arguments: dict[str, Any], space: Any) -> None:
    goes_on(make, space, arguments, 14)


@pytest.mark.parametrize(("make", "arguments"), ALL)
def test_many_parameters(make: Make, arguments: dict[str, Any]) -> None:
    space = {f"x{n}": {"_type": "uniform", "_value": [0, 1]} for n in range(98)}
    goes_on(make, {**space, **FINITE}, arguments, 14)


@pytest.mark.parametrize(("make", "arguments"), MODELS)
@pytest.mark.parametrize(
    "losses",
    [
        [0.0] * 40,
        [1e300, -1e300] * 20,
        [1.7e308 * (-1) ** n for n in range(40)],
        [1e-320 * n for n in range(40)],
        [math.inf, math.nan, -math.inf, 1.0] * 10,
    ],
    ids=["equal", "huge", "largest", "tiny", "not finite"],
)
def test_results_of_any_size(make: Make, arguments: dict[str, Any], losses: list[float]) -> None:
    tuner = made(make, MIXED, **arguments)
    for loss in losses[:20]:
        parameters = search_space.sample(tuner.space, RANDOM)
        tuner.receive_trial_result(None, json.loads(json.dumps(parameters)), loss)
    for parameter_id in range(3):
        found = tuner.generate_parameters(parameter_id)
        assert search_space.contains(tuner.space, found) == []
        tuner.receive_trial_result(parameter_id, found, losses[20 + parameter_id])


@pytest.mark.parametrize(("make", "arguments"), ALL)
def test_a_finite_space_is_given_completely_and_once(make: Make, arguments: dict[str, Any]) -> None:
    tuner = made(make, FINITE, **arguments)
    given_so_far = set()
    for parameter_id in range(12):
        found = tuner.generate_parameters(parameter_id)
        given_so_far.add(json.dumps(found))
        tuner.receive_trial_result(parameter_id, found, found["n"])
    assert len(given_so_far) == 12
    with pytest.raises(NoMoreTrialError):
        tuner.generate_parameters(12)


@pytest.mark.parametrize(("make", "arguments"), ALL)
def test_constraints_are_kept_and_learned_under(make: Make, arguments: dict[str, Any]) -> None:
    """The optimum is on the border of the feasible region."""
    tuner = make(seed=0, **arguments)
    tuner.obey(Rules(feasible=lambda p: p["x"] + p["y"] >= 20))
    tuner.update_search_space(BRANIN)
    losses = search(tuner, lambda p: float(p["x"] + p["y"]) if p["x"] + p["y"] >= 20 else math.nan, 24)
    assert all(loss >= 20 for loss in losses)


@pytest.mark.parametrize(("make", "arguments"), [CHEAP[0], GP])
def test_a_model_is_asked_once_where_little_is_feasible(
    make: Make, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One set in 250 meets the constraints."""
    tuner = make(seed=0, **arguments)
    tuner.obey(Rules(feasible=lambda p: p["x"] - p["y"] > 9 and p["y"] < 0.2))
    tuner.update_search_space(BRANIN)
    asked: list[Any] = []
    suggest = tuner.suggest

    def counted(*arguments: Any) -> dict[str, Any]:
        asked.append(arguments)
        return suggest(*arguments)

    monkeypatch.setattr(tuner, "suggest", counted)
    search(tuner, branin, 20)
    assert len(asked) < 30


@pytest.mark.parametrize(("make", "arguments"), MODELS)
def test_pending_points_lie_apart(make: Make, arguments: dict[str, Any]) -> None:
    """After 40 results, 16 open points are at least half as far apart as random points."""

    def smallest(tuner: LearningTuner) -> float:
        tuner.update_search_space(BRANIN)
        pending = [(number, tuner.generate_parameters(number)) for number in range(16)]
        found: list[float] = []
        for parameter_id in range(16, 60):
            done, parameters = pending.pop(0)
            tuner.receive_trial_result(done, parameters, branin(parameters))
            pending.append((parameter_id, tuner.generate_parameters(parameter_id)))
            points = Cube(tuner.space)
            encoded = np.array([points.encode(parameters) for _, parameters in pending])
            found.append(float(distances(encoded, encoded)[np.triu_indices(16, 1)].min()))
        return statistics.median(found[-20:])

    chance = statistics.median(smallest(RandomTuner(seed=seed)) for seed in range(5))
    assert smallest(make(seed=0, **arguments)) >= 0.5 * chance


@pytest.mark.parametrize(("make", "arguments"), [*CHEAP, SMAC])
@pytest.mark.parametrize(("space", "objective"), [(BRANIN, branin), (MIXED, mixed)])
def test_it_finds_more_than_chance_does(
    make: Make, arguments: dict[str, Any], space: Any, objective: Any
) -> None:
    seeds = range(2 if make is SMACTuner else 7)
    trials = 40 if make is SMACTuner else 100

    def typical(tuners: list[LearningTuner]) -> float:
        best = []
        for tuner in tuners:
            tuner.update_search_space(space)
            best.append(min(search(tuner, objective, trials, at_once=4)))
        return statistics.median(best)

    ours = [make(**{"seed": seed, **arguments}) for seed in seeds]
    assert typical(ours) < 0.9 * typical([RandomTuner(seed=seed) for seed in seeds])


@pytest.mark.parametrize(("make", "arguments"), [GP, METIS])
def test_gaussian_processes_come_close_with_few_results(make: Make, arguments: dict[str, Any]) -> None:
    """The minimum of Branin is 0.3979. Random search needs some hundred trials to get below 0.7."""
    tuner = make(**{"seed": 0, **arguments})
    tuner.update_search_space(BRANIN)
    assert min(search(tuner, branin, 40, at_once=2)) < 0.6


@pytest.mark.parametrize("utility", ["ei", "ucb", "poi"])
def test_every_utility_of_gp_leads_to_the_optimum(utility: str) -> None:
    tuner = made(GPTuner, LINE, utility=utility, kappa=1, xi=0.2, cold_start_num=4, **LEAN)
    values = search(tuner, lambda p: -((p["x"] - 3) ** 2), 14)
    assert max(values[4:]) > -0.05


def test_metis_measures_again_what_does_not_fit() -> None:
    tuner = made(MetisTuner, LINE, no_resampling=False, cold_start_num=3, selection_num_starting_points=4)
    odd = {"x": 2.0}
    tuner.import_data(
        [{"parameter": {"x": x}, "value": x * x / 100} for x in np.linspace(-10, 10, 21).tolist()]
    )
    tuner.receive_trial_result(None, odd, 0.9)
    found = [tuner.generate_parameters(number)["x"] for number in range(4)]
    assert [x == pytest.approx(2.0) for x in found] == [True, False, False, False]


def test_a_gaussian_process_of_many_results_keeps_the_best_and_the_newest() -> None:
    tuner = made(GPTuner, LINE, optimize_mode="minimize", **LEAN)
    for number in range(1000):
        tuner.receive_trial_result(None, {"x": (number % 200) / 10 - 10}, abs(number - 300))
    kept = tuner.modelled()  # type: ignore[attr-defined]
    assert len(kept) == 400 and len(set(kept)) == 400
    assert set(range(200, 400)) | set(range(800, 1000)) == set(kept.tolist())


def test_a_converged_distribution_starts_elsewhere() -> None:
    """The optimum of a sphere of two parameters is found exactly, and later sets still vary."""
    space = {"x": {"_type": "uniform", "_value": [0, 1]}, "y": {"_type": "uniform", "_value": [0, 1]}}
    tuner = made(CmaesTuner, space)
    losses = search(tuner, lambda p: (p["x"] - 0.3) ** 2 + (p["y"] - 0.6) ** 2, 1500)
    assert min(losses) < 1e-14
    assert max(losses[losses.index(min(losses)) :]) > 1e-3


def test_late_and_foreign_results_do_no_harm() -> None:
    """A distribution that has become narrow gets results from the whole space."""
    tuner = made(CmaesTuner, LINE | {"y": LINE["x"]})
    search(tuner, lambda p: p["x"] ** 2 + p["y"] ** 2, 150)
    tuner.import_data([{"parameter": {"x": x, "y": -x}, "value": 2 * x * x} for x in range(-10, 10, 3)])
    losses = search(tuner, lambda p: p["x"] ** 2 + p["y"] ** 2, 100, first=150)
    assert statistics.median(losses[-30:]) < 0.1


def test_a_sobol_sequence_fills_the_space_evenly_and_by_its_seed() -> None:
    tuner = made(QmcTuner, LINE)
    numbers = [tuner.generate_parameters(number)["x"] for number in range(64)]
    assert sorted(int((x + 10) / 20 * 64) for x in numbers) == list(range(64))
    assert made(QmcTuner, LINE).generate_parameters(63)["x"] == numbers[63]
    assert made(QmcTuner, LINE, seed=1).generate_parameters(63)["x"] != numbers[63]


@pytest.mark.parametrize(
    ("make", "module", "told"),
    [
        (QmcTuner, "scipy", "the tuner QMC needs scipy, .*nnimgr.tuners"),
        (GPTuner, "sklearn", "the tuner GP needs scikit-learn, .*nnimgr.tuners"),
        (MetisTuner, "sklearn", "the tuner Metis needs scikit-learn, .*nnimgr.tuners"),
        (CmaesTuner, "cmaes", "the tuner CMAES needs cmaes, .*nnimgr.tuners"),
        (SMACTuner, "smac", "the tuner SMAC needs smac, .*nnimgr.smac"),
    ],
)
def test_a_library_that_is_not_there_is_named(
    make: Make, module: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == module else find(name))
    with pytest.raises(ModuleNotFoundError, match=told):
        make()

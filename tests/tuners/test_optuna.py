"""Optuna's samplers as tuners: what they suggest and learn, and that a rebuild loses nothing."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
from random import Random
from typing import Any

import pytest

from nnimgr import search_space as spaces
from nnimgr.algorithm import Rules
from nnimgr.tuners.optuna import NSGA2Tuner, OptunaTuner

NUMBERS = {
    "x": {"_type": "loguniform", "_value": [0.01, 10]},
    "y": {"_type": "uniform", "_value": [-1, 1]},
    "n": {"_type": "randint", "_value": [0, 50]},
    "q": {"_type": "qnormal", "_value": [0, 1, 0.125]},
}
ALL_TYPES = {
    **NUMBERS,
    "quniform": {"_type": "quniform", "_value": [0.05, 1, 0.25]},
    "qloguniform": {"_type": "qloguniform", "_value": [1, 100, 5]},
    "normal": {"_type": "normal", "_value": [3, 2]},
    "lognormal": {"_type": "lognormal", "_value": [0, 1]},
    "qlognormal": {"_type": "qlognormal", "_value": [0, 1, 0.5]},
    "plain": {"_type": "choice", "_value": [1, 1.0, "1", None, [1, 2], {"a": 1}, True, 2.5]},
    "nested": {
        "_type": "choice",
        "_value": [
            {"_name": "a", "y": {"_type": "normal", "_value": [0, 1]}},
            {
                "_name": "b",
                "y": {"_type": "choice", "_value": [{"_name": "c", "z": NUMBERS["x"]}, {"_name": 1}]},
            },
        ],
    },
    "nested[a].y": {"_type": "uniform", "_value": [5, 6]},
}
BOTH = {"good": "maximize", "dear": "minimize"}
SAMPLERS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("TPE", {"n_startup_trials": 3}, ALL_TYPES),
    ("TPESampler", {"n_startup_trials": 3, "group": True}, ALL_TYPES),
    ("tpe", {"n_startup_trials": 3, "multivariate": False, "constant_liar": False}, NUMBERS),
    ("CmaEs", {"popsize": 4}, NUMBERS),
    ("cma-es", {"popsize": 4, "with_margin": True}, ALL_TYPES),
    ("cma_es_sampler", {"popsize": 4, "use_separable_cma": True}, NUMBERS),
    ("NSGAII", {"population_size": 3, "crossover": "sbx"}, NUMBERS),
    ("nsgaii", {"population_size": 3}, ALL_TYPES),
    ("NSGAIII", {"population_size": 3}, ALL_TYPES),
    ("QMC", {}, ALL_TYPES),
    ("qmc", {"scramble": True, "qmc_type": "halton"}, NUMBERS),
    ("Random", {}, ALL_TYPES),
]


class Told:
    """Reports a series of events to a tuner, and to other tuners after its death."""

    def __init__(self, make: Any) -> None:
        self._make = make
        self.events: list[tuple[str, Any]] = []
        self.tuner = make()

    def tell(self, call: str, *arguments: Any) -> None:
        self.events.append((call, json.dumps(arguments)))
        _call(self.tuner, *self.events[-1])

    def ask(self, parameter_id: int) -> str:
        text = json.dumps(self.tuner.generate_parameters(parameter_id))
        state = json.dumps(self.tuner.dump_state())
        self.events.append(("recall", f"[{parameter_id}, {text}, {state}]"))
        return text

    def again(self) -> OptunaTuner:
        tuner: OptunaTuner = self._make()
        for event in self.events:
            _call(tuner, *event)
        return tuner


def _call(tuner: Any, call: str, arguments: str) -> None:
    getattr(tuner, call)(*json.loads(arguments))


def life_of(make: Any, space: dict[str, Any], *, several: bool, suggestions: int = 24) -> Told:
    """Ask every suggestion of a rebuilt tuner, too."""
    told = Told(make)
    told.tell("update_search_space", space)
    rng = Random(0)
    open_trials: list[tuple[int, str]] = []

    def result() -> Any:
        numbers = {name: round(rng.gauss(0, 1), 3) for name in BOTH}
        return numbers if several else numbers["good"]

    for parameter_id in range(suggestions):
        text = told.again().generate_parameters(parameter_id)
        given = told.ask(parameter_id)
        assert given == json.dumps(text)
        open_trials.append((parameter_id, given))
        if parameter_id == 9:
            foreign = spaces.sample(spaces.parse(space), rng)
            records = [{"parameter": foreign, "value": result()}, {"parameter": {}, "value": result()}]
            told.tell("import_data", records)
            told.tell("receive_trial_result", None, foreign, result())
        if parameter_id == 19:
            space = {**space, "y": {"_type": "uniform", "_value": [-0.5, 2]}}
            told.tell("update_search_space", space)
        while len(open_trials) > 3:
            ended, parameters = open_trials.pop(rng.randrange(3))
            if ended % 5:
                told.tell("receive_trial_result", ended, json.loads(parameters), result())
            told.tell("trial_end", ended, bool(ended % 5))
    return told


@pytest.mark.parametrize(("sampler", "arguments", "space"), SAMPLERS)
def test_every_sampler_goes_on_after_its_death(
    sampler: str, arguments: dict[str, Any], space: dict[str, Any]
) -> None:
    told = life_of(
        lambda: OptunaTuner("maximize", 3, sampler, arguments), space, several=False, suggestions=24
    )
    given = [json.loads(text)[1] for call, text in told.events if call == "recall"]
    assert len({json.dumps(each) for each in given}) >= 20
    parsed = spaces.parse(space)
    for parameters in given[:20]:
        assert spaces.contains(parsed, parameters) == []
        assert list(parameters) == list(space)
        assert type(parameters["n"]) is int and type(parameters["x"]) is float


@pytest.mark.parametrize("sampler", ["TPE", "NSGAII", "NSGAIII", "QMC"])
def test_several_objectives_go_on_too(sampler: str) -> None:
    def make() -> OptunaTuner:
        arguments = {"TPE": {"n_startup_trials": 3}, "QMC": {}}.get(sampler, {"population_size": 3})
        tuner = OptunaTuner("maximize", 3, sampler, arguments)
        tuner.set_objectives(BOTH)
        return tuner

    life_of(make, NUMBERS, several=True)


@pytest.mark.parametrize("sampler", ["TPE", "CmaEs", "NSGAII", "QMC"])
def test_constraints_are_kept_and_rejected_sets_leave_no_trace(sampler: str) -> None:
    def make() -> OptunaTuner:
        arguments = {"TPE": {"n_startup_trials": 3}, "CmaEs": {"popsize": 4}}.get(sampler, {})
        tuner = OptunaTuner("minimize", 5, sampler, arguments)
        tuner.obey(Rules(feasible=lambda parameters: parameters["n"] < 10))
        return tuner

    told = life_of(make, NUMBERS, several=False)
    given = [json.loads(text) for call, text in told.events if call == "recall"]
    assert all(parameters["n"] < 10 for _, parameters, _ in given)
    assert any((state or {}).get("rejected") for _, _, state in given)


def test_nothing_is_given_twice() -> None:
    space = {"n": {"_type": "randint", "_value": [0, 12]}, "c": {"_type": "choice", "_value": ["a", "b"]}}
    told = Told(lambda: OptunaTuner(seed=1, sampler_args={"n_startup_trials": 3}))
    told.tell("update_search_space", space)
    given = []
    for parameter_id in range(24):
        assert json.dumps(told.again().generate_parameters(parameter_id)) == told.ask(parameter_id)
        given.append(told.events[-1][1].partition(", ")[2])
        parameters = json.loads(told.events[-1][1])[1]
        told.tell("receive_trial_result", parameter_id, parameters, parameters["n"])
    assert len(set(given)) == 24


SMALL: list[dict[str, Any]] = [
    {},
    {"x": {"_type": "uniform", "_value": [0, 1]}},
    {"x": {"_type": "choice", "_value": ["a"]}, "n": {"_type": "randint", "_value": [3, 4]}},
    {"c": {"_type": "choice", "_value": [{"_name": "a", "x": NUMBERS["x"]}, {"_name": "b"}]}},
    {"n": {"_type": "randint", "_value": [-(2**40), 2**40]}},
]


@pytest.mark.parametrize("space", SMALL, ids=range(len(SMALL)))
@pytest.mark.parametrize("sampler", ["TPE", "CmaEs", "NSGAII", "NSGAIII", "QMC", "Random"])
def test_small_spaces(sampler: str, space: dict[str, Any]) -> None:
    arguments = {"population_size": 4} if sampler.startswith("NSGA") else {}
    tuner = OptunaTuner(seed=1, sampler=sampler, sampler_args=arguments)
    tuner.obey(Rules(may_repeat=True))
    tuner.update_search_space(space)
    parsed = spaces.parse(space)
    for parameter_id in range(16):
        parameters = tuner.generate_parameters(parameter_id)
        assert spaces.contains(parsed, parameters) == []
        tuner.receive_trial_result(parameter_id, parameters, parameter_id % 5)


def test_the_seed_decides() -> None:
    def first(seed: int | None) -> list[Any]:
        tuner = OptunaTuner(seed=seed)
        tuner.update_search_space(NUMBERS)
        return [tuner.generate_parameters(parameter_id) for parameter_id in range(3)]

    assert first(1) == first(1) != first(2)
    assert first(-1) == first(-1) != first(None)


# ---- learning ---------------------------------------------------------------------------------------------


SQUARE = {f"x{index}": {"_type": "uniform", "_value": [-5, 5]} for index in range(3)}


def best_of(tuner: OptunaTuner, trials: int, sign: int) -> float:
    tuner.update_search_space(SQUARE)
    best = math.inf
    for parameter_id in range(trials):
        parameters = tuner.generate_parameters(parameter_id)
        loss = sum((x - 1) ** 2 for x in parameters.values())
        best = min(best, loss)
        tuner.receive_trial_result(parameter_id, parameters, {"default": sign * loss, "else": 0})
        tuner.trial_end(parameter_id, True)
    return best


@pytest.mark.parametrize("sampler", ["TPE", "CmaEs", "NSGAII"])
@pytest.mark.parametrize(("mode", "sign"), [("minimize", 1), ("maximize", -1)])
def test_results_are_learnt_from(sampler: str, mode: str, sign: int) -> None:
    arguments = {"population_size": 10} if sampler == "NSGAII" else {}
    blind = sorted(best_of(OptunaTuner(mode, seed, "Random"), 80, sign) for seed in range(3))[1]
    found = sorted(best_of(OptunaTuner(mode, seed, sampler, arguments), 80, sign) for seed in range(3))[1]
    assert found < blind / 2


def test_two_objectives_are_brought_to_their_front() -> None:
    """Zitzler's first function: on the front, all numbers but the first are 0."""

    def distance(tuner: OptunaTuner) -> float:
        tuner.set_objectives({"first": "minimize", "second": "maximize"})
        tuner.update_search_space({f"x{n}": {"_type": "uniform", "_value": [0, 1]} for n in range(4)})
        found: list[float] = []
        for parameter_id in range(150):
            parameters = tuner.generate_parameters(parameter_id)
            first, *others = (float(x) for x in parameters.values())
            found.append(sum(others) / 3)
            worth = 1 + 9 * found[-1]
            result = {"first": first, "second": -worth * (1 - math.sqrt(first / worth)), "default": "?"}
            tuner.receive_trial_result(parameter_id, parameters, result)
        return sum(found[-50:]) / 50

    blind = distance(OptunaTuner(seed=0, sampler="Random"))
    assert distance(NSGA2Tuner(seed=0, population_size=10)) < blind * 0.8
    assert distance(OptunaTuner(seed=0)) < blind * 0.8


def test_what_others_have_found_is_learnt() -> None:
    """Results of other tuners alone end the start-up with random sets."""
    tuner = OptunaTuner(seed=0)
    tuner.update_search_space(SQUARE)
    rng = Random(1)
    records = []
    for _ in range(60):
        parameters = {name: rng.gauss(1, 1) for name in SQUARE}
        value = sum((x - 1) ** 2 for x in parameters.values())
        records.append({"parameter": parameters, "value": value})
    tuner.import_data(records)
    found = [tuner.generate_parameters(parameter_id) for parameter_id in range(10)]
    assert sum(abs(x - 1) for each in found for x in each.values()) / 30 < 1.5


def test_pending_trials_keep_others_away() -> None:
    """TPE's constant liar: sets of running trials are avoided."""
    tuner = OptunaTuner(seed=0)
    tuner.update_search_space({"x": {"_type": "uniform", "_value": [0, 1]}})
    tuner.import_data([{"parameter": {"x": n / 30}, "value": abs(n / 30 - 0.5)} for n in range(31)])
    pending = sorted(tuner.generate_parameters(parameter_id)["x"] for parameter_id in range(8))
    assert min(b - a for a, b in itertools.pairwise(pending)) > 1e-4


# ---- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sampler", "arguments", "told"),
    [
        ("TPEE", {}, "sampler of Optuna must be one of TPE, GP, .*did you mean TPE"),
        ("Grid", {}, r"\(use the tuner GridSearch\)"),
        (
            "TPE",
            {"gama": 1},
            "TPESampler takes no argument 'gama' in sampler_args; valid arguments are .*gamma",
        ),
        ("NSGAII", {"population_size": 1}, "population_size"),
        ("NSGAII", {"crossover": "one-point"}, "crossover must be one of blxalpha, sbx, .* not 'one-point'"),
        ("QMC", {"qmc_type": "lattice"}, "lattice"),
    ],
)
def test_what_cannot_be_is_said(sampler: str, arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        OptunaTuner(sampler=sampler, sampler_args=arguments)


def test_one_objective_is_all_that_some_samplers_take() -> None:
    tuner = OptunaTuner(sampler="CmaEs")
    tuner.set_objectives({"loss": "minimize"})
    with pytest.raises(ValueError, match="CmaEsSampler optimizes one objective; several can be given to TPE"):
        tuner.set_objectives(BOTH)


@pytest.mark.parametrize(("sampler", "needed"), [("GP", "torch"), ("CmaEs", "cmaes"), ("QMC", "scipy")])
def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, sampler: str, needed: str) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == needed else there(name))
    with pytest.raises(ModuleNotFoundError, match=f"Optuna's .* needs {needed}, .*pip install"):
        OptunaTuner(sampler=sampler)

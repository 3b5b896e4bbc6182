"""TPE: its suggestions, its learning, and its advantage over random search."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import statistics
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnimgr import search_space
from nnimgr.algorithm import NoMoreTrialError, Past, Tuner
from nnimgr.tuners.learning import LearningTuner
from nnimgr.tuners.random import RandomTuner
from nnimgr.tuners.tpe import TpeTuner
from nnimgr.tuners.tpe_arguments import TpeArguments
from nnimgr.tuners.tpe_model import Model
from tests.test_search_space import CALM, raw_spaces

LINE = {"x": {"_type": "uniform", "_value": [-10, 10]}}
BRANIN = {"x": {"_type": "uniform", "_value": [-5, 10]}, "y": {"_type": "uniform", "_value": [0, 15]}}
MIXED = {
    "lr": {"_type": "loguniform", "_value": [1e-5, 1]},
    "layers": {"_type": "randint", "_value": [1, 9]},
    "act": {"_type": "choice", "_value": ["relu", "tanh", None, True]},
    "drop": {"_type": "quniform", "_value": [0, 0.9, 0.1]},
    "momentum": {"_type": "normal", "_value": [0.9, 0.3]},
    "optimiser": {
        "_type": "choice",
        "_value": [
            {"_name": "sgd", "decay": {"_type": "uniform", "_value": [0, 1]}},
            {"_name": "adam", "eps": {"_type": "qlognormal", "_value": [0, 1, 0.5]}},
            {"_name": "none"},
        ],
    },
}


def branin(p: dict[str, Any]) -> float:
    x, y = float(p["x"]), float(p["y"])
    valley = y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6
    return valley**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


def mixed(p: dict[str, Any]) -> float:
    loss: float = (math.log10(p["lr"]) + 2.5) ** 2 + 0.3 * abs(p["layers"] - 5) + 3 * abs(p["drop"] - 0.3)
    loss += 4 * (p["momentum"] - 0.7) ** 2 + (0 if p["act"] == "tanh" else 1)
    match p["optimiser"]:
        case {"_name": "sgd", "decay": decay}:
            loss += 1 + 4 * (decay - 0.2) ** 2
        case {"_name": "adam", "eps": eps}:
            loss += 0.2 + abs(eps - 2)
        case _:
            loss += 2
    return loss


def tpe(space: Any, **arguments: Any) -> TpeTuner:
    tuner = TpeTuner(**{"seed": 0, **arguments})
    tuner.update_search_space(space)
    return tuner


def search(
    tuner: Tuner,
    objective: Callable[[dict[str, Any]], float],
    trials: int,
    *,
    first: int = 0,
    at_once: int = 1,
) -> list[float]:
    """Return the losses. ``at_once`` trials run at the same time."""
    running: list[tuple[int, dict[str, Any]]] = []
    losses = []
    for parameter_id in range(first, first + trials):
        running.append((parameter_id, tuner.generate_parameters(parameter_id)))
        if len(running) == at_once:
            done, parameters = running.pop(0)
            losses.append(objective(parameters))
            tuner.receive_trial_result(done, parameters, losses[-1])
            tuner.trial_end(done, True)
    return losses


@pytest.mark.parametrize("at_once", [1, 8])
@pytest.mark.parametrize(("space", "objective"), [(BRANIN, branin), (MIXED, mixed)])
def test_it_finds_more_than_chance_does(space: Any, objective: Any, at_once: int) -> None:
    def typical(make: Callable[[int], Tuner]) -> float:
        best = []
        for seed in range(7):
            tuner = make(seed)
            tuner.update_search_space(space)
            best.append(min(search(tuner, objective, 120, at_once=at_once)))
        return statistics.median(best)

    assert typical(lambda seed: TpeTuner(seed=seed)) < 0.9 * typical(lambda seed: RandomTuner(seed=seed))


def test_what_runs_at_the_same_time_lies_apart() -> None:
    """Half the distance of random points is enough."""
    space = {f"x{n}": {"_type": "uniform", "_value": [0, 1]} for n in range(6)}

    def typical(make: Callable[[int], LearningTuner]) -> float:
        smallest = []
        for seed in range(5):
            tuner = make(seed)
            tuner.update_search_space(space)
            search(tuner, lambda p: sum((x - 0.3) ** 2 for x in p.values()), 60, at_once=16)
            tuner.generate_parameters(60)
            points = [list(each.values()) for each in tuner.open.values()]
            assert len(points) == 16
            smallest.append(min(math.dist(a, b) for a, b in itertools.combinations(points, 2)))
        return statistics.median(smallest)

    assert typical(lambda seed: TpeTuner(seed=seed)) > 0.6 * typical(lambda seed: RandomTuner(seed=seed))


def test_results_learned_at_once_teach_what_they_teach_one_by_one() -> None:
    space = search_space.parse(MIXED)
    at_once, one_by_one = Model(space, TpeArguments()), Model(space, TpeArguments())
    rng = Random(0)
    for number in range(40):
        parameters = search_space.sample(space, rng)
        loss = mixed(parameters) // 1  # some losses are equal
        at_once.learn(parameters, loss)
        one_by_one.learn(parameters, loss)
        one_by_one.suggest(Random(number))
    assert [at_once.suggest(Random(seed)) for seed in range(9)] == [
        one_by_one.suggest(Random(seed)) for seed in range(9)
    ]


def test_of_very_many_bad_results_some_are_enough() -> None:
    """The narrow valley in the middle is found among 5,000 results."""
    model = Model(search_space.parse(LINE), TpeArguments())
    rng = Random(0)
    for _ in range(5000):
        x = rng.uniform(-10, 10)
        model.learn({"x": x}, abs(x - 2))
    assert statistics.median(abs(model.suggest(Random(seed))["x"] - 2) for seed in range(20)) < 0.5


def test_it_maximises() -> None:
    tuner = tpe(LINE, optimize_mode="maximize")
    values = search(tuner, lambda p: -((p["x"] - 3) ** 2), 80)
    assert statistics.median(values[-20:]) > -1 > statistics.median(values[:20])


def test_the_default_of_a_mapping_is_the_result() -> None:
    numbers, mappings = tpe(LINE), tpe(LINE)
    search(numbers, lambda p: p["x"] ** 2, 25)
    search(mappings, lambda p: {"default": p["x"] ** 2, "other": 1}, 25)  # type: ignore[arg-type,return-value]
    assert numbers.generate_parameters(25) == mappings.generate_parameters(25)


@settings(CALM, max_examples=60)
@given(raw_spaces(), st.sampled_from(["best", "worst", "mean", None]), st.integers(0, 3), st.integers(0, 30))
def test_suggestions_lie_in_the_space_and_a_rebuilt_tuner_goes_on(
    raw: dict[str, Any], liar: str | None, startup: int, interrupted_at: int
) -> None:
    """Every third trial fails, and two run at once. The second tuner is rebuilt from the calls."""
    arguments = {"constant_liar_type": liar, "n_startup_jobs": startup, "n_ei_candidates": 4}
    space = search_space.parse(raw)
    first, again = tpe(raw, tpe_args=arguments), tpe(raw, tpe_args=arguments)
    everything = Past.SUGGESTIONS in again.needs([raw])
    running: dict[int, Any] = {}
    for parameter_id in range(30):
        if parameter_id == interrupted_at:
            for open_id, parameters in running.items() if not everything else ():
                again.recall(open_id, parameters)
        try:
            found = first.generate_parameters(parameter_id)
        except NoMoreTrialError:
            return
        assert list(found) == list(raw)
        assert search_space.contains(space, found) == []
        plain = json.loads(json.dumps(found))
        if parameter_id >= interrupted_at:
            assert json.dumps(again.generate_parameters(parameter_id)) == json.dumps(found)
        elif everything:
            again.recall(parameter_id, plain)
        running[parameter_id] = plain
        if len(running) > 1:
            done = min(running)
            parameters = running.pop(done)
            for tuner in (first, again):
                if done % 3:
                    tuner.receive_trial_result(done, parameters, hash(json.dumps(parameters)) % 97)
                tuner.trial_end(done, bool(done % 3))


def test_a_finite_space_is_given_completely_and_once() -> None:
    space = {"a": {"_type": "randint", "_value": [0, 6]}, "b": {"_type": "choice", "_value": ["x", "y", "z"]}}
    tuner = tpe(space, tpe_args={"n_startup_jobs": 3})
    found = set()
    for parameter_id in range(18):
        parameters = tuner.generate_parameters(parameter_id)
        found.add(json.dumps(parameters))
        tuner.receive_trial_result(parameter_id, parameters, parameters["a"])
    assert len(found) == 18
    with pytest.raises(NoMoreTrialError):
        tuner.generate_parameters(18)


def test_results_from_elsewhere_count_like_its_own() -> None:
    tuner = tpe(LINE, tpe_args={"n_startup_jobs": 30})
    records = [{"parameter": {"x": x / 2}, "value": {"default": (x / 2 - 4) ** 2}} for x in range(-20, 20)]
    tuner.import_data([*records, {"parameter": {"y": 3}, "value": 1}, {"parameter": "none", "value": -9}])
    tuner.import_data([{"parameter": {"x": 10**400}, "value": -9}])
    assert statistics.median(search(tuner, lambda p: abs(p["x"] - 4), 20)) < 1.5


def test_a_set_tried_by_hand_teaches_and_is_not_given_again() -> None:
    space = {"a": {"_type": "choice", "_value": [1, 2]}}
    tuner = tpe(space)
    assert tuner._accept_customized
    tuner.receive_trial_result(None, {"a": 1}, 0.5, customized=True)
    tuner.trial_end(None, True)
    assert tuner.generate_parameters(0) == {"a": 2}


def test_failed_trials_teach_nothing() -> None:
    tuners = [tpe(LINE), tpe(LINE)]
    for tuner in tuners:
        search(tuner, lambda p: p["x"] ** 2, 25)
    for parameter_id in range(25, 30):
        tuners[0].generate_parameters(parameter_id)
        tuners[0].trial_end(parameter_id, False)
    assert tuners[0].generate_parameters(30) == tuners[1].generate_parameters(30)


def test_a_changed_space_keeps_what_still_fits() -> None:
    tuner = tpe({**LINE, "c": {"_type": "choice", "_value": ["a", "b"]}})
    search(tuner, lambda p: (p["x"] - 9) ** 2 + (p["c"] == "a"), 60)
    tuner.update_search_space(
        {"x": {"_type": "uniform", "_value": [0, 20]}, "c": {"_type": "choice", "_value": ["b", "d"]}}
    )
    chance = statistics.median((x / 10 - 9) ** 2 for x in range(200))
    assert statistics.median(search(tuner, lambda p: (p["x"] - 9) ** 2, 20, first=60)) < chance / 2


@pytest.mark.parametrize("prior_weight", [0, 0.5])
def test_a_prior_without_weight_is_no_trouble(prior_weight: float) -> None:
    tuner = tpe(MIXED, tpe_args={"prior_weight": prior_weight, "n_startup_jobs": 0, "gamma": 3.0})
    search(tuner, mixed, 60)


def test_without_numpy_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"TPE needs numpy, .*pip install 'nnimgr\[tuners\]'"):
        TpeTuner()

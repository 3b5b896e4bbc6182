"""Population based training: generations, checkpoints, exploitation and exploration."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnimgr import search_space as spaces
from nnimgr.algorithm import NoMoreTrialError, Rules
from nnimgr.tuners.pbt import DIRECTORIES, PBTTuner
from tests.test_search_space import CALM, raw_spaces
from tests.tuners.running import Life

SPACE = {
    "rate": {"_type": "loguniform", "_value": [1e-4, 1]},
    "units": {"_type": "randint", "_value": [1, 100]},
    "c": {
        "_type": "choice",
        "_value": [{"_name": "a", "y": {"_type": "quniform", "_value": [0, 1, 0.25]}}, {"_name": "b"}],
    },
}


def make(**more: Any) -> PBTTuner:
    return PBTTuner(**{"seed": 1, "all_checkpoint_dir": "/c", "population_size": 5, **more})


def own(parameters: Any) -> Any:
    return {name: value for name, value in parameters.items() if name not in DIRECTORIES}


def test_generations_go_on_from_checkpoints() -> None:
    life = Life(make, SPACE)
    assert life.ask(8) == 5
    assert life.tuner.why_waiting() == "it waits for 5 trials of generation 0 before the next one begins"
    first = life.given[:]
    assert [each["save_checkpoint_dir"] for each in first] == [f"/c/0/{member}" for member in range(5)]
    assert [each["load_checkpoint_dir"] for each in first] == [f"/c/0/{member}" for member in range(5)]
    for parameter_id, value in enumerate([3, 5, 1, 4, 2]):
        assert life.ask(1) == 0
        life.end(parameter_id, float(value))
    assert life.ask(9) == 5
    second = life.given[5:]
    assert [each["save_checkpoint_dir"] for each in second] == [f"/c/1/{member}" for member in range(5)]
    # The third member was the worst and the second the best.
    assert [each["load_checkpoint_dir"] for each in second] == [
        "/c/0/0",
        "/c/0/1",
        "/c/0/1",
        "/c/0/3",
        "/c/0/4",
    ]
    for member in (0, 1, 3, 4):
        assert own(second[member]) == own(first[member])
    assert own(second[2]) != own(first[2])
    with pytest.raises(NoMoreTrialError, match="waits for 5 trials of generation 1"):
        life.tuner.generate_parameters(99)


def test_failures_take_a_better_ones_place_and_block_nothing() -> None:
    life = Life(lambda: make(fraction=0.4), SPACE)
    life.ask(5)
    for parameter_id, value in enumerate([None, 5.0, None, None, 4.0]):
        life.end(parameter_id, value)
    life.ask(5)
    loads = [each["load_checkpoint_dir"] for each in life.given[5:]]
    assert loads[1] == "/c/0/1" and loads[4] == "/c/0/4" and set(loads) == {"/c/0/1", "/c/0/4"}
    for parameter_id in range(5, 10):
        life.end(parameter_id, None)
    assert life.ask(5) == 5  # a new population
    assert [each["load_checkpoint_dir"] for each in life.given[10:]] == [f"/c/2/{n}" for n in range(5)]


@pytest.mark.parametrize("concurrency", [1, 4, 100])
def test_it_goes_on_and_a_rebuilt_one_alike(concurrency: int) -> None:
    life = Life(make, SPACE)
    for trials in range(0, 300, 30):
        life.run(
            trials, concurrency, lambda number, each: None if number % 11 == 3 else -abs(each["rate"] - 0.1)
        )
        again: Any = life.rebuilt()
        ids = list(range(trials, trials + 5))
        there, here = again.generate_multiple_parameters(ids), life.tuner.generate_multiple_parameters(ids)
        assert json.dumps(there) == json.dumps(here)
        for parameter_id, parameters in zip(ids, here, strict=False):
            life.tuner.trial_end(parameter_id, False, untried=True)
            life.tuner.take_back(parameter_id, parameters)
    errors = [abs(each["rate"] - 0.1) for each in life.given]
    assert sum(errors[-20:]) < sum(errors[:20])


def test_a_trial_that_is_cut_off_is_waited_for() -> None:
    life = Life(lambda: make(population_size=2), SPACE)
    life.ask(2)
    life.end(0, 1.0)
    life.tuner.trial_end(1, False, again=True)
    assert life.ask(1) == 0
    life.end(1, 2.0)
    assert life.ask(2) == 2


def test_imported_results_are_the_first_members() -> None:
    tuner = make(population_size=3, optimize_mode="minimize")
    tuner.update_search_space(SPACE)
    known = [{"rate": 10.0**-n, "units": n, "c": {"_name": "b"}} for n in range(1, 4)]
    tuner.import_data([{"parameter": each, "value": each["units"]} for each in reversed(known[:2])])
    tuner.import_data([{"parameter": {"rate": 7}, "value": -1}])
    given = tuner.generate_multiple_parameters([0, 1, 2])
    assert [own(each) for each in given[:2]] == known[:2] and own(given[2]) not in known


def test_a_new_space_begins_a_new_population_elsewhere() -> None:
    life = Life(make, SPACE)
    life.ask(3)
    life.tuner.update_search_space({"z": {"_type": "uniform", "_value": [0, 1]}})
    for parameter_id in range(3):
        life.end(parameter_id, 1.0)
    assert life.ask(9) == 5
    assert all(own(each).keys() == {"z"} for each in life.given[3:])
    assert life.given[3]["load_checkpoint_dir"] == "/c/1/0"


def test_the_directory_is_the_experiments_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNI_CHECKPOINT_DIRECTORY", "/exp/checkpoint")
    tuner = PBTTuner(seed=1)
    tuner.update_search_space(SPACE)
    assert tuner.generate_parameters(0)["save_checkpoint_dir"] == "/exp/checkpoint/0/0"


def test_constraints_hold_for_what_is_changed() -> None:
    life = Life(lambda: make(fraction=0.5), SPACE)
    life.tuner.obey(Rules(feasible=lambda parameters: parameters["units"] % 2 == 0))
    life.run(60, 3, lambda _, parameters: float(parameters["units"]))
    assert all(each["units"] % 2 == 0 for each in life.given)


@settings(CALM, max_examples=60)
@given(raw_spaces(), st.integers(0, 2**32))
def test_whatever_is_changed_stays_in_the_space(space: Any, seed: int) -> None:
    """Values of any type, nested ones too, keep the declared types and bounds."""
    tuner = make(seed=seed, population_size=2, fraction=0.5, resample_probability=0.1)
    tuner.update_search_space(space)
    parsed = spaces.parse(space)
    for generation in range(0, 6, 2):
        ids = [generation, generation + 1]
        for parameter_id, parameters in zip(ids, tuner.generate_multiple_parameters(ids), strict=True):
            assert spaces.contains(parsed, json.loads(json.dumps(own(parameters)))) == []
            assert list(own(parameters)) == list(space)
            tuner.receive_trial_result(parameter_id, parameters, parameter_id % 2)
            tuner.trial_end(parameter_id, True)


def test_how_far_values_move() -> None:
    tuner = make(resample_probability=0.0, factors=0.5)
    numbers = {
        "u": {"_type": "uniform", "_value": [0, 10]},
        "l": {"_type": "loguniform", "_value": [1, math.e**4]},
        "n": {"_type": "normal", "_value": [0, 2]},
        "i": {"_type": "randint", "_value": [0, 9]},
        "q": {"_type": "quniform", "_value": [0, 10, 4]},
        "o": {"_type": "choice", "_value": ["a", "b", "c"]},
    }
    tuner.update_search_space(numbers)
    plan = {"u": 4.0, "l": math.e, "n": 1.0, "i": 4, "q": 4.0, "o": "b"}
    tuner.import_data([{"parameter": plan, "value": 1}])
    ids = list(range(5))
    for parameter_id, parameters in zip(ids, tuner.generate_multiple_parameters(ids), strict=True):
        tuner.receive_trial_result(parameter_id, parameters, 9 - parameter_id)
        tuner.trial_end(parameter_id, True)
    changed = own(tuner.generate_multiple_parameters(list(range(5, 10)))[4])
    assert changed["u"] in (0.0, 9.0) and changed["n"] in (0.0, 2.0)
    assert math.log(changed["l"]) == pytest.approx(3.0) or changed["l"] == 1.0
    assert changed["i"] in (3, 5) and changed["q"] in (0.0, 8.0) and changed["o"] in ("a", "c")

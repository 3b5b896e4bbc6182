"""Every built-in tuner keeps the rules of its experiment."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from nnimgr.algorithm import NoMoreTrialError, Rules, Tuner
from nnimgr.constraints import Constraints
from nnimgr.dispatcher import registry
from nnimgr.identity import identity

NUMBERS = {
    "lower": {"_type": "uniform", "_value": [0, 1]},
    "upper": {"_type": "uniform", "_value": [0, 1]},
    "width": {"_type": "randint", "_value": [1, 9]},
}
NESTED = {
    **NUMBERS,
    "step": {"_type": "quniform", "_value": [0, 1, 0.25]},
    "rate": {"_type": "loguniform", "_value": [0.001, 1]},
    "optimizer": {
        "_type": "choice",
        "_value": [
            {"_name": "sgd", "momentum": {"_type": "uniform", "_value": [0, 1]}},
            {"_name": "adam", "beta": {"_type": "choice", "_value": [0.9, 0.99]}},
        ],
    },
}
WHOLE = {
    "combine_params": {
        "_type": "choice",
        "_value": [{"lower": at / 40, "upper": 0.5, "width": at % 9} for at in range(40)],
    }
}
SMALL = {
    "n": {"_type": "randint", "_value": [0, 4]},
    "c": {"_type": "choice", "_value": ["a", "b", "c"]},
}
CONSTRAINTS = ["lower < upper", "width * upper <= 4"]
NESTED_CONSTRAINTS = [
    *CONSTRAINTS,
    "optimizer == 'adam' or optimizer.momentum > 0.5",
    "step >= 0.5 or rate < 0.1",
]
# Parameters that the tuner adds, which make other sets of the same values.
OF_THE_TUNER = {"TRIAL_BUDGET", "load_checkpoint_dir"}
# Number of suggestions: enough for every tuner to have begun to learn.
FEW = 40
FEW_OF_SLOW = dict.fromkeys(("GP", "Metis", "SMAC", "Optuna"), 24)


def tuner_for(name: str, *spaces: dict[str, Any], rules: Rules) -> tuple[Tuner, dict[str, Any]]:
    """Return the built-in tuner under these rules, with the first space that it accepts."""
    builtin = registry.find("tuner", name)
    for space in spaces:
        try:
            registry.check_space("tuner", name, space)
        except registry.AlgorithmError:
            continue
        arguments = {"seed": 3} if "seed" in builtin.arguments else {}
        try:
            tuner = registry.load(builtin.target)(**arguments)
        except ModuleNotFoundError as missing:
            pytest.skip(str(missing))
        tuner.obey(rules)
        tuner.update_search_space(space)
        return tuner, space
    pytest.skip(f"{name} serves none of these spaces")


def suggestions(tuner: Tuner, count: int) -> list[Any]:
    """Return sets whose results arrive four sets later, or when the tuner waits. Every tenth trial fails."""
    rng, ended = Random(0), 0
    given: list[Any] = []

    def end(until: int) -> None:
        nonlocal ended
        for parameter_id in range(ended, until):
            if parameter_id % 10:
                tuner.receive_trial_result(parameter_id, given[parameter_id], rng.random())
            tuner.trial_end(parameter_id, bool(parameter_id % 10))
        ended = max(ended, until)

    while len(given) < count:
        try:
            given.append(json.loads(json.dumps(tuner.generate_parameters(len(given)))))
        except NoMoreTrialError:
            if ended == len(given):
                break
            end(len(given))
        end(len(given) - 4)
    return given


@pytest.mark.parametrize("name", registry.names("tuner"))
def test_all_sets_meet_the_constraints(name: str) -> None:
    few = FEW_OF_SLOW.get(name, FEW)
    for texts, spaces in ((NESTED_CONSTRAINTS, (NESTED,)), (CONSTRAINTS, (NUMBERS, WHOLE))):
        constraints = Constraints(texts)
        tuner, space = tuner_for(name, *spaces, NUMBERS, WHOLE, rules=Rules(feasible=constraints.feasible))
        given = suggestions(tuner, few)
        assert [constraints.complaint(parameters) for parameters in given] == [None] * len(given)
        assert len(given) == few or (space is WHOLE and len(given) > 10)


@pytest.mark.parametrize("name", registry.names("tuner"))
def test_no_set_is_repeated_where_none_may(name: str) -> None:
    """A small space ends with its last set. Infeasible sets do not end it earlier."""
    constraints = Constraints(["n < 3"])
    rules = Rules(feasible=constraints.feasible, never_repeat=True)
    tuner, space = tuner_for(name, SMALL, NUMBERS, WHOLE, rules=rules)
    given = suggestions(tuner, 50)
    assert len({identity(parameters) for parameters in given}) == len(given)
    if not any(OF_THE_TUNER & parameters.keys() for parameters in given):
        assert len(given) == {3: 50, 2: 9, 1: 40}[len(space)]


@pytest.mark.parametrize("name", registry.names("tuner"))
def test_continuous_sets_are_not_repeated_either(name: str) -> None:
    """A tuner that has recalled sets does not give them again, even if it draws the same ones."""
    tuner, _ = tuner_for(name, NUMBERS, WHOLE, rules=Rules(never_repeat=True))
    again, space = tuner_for(name, NUMBERS, WHOLE, rules=Rules(never_repeat=True))
    first = [tuner.generate_parameters(parameter_id) for parameter_id in range(3)]
    for parameter_id, parameters in enumerate(first):
        again.recall(10 + parameter_id, parameters)  # type: ignore[attr-defined]
    second = [again.generate_parameters(parameter_id) for parameter_id in range(3)]
    assert len({identity(parameters) for parameters in first + second}) == 6
    assert space in (NUMBERS, WHOLE)

"""NNI's helpers for tuners of the user's own: tables of search spaces, and duplicate parameter sets."""

from __future__ import annotations

import math
from typing import Any

import pytest

import nni
from nni.common.hpo_utils import (
    Deduplicator,
    OptimizeMode,
    deformat_parameters,
    format_parameters,
    format_search_space,
    validate_search_space,
)

SPACE = {
    "pool": {"_type": "choice", "_value": ["max", "min", "avg"]},
    "n": {"_type": "randint", "_value": [2, 8]},
    "lr": {"_type": "loguniform", "_value": [1e-4, 1]},
    "q": {"_type": "quniform", "_value": [0.2, 1, 0.5]},
    "noise": {"_type": "qnormal", "_value": [4, 2, 0.5]},
    "cell": {
        "_type": "choice",
        "_value": [
            {"_name": "A", "x": {"_type": "uniform", "_value": [0, 1]}},
            {"_name": "B", "y": {"_type": "choice", "_value": [1, 2]}},
        ],
    },
}


def test_types_that_only_the_tuner_knows_are_left_to_it() -> None:
    own = ["choice", "uniform", "my_range"]
    assert validate_search_space({"x": {"_type": "uniform", "_value": [0, 1]}}, own)
    assert not validate_search_space({"x": {"_type": "randint", "_value": [0, 1]}}, own)
    assert not validate_search_space({"x": {"_type": "uniform", "_value": [0, 1]}}, [])


def test_the_table_of_a_search_space() -> None:
    table = format_search_space(SPACE)
    assert list(table) == [
        *(("pool",), ("n",), ("lr",), ("q",), ("noise",), ("cell",)),
        *(("cell", 0, "x"), ("cell", 1, "y")),
    ]
    assert (table["pool",].size, table["n",].size) == (3, 6)
    assert (table["lr",].low, table["lr",].high, table["lr",].log_distributed) == (math.log(1e-4), 0.0, True)
    assert (table["q",].q, table["q",].clip) == (0.5, (0.2, 1.0))
    assert (table["noise",].mu, table["noise",].sigma, table["noise",].normal_distributed) == (4, 2, True)
    nested = table["cell", 1, "y"]
    assert nested.is_nested() and not table["cell",].is_nested()
    assert nested.is_activated_in({("cell",): 1}) and not nested.is_activated_in({("cell",): 0})


def test_parameter_sets_as_numbers_and_back() -> None:
    table = format_search_space(SPACE)
    formatted: dict[Any, Any] = {
        ("pool",): 2,
        ("n",): 3,
        ("lr",): math.log(0.01),
        ("q",): 0.1,
        ("noise",): 4.3,
        ("cell",): 1,
        ("cell", 1, "y"): 0,
    }
    found = deformat_parameters(formatted, table)
    assert found == {
        "pool": "avg",
        "n": 5,
        "lr": pytest.approx(0.01),
        "q": 0.2,  # rounded to 0, which is below the lower bound
        "noise": 4.5,
        "cell": {"_name": "B", "y": 1},
    }
    again = format_parameters(found, table)
    assert again == {**formatted, ("lr",): pytest.approx(math.log(0.01)), ("q",): 0.2, ("noise",): 4.5}


def test_each_set_of_a_finite_space_is_returned_once() -> None:
    table = format_search_space(
        {
            "x": {"_type": "choice", "_value": [1, 2]},
            "y": {"_type": "quniform", "_value": [0, 2, 1]},
            "z": {"_type": "choice", "_value": [{"_name": "a"}, {"_name": "b"}]},
        }
    )
    deduplicate = Deduplicator(table)
    first: dict[Any, Any] = {("x",): 0, ("y",): 0.0, ("z",): 0}
    deduplicate.add_history({("x",): 1, ("y",): 2.0, ("z",): 1})
    found = []
    with pytest.raises(nni.NoMoreTrialError):
        while True:
            found.append(deformat_parameters(deduplicate(first), table))
    assert len(found) == 11
    assert all(found.count(each) == 1 for each in found)
    assert found[0] == {"x": 1, "y": 0, "z": {"_name": "a"}}


def test_sets_of_an_endless_space_are_returned_as_they_are() -> None:
    table = format_search_space({"x": {"_type": "uniform", "_value": [0, 1]}})
    deduplicate = Deduplicator(table)
    assert [deduplicate({("x",): 0.5}) for _ in range(2)] == [{("x",): 0.5}] * 2


def test_a_nested_number_is_replaced_by_points_of_a_finer_grid() -> None:
    nested = {"_name": "a", "x": {"_type": "uniform", "_value": [0, 1]}}
    table = format_search_space({"z": {"_type": "choice", "_value": [nested]}})
    deduplicate = Deduplicator(table)
    values = [deduplicate({("z",): 0, ("z", 0, "x"): 0.5})["z", 0, "x"] for _ in range(4)]
    assert values == [0.5, 0.25, 0.75, 0.125]


def test_search_spaces_are_checked(caplog: pytest.LogCaptureFixture) -> None:
    assert validate_search_space(SPACE)
    assert not validate_search_space({"x": {"_type": "uniform", "_value": [1, 0]}})
    assert "x" in caplog.text
    assert not validate_search_space(SPACE, ["choice"])
    with pytest.raises(ValueError, match="x"):
        validate_search_space({"x": 1}, raise_exception=True)


def test_names_of_nnis_modules() -> None:
    import nni.runtime.common
    import nni.runtime.config
    import nni.runtime.env_vars
    import nni.runtime.log
    import nni.trial
    import nni.typehint

    assert OptimizeMode("minimize") is OptimizeMode.Minimize
    assert nni.trial.get_next_parameter == nni.get_next_parameter
    assert nni.runtime.env_vars.trial_env_vars.NNI_TRIAL_JOB_ID is None
    nni.runtime.common.enable_multi_phase()
    assert nni.runtime.common.multi_phase_enabled()
    assert nni.runtime.config.get_config_file("registered_algorithms.yml").parent.is_dir()
    assert nni.typehint.TrialMetric is float
    assert nni.runtime.log.silence_stdout is nni.silence_stdout

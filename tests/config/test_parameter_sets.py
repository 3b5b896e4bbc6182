"""Constraints, duplicates and initial parameter sets in a configuration: errors with their lines."""

from __future__ import annotations

from typing import Any

import pytest

from nnimgr.config import (
    ConfigError,
    check_config,
    check_feasibility,
    feasible_share,
    initial_sets,
    read_canonical,
)
from nnimgr.config import feasibility as sampling
from nnimgr.config.feasibility import feasibility
from tests.config.loading import GOAL, Faults, Load

BEGINNING = """\
searchSpace:
  lower: {_type: uniform, _value: [0, 1]}
  upper: {_type: uniform, _value: [0, 1]}
  size: {_type: randint, _value: [1, 100]}
  optimizer:
    _type: choice
    _value:
      - {_name: sgd, momentum: {_type: uniform, _value: [0, 1]}}
      - {_name: adam}
trialCommand: python3 trial.py
trialConcurrency: 2
maxTrialNumber: 5
trainingService: {platform: local}
"""  # 13 lines
TUNER = "tuner: {name: TPE}\n"
BATCH = """\
searchSpace:
  combine_params: {_type: choice, _value: [{a: 1, b: 2}, {a: 2, b: 1}, {a: 5}]}
trialCommand: python3 trial.py
trialConcurrency: 2
trainingService: {platform: local}
tuner: {name: Batch}
"""


@pytest.fixture(autouse=True)
def no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all sets be drawn on any machine, however busy."""
    monkeypatch.setattr(sampling, "_LONGEST_S", 600.0)


def test_all_of_it_is_read_and_kept(load: Load) -> None:
    found = load(
        BEGINNING
        + TUNER
        + "search_space_constraints: [lower < upper, 'optimizer == ''adam'' or optimizer.momentum < 0.9']\n"
        + "duplicates: skip\n"
        + GOAL
        + "initialParameters:\n- {lower: 0, optimizer: {_name: sgd}}\n"
    )
    assert found.feasibility is not None and abs(found.feasibility.share - 0.475) < 0.02
    assert (
        str(found.feasibility)
        == f"about {100 * found.feasibility.share:.3g} % of the search space meets the constraints"
    )
    canonical = found.config.canonical()
    assert canonical["duplicates"] == "skip"
    assert canonical["initialParameters"] == [{"lower": 0, "optimizer": {"_name": "sgd"}}]
    assert canonical["searchSpaceConstraints"][0] == "lower < upper"
    again = read_canonical(canonical)
    assert again == found.config and check_config(again) == ()
    assert feasible_share(again) == found.feasibility.share
    assert feasible_share(load(BEGINNING + TUNER).config) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "searchSpaceConstraints:\n- lower < upper\n-   lower < uper\n",
            [
                "exp.yml:17:5: searchSpaceConstraints[1]: the search space has no parameter uper; "
                "did you mean 'upper'?"
            ],
        ),
        (
            "searchSpaceConstraints:\n- lower << upper\n",
            [
                "exp.yml:16:3: searchSpaceConstraints[0]: lower << upper is neither true nor false; "
                "write a comparison"
            ],
        ),
        (
            "searchSpaceConstraints:\n- lower < upper\n- lower == size\n",
            [
                "exp.yml:17:3: searchSpaceConstraints[1]: none of 10,000 random parameter sets "
                "meets all constraints, but at least 0.1 % must. For example, {"
            ],
        ),
        (
            "searchSpaceConstraints:\n- size < 'a'\n",
            ["exp.yml:16:3: searchSpaceConstraints[0]: can never be met, because "],
        ),
        (
            "searchSpaceConstraints: [lower]\n",
            [
                "exp.yml:15:26: searchSpaceConstraints[0]: can never be met, because lower is a number, "
                "not a condition; write a comparison such as lower < 1"
            ],
        ),
        (
            "searchSpaceConstraints: lower < upper\n",
            ["exp.yml:15:1: searchSpaceConstraints: must be a list, "],
        ),
        ("searchSpaceConstraints: [1]\n", ["exp.yml:15:26: searchSpaceConstraints[0]: must be text, not 1"]),
        ("duplicates: never\n", ["exp.yml:15:1: duplicates: unknown value 'never' (valid: skip, reuse, "]),
        (
            "duplicates: reuse\nmultiPhase: true\n",
            ["exp.yml:15:1: duplicates: 'duplicates: reuse' is not for "],
        ),
        (
            "initialParameters:\n- lower: 0.5\n  uper: 1\n- lower: 2\n  optimizer: sgd\n"
            "- {optimizer: {_name: sgd, beta: 1}}\n",
            [
                "exp.yml:17:3: initialParameters[0].uper: uper is not in the search space, which has ",
                "exp.yml:18:3: initialParameters[1].lower: lower is 2, outside uniform [0, 1]",
                "exp.yml:19:3: initialParameters[1].optimizer: optimizer must be a mapping with ",
                "exp.yml:20:4: initialParameters[2].optimizer: optimizer.beta is not in the search space",
            ],
        ),
        (
            "searchSpaceConstraints: [lower < upper]\n"
            "initialParameters:\n- {lower: 0.5, upper: 0.25}\n- {lower: 1}\n",
            [
                "exp.yml:17:3: initialParameters[0]: the constraint lower < upper is not met by lower = ",
                "exp.yml:18:3: initialParameters[1]: none of 10,000 sets with these values and others drawn",
            ],
        ),
        (
            "initialParameters: [{}, {}, {}, {}, {}, {}]\n",
            ["exp.yml:15:1: initialParameters: 'initialParameters' has 6 parameter sets, but "],
        ),
        ("initialParameters: [3]\n", ["exp.yml:15:21: initialParameters[0]: must be a mapping of keys "]),
        (
            "initialParameters:\n- {lower: 2024-01-01}\n",
            ["exp.yml:16:4: initialParameters[0].lower: is read by YAML as a date"],
        ),
    ],
)
def test_faults_name_their_lines(faults: Faults, text: str, expected: list[str]) -> None:
    found = faults(BEGINNING + TUNER + text)
    assert len(found) == len(expected), found
    for fault, beginning in zip(found, expected, strict=True):
        assert fault.startswith(beginning)


def test_an_infeasible_sample_is_shown(faults: Faults) -> None:
    (fault,) = faults(BEGINNING + TUNER + "searchSpaceConstraints: [lower < upper, size > 99]\n")
    assert (
        '"optimizer": ' in fault
        and "For example, {" in fault
        and "does not: the constraint size > 99 is not met by size = " in fault
    )


def test_reuse_needs_an_end(faults: Faults) -> None:
    text = BEGINNING.replace("maxTrialNumber: 5\n", "") + TUNER + "duplicates: reuse\n"
    assert [fault.partition(": ")[2] for fault in faults(text)] == [
        "duplicates: 'duplicates: reuse' needs 'maxTrialNumber': trials that reuse a result take no time, "
        "and a tuner may suggest the same sets without end"
    ]


def test_a_constraint_without_a_value_for_some_sets_is_a_warning(load: Load) -> None:
    found = load(
        BEGINNING + TUNER + "searchSpaceConstraints:\n- optimizer.momentum < 'a' or lower > 2\n" + GOAL
    )
    (warning,) = found.warnings
    assert str(warning).startswith("exp.yml:16:3: searchSpaceConstraints[0]: has no value for ")
    assert "which counts as not met: " in str(warning)


@pytest.mark.parametrize("tuner", ["name: Batch", "className: nni.algorithms.hpo.batch_tuner.BatchTuner"])
def test_the_options_of_batch_are_looked_at_one_by_one(load: Load, faults: Faults, tuner: str) -> None:
    batch = BATCH.replace("name: Batch", tuner)
    found = load(batch + "searchSpaceConstraints: [a < b]\n")
    assert str(found.feasibility) == "2 of the 3 parameter sets meet the constraints"  # the last set has no b
    (fault,) = faults(batch + "searchSpaceConstraints: [a > 7]\n")
    assert fault.startswith(
        "exp.yml:7:26: searchSpaceConstraints[0]: none of the 3 parameter sets meets all constraints, "
        'but at least 0.1 % must. For example, {"a": 5} does not'
    )
    (fault,) = faults(batch + "searchSpaceConstraints: [c < b]\n")
    assert "has no parameter c" in fault
    (fault,) = faults(batch + "initialParameters: [{a: 1}]\n")
    assert fault.startswith(
        "exp.yml:7:1: initialParameters: the tuner Batch only runs sets of its search space"
    )


def test_a_tuner_of_the_users_own_may_have_another_kind_of_space(load: Load, faults: Faults) -> None:
    own = BEGINNING.replace("{_type: randint, _value: [1, 100]}", "anything") + "tuner: {className: a.B}\n"
    found = load(own + "searchSpaceConstraints: [lower < size]\ninitialParameters: [{lower: a, more: 1}]\n")
    assert found.feasibility is None
    assert initial_sets(found.config, 1) == [{"lower": "a", "more": 1}]
    (fault,) = faults(own + "searchSpaceConstraints: [lower <]\n")
    assert fault.startswith("exp.yml:15:26: searchSpaceConstraints[0]: cannot be read at its end: ")
    usual = BEGINNING + "tuner: {className: a.B}\ninitialParameters: [{size: 0.5}]\n" + GOAL
    (warning,) = load(usual).warnings
    assert str(warning) == "exp.yml:15:22: initialParameters[0].size: size must be an integer, not 0.5"


def test_what_is_left_out_is_drawn(load: Load) -> None:
    """The seed decides the values. They meet the constraints and have the types of the space."""
    config = load(
        BEGINNING
        + TUNER
        + "searchSpaceConstraints: [lower < upper]\n"
        + "initialParameters:\n- {lower: 0, size: 3.0}\n"
        + "- {lower: 0.9, optimizer: {_name: sgd, momentum: 1}}\n- {}\n"
    ).config
    first, second, third = initial_sets(config, 5)
    assert list(first) == ["lower", "upper", "size", "optimizer"]
    assert repr(first["lower"]) == "0.0" and repr(first["size"]) == "3"
    assert second["lower"] == 0.9 < second["upper"]
    assert repr(second["optimizer"]) == "{'_name': 'sgd', 'momentum': 1.0}"
    assert third["lower"] < third["upper"]
    assert initial_sets(config, 5) == [first, second, third]
    assert initial_sets(config, 6) != [first, second, third]


def test_how_much_is_drawn() -> None:
    """Drawing stops when the share is known to one percentage point."""
    space: dict[str, Any] = {"x": {"_type": "uniform", "_value": [0, 1]}}
    shares = {
        text: feasibility(space, [text], batch=False)
        for text in ("x >= 0", "x < 0.95", "x < 0.5", "x < 0.01")
    }
    assert [found.sets for found in shares.values()] == [1000, 1750, 9750, 9250]
    assert [round(found.share, 2) for found in shares.values()] == [1.0, 0.95, 0.5, 0.01]


def test_a_stored_configuration_is_checked_as_it_is_changed(load: Load) -> None:
    config = load(BEGINNING + TUNER).config
    narrow = config.model_copy(update={"search_space_constraints": ["lower > 0.9999"]})
    with pytest.raises(ConfigError) as caught:
        check_feasibility(narrow)
    assert "searchSpaceConstraints[0]: 2 of 10,000 random parameter sets meet " in str(caught.value)
    assert feasible_share(narrow) is None

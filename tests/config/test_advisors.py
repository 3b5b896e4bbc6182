"""Advisors in a configuration: they become the tuner."""

from __future__ import annotations

import pytest

from nnimgr.config import (
    check_config,
)
from tests.config.loading import GOAL, MINIMAL, Faults, Load


@pytest.mark.parametrize(
    ("advisor", "fault"),
    [
        (
            "{name: hyperband, classArgs: {R: 0}}",
            "tuner.classArgs.R: the argument R of Hyperband must be an integer of at least 1, not 0",
        ),
    ],
)
@pytest.mark.parametrize("search_space", ["{}", "{x: {_type: uniform, _value: [0, 1]}}"])
def test_advisors_are_refused_in_one_sentence(
    faults: Faults, advisor: str, fault: str, search_space: str
) -> None:
    kept = MINIMAL.replace("\n  ", "\x00").splitlines()
    text = "\n".join(line for line in kept if not line.startswith(("tuner", "searchSpace")))
    text = text.replace("\x00", "\n  ")
    (found,) = faults(f"{text}\nadvisor: {advisor}\nsearchSpace: {search_space}\n")
    assert found.endswith(fault)


def test_an_advisor_becomes_the_tuner(load: Load) -> None:
    text = MINIMAL.replace("tuner:", "advisor:")
    assert load(text).config.tuner.name == "Random"


def test_a_class_of_the_users_own_becomes_the_tuner(load: Load) -> None:
    advisor = "advisor: {className: mine.Advisor, codeDirectory: .}\n"
    loaded = load(MINIMAL.replace("tuner:\n  name: Random\n", advisor))
    assert loaded.config.tuner.class_name == "mine.Advisor"


def test_an_assessor_beside_an_advisor_is_not_used(load: Load) -> None:
    text = MINIMAL + "assessor: {name: Medianstop}\n" + GOAL
    assert load(text).warnings == ()
    loaded = load(text.replace("Random", "Hyperband"))
    assert [str(warning) for warning in loaded.warnings] == [
        "exp.yml:9:1: assessor: not used: Hyperband is an advisor and decides itself which trials continue"
    ]
    (warning,) = check_config(loaded.config)
    assert warning.field == "assessor"


def test_a_parameter_that_an_advisor_adds_cannot_be_in_the_search_space(faults: Faults) -> None:
    text = MINIMAL.replace("Random", "ASHA").replace("  x:", "  TRIAL_BUDGET:")
    (found,) = faults(text)
    assert "TRIAL_BUDGET cannot be a parameter, since ASHA adds a parameter of this name" in found

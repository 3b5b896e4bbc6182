"""The field ``confirmBest``, and its errors."""

from __future__ import annotations

import pytest

from nnimgr.config import ConfigError
from nnimgr.config.update import apply_update
from nnimgr.rules.terms import ConfirmBest
from tests.config.loading import GOAL, MINIMAL, Faults, Load


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("{}", ConfirmBest(top=3, runs=5)),
        ("{top: 1, runs: 2}", ConfirmBest(top=1, runs=2)),
        ("{runs: 30}", ConfirmBest(top=3, runs=30)),
    ],
)
def test_the_rule(load: Load, text: str, rule: ConfirmBest) -> None:
    config = load(MINIMAL + GOAL + f"confirmBest: {text}\n").config
    assert config.limits().confirm_best == rule
    assert config.canonical()["confirmBest"] == {"top": rule.top, "runs": rule.runs}


def test_without_the_field(load: Load) -> None:
    config = load(MINIMAL + GOAL).config
    assert config.limits().confirm_best is None and "confirmBest" not in config.canonical()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("confirmBest: 3", "confirmBest: must be a mapping of keys to values, not 3"),
        ("confirmBest: {top: 0}", "confirmBest.top: must be at least 1, not 0"),
        ("confirmBest: {top: 21}", "confirmBest.top: must be at most 20, not 21"),
        ("confirmBest: {runs: 1}", "confirmBest.runs: must be at least 2, not 1"),
        ("confirmBest: {runs: 31}", "confirmBest.runs: must be at most 30, not 31"),
        ("confirmBest: {run: 5}", "confirmBest.run: unknown field; did you mean 'runs'?"),
        (
            "confirmBest: {}\nmultiPhase: true",
            "'confirmBest' is not for 'multiPhase', whose trials have several results",
        ),
    ],
)
def test_faults(faults: Faults, text: str, fault: str) -> None:
    (found,) = faults(MINIMAL + GOAL + f"{text}\n")
    assert fault in found


def test_it_cannot_be_changed_while_the_experiment_runs(load: Load) -> None:
    with pytest.raises(ConfigError, match="confirmBest: cannot be changed while an experiment runs"):
        apply_update(load(MINIMAL + GOAL).config, "confirmBest", value={"top": 1})

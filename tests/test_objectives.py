"""Which way is better, where a configuration does not say it."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from nnimgr.builtins import BUILTINS
from nnimgr.dispatcher import registry
from nnimgr.goal import optimize_mode


@pytest.mark.parametrize(
    ("tuner", "mode"),
    [
        ({"name": "tpe"}, "minimize"),
        ({"className": "nni.algorithms.hpo.tpe_tuner.TpeTuner"}, "minimize"),
        ({"className": "nni.algorithms.hpo.tpe_tuner.TpeTuner", "codeDirectory": "/mine"}, "maximize"),
        ({"name": "TPE", "classArgs": {"optimize_mode": "maximize"}}, "maximize"),
        ({"name": "GP"}, "maximize"),
        ({"name": "Random"}, "maximize"),
        ({"name": "mine"}, "maximize"),
    ],
)
def test_best_is_what_the_tuner_takes_for_it(tuner: dict[str, Any], mode: str) -> None:
    assert optimize_mode({"tuner": tuner}) == mode


def test_the_table_knows_what_tuners_do_by_default() -> None:
    """Those that do not learn aside."""
    for builtin in BUILTINS:
        kind = registry.load(builtin.target)
        if builtin.role == "tuner" and getattr(kind, "learns", True) and "optimize_mode" in builtin.arguments:
            default = inspect.signature(kind).parameters["optimize_mode"].default
            assert builtin.minimises == (default == "minimize"), builtin.name

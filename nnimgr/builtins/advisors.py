"""Descriptions of the built-in advisors, which also decide how much each trial may spend.

In nnimgr, they are tuners.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnimgr.builtins.arguments import integer, nothing, number, one_of, optimize_mode
from nnimgr.builtins.builtin import Builtin, Whole

__all__ = ["ADVISORS", "fault_of_budgets"]

_HALVES = (
    "optimize_mode",
    "min_budget",
    "max_budget",
    "eta",
)  # arguments that the ASHA tuner passes to the ASHA assessor


def fault_of_budgets(default: int | None) -> Whole:
    """Return a function that checks that ``min_budget`` is not greater than ``max_budget``.

    ``default``: the value of ``max_budget`` if the user gives none; None: there is no limit.
    """

    def fault(arguments: Mapping[str, Any], several: bool) -> tuple[tuple[str, ...], str] | None:
        lowest, highest = arguments.get("min_budget", 1), arguments.get("max_budget", default)
        if highest is None or lowest <= highest:
            return None
        return ("min_budget",), f"min_budget ({lowest}) must not be greater than max_budget ({highest})"

    return fault


def _fault_of_asha(arguments: Mapping[str, Any], several: bool) -> tuple[tuple[str | int, ...], str] | None:
    if arguments.get("searcher") == "bohb" and arguments.get("mode") == "stopping":
        sentence = "bohb needs mode: promotion, because stopped trials have no result to learn from"
        return ("searcher",), sentence
    return fault_of_budgets(81)(arguments, several)


def _judge_of_asha(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    if arguments.get("mode") != "stopping":
        return None
    return {name: arguments[name] for name in _HALVES if name in arguments}


ADVISORS = (
    Builtin(
        role="tuner",
        name="Hyperband",
        target="nnimgr.tuners.hyperband:Hyperband",
        nni="hyperband_advisor.Hyperband",
        arguments={
            "optimize_mode": optimize_mode,
            "R": integer(at_least=1),
            "eta": integer(at_least=2),
            "exec_mode": one_of("parallelism", "serial"),
            "seed": integer(or_null=True),
        },
        adds=("TRIAL_BUDGET",),
        advisor=True,
    ),
    Builtin(
        role="tuner",
        name="BOHB",
        needs=("numpy",),
        target="nnimgr.tuners.bohb:BOHB",
        nni="bohb_advisor.BOHB",
        arguments={
            "optimize_mode": optimize_mode,
            "min_budget": integer(at_least=1),
            "max_budget": integer(at_least=1),
            "eta": integer(at_least=2),
            "min_points_in_model": integer(at_least=1, or_null=True),
            "top_n_percent": integer(at_least=1, at_most=99),
            "num_samples": integer(at_least=1),
            "random_fraction": number(at_least=0, at_most=1),
            "bandwidth_factor": number(above=0),
            "min_bandwidth": number(above=0),
            "config_space": nothing,
            "seed": integer(or_null=True),
        },
        whole=fault_of_budgets(3),
        adds=("TRIAL_BUDGET",),
        advisor=True,
    ),
    Builtin(
        role="tuner",
        name="ASHA",
        target="nnimgr.tuners.asha:ASHA",
        arguments={
            "optimize_mode": optimize_mode,
            "mode": one_of("promotion", "stopping"),
            "min_budget": integer(at_least=1),
            "max_budget": integer(at_least=1),
            "eta": integer(at_least=2),
            "searcher": one_of("random", "bohb"),
            "seed": integer(or_null=True),
        },
        whole=_fault_of_asha,
        adds=("TRIAL_BUDGET",),
        advisor=True,
        judge=_judge_of_asha,
    ),
)

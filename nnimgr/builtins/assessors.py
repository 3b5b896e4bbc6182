"""Descriptions of the built-in assessors: names, classes and checks of their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnimgr.builtins.advisors import fault_of_budgets
from nnimgr.builtins.arguments import integer, number, optimize_mode
from nnimgr.builtins.builtin import Builtin

__all__ = ["ASSESSORS"]


def _fault_of_threshold(arguments: Mapping[str, Any], several: bool) -> tuple[tuple[str, ...], str] | None:
    lower, upper = arguments.get("lower"), arguments.get("upper")
    if lower is None and upper is None:
        return (), "Threshold needs lower, upper or both"
    if lower is not None and upper is not None and lower > upper:
        return ("lower",), f"lower ({lower}) must not be greater than upper ({upper})"
    return None


def _assessor(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        return "must be an assessor, {name: ..., classArgs: {...}}, or null"
    if not value.keys() <= {"name", "classArgs"} or not isinstance(value.get("classArgs") or {}, Mapping):
        return "must be {name: ..., classArgs: {...}} without other fields"
    return None


ASSESSORS = (
    Builtin(
        role="assessor",
        name="Medianstop",
        target="nnimgr.assessors.medianstop:MedianstopAssessor",
        nni="medianstop_assessor.MedianstopAssessor",
        arguments={"optimize_mode": optimize_mode, "start_step": integer(at_least=0)},
        aliases=("MedianstopAssessor",),
    ),
    Builtin(
        role="assessor",
        name="Curvefitting",
        needs=("numpy", "scipy"),
        target="nnimgr.assessors.curvefitting:CurvefittingAssessor",
        nni="curvefitting_assessor.CurvefittingAssessor",
        arguments={
            "epoch_num": integer(at_least=1),
            "start_step": integer(at_least=0),
            "threshold": number(at_least=0),
            "gap": integer(at_least=1),
            "optimize_mode": optimize_mode,
        },
        aliases=("CurvefittingAssessor",),
    ),
    Builtin(
        role="assessor",
        name="ASHA",
        target="nnimgr.assessors.asha:ASHAAssessor",
        arguments={
            "optimize_mode": optimize_mode,
            "min_budget": integer(at_least=1),
            "max_budget": integer(at_least=1, or_null=True),
            "eta": integer(at_least=2),
        },
        whole=fault_of_budgets(None),
    ),
    Builtin(
        role="assessor",
        name="Percentile",
        target="nnimgr.assessors.percentile:PercentileAssessor",
        arguments={
            "optimize_mode": optimize_mode,
            "percentile": number(at_least=0, at_most=100),
            "n_startup_trials": integer(at_least=0),
            "n_warmup_steps": integer(at_least=0),
            "interval_steps": integer(at_least=1),
        },
    ),
    Builtin(
        role="assessor",
        name="Threshold",
        target="nnimgr.assessors.threshold:ThresholdAssessor",
        arguments={
            "optimize_mode": optimize_mode,
            "lower": number(or_null=True),
            "upper": number(or_null=True),
            "n_warmup_steps": integer(at_least=0),
            "interval_steps": integer(at_least=1),
        },
        whole=_fault_of_threshold,
    ),
    Builtin(
        role="assessor",
        name="Patient",
        target="nnimgr.assessors.patient:PatientAssessor",
        arguments={
            "optimize_mode": optimize_mode,
            "patience": integer(at_least=1),
            "min_delta": number(at_least=0),
            "wrapped": _assessor,
        },
        wraps="wrapped",
    ),
    Builtin(
        role="assessor",
        name="Wilcoxon",
        needs=("scipy",),
        target="nnimgr.assessors.wilcoxon:WilcoxonAssessor",
        arguments={
            "optimize_mode": optimize_mode,
            "p_threshold": number(at_least=0, at_most=1),
            "n_startup_steps": integer(at_least=0),
        },
    ),
)

"""Needs of a trial that are worked out from its parameters, such as ``{{ 2 if model == 'large' else 1 }}``.

A field such as ``trialGpuNumber`` has a plain value, or a text between ``{{`` and ``}}``: an expression in
the syntax of constraints on parameter sets. It is evaluated when a job is submitted. Its value depends on
nothing but the trial's parameters, so that it is the same after a restart.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nnimgr.constraint_values import Absent, shown
from nnimgr.expressions import Expression, ExpressionError, Names
from nnimgr.rules.terms import MemoryGrowth
from training_services.base import Gang, JobRejected, OwnNeeds, TrialJobSpec
from training_services.units import parse_cpu_number, parse_gpu_number, parse_size

__all__ = ["FIELDS", "NeedExpression", "ParameterMissing", "is_expression", "needs_of_roles", "own_needs"]

_BRACES = re.compile(r"\s*\{\{(.*)\}\}\s*", re.DOTALL)


def _size(value: Any) -> int:
    """Return an amount of memory in MiB, rounded up."""
    if isinstance(value, float) and math.isfinite(value):
        value = math.ceil(value)
    return parse_size(value)


# fields whose values may be expressions -> function that checks and converts a value
FIELDS: Mapping[str, Callable[[Any], float]] = {
    "trialGpuNumber": parse_gpu_number,
    "trialCpuNumber": parse_cpu_number,
    "trialMemorySize": _size,
}


class ParameterMissing(ExpressionError):
    """Error: the expression needs a parameter that the parameter set does not have."""


class NeedExpression:
    """Expression of one of ``FIELDS``. The constructor raises ExpressionError.

    ``names``: names of parameters that the expression may use. None: all names are accepted.
    """

    def __init__(self, field: str, text: str, names: Names | None = None) -> None:
        self.field = field
        inner = _BRACES.fullmatch(text)
        if inner is None:
            raise ExpressionError(f"{text!r} must end with }}}}, as in '{{{{ 2 if layers > 8 else 1 }}}}'")
        self._expression = Expression(inner[1], names)

    def of(self, parameters: Any) -> float:
        """Return the need of a trial with this parameter set. Raise ExpressionError if it is not valid."""
        try:
            value = self._expression.value(parameters)
            if isinstance(value, bool):
                raise ValueError(f"{value!r} is not a number")
            return FIELDS[self.field](value)
        except Absent as absent:
            raise ParameterMissing(
                f"{self._given(parameters)}: the parameter set has no {absent}; "
                "test first with 'if' whether its option was chosen"
            ) from None
        except ValueError as error:
            raise ExpressionError(f"{self._given(parameters)}: {error}") from error

    def of_job(self, job: TrialJobSpec) -> float:
        """Return the need of a job. Raise JobRejected if it is not valid."""
        try:
            return self.of(json.loads(job.parameter_text).get("parameters"))
        except ExpressionError as error:
            raise JobRejected(f"{self.field} {error}") from error

    def _given(self, parameters: Any) -> str:
        given = self._expression.given(parameters)
        return f"has no valid value for {given}" if given else f"has no valid value: {shown(parameters)}"


def _changed_by_job(field: str, usual: float) -> Callable[[TrialJobSpec], float]:
    """Return a function for a need that the scheduler may have changed. ``usual``: the configured value."""
    return lambda job: job.resources.get(field, usual)


def is_expression(value: Any) -> bool:
    return isinstance(value, str) and value.lstrip().startswith("{{")


def own_needs(
    values: Mapping[str, Any], growth: MemoryGrowth | None, resizable: Sequence[str] = ()
) -> OwnNeeds | None:
    """Return the needs that differ from job to job; None if all jobs need the same.

    ``values``: the values of ``FIELDS`` in a configuration. ``growth``: how the memory of attempts grows.
    ``resizable``: fields whose values a scheduler may change.
    """
    found: dict[str, Any] = {}
    for name, field in zip(("gpus", "cpus", "memory"), FIELDS, strict=True):
        if is_expression(values.get(field)):
            found[name] = NeedExpression(field, values[field]).of_job
        elif field in resizable:
            found[name] = _changed_by_job(field, FIELDS[field](values[field]))
    if growth is not None:
        found["memory"] = lambda job: growth.after(job.memory_retries)
    return OwnNeeds(**found) if found else None


def needs_of_roles(
    gang: Gang, own: OwnNeeds | None, *, gpus: float | None, cpus: float | None, memory: int | None
) -> OwnNeeds | None:
    """Return the needs of the members of trials with several roles. The leader's are those of the whole job.

    ``own`` and the numbers are the needs of members whose role gives none.
    """
    found: dict[str, Any] = {}
    for name, usual in (("gpus", gpus), ("cpus", cpus), ("memory", memory)):
        if any(getattr(role, name) is not None for role in gang.roles):
            found[name] = _need_of_role(gang, name, getattr(own, name, None), usual)
    return replace(own or OwnNeeds(), **found) if found else own


def _need_of_role(
    gang: Gang, name: str, own: Callable[[TrialJobSpec], Any] | None, usual: float | None
) -> Callable[[TrialJobSpec], float | None]:
    def need(job: TrialJobSpec) -> float | None:
        given: float | None = getattr(gang.role_of(job.member or 0), name)
        if given is not None:
            return given
        return usual if own is None else own(job)

    return need

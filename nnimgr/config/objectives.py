"""Checks of ``objectives`` and of the fields that depend on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnimgr.config.parsing import Reading
from nnimgr.objectives import DEFAULT

__all__ = ["check_objectives"]

_MODES = {"maximize": "maximized", "minimize": "minimized"}


def check_objectives(reading: Reading, fields: Mapping[str, Any]) -> None:
    """Note contradictions. The validation of fields checks the modes themselves."""
    objectives = fields.get("objectives")
    if isinstance(objectives, Mapping):
        _check_names(reading, objectives)
        for role in ("tuner", "assessor"):
            _check_mode(reading, fields, role, objectives)
    value = fields.get("failureValue")
    if isinstance(value, Mapping):
        _check_failure_value(reading, value, objectives if isinstance(objectives, Mapping) else {})


def _check_names(reading: Reading, objectives: Mapping[str, Any]) -> None:
    if not objectives:
        reading.fault(("objectives",), "must name at least one objective, such as accuracy: maximize")
    for number, name in enumerate(objectives):
        if not name.strip():
            reading.fault(("objectives", name), "an objective must have a name")
        elif name == DEFAULT and number:
            reading.fault(
                ("objectives", name),
                f"must stand first, if at all: {DEFAULT} is where NNI's clients look for the main objective",
            )


def _check_mode(
    reading: Reading, fields: Mapping[str, Any], role: str, objectives: Mapping[str, Any]
) -> None:
    """Note a contradiction between ``optimize_mode`` and the main objective, which tuners and
    assessors use.
    """
    algorithm = fields.get(role)
    arguments = algorithm.get("classArgs") if isinstance(algorithm, Mapping) else None
    told = arguments.get("optimize_mode") if isinstance(arguments, Mapping) else None
    name, mode = next(iter(objectives.items()), ("", None))
    if told in _MODES and mode in _MODES and told != mode:
        reading.fault(
            (role, "classArgs", "optimize_mode"),
            f"is {told}, but the objective {name} is to be {_MODES[mode]}; it can be left out",
        )


def _check_failure_value(reading: Reading, value: Mapping[str, Any], objectives: Mapping[str, Any]) -> None:
    if not objectives:
        reading.fault(("failureValue",), "must be a number where no objectives are named, not a mapping")
        return
    for name in value:
        if name not in objectives:
            reading.fault(("failureValue", name), "is no objective", valid=tuple(objectives))
    missing = [name for name in objectives if name not in value]
    if missing:
        reading.fault(("failureValue",), f"has no value for the objective {missing[0]}")

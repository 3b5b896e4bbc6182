"""Checks of ``goal`` and ``objectives``, and of the other fields that must agree with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnimgr.config.document import KeyPath
from nnimgr.config.model import AlgorithmConfig, ExperimentConfig
from nnimgr.config.parsing import Reading
from nnimgr.config.problems import dotted
from nnimgr.goal import stated_mode
from nnimgr.objectives import DEFAULT
from nnimgr.rules.terms import Role

__all__ = ["check_goals", "warn_of_goal"]

_MODES = {"maximize": "maximized", "minimize": "minimized"}


def check_goals(reading: Reading, fields: Mapping[str, Any]) -> None:
    """Report contradictions between ``goal``, ``objectives`` and the fields that depend on them.

    Whether each field is "minimize" or "maximize" is checked elsewhere, with the types of all fields.
    """
    objectives = fields.get("objectives")
    if isinstance(objectives, Mapping):
        _check_names(reading, objectives)
    _check_goal(reading, fields, objectives if isinstance(objectives, Mapping) else {})
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
                f"must be the first objective: {DEFAULT} is where NNI's clients look for the main objective",
            )


def _check_goal(reading: Reading, fields: Mapping[str, Any], objectives: Mapping[str, Any]) -> None:
    """Report an error if ``goal``, the main objective and ``optimize_mode`` state different directions."""
    stated: list[tuple[KeyPath, Any]] = [(("goal",), fields.get("goal"))]
    stated += [(("objectives", name), mode) for name, mode in [*objectives.items()][:1]]
    known = [(path, mode) for path, mode in stated if mode in _MODES]
    if not known:
        return
    (first, goal), *others = known
    others += [
        ((role, "classArgs", "optimize_mode"), stated_mode(fields, role))
        for role in Role
        if isinstance(_arguments(fields, role), Mapping)
    ]
    for path, mode in others:
        if mode in _MODES and mode != goal:
            reading.fault(path, f"is {mode}, but {_named(reading, first)} is {goal}; leave one of them out")


def _named(reading: Reading, path: KeyPath) -> str:
    """Return a field's name in quotes, with its line if the configuration was read from a text."""
    line = reading.problem(path, "").line
    return f"'{dotted(path)}'" + ("" if line is None else f" in line {line}")


def _arguments(fields: Mapping[str, Any], role: str) -> Any:
    algorithm = fields.get(role)
    return algorithm.get("classArgs") if isinstance(algorithm, Mapping) else None


def warn_of_goal(reading: Reading, config: ExperimentConfig) -> None:
    """Warn if the configuration does not state the goal, or if its algorithms have different goals."""
    if config.stated_goal is not None:
        return
    mode, tuner = config.optimize_mode, config.tuner.builtin("tuner")
    if not config.goal_is_stated:
        remedy = 'write "goal: minimize" or "goal: maximize"'
        if _in_first_format(reading):
            remedy = "set optimize_mode, minimize or maximize, in classArgs of the tuner"
        of_tuner = "" if tuner is None else f" for {config.tuner.title}"
        sentence = f"no goal is given, so results are {_MODES[mode]} (NNI's default{of_tuner}); {remedy}"
        reading.warn(("tuner",), sentence)
    if tuner is None or not tuner.advisor:  # an advisor uses no assessor
        _warn_of_other_goal(reading, config, Role.ASSESSOR, config.assessor)
    _warn_of_other_goal(reading, config, Role.SCHEDULER, config.scheduler)


def _in_first_format(reading: Reading) -> bool:
    """Return whether the file is in NNI's first format, which has no field ``goal``."""
    return reading.document is not None and reading.document.first_format


def _warn_of_other_goal(
    reading: Reading, config: ExperimentConfig, role: Role, algorithm: AlgorithmConfig | None
) -> None:
    """Warn if an algorithm expects results to be better in another direction than the tuner does."""
    builtin = None if algorithm is None else algorithm.builtin(role)
    if algorithm is None or builtin is None or "optimize_mode" not in builtin.arguments:
        return
    mode = config.optimize_mode
    other = (algorithm.class_args or {}).get("optimize_mode") or "maximize"
    if other != mode:
        goal = f'"goal: {mode}"' if config.goal_is_stated else '"goal: minimize" or "goal: maximize"'
        remedy = f"write a goal, which the tuner and the {role} both follow: {goal}"
        if _in_first_format(reading):
            remedy = f"set the same optimize_mode in classArgs of the tuner and of the {role}"
        reading.warn(
            (role,),
            f"{algorithm.title} expects results to be {_MODES[other]}, but {config.tuner.title} expects "
            f"them to be {_MODES[mode]}; {remedy}",
        )


def _check_failure_value(reading: Reading, value: Mapping[str, Any], objectives: Mapping[str, Any]) -> None:
    if not objectives:
        reading.fault(("failureValue",), "must be a number where no objectives are named, not a mapping")
        return
    for name in value:
        if name not in objectives:
            reading.fault(("failureValue", name), "is not an objective", valid=tuple(objectives))
    missing = [name for name in objectives if name not in value]
    if missing:
        reading.fault(("failureValue",), f"has no value for the objective {missing[0]}")

"""Direction in which the results of an experiment are better: "minimize" or "maximize"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnimgr.builtins import meant
from nnimgr.objectives import objectives_of

__all__ = ["is_stated", "optimize_mode", "stated_goal", "stated_mode"]


def optimize_mode(config: Mapping[str, Any]) -> str:
    """Return "minimize" or "maximize" for a configuration, which may state no goal.

    Without a stated goal, NNI's default applies: the tuner's own default, or "maximize" for a tuner that does
    not learn.
    """
    builtin = meant("tuner", config.get("tuner") or {})
    usual = "minimize" if builtin is not None and builtin.minimises else "maximize"
    return stated_goal(config) or stated_mode(config, "tuner") or usual


def stated_goal(config: Mapping[str, Any]) -> str | None:
    """Return "minimize" or "maximize": the direction of the main objective, or else the field ``goal``.

    Return None if the configuration has neither.
    """
    for mode in objectives_of(config).values():
        return mode
    goal: str | None = config.get("goal")
    return goal


def is_stated(config: Mapping[str, Any]) -> bool:
    """Return whether the configuration states if smaller or larger results are better."""
    return stated_goal(config) is not None or stated_mode(config, "tuner") is not None


def stated_mode(config: Mapping[str, Any], role: str) -> str | None:
    """Return the argument ``optimize_mode`` of an algorithm: "minimize" or "maximize".

    Return None if it is not given, or is something else: to a user's own algorithm it may mean anything.
    """
    mode = ((config.get(role) or {}).get("classArgs") or {}).get("optimize_mode")
    return str(mode) if mode in ("minimize", "maximize") else None

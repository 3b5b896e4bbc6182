"""Direction in which results of an experiment are better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnimgr.builtins import meant
from nnimgr.objectives import objectives_of

__all__ = ["optimize_mode"]


def optimize_mode(config: Mapping[str, Any]) -> str:
    """Return "minimize" or "maximize" for a canonical configuration.

    The main objective decides, else the tuner's ``optimize_mode``, else the tuner's default. For tuners that
    do not learn, this is "maximize".
    """
    for mode in objectives_of(config).values():
        return mode
    tuner = config.get("tuner") or {}
    told = (tuner.get("classArgs") or {}).get("optimize_mode")
    builtin = meant("tuner", tuner)
    return str(told or ("minimize" if builtin is not None and builtin.minimises else "maximize"))

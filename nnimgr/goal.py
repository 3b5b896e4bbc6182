"""Which direction is better in an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnimgr.builtins import meant
from nnimgr.objectives import objectives_of

__all__ = ["optimize_mode"]


def optimize_mode(config: Mapping[str, Any]) -> str:
    """What a canonical configuration says best means: as its main objective, or else its tuner, is told.

    One that is told nothing does as it does by default; of those that do not learn that is to maximise.
    """
    for mode in objectives_of(config).values():
        return mode
    tuner = config.get("tuner") or {}
    told = (tuner.get("classArgs") or {}).get("optimize_mode")
    builtin = meant("tuner", tuner)
    return str(told or ("minimize" if builtin is not None and builtin.minimises else "maximize"))

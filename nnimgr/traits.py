"""Traits of tuners, from the table of built-in algorithms, for facts that introduce a tuner.

The traits are recorded, so that an experiment's log folds to the same state after a change of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnimgr.builtins import meant
from nnimgr.goal import optimize_mode
from nnimgr.rules.facts import TunerTraits

__all__ = ["traits_of"]


def traits_of(config: Mapping[str, Any]) -> TunerTraits:
    """Return the traits of the tuner of a canonical configuration."""
    own = meant("tuner", config.get("tuner") or {}) is None
    return TunerTraits(minimises=optimize_mode(config) == "minimize", own=own)

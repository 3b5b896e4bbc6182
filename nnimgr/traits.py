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


def traits_of(tuner: Mapping[str, Any]) -> TunerTraits:
    """Return the traits of a tuner as a canonical configuration describes it."""
    return TunerTraits(
        minimises=optimize_mode({"tuner": tuner}) == "minimize", own=meant("tuner", tuner) is None
    )

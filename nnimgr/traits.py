"""Properties of tuners that are recorded in the facts of an experiment.

They are recorded so that the experiment's state is computed in the same way after nnimgr's table of built-in
tuners changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnimgr.builtins import meant
from nnimgr.goal import optimize_mode
from nnimgr.rules.facts import TunerTraits

__all__ = ["traits_of"]


def traits_of(config: Mapping[str, Any]) -> TunerTraits:
    """Return the properties of a configuration's tuner: its direction, and whether it is a user's class."""
    own = meant("tuner", config.get("tuner") or {}) is None
    return TunerTraits(minimises=optimize_mode(config) == "minimize", own=own)

"""Which metric a chart is about, and which of its values are good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import Columns
from nnimgr.analysis.kept import once
from nnimgr.analysis.table import check_names
from nnimgr.goal import optimize_mode
from nnimgr.store.bulk import Snapshot

__all__ = ["best_share", "losses", "metric_values", "minimises"]


def minimises(snapshot: Snapshot, arguments: Mapping[str, Any]) -> bool:
    """Whether low values are good: as ``mode`` says, or else as the main objective or the tuner does."""
    mode = arguments.get("mode") or optimize_mode(snapshot.config())
    return bool(mode == "minimize")


def metric_values(columns: Columns, arguments: Mapping[str, Any]) -> Array:
    """The column that ``metric`` names, ``value`` by default, as float64. Raises BadQuestion."""
    name = arguments.get("metric") or "value"
    check_names(columns, [name], field="metric")
    return once(columns, ("metric", name), lambda: columns.numbers(name))


def losses(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> Array:
    """The metric with its sign such that low is good. Raises BadQuestion."""
    values = metric_values(columns, arguments)
    return values if minimises(snapshot, arguments) else -values


def best_share(loss: Array, among: Array, share: float) -> Array:
    """Which trials are the best ones among these: that share of those that have a value, at least one.

    Of equal ones the earlier trials.
    """
    rows = np.flatnonzero(among & ~np.isnan(loss))
    best = rows[np.argsort(loss[rows], kind="stable")[: int(np.ceil(share * len(rows)))]]
    found = np.zeros(len(loss), bool)
    found[best] = True
    return found

"""Metric of a chart, and whether its low values are good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nnimgr.analysis.cache import once
from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import Columns
from nnimgr.analysis.table import check_names
from nnimgr.goal import optimize_mode
from nnimgr.store.bulk import Snapshot

__all__ = ["best_share", "losses", "metric_values", "minimises"]


def minimises(snapshot: Snapshot, arguments: Mapping[str, Any]) -> bool:
    """Return True if low values are good, by ``mode``, else by the main objective or the tuner."""
    mode = arguments.get("mode") or optimize_mode(snapshot.config())
    return bool(mode == "minimize")


def metric_values(columns: Columns, arguments: Mapping[str, Any]) -> Array:
    """Return the column that ``metric`` names, ``value`` by default, as float64. Raise BadQuestion."""
    name = arguments.get("metric") or "value"
    check_names(columns, [name], field="metric")
    return once(columns, ("metric", name), lambda: columns.numbers(name))


def losses(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> Array:
    """Return the metric with a sign that makes low values good. Raise BadQuestion."""
    values = metric_values(columns, arguments)
    return values if minimises(snapshot, arguments) else -values


def best_share(loss: Array, among: Array, share: float) -> Array:
    """Return which of the trials ``among`` are the best ones (bool, one per row).

    They are ``share`` of the trials with a value, at least one. Of equal trials, earlier ones come first.
    """
    rows = np.flatnonzero(among & ~np.isnan(loss))
    best = rows[np.argsort(loss[rows], kind="stable")[: int(np.ceil(share * len(rows)))]]
    found = np.zeros(len(loss), bool)
    found[best] = True
    return found

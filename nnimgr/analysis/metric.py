"""Metric that a chart shows, and its direction: whether low values are good."""

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
    """Return True if low values of the metric are good.

    The argument ``mode`` decides. Without it, the experiment's main objective or its tuner decides.
    """
    mode = arguments.get("mode") or optimize_mode(snapshot.config())
    return bool(mode == "minimize")


def metric_values(columns: Columns, arguments: Mapping[str, Any]) -> Array:
    """Return the column that the argument ``metric`` names, as float64. The default is ``value``, the final
    metric.

    Raise BadQuestion if there is no such column.
    """
    name = arguments.get("metric") or "value"
    check_names(columns, [name], field="metric")
    return once(columns, ("metric", name), lambda: columns.numbers(name))


def losses(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> Array:
    """Return the metric of each trial, or its negative if high values are good. So low losses are always
    good.

    Raise BadQuestion if there is no such metric.
    """
    values = metric_values(columns, arguments)
    return values if minimises(snapshot, arguments) else -values


def best_share(loss: Array, among: Array, share: float) -> Array:
    """Return which trials are the best of the trials ``among``, as one bool per trial.

    The best trials are this ``share`` of the trials that have a loss, rounded up. If trials have the same
    loss, earlier trials come first.
    """
    rows = np.flatnonzero(among & ~np.isnan(loss))
    best = rows[np.argsort(loss[rows], kind="stable")[: int(np.ceil(share * len(rows)))]]
    found = np.zeros(len(loss), bool)
    found[best] = True
    return found

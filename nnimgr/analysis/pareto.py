"""Pareto set of an experiment: the trials that no other trial dominates in the objectives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from nnimgr.analysis.cache import once
from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import METRICS, Columns
from nnimgr.analysis.filters import matching
from nnimgr.analysis.front import undominated
from nnimgr.goal import optimize_mode
from nnimgr.objectives import DEFAULT, objectives_of
from nnimgr.rules.facts import TrialStatus
from nnimgr.store.bulk import Snapshot

__all__ = ["pareto"]


def pareto(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> bytes:
    """Return the Pareto set as the JSON text of a ``models.ParetoSet``. ``arguments`` has ``filter`` and
    ``limit``.

    Only succeeded trials of the search with a number for each objective count. Without objectives in the
    configuration, the final metric is the only objective. If the set has more than ``limit`` trials, the
    returned trials are spread evenly over it.
    """
    config = snapshot.config()
    objectives = objectives_of(config) or {DEFAULT: optimize_mode(config)}
    filter = arguments.get("filter") or ""
    rows, values, found = once(
        columns, ("pareto", filter), lambda: _found(columns, objectives, matching(columns, filter))
    )
    kept = found
    if len(found) > arguments["limit"]:
        kept = found[np.linspace(0, len(found) - 1, arguments["limit"]).round().astype(np.int64)]
    answer = {
        "revision": columns.revision,
        "objectives": [
            {
                "name": name,
                "mode": mode,
                "column": _column(name, objectives),
                "min": float(values[:, at].min()) if len(rows) else None,
                "max": float(values[:, at].max()) if len(rows) else None,
            }
            for at, (name, mode) in enumerate(objectives.items())
        ],
        "results": len(rows),
        "total": len(found),
        "trials": [_told(columns, rows[at], dict(zip(objectives, values[at], strict=True))) for at in kept],
    }
    return json.dumps(answer, allow_nan=False).encode()


def _found(columns: Columns, objectives: Mapping[str, str], among: Array) -> tuple[Array, Array, Array]:
    """Return the rows of the trials that count, their values for each objective, and the Pareto set.

    The set contains indices of the returned rows, sorted by the objectives, the best trial first.
    """
    succeeded = columns.categories["status"].index(TrialStatus.SUCCEEDED.value)
    values = np.column_stack([_values(columns, _column(name, objectives)) for name in objectives])
    among = among & columns.of_search() & (columns.arrays["status"] == succeeded)
    rows = np.flatnonzero(among & ~np.isnan(values).any(axis=1))
    values = values[rows]
    losses = values * [1.0 if mode == "minimize" else -1.0 for mode in objectives.values()]
    found = np.flatnonzero(undominated(losses))
    return rows, values, found[np.lexsort(losses[found].T[::-1])]


def _column(name: str, objectives: Mapping[str, str]) -> str:
    """Return the name of the column of an objective. The column of the main objective is ``value``, the final
    metric.
    """
    return "value" if name == next(iter(objectives)) else METRICS + name


def _values(columns: Columns, name: str) -> Array:
    if name not in columns.arrays:  # no trial has reported this objective yet
        return np.full(len(columns), np.nan)
    return columns.numbers(name)


def _told(columns: Columns, row: int, values: Mapping[str, float]) -> dict[str, Any]:
    ended = float(columns.arrays["ended"][row])
    return {
        "sequence": int(columns.arrays["sequence"][row]),
        "trialId": columns.ids[row].decode(),
        "endedS": ended if np.isfinite(ended) else None,
        "values": {name: float(value) for name, value in values.items()},
    }

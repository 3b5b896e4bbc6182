"""The best result so far, trial by trial; in few points also the sparkline of an experiment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import Columns
from nnimgr.analysis.filters import matching
from nnimgr.analysis.metric import losses, minimises
from nnimgr.rules.facts import TrialStatus
from nnimgr.store.bulk import Snapshot

__all__ = ["history"]


def history(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> bytes:
    """``{points, filter, metric, mode}`` → the JSON text of a ``models_analysis.History``.

    Only trials that have succeeded count, by sequence. Of more improvements than ``points`` the first, the
    last and those that are the largest steps are kept.
    """
    loss = losses(columns, snapshot, arguments)
    succeeded = columns.categories["status"].index(TrialStatus.SUCCEEDED.value)
    among = matching(columns, arguments.get("filter") or "")
    rows = np.flatnonzero(among & (columns.arrays["status"] == succeeded) & ~np.isnan(loss))
    found = _improvements(loss, rows)
    kept = _largest(loss, found, arguments["points"])
    sign = 1 if minimises(snapshot, arguments) else -1
    answer = {
        "revision": columns.revision,
        "minimise": sign == 1,
        "results": len(rows),
        "improvements": len(found),
        "lastSequence": int(columns.arrays["sequence"][-1]) if len(columns) else None,
        "points": [
            {
                "sequence": int(columns.arrays["sequence"][row]),
                "trialId": columns.ids[row].decode(),
                "endedS": _finite(columns.arrays["ended"][row]),
                "value": sign * float(loss[row]),
            }
            for row in kept
        ],
    }
    return json.dumps(answer, allow_nan=False).encode()


def _improvements(loss: Array, rows: Array) -> Array:
    """Those of the rows that are better than all before them."""
    best = np.minimum.accumulate(loss[rows])
    return rows[np.concatenate(([True], best[1:] < best[:-1]))] if len(rows) else rows


def _largest(loss: Array, found: Array, points: int) -> Array:
    if len(found) <= points:
        return found
    steps = -np.diff(loss[found], prepend=np.inf)  # the first one is the largest
    steps[-1] = np.inf
    return found[np.sort(np.argsort(-steps, kind="stable")[:points])]


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None

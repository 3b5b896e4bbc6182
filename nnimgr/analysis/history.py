"""Chart of the best result so far, trial by trial. With few points, it is also the sparkline of an
experiment.
"""

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
    """Return the trials that have improved the best result, as the JSON text of a ``models.History``.

    ``arguments`` has ``points``, ``filter``, ``metric`` and ``mode``. Only succeeded trials of the search
    count, in the order of their sequence numbers. If there are more improvements than ``points``, the first,
    the last and the largest improvements are returned.
    """
    loss = losses(columns, snapshot, arguments)
    succeeded = columns.categories["status"].index(TrialStatus.SUCCEEDED.value)
    among = matching(columns, arguments.get("filter") or "") & columns.of_search()
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
    """Return those of ``rows`` whose trial has a lower loss than the trials of all rows before it."""
    best = np.minimum.accumulate(loss[rows])
    return rows[np.concatenate(([True], best[1:] < best[:-1]))] if len(rows) else rows


def _largest(loss: Array, found: Array, points: int) -> Array:
    if len(found) <= points:
        return found
    steps = -np.diff(loss[found], prepend=np.inf)  # the first improvement counts as the largest
    steps[-1] = np.inf
    return found[np.sort(np.argsort(-steps, kind="stable")[:points])]


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None

"""Which trials and which columns an export has; its rows come from the database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nnimgr.analysis.columns import METRICS, PARAMETERS, Columns
from nnimgr.analysis.errors import BadQuestion
from nnimgr.analysis.filters import parse_names
from nnimgr.analysis.paging import in_order
from nnimgr.store.bulk import Snapshot

__all__ = ["OWN", "export"]

OWN = (
    "id",
    "sequence",
    "status",
    "source",
    "attempt",
    "created",
    "started",
    "ended",
    "duration",
    "value",
    "latest",
    "intermediates",
    "reason",
    "note",
)


def export(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> bytes:
    """``in_order``'s arguments and ``columns`` → JSON ``{total, sequences, columns}``.

    ``columns`` is text as ``parse_names`` takes it; the answer has all there are if it names none.
    """
    known = (*OWN, *(name for name in columns.arrays if name.startswith((PARAMETERS, METRICS))))
    names = parse_names(arguments["columns"], field="columns")
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise BadQuestion("columns", f"there is no column {unknown}; those of a trial are {', '.join(OWN)}")
    rows = in_order(columns, snapshot, arguments)
    return json.dumps(
        {
            "total": len(rows),
            "sequences": columns.arrays["sequence"][rows].tolist(),
            "columns": names or known,
        }
    ).encode()

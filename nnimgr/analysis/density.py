"""Density chart, for more trials than a scatter plot can show: number of trials and their metric in each
cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nnimgr.analysis.axes import Axis, axis
from nnimgr.analysis.binary_columns import PackedColumn, compact, pack
from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import Columns
from nnimgr.analysis.filters import matching
from nnimgr.analysis.metric import metric_values
from nnimgr.store.bulk import Snapshot

__all__ = ["density"]


def density(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> bytes:
    """Return the data of a density chart, in the format of ``binary_columns``.

    ``arguments`` has ``x`` and ``y`` (names of columns; ``y`` may be None for a chart of one axis), ``bins``,
    ``x_log``, ``y_log``, ``filter`` and ``metric``.

    The columns have one row per cell with trials: ``x`` and ``y`` (bins of the cell), ``count`` (number of
    trials), and ``mean``, ``min`` and ``max`` of the trials' metric (NaN if no trial in the cell has it). The
    header has ``axes``, ``total`` (number of matching trials) and ``shown`` (matching trials with both
    values). Raise BadQuestion if an argument is not valid.
    """
    bins = arguments["bins"]
    axes = [axis(columns, arguments["x"], log=arguments.get("x_log"), bins=bins, field="x")]
    if arguments.get("y") is not None:
        axes.append(axis(columns, arguments["y"], log=arguments.get("y_log"), bins=bins, field="y"))
    among = matching(columns, arguments.get("filter") or "")
    shown = among.copy()
    for found in axes:
        shown &= found.cells < found.bins
    rows = np.flatnonzero(shown)
    cells = _cells(axes, rows)
    counts = np.bincount(cells)
    there = np.flatnonzero(counts)
    header = {
        "revision": columns.revision,
        "total": int(np.count_nonzero(among)),
        "shown": len(rows),
        "axes": [found.described() for found in axes],
    }
    across = axes[1].bins if len(axes) == 2 else 1
    places = [PackedColumn("x", (there // across).astype(np.uint16))]
    if len(axes) == 2:
        places.append(PackedColumn("y", (there % across).astype(np.uint16)))
    return pack(
        header,
        [
            *places,
            PackedColumn("count", counts[there].astype(np.uint32)),
            *_summaries(metric_values(columns, arguments)[rows], cells, there),
        ],
    )


def _cells(axes: list[Axis], rows: Array) -> Array:
    cells = axes[0].cells[rows]
    return cells * axes[1].bins + axes[1].cells[rows] if len(axes) == 2 else cells


def _summaries(values: Array, cells: Array, there: Array) -> list[PackedColumn]:
    known = ~np.isnan(values)
    values, cells = values[known], cells[known]
    size = int(there[-1]) + 1 if len(there) else 0
    with np.errstate(invalid="ignore"):
        mean = np.bincount(cells, weights=values, minlength=size) / np.bincount(cells, minlength=size)
    least, most = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(least, cells, values)
    np.maximum.at(most, cells, values)
    least[np.isinf(least)] = most[np.isinf(most)] = np.nan
    return [
        PackedColumn(name, compact(array[there]))
        for name, array in (("mean", mean), ("min", least), ("max", most))
    ]

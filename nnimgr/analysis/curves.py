"""Chart of intermediate metrics: thousands of curves with fewer points, and the band of quantiles of all
curves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nnimgr.analysis.binary_columns import PackedColumn, compact, pack
from nnimgr.analysis.cache import once
from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import Columns
from nnimgr.analysis.errors import BadQuestion
from nnimgr.analysis.filters import matching
from nnimgr.analysis.points import DEFAULT_KEY, Lines, keys, lines_of
from nnimgr.store.bulk import Snapshot

__all__ = ["curves", "thinned"]

QUANTILES = (0.1, 0.5, 0.9)


def curves(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> bytes:
    """Return the data of the chart of intermediate metrics, in the format of ``binary_columns``.

    ``arguments`` may have these keys:

    - ``key``: the number to show, for metrics that are objects
    - ``filter``, ``index``, ``low`` and ``high``: show only curves of trials that match the filter, with a
      value from ``low`` to ``high`` (None: no bound) at the step ``index``, as in NNI's dashboard
    - ``lines``: largest number of curves, which are evenly spread over the experiment
    - ``points``: largest number of points of a curve and of the band
    - ``sequences``: sequence numbers of trials whose curves are always included

    The columns are:

    - ``line.sequence``: the trial of each curve; ``line.start``: index of each curve's first point, and as a
      last element the number of all points
    - ``x`` (step of the metric) and ``y`` (its value): the points of all curves, one curve after the other
    - ``band.x``, ``band.count``, ``band.p10``, ``band.p50``, ``band.p90``: quantiles over all matching curves

    The header has ``total`` (number of matching curves), ``lines`` (number of returned curves) and ``keys``
    (valid values of ``key``). Raise BadQuestion if an argument is not valid.
    """
    key = arguments.get("key") or DEFAULT_KEY
    known = keys(columns, snapshot)
    if key not in known:
        raise BadQuestion("key", f"no intermediate metric has the key {key}; valid are: {', '.join(known)}")
    lines = lines_of(columns, snapshot, key)
    asked = (key, arguments.get("filter") or "", *(arguments.get(name) for name in ("index", "low", "high")))
    points = arguments["points"]
    rows = once(columns, ("curves", *asked), lambda: _matching(columns, lines, asked))
    band = once(columns, ("band", *asked, points), lambda: _band(lines, rows, points))
    chosen = _spread(rows, arguments["lines"])
    if arguments.get("sequences"):
        wanted = columns.positions(arguments["sequences"])
        chosen = np.union1d(chosen, wanted[lines.lengths[wanted] > 0])
    parts = [thinned(*_line(lines, row), points) for row in chosen.tolist()]
    ends = np.cumsum([0, *(len(x) for x, _ in parts)])
    header = {
        "revision": columns.revision,
        "total": len(rows),
        "lines": len(chosen),
        "key": key,
        "keys": known,
    }
    return pack(
        header,
        [
            PackedColumn("line.sequence", columns.arrays["sequence"][chosen]),
            PackedColumn("line.start", ends.astype(np.uint32)),
            PackedColumn("x", _joined([x for x, _ in parts])),
            PackedColumn("y", _joined([y for _, y in parts])),
            *(PackedColumn(f"band.{name}", values) for name, values in band.items()),
        ],
    )


def thinned(x: Array, y: Array, points: int) -> tuple[Array, Array]:
    """Reduce a curve to at most ``points`` points (4 or more). ``x`` must be ascending.

    The first and the last point are kept. The others are divided into equally large groups of neighbours, and
    each group keeps its lowest and its highest point.
    """
    count = len(x)
    if count <= points:
        return x, y
    inner = np.arange(1, count - 1)
    buckets = (inner - 1) * ((points - 2) // 2) // (count - 2)
    order = np.lexsort((y[1:-1], buckets))
    last = np.flatnonzero(np.diff(buckets[order], append=-1))
    first = np.concatenate(([0], last[:-1] + 1))
    kept = np.unique(np.concatenate(([0], inner[order[first]], inner[order[last]], [count - 1])))
    return x[kept], y[kept]


def _matching(columns: Columns, lines: Lines, asked: tuple[Any, ...]) -> Array:
    """Return the rows of the trials whose curves match the filter and the wanted range of values."""
    _, text, index, low, high = asked
    found = (lines.lengths > 0) & matching(columns, text)
    if index is not None:
        inside = lines.steps == index
        inside &= lines.values >= (-np.inf if low is None else low)
        inside &= lines.values <= (np.inf if high is None else high)
        there = np.zeros(len(columns), bool)
        there[lines.rows[inside]] = True
        found &= there
    return np.flatnonzero(found)


def _spread(rows: Array, most: int) -> Array:
    """Return at most ``most`` of the rows, evenly spaced, including the first and the last."""
    if len(rows) <= most:
        return rows
    return rows[np.unique(np.linspace(0, len(rows) - 1, most).astype(np.int64))]


def _line(lines: Lines, row: int) -> tuple[Array, Array]:
    points = slice(lines.starts[row], lines.starts[row + 1])
    return lines.steps[points], lines.values[points]


def _joined(parts: list[Array]) -> Array:
    return compact(np.concatenate(parts) if parts else np.empty(0))


def _band(lines: Lines, rows: Array, points: int) -> dict[str, Array]:
    """Return the band of these trials' curves: quantiles of all values at each step.

    If there are more than ``points`` steps, the band has a quantile for each of ``points`` equal ranges of
    steps. For speed, the values are sorted only once for all bands (``Lines.by_value``).
    """
    order = lines.by_value
    if len(rows) < np.count_nonzero(lines.lengths):
        wanted = np.zeros(len(lines.lengths), bool)
        wanted[rows] = True
        order = order[wanted[lines.rows[order]]]
    steps = lines.steps[order]
    places, groups = _places(steps, points)
    counts = np.bincount(groups, minlength=len(places))
    kinds = np.min_scalar_type(max(len(places) - 1, 0))
    sorted_values = lines.values[order[np.argsort(groups.astype(kinds), kind="stable")]]
    there = np.flatnonzero(counts)
    ends = np.cumsum(counts)[there]
    counts = counts[there]
    band = {"x": compact(places[there]), "count": counts.astype(np.uint32)}
    for quantile in QUANTILES:
        at = ends - counts + quantile * (counts - 1)
        below = np.floor(at).astype(np.int64)
        above = np.minimum(below + 1, ends - 1)
        share = at - below
        band[f"p{quantile * 100:.0f}"] = compact(
            sorted_values[below] * (1 - share) + sorted_values[above] * share
        )
    return band


def _places(steps: Array, points: int) -> tuple[Array, Array]:
    """Return at most ``points`` x values for these steps, and for each step the index of its x value."""
    if not len(steps):
        return np.empty(0), np.empty(0, np.int64)
    low, high = steps.min(), steps.max()
    if high - low < points and np.all(steps == np.rint(steps)):
        return np.arange(low, high + 1), (steps - low).astype(np.int64)
    width = (high - low) / points
    if not width > 0 or not np.isfinite(width):
        return np.array([low]), np.zeros(len(steps), np.int64)
    groups = np.minimum((steps - low) / width, points - 1).astype(np.int64)
    return low + (np.arange(points) + 0.5) * width, groups

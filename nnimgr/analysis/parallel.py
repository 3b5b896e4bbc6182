"""Chart with parallel coordinates, for any number of trials: 2-D histograms between neighbouring axes.

The amount of data that a browser draws does not grow with the number of trials. The bins of an axis are
numbered from 0, and the number after the last bin is for trials without a value.

A cell is a pair of bins on neighbouring axes. Its number is ``left * (bins of the right axis + 1) + right``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from nnimgr.analysis.axes import Axis, axis, brushed
from nnimgr.analysis.binary_columns import PackedColumn, compact, pack
from nnimgr.analysis.cache import once
from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import Columns
from nnimgr.analysis.filters import matching
from nnimgr.analysis.metric import best_share, losses, metric_values
from nnimgr.store.bulk import Snapshot

__all__ = ["parallel"]


def parallel(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> bytes:
    """Return the data of a chart with parallel coordinates, in the format of ``binary_columns``.

    ``arguments`` is a ``models.ParallelQuestion`` as a dict. These columns are returned:

    - For axis i, ``axis.i.all`` and ``axis.i.selected``: number of trials in each bin. The last element is
      for trials without a value.
    - For the axes i and i + 1, ``all.i.cells`` and ``all.i.counts``: the cells that contain trials, and the
      number of trials in each. They are left out if ``background`` is False.
    - ``selected.i.cells``, ``selected.i.counts`` and ``selected.i.mean`` (mean of the metric): the same for
      the selected trials, which match all brushes and ``top``.
    - ``sequences``: sequence numbers of the selected trials, if there are at most ``lines``.

    Raise BadQuestion if an argument is not valid.
    """
    axes = [
        axis(columns, item["name"], log=item.get("log"), bins=arguments["bins"]) for item in arguments["axes"]
    ]
    text = arguments.get("filter") or ""
    among = once(columns, ("filter", text), lambda: matching(columns, text))
    values = metric_values(columns, arguments)
    selected = among & brushed(columns, arguments.get("brushes") or {})
    if arguments.get("top") is not None:
        selected &= best_share(losses(columns, snapshot, arguments), among, arguments["top"])
    rows = np.flatnonzero(selected)
    mine = values[rows]
    known = ~np.isnan(mine)
    mine = np.where(known, mine, 0.0)
    header = {
        "revision": columns.revision,
        "total": int(np.count_nonzero(among)),
        "selected": len(rows),
        "axes": [found.described() for found in axes],
        "metric": _span(values[among]),
    }
    packed = [*_on_axes(columns, axes, text, among, rows)]
    for number, (left, right) in enumerate(pairwise(axes)):
        pair = _Pair(columns, left, right)
        if arguments.get("background", True):
            packed += _sparse(f"all.{number}", pair.counts(text, among))
        cells = pair.cells[rows]
        counts = np.bincount(cells, minlength=pair.size)
        packed += _sparse(f"selected.{number}", counts)
        packed.append(_means(f"selected.{number}.mean", counts, cells, mine, known))
    if len(rows) <= arguments.get("lines", 0):
        packed.append(PackedColumn("sequences", columns.arrays["sequence"][rows]))
    return pack(header, packed)


class _Pair:
    """Two neighbouring axes of the chart. ``cells``: for each trial the number of its cell between these
    axes.
    """

    def __init__(self, columns: Columns, left: Axis, right: Axis) -> None:
        self.size = (left.bins + 1) * (right.bins + 1)
        self._columns, self._key = columns, ("pair", _key(left), _key(right))
        self.cells: Array = once(columns, self._key, lambda: left.cells * (right.bins + 1) + right.cells)

    def counts(self, text: str, among: Array) -> Array:
        """Return the number of trials in each cell. Only trials that match the filter ``text`` count.

        ``among``: for each trial whether it matches the filter.
        """
        return once(self._columns, (*self._key, text), lambda: _counts(self.cells, among, self.size))


def _key(found: Axis) -> tuple[Any, ...]:
    return (found.name, found.log, found.bins)


def _on_axes(
    columns: Columns, axes: Sequence[Axis], text: str, among: Array, rows: Array
) -> Iterator[PackedColumn]:
    for number, found in enumerate(axes):
        counts = partial(_counts, found.cells, among, found.bins + 1)
        everywhere = once(columns, ("axis counts", _key(found), text), counts)
        here = np.bincount(found.cells[rows], minlength=found.bins + 1)
        yield PackedColumn(f"axis.{number}.all", everywhere.astype(np.uint32))
        yield PackedColumn(f"axis.{number}.selected", here.astype(np.uint32))


def _counts(cells: Array, among: Array, size: int) -> Array:
    return np.bincount(cells if among.all() else cells[among], minlength=size)


def _sparse(name: str, counts: Array) -> Iterator[PackedColumn]:
    """Yield two columns: the cells that contain trials, and the number of trials in each of these cells."""
    found = np.flatnonzero(counts)
    yield PackedColumn(f"{name}.cells", found.astype(np.uint32))
    yield PackedColumn(f"{name}.counts", counts[found].astype(np.uint32))


def _means(name: str, counts: Array, cells: Array, values: Array, known: Array) -> PackedColumn:
    """Return a column with the mean of the metric in each cell that contains trials.

    ``values`` must be 0 for the trials without a metric, for which ``known`` is False.
    """
    found = np.flatnonzero(counts)
    sums = np.bincount(cells, weights=values, minlength=len(counts))[found]
    of = counts if known.all() else np.bincount(cells, weights=known, minlength=len(counts))
    with np.errstate(invalid="ignore"):
        return PackedColumn(name, compact(sums / of[found]))


def _span(values: Array) -> dict[str, float | None]:
    """Return the lowest and the highest metric, for the chart's colour scale. Both are None if there is no
    metric.
    """
    finite = values[~np.isnan(values)]
    return {
        "min": float(finite.min()) if len(finite) else None,
        "max": float(finite.max()) if len(finite) else None,
    }

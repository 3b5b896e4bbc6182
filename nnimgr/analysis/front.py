"""Pareto front: the points that no other point dominates.

A point dominates another point if it is lower in at least one coordinate and higher in none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnimgr.analysis.column import Array

__all__ = ["undominated"]

_FEW = 64  # up to this number, all points are compared with each other
_FEW_PAIRS = 2**15  # up to this number of pairs, two sets are compared directly


def undominated(points: Array) -> Array:
    """Return which points are in the Pareto front, as one bool per point. Equal points have the same result.

    ``points`` has one row per point and one column per coordinate, and contains only finite numbers.

    The time is O(n log n) for two coordinates, and O(n (log n) ** (k - 1)) for k coordinates. Like the
    algorithm of Kung, Luccio and Preparata (1975), it divides the points into halves.
    """
    order = np.lexsort(points.T[::-1])
    ordered = points[order]
    new = np.concatenate(([True], (ordered[1:] != ordered[:-1]).any(axis=1)))[: len(ordered)]
    distinct = ordered[new]
    kept = np.zeros(len(distinct), bool)
    kept[_front(distinct, np.arange(len(distinct)))] = True
    found = np.zeros(len(points), bool)
    found[order] = kept[np.cumsum(new) - 1]
    return found


def _front(points: Array, rows: Array) -> Any:
    """Return which of the points at the indices ``rows`` are in the Pareto front, as sorted indices.

    The points must be sorted and distinct.
    """
    if points.shape[1] == 1:
        return rows[:1]
    if points.shape[1] == 2:
        lowest = np.concatenate(([np.inf], np.minimum.accumulate(points[rows, 1])))[: len(rows)]
        return rows[points[rows, 1] < lowest]
    if len(rows) <= _FEW:
        others = points[rows]
        lower = (others[:, None] <= others[None]).all(axis=2)  # [i, j]: i is nowhere higher than j
        return rows[lower.sum(axis=0) == 1]  # the only such point is the point itself
    first, second = np.array_split(rows, 2)
    first, second = _front(points, first), _front(points, second)
    return np.concatenate((first, second[~_covered(points, first, second, points.shape[1] - 1)]))


def _covered(points: Array, by: Array, rows: Array, last: int) -> Array:
    """Return which points at the indices ``rows`` are covered by another point, as one bool per point.

    A point is covered if a point at the indices ``by`` is not higher in any of the coordinates 1 to ``last``.
    """
    if not len(by) or not len(rows):
        return np.zeros(len(rows), bool)
    if last == 2:
        return _covered_in_plane(points[by][:, 1:3], points[rows][:, 1:3])
    if len(by) * len(rows) <= _FEW_PAIRS:
        return _compared(points[by][:, 1 : last + 1], points[rows][:, 1 : last + 1])
    middle = np.median(points[by, last])
    low, high = points[by, last] <= middle, points[by, last] > middle
    below, above = points[rows, last] < middle, points[rows, last] >= middle
    if not high.any() and below.all():  # the median is the highest value of ``by``, and no row is lower
        return _covered(points, by[points[by, last] < middle], rows, last)
    found = np.zeros(len(rows), bool)
    found[below] = _covered(points, by[low], rows[below], last)
    found[above] = _covered(points, by[low], rows[above], last - 1)
    found[above] |= _covered(points, by[high], rows[above], last)
    return found


def _covered_in_plane(by: Array, rows: Array) -> Array:
    order = np.argsort(by[:, 0], kind="stable")
    lowest = np.concatenate(([np.inf], np.minimum.accumulate(by[order, 1])))
    found: Array = lowest[np.searchsorted(by[order, 0], rows[:, 0], "right")] <= rows[:, 1]
    return found


def _compared(by: Array, rows: Array) -> Array:
    lower = np.ones((len(by), len(rows)), bool)
    for coordinate in range(by.shape[1]):
        lower &= by[:, None, coordinate] <= rows[None, :, coordinate]
    found: Array = np.asarray(lower.any(axis=0))
    return found

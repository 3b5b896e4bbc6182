"""Operations on many points of the unit cube: draw, vary, round, compare. Uses numpy.

A point is a parameter set as a row of numbers from 0 to 1 (see ``encoding``). Arrays of points have the shape
(n, width): a row for each point, and a column for each column of the encoding.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from nnimgr.search_space import Space
from nnimgr.tuners.encoding import Column, Encoding

__all__ = ["Cube", "Floats", "distances", "reflected"]

Floats = NDArray[np.float64]

_BATCH = 16  # number of pending points that should be at least half as far apart as random points
_SHARE = 0.6  # share of the distance between random points, slightly more than a half because distances vary
_SAMPLES = 64  # number of batches that are drawn to measure distances
_FINEST = 2**53  # an integer parameter with more values counts as continuous


class Cube(Encoding):
    """Converter between parameter sets and points, with operations on arrays of points."""

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        self._steps = [(at, steps) for at, steps in enumerate(map(_steps, self.columns)) if steps]
        self.stepped = np.zeros(self.width, np.bool_)  # columns with a known number of values
        self.stepped[[at for at, _ in self._steps]] = True

    def settled(self, points: Floats) -> Floats:
        """Round the coordinates of options and integers to the values that ``encode`` uses.

        The value of an option or integer is the middle of its part of the column. Numbers are not rounded to
        ``q``. A column that is not in use becomes 0.5.
        """
        points = np.clip(points, 0.0, 1.0)
        for at, steps in self._steps:
            points[:, at] = (np.minimum(np.floor(points[:, at] * steps), steps - 1) + 0.5) / steps
        points[~self.active_in(points)] = 0.5
        return points

    def active_in(self, points: Floats) -> NDArray[np.bool_]:
        """Return which columns are in use in each point, depending on its nested choices; shape (n,
        width).
        """
        found = np.ones(points.shape, np.bool_)
        for at, column in enumerate(self.columns):  # nested choices come before their dependent columns
            if column.parent is not None:
                parent, option = column.parent
                options = self.columns[parent].options
                chosen = np.minimum(np.floor(points[:, parent] * options), options - 1)
                found[:, at] = found[:, parent] & (chosen == option)
        return found

    def drawn(self, count: int, rng: np.random.Generator) -> Floats:
        """Return ``count`` points that are drawn evenly from the whole cube."""
        return self.settled(rng.random((count, self.width)))

    def varied(self, points: Floats, scale: float | Floats, rng: np.random.Generator) -> Floats:
        """Return a random neighbour of each point: some of its columns are changed by the method ``moved``.

        At least one changed column counts in the point. If a changed choice has another option now, the
        columns of this option are drawn at random.
        """
        if not self.width:
            return points
        active = self.active_in(points)
        chosen = rng.random(points.shape) < max(0.3, 1.0 / self.width)
        lots = np.where(active, rng.random(points.shape), -1.0)
        chosen[np.arange(len(points)), np.argmax(lots, axis=1)] = True
        found = np.where(chosen, self.moved(points, scale, rng), points)
        awake = self.active_in(found) & ~active
        return self.settled(np.where(awake, rng.random(points.shape), found))

    def moved(self, points: Floats, scale: float | Floats, rng: np.random.Generator) -> Floats:
        """Return the points with all columns changed at random. Integers and options are not rounded.

        Numbers move by about ``scale`` (one value, or one per point with shape (n,)), and by at least one
        step if the column has steps. Choices are drawn again.
        """
        scales = np.broadcast_to(np.asarray(scale, np.float64), (len(points),))[:, None]
        moved = points + scales * rng.normal(size=points.shape)
        anew = rng.random(points.shape)
        for at, steps in self._steps:
            if self.columns[at].options:
                moved[:, at] = anew[:, at]
            else:
                way = moved[:, at] - points[:, at]
                moved[:, at] = points[:, at] + np.copysign(np.maximum(np.abs(way), 1.0 / steps), way)
        return reflected(moved)

    @property
    def centre(self) -> Floats:
        """Middle of the search space in the form of ``one_hot``.

        It is equally far from all options of a choice.
        """
        options_of = [column.options for column in self.columns]
        parts = [[0.5] if not options else [math.sqrt(0.5) / options] * options for options in options_of]
        return np.array([number for part in parts for number in part])

    def from_one_hot(self, features: Floats) -> Floats:
        """Convert rows in the form of ``one_hot`` to points.

        A choice takes the option whose column is largest. Integers are not rounded.
        """
        points = np.empty((len(features), self.width))
        start = 0
        for at, column in enumerate(self.columns):
            behind = start + max(1, column.options)
            part = features[:, start:behind]
            points[:, at] = (part.argmax(axis=1) + 0.5) / column.options if column.options else part[:, 0]
            start = behind
        return points

    def features_of(self, columns: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Convert a mask over the columns of points, shape (n, width), to a mask over the columns of
        ``one_hot``.
        """
        return columns.repeat([max(1, column.options) for column in self.columns], axis=1)

    @cached_property
    def apart(self) -> float:
        """Least distance, in the form of ``one_hot``, between the points of trials that run at the
        same time.

        It is slightly more than half of the smallest distance among 16 random points.
        """
        rng = np.random.default_rng(0)
        found = []
        for _ in range(_SAMPLES):
            features = self.one_hot(self.drawn(_BATCH, rng))
            between = distances(features, features)
            found.append(between[np.triu_indices(_BATCH, 1)].min())
        return _SHARE * float(np.median(found))

    def spread(self, points: Floats, pending: Floats) -> NDArray[np.bool_]:
        """Return for each point whether it is far enough from all pending points; shape (n,).

        The required distance is smaller if there are few pending points.
        """
        if not len(pending) or not self.width:
            return np.ones(len(points), np.bool_)
        least = self.apart * min(1.0, len(pending) / (_BATCH - 1))
        found: NDArray[np.bool_] = self.nearest(points, pending) >= least
        return found

    def nearest(self, points: Floats, others: Floats) -> Floats:
        """Return the distance from each point to the nearest point of ``others``; shape (n,)."""
        found: Floats = distances(self.one_hot(points), self.one_hot(others)).min(axis=1)
        return found


def reflected(points: Floats) -> Floats:
    """Mirror coordinates that are less than 0 or greater than 1 at that bound, and clip them to the range
    from 0 to 1.
    """
    points = np.where(points < 0.0, -points, points)
    return np.clip(np.where(points > 1.0, 2.0 - points, points), 0.0, 1.0)


def distances(ours: Floats, others: Floats) -> Floats:
    """Return the distances between each point of ``ours`` (n points) and each of ``others`` (m points); shape
    (n, m).
    """
    squares = (ours**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2.0 * ours @ others.T
    found: Floats = np.sqrt(np.maximum(squares, 0.0))
    return found


def _steps(column: Column) -> int | None:
    return None if column.steps is None or column.steps > _FINEST else column.steps

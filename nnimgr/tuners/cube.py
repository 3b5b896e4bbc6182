"""Many points of the unit cube at once: drawn, varied, put into their cells, compared. Numpy.

Arrays of points have the shape (n, width), a row per point, a column per column of the encoding.
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

_BATCH = 16  # so many open points are to lie at least half as far apart as points drawn at random
_SHARE = 0.6  # and a little more, since distances vary
_SAMPLES = 64  # of batches, to learn how far apart those lie
_FINEST = 2**53  # a column of more steps is as good as continuous


class Cube(Encoding):
    """An encoding with operations on whole arrays of points."""

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        self._steps = [(at, steps) for at, steps in enumerate(map(_steps, self.columns)) if steps]
        self.stepped = np.zeros(self.width, np.bool_)  # columns with a known number of values
        self.stepped[[at for at, _ in self._steps]] = True

    def settled(self, points: Floats) -> Floats:
        """The points as sets of parameters are encoded, but for rounding to ``q``.

        Options and integers stand in the middle of their parts, inactive columns hold 0.5.
        """
        points = np.clip(points, 0.0, 1.0)
        for at, steps in self._steps:
            points[:, at] = (np.minimum(np.floor(points[:, at] * steps), steps - 1) + 0.5) / steps
        points[~self.active_in(points)] = 0.5
        return points

    def active_in(self, points: Floats) -> NDArray[np.bool_]:
        """Which columns the points' choices leave any meaning."""
        found = np.ones(points.shape, np.bool_)
        for at, column in enumerate(self.columns):  # a parent stands before what depends on it
            if column.parent is not None:
                parent, option = column.parent
                options = self.columns[parent].options
                chosen = np.minimum(np.floor(points[:, parent] * options), options - 1)
                found[:, at] = found[:, parent] & (chosen == option)
        return found

    def drawn(self, count: int, rng: np.random.Generator) -> Floats:
        """Points drawn evenly."""
        return self.settled(rng.random((count, self.width)))

    def varied(self, points: Floats, scale: float | Floats, rng: np.random.Generator) -> Floats:
        """A neighbour of each point: some columns, an active one at least, are ``moved``.

        Columns that become active by that are drawn.
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
        """The points with all columns changed, not settled.

        Numbers move by about ``scale``, one for all points or shape (n,), and by one step at least where
        there are steps; choices are drawn anew.
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
        """Of the cube, as ``one_hot`` has it; no option is nearer to it than another."""
        options_of = [column.options for column in self.columns]
        parts = [[0.5] if not options else [math.sqrt(0.5) / options] * options for options in options_of]
        return np.array([number for part in parts for number in part])

    def from_one_hot(self, features: Floats) -> Floats:
        """Points of the cube, not settled; of a choice's columns the largest says which option it is."""
        points = np.empty((len(features), self.width))
        start = 0
        for at, column in enumerate(self.columns):
            behind = start + max(1, column.options)
            part = features[:, start:behind]
            points[:, at] = (part.argmax(axis=1) + 0.5) / column.options if column.options else part[:, 0]
            start = behind
        return points

    def features_of(self, columns: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """A mark of each column, as marks of the columns that ``one_hot`` makes of it; (n, width) too."""
        return columns.repeat([max(1, column.options) for column in self.columns], axis=1)

    @cached_property
    def apart(self) -> float:
        """A good half of the smallest distance of 16 points drawn at random, as ``one_hot`` has it."""
        rng = np.random.default_rng(0)
        found = []
        for _ in range(_SAMPLES):
            features = self.one_hot(self.drawn(_BATCH, rng))
            between = distances(features, features)
            found.append(between[np.triu_indices(_BATCH, 1)].min())
        return _SHARE * float(np.median(found))

    def spread(self, points: Floats, pending: Floats) -> NDArray[np.bool_]:
        """Which of the points keep their distance from all pending ones; shape (n,).

        The fewer are pending, the nearer to each other they may lie.
        """
        if not len(pending) or not self.width:
            return np.ones(len(points), np.bool_)
        least = self.apart * min(1.0, len(pending) / (_BATCH - 1))
        found: NDArray[np.bool_] = self.nearest(points, pending) >= least
        return found

    def nearest(self, points: Floats, others: Floats) -> Floats:
        """How far each point is from the nearest of the others; shape (n,)."""
        found: Floats = distances(self.one_hot(points), self.one_hot(others)).min(axis=1)
        return found


def reflected(points: Floats) -> Floats:
    """What lies outside of the cube by less than its side, mirrored at its surface; else on it."""
    points = np.where(points < 0.0, -points, points)
    return np.clip(np.where(points > 1.0, 2.0 - points, points), 0.0, 1.0)


def distances(ours: Floats, others: Floats) -> Floats:
    """Between all points of two arrays; shape (n, m)."""
    squares = (ours**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2.0 * ours @ others.T
    found: Floats = np.sqrt(np.maximum(squares, 0.0))
    return found


def _steps(column: Column) -> int | None:
    return None if column.steps is None or column.steps > _FINEST else column.steps

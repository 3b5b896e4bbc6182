"""Parzen estimators: probability densities of parameter sets, as mixtures with one kernel per trial.

Uses numpy. Values are given as codes (see ``dimension``). A kernel is a product of one factor per parameter.
A number's factor is a normal distribution around the code of the trial, cut off at the bounds. A choice's
factor gives most of the weight to the option of the trial. So the density knows which values go together,
unlike a product of one estimator per parameter (Falkner, Klein and Hutter, ICML 2018).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnimgr.tuners.dimension import SPREAD, Categories, Number

__all__ = ["Axes", "Mixture"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_FINEST = 0.01  # least width of a kernel, as a share of its parameter's range
_TINY = 1e-300
_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)

# Table of the standard normal distribution function. Linear interpolation in it is exact to 1e-6.
_REACH = 8
_PER_UNIT = 256
_TABLE = np.array(
    [
        0.5 * math.erfc(-n / (_PER_UNIT * math.sqrt(2)))
        for n in range(-_REACH * _PER_UNIT, _REACH * _PER_UNIT + 1)
    ]
)
_RISES = np.diff(_TABLE)
_GRID = np.linspace(-_REACH, _REACH, len(_TABLE))


class Axes:
    """The parameters of a mixture: which columns of codes contain numbers, and which contain choices."""

    def __init__(self, dimensions: Sequence[Number | Categories]) -> None:
        self.width = len(dimensions)
        self.numbers = [(at, each) for at, each in enumerate(dimensions) if isinstance(each, Number)]
        self.choices = [(at, each.size) for at, each in enumerate(dimensions) if isinstance(each, Categories)]
        # Without choices, a slice: it selects the columns without a copy.
        self.columns = np.array([at for at, _ in self.numbers], np.int64) if self.choices else slice(None)
        self.rows = np.arange(len(self.numbers))[:, None]
        self.bounded = np.array([[each.bounded] for _, each in self.numbers], np.bool_).reshape(-1, 1)
        self.all_bounded = bool(self.bounded.all())
        self._prior = -float(sum(math.log(size) for _, size in self.choices))

    def even(self, codes: Floats) -> Floats:
        """Return the logarithm of the density with which the search space itself gives these codes; shape
        (n,).
        """
        found = np.full(len(codes), self._prior)
        if not self.all_bounded:
            free = (codes[:, self.columns][:, ~self.bounded[:, 0]] - 0.5) / SPREAD
            found -= (0.5 * free * free + math.log(SPREAD) + _HALF_LOG_TAU).sum(axis=1)
        return found

    def distances(self, ours: Floats, theirs: Floats) -> Floats:
        """Return the distances of the points in ``ours`` (rows) from those in ``theirs`` (columns).

        A point is a row of numbers between 0 and 1. Two different options of a choice have the distance 1, as
        the smallest and the largest value of a numeric parameter have.
        """
        gaps = ours[:, None, self.columns] - theirs[None, :, self.columns]
        squares: Floats = (np.nan_to_num(gaps) ** 2).sum(axis=2)
        for at, _ in self.choices:
            squares += ours[:, None, at] != theirs[None, :, at]
        return np.sqrt(squares)


@dataclass(frozen=True, slots=True)
class Mixture:
    """Density that is a weighted sum of one kernel per row of ``codes``, shape (n, width), and of the search
    space's own density.

    ``factors``: the numbers' factors, shape (4, numbers, n + 1): their centres, their widths, and the shares
    of them that lie below the bounds 0 and 1. The last ones belong to the search space's own density.
    ``spill``: for each choice, the share of the weight that a kernel spreads over all options.
    """

    axes: Axes
    codes: Floats
    weights: Floats  # n + 1 weights with the sum 1
    factors: Floats
    spill: Floats  # one per choice

    @classmethod
    def about(cls, axes: Axes, codes: Floats, weights: Floats, prior_weight: float) -> Mixture:
        """Build a density with one kernel for each row of ``codes``.

        ``weights`` are the weights of these kernels, and ``prior_weight`` is the weight of the search space's
        own density.
        """
        total = np.append(weights, prior_weight)
        share = total.sum()
        total = total / share if share > 0 else np.full(len(total), 1 / len(total))
        count = len(codes)
        rest = [prior_weight / (count + 1) * size for _, size in axes.choices]
        spill = np.array([each / (1 + each) for each in rest])
        return cls(axes, codes, total, _factors(axes, codes), spill)

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """Draw ``count`` rows of codes from the density, shape (count, width).

        Each code represents a possible value.
        """
        axes, last = self.axes, len(self.codes)
        cumulated = self.weights.cumsum()
        of = np.minimum(cumulated.searchsorted(rng.random(count) * cumulated[-1], "right"), last)
        prior = of == last
        found = np.empty((count, axes.width))
        chance = rng.random((count, axes.width))
        if axes.numbers:
            chances = chance[:, axes.columns].T
            centres, widths, low, high = self.factors[:, :, of]
            drawn = centres + widths * np.interp(low + chances * (high - low), _TABLE, _GRID)
            drawn = np.where(axes.bounded, np.minimum(np.maximum(drawn, 0.0), 1.0), drawn)
            found[:, axes.columns] = np.where(prior & axes.bounded, chances, drawn).T
            for at, number in axes.numbers:
                if number.stepped:
                    found[:, at] = number.snapped(found[:, at])
        for (at, size), spill in zip(axes.choices, self.spill, strict=True):
            own = np.append(self.codes[:, at], math.nan)[of]
            spread = prior | np.isnan(own) | (rng.random(count) < spill)
            drawn = np.minimum(np.floor(chance[:, at] * size), size - 1)
            found[:, at] = np.where(spread, drawn, own)
        return found

    def log_density(self, codes: Floats) -> Floats:
        """Return the logarithm of the density at each row of ``codes``, shape (n,)."""
        axes = self.axes
        logs = np.empty((len(codes), len(self.codes) + 1))
        logs[:, :-1] = self._kernels(codes)
        logs[:, -1] = axes.even(codes)
        logs += np.log(np.maximum(self.weights, _TINY))
        highest = logs.max(axis=1, keepdims=True)
        logs -= highest
        np.exp(logs, out=logs)
        found: Floats = np.log(logs.sum(axis=1)) + highest[:, 0]
        return found

    def _kernels(self, codes: Floats) -> Floats:
        """Return the logarithm of each kernel at each row of ``codes``, without its weight; shape (rows,
        kernels).
        """
        axes = self.axes
        found = np.zeros((len(codes), len(self.codes)))
        centres, widths, low, high = self.factors[:, :, :-1]
        # Handle one number at a time, because a product of matrices would use all cores.
        for row, (at, _) in enumerate(axes.numbers):
            z = codes[:, at, None] - centres[row]
            z *= 1 / widths[row]
            z *= z
            found += z
        found *= -0.5
        found -= (np.log(widths * (high - low)) + _HALF_LOG_TAU).sum(axis=0)
        for (at, size), spill in zip(axes.choices, self.spill, strict=True):
            hit, miss = math.log(1 - spill + spill / size), math.log(max(spill / size, _TINY))
            own = self.codes[:, at]
            logs = np.where(codes[:, at, None] == own, hit, miss)
            found += np.where(np.isnan(own), -math.log(size), logs)
        return found


def _factors(axes: Axes, codes: Floats) -> Floats:
    """Return the factors of the numbers (see ``Mixture``). The centre of a missing number is 0.5.

    The width is the distance to the farther one of the two neighbours; a kernel at an end has one neighbour
    (Bergstra 2011). If the parameter has steps, the width is at least half a step. The least width is a share
    of the range, which becomes smaller with more trials.
    """
    count = len(codes)
    found = np.empty((4, len(axes.numbers), count + 1))
    centres, widths, ends = found[0], found[1], found[2:]
    centres[:, :count] = codes[:, axes.columns].T
    centres[:, count], widths[:, count] = 0.5, SPREAD
    missing = np.isnan(centres)
    centres[missing] = 0.5
    if count and axes.numbers:
        widths[:, :count] = _widths(axes, centres[:, :count])
        widths[missing] = 1.0
    np.negative(centres, out=ends[0])
    np.subtract(1, centres, out=ends[1])
    ends /= widths
    ends[:] = _cdf(ends)
    if not axes.all_bounded:
        ends[0] = np.where(axes.bounded, ends[0], 0.0)
        ends[1] = np.where(axes.bounded, ends[1], 1.0)
    return found


def _widths(axes: Axes, centres: Floats) -> Floats:
    """Return the widths of kernels with these centres, shape (numbers, n)."""
    count = centres.shape[1]
    order = centres.argsort(axis=1, kind="stable")
    ranked = centres[axes.rows, order]
    gaps = np.empty((len(centres), count + 1))
    np.subtract(ranked[:, 1:], ranked[:, :-1], out=gaps[:, 1:-1])
    if count > 1:
        gaps[:, 0], gaps[:, -1] = gaps[:, 1], gaps[:, -2]
    else:
        gaps[:, 0], gaps[:, -1] = ranked[:, 0], 1 - ranked[:, 0]
    found = np.empty_like(centres)
    found[axes.rows, order] = np.maximum(gaps[:, :-1], gaps[:, 1:])
    for row, (_, number) in enumerate(axes.numbers):
        if number.stepped:
            found[row] = np.maximum(found[row], number.reaches(centres[row]))
    widths: Floats = np.minimum(np.maximum(found, max(_FINEST, 1 / (count + 2))), 1.0)
    return widths


def _cdf(z: Floats) -> Floats:
    """Return the standard normal distribution function of each number."""
    at = np.minimum(np.maximum(z, -_REACH), _REACH)  # np.clip takes three times as long for few numbers
    at += _REACH
    at *= _PER_UNIT
    whole = np.minimum(at.astype(np.int64), len(_RISES) - 1)
    at -= whole
    at *= _RISES.take(whole)
    at += _TABLE.take(whole)
    return at

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
        self.lanes = np.arange(len(self.numbers))
        self.bounded = np.array([each.bounded for _, each in self.numbers], np.bool_)
        self.all_bounded = bool(self.bounded.all())
        self._prior = -float(sum(math.log(size) for _, size in self.choices))

    def even(self, codes: Floats) -> Floats:
        """Return the logarithm of the density with which the search space itself gives these codes; shape
        (n,).
        """
        found = np.full(len(codes), self._prior)
        if not self.all_bounded:
            free = (codes[:, self.columns][:, ~self.bounded] - 0.5) / SPREAD
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

    ``widths``: widths of the numbers' factors, shape (n, numbers). ``spill``: for each choice, the share of
    the weight that a kernel spreads over all options.
    """

    axes: Axes
    codes: Floats
    weights: Floats  # n + 1 weights with the sum 1
    widths: Floats
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
        codes, widths = _widths(axes, codes)
        return cls(axes, codes, total, widths, spill)

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
            one = (1, len(axes.numbers))
            padded = np.concatenate([self.codes[:, axes.columns], np.full(one, 0.5)])
            widths = np.concatenate([self.widths, np.full(one, SPREAD)])
            chances = chance[:, axes.columns]
            cut = _cut(padded[of], widths[of], chances, axes)
            found[:, axes.columns] = np.where(prior[:, None] & axes.bounded, chances, cut)
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
        # Handle one column at a time, because a product of matrices would use all cores.
        for column, (at, _) in enumerate(axes.numbers):
            z = codes[:, at, None] - self.codes[:, at]
            z /= self.widths[:, column]
            z *= z
            found += z
        found *= -0.5
        found += _log_factor(self.codes[:, axes.columns], self.widths, axes).sum(axis=1)
        for (at, size), spill in zip(axes.choices, self.spill, strict=True):
            hit, miss = math.log(1 - spill + spill / size), math.log(max(spill / size, _TINY))
            own = self.codes[:, at]
            logs = np.where(codes[:, at, None] == own, hit, miss)
            found += np.where(np.isnan(own), -math.log(size), logs)
        return found


def _widths(axes: Axes, codes: Floats) -> tuple[Floats, Floats]:
    """Return the codes with 0.5 for missing numbers, and the widths of the kernels for numbers.

    A kernel's width is the distance to the farther one of its two neighbours; a kernel at an end has one
    neighbour (Bergstra 2011). If the parameter has steps, the width is at least half a step. The least width
    is a share of the range, which becomes smaller with more trials.
    """
    count = len(codes)
    if not count or not axes.numbers:
        return codes, np.empty((count, len(axes.numbers)))
    mu = codes[:, axes.columns]
    missing = np.isnan(mu)
    incomplete = bool(missing.any())
    if incomplete:
        mu = np.where(missing, 0.5, mu)
        codes = codes.copy()
        codes[:, axes.columns] = mu
    order = mu.argsort(axis=0, kind="stable")
    ranked = mu[order, axes.lanes]
    gaps = np.empty((count + 1, len(axes.numbers)))
    np.subtract(ranked[1:], ranked[:-1], out=gaps[1:-1])
    gaps[0], gaps[-1] = (gaps[1], gaps[-2]) if count > 1 else (ranked[0], 1 - ranked[0])
    ways = np.empty_like(mu)
    ways[order, axes.lanes] = np.maximum(gaps[:-1], gaps[1:])
    finest = max(_FINEST, 1 / (count + 2))
    for column, (_, number) in enumerate(axes.numbers):
        if number.stepped:
            ways[:, column] = np.maximum(ways[:, column], number.reaches(mu[:, column]))
    widths = np.minimum(np.maximum(ways, finest), 1.0)
    return codes, np.where(missing, 1.0, widths) if incomplete else widths


def _cdf(z: Floats) -> Floats:
    at = np.minimum(np.maximum(z, -_REACH), _REACH)  # np.clip takes three times as long for few numbers
    at += _REACH
    at *= _PER_UNIT
    whole = np.minimum(at.astype(np.int64), len(_RISES) - 1)
    at -= whole
    at *= _RISES.take(whole)
    at += _TABLE.take(whole)
    return at


def _ends(mu: Floats, widths: Floats, axes: Axes) -> tuple[Floats, Floats]:
    """Return which share of each normal distribution lies below its lower bound, and which below its upper
    bound. Without bounds, these are 0 and 1.
    """
    z = np.empty((2, *mu.shape))
    np.negative(mu, out=z[0])
    np.subtract(1, mu, out=z[1])
    z /= widths
    low, high = _cdf(z)
    if axes.all_bounded:
        return low, high
    return np.where(axes.bounded, low, 0.0), np.where(axes.bounded, high, 1.0)


def _log_factor(mu: Floats, widths: Floats, axes: Axes) -> Floats:
    """Return the logarithm of the constant that normalises a number's factor.

    The constant takes account of the part of a bounded parameter's distribution that is cut off.
    """
    low, high = _ends(mu, widths, axes)
    found: Floats = -np.log(widths * (high - low)) - _HALF_LOG_TAU
    return found


def _cut(mu: Floats, widths: Floats, chance: Floats, axes: Axes) -> Floats:
    """Draw from normal distributions. Those of bounded parameters are cut off at 0 and 1."""
    low, high = _ends(mu, widths, axes)
    drawn: Floats = mu + widths * np.interp(low + chance * (high - low), _TABLE, _GRID)
    inside = np.minimum(np.maximum(drawn, 0.0), 1.0)
    return inside if axes.all_bounded else np.where(axes.bounded, inside, drawn)

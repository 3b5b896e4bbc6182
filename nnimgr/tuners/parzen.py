"""Densities of one parameter, and what they are made from: its values in all results, kept sorted. Numpy.

A *code* is how a value is held: the number itself, its logarithm where the parameter is logarithmic, or the
index of an option. An *ordinal* numbers results in the order in which they came.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnimgr.search_space import Choice, Nested, Numeric, ParameterType

__all__ = ["Evidence", "Numbers", "Options"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_LARGEST = sys.float_info.max
_FEW = 8  # new values are put in their places one by one up to this number
_MOST_ROUNDS = 100  # of drawing again what fell outside of the bounds


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a suggestion is drawn from; ordinals beyond the recorded ones are those of lies.

    ``good`` and ``weights`` by ordinal; ``candidates`` and ``prior_weight`` as in ``TpeArguments``.
    """

    good: NDArray[np.bool_]
    weights: Floats
    candidates: int
    prior_weight: float


class Options:
    """The options of a choice; the code is the option's index, -1 in a result that has none of them."""

    def __init__(self, spec: Choice | Nested) -> None:
        self.size = len(spec.options)
        keys = spec.options if isinstance(spec, Choice) else [name for name, _ in spec.options]
        self._index = {_key(key): index for index, key in reversed(list(enumerate(keys)))}
        self._codes = np.empty(16, np.int64)
        self._count = 0

    def encode(self, key: Any) -> int:
        index: int = self._index.get(_key(key), -1)
        return index

    def add(self, code: int) -> None:
        """The code of the next ordinal."""
        if self._count == len(self._codes):
            self._codes = np.concatenate([self._codes, np.empty_like(self._codes)])
        self._codes[self._count] = code
        self._count += 1

    def draw(self, evidence: Evidence, lies: list[int], rng: np.random.Generator) -> int:
        """The index of the option to try."""
        codes = np.concatenate([self._codes[: self._count], np.asarray(lies, np.int64)]) + 1
        good = evidence.good
        ours, others = (
            _shares(np.bincount(codes, weights, self.size + 1).astype(np.float64)[1:] + evidence.prior_weight)
            for weights in (good.astype(np.float64), np.where(good, 0.0, evidence.weights))
        )
        drawn = _pick(ours, rng.random(evidence.candidates))
        return int(drawn[np.argmax(_log_ratio(ours[drawn], others[drawn]))])


class Numbers:
    """A numeric parameter."""

    def __init__(self, spec: Numeric) -> None:
        self._spec = spec
        self._integer = spec.type is ParameterType.RANDINT
        self._log = spec.type.logarithmic
        self._q = 1.0 if self._integer else spec.q
        low, high = (spec.a - 0.5, spec.b - 0.5) if self._integer else (spec.a, spec.b)
        if spec.type.gaussian:
            self._mu, self._sigma = spec.a, spec.b
            self._low, self._high = -math.inf, math.inf
        else:
            self._low, self._high = (math.log(low), math.log(high)) if self._log else (low, high)
            self._mu, self._sigma = (self._low + self._high) / 2, self._high - self._low
        self._values = np.empty(16)  # the first ``_count`` are sorted codes
        self._ordinals = np.empty(16, np.int64)  # of the results that they are from
        self._count = 0
        self._fresh: list[tuple[float, int]] = []  # not put in their places yet

    def encode(self, value: Any) -> float:
        """NaN if the value lies outside of the space."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
            return math.nan
        if not self._log:
            code = float(value)
        elif value > 0:
            code = math.log(value)
        elif self._q is not None and value == 0:  # rounded down from somewhere below q / 2
            code = math.log(self._q / 4)
        else:
            return math.nan
        slack = 1e-9 * self._sigma
        if not self._low - slack <= code <= self._high + slack:
            return math.nan
        return min(max(code, self._low), self._high)

    def add(self, code: float, ordinal: int) -> None:
        if code == code:
            self._fresh.append((code, ordinal))

    def draw(self, evidence: Evidence, lies: list[tuple[float, int]], rng: np.random.Generator) -> Any:
        """The value to try. ``lies``: codes and ordinals of running trials."""
        self._settle()
        values, ordinals = self._values[: self._count], self._ordinals[: self._count]
        known = [lie for lie in lies if lie[0] == lie[0]]
        if known:
            values, ordinals = _merged(values, ordinals, known)
        mask = evidence.good[ordinals]
        ours = self._mixture(values[mask], np.ones(int(mask.sum())), evidence.prior_weight)
        others = self._mixture(values[~mask], evidence.weights[ordinals[~mask]], evidence.prior_weight)
        drawn = self._draws(ours, evidence.candidates, rng)
        if self._q is None:
            best = np.argmax(_log_ratio(_density(ours, drawn), _density(others, drawn)))
            return self._value(float(drawn[best]))
        found = [self._value(code) for code in drawn.tolist()]
        lower, upper = self._cells(np.asarray(found, np.float64))
        best = np.argmax(_log_ratio(_mass(ours, lower, upper), _mass(others, lower, upper)))
        return found[best]

    # ---- values -------------------------------------------------------------------------------------------

    def _value(self, code: float) -> Any:
        if self._integer:
            return min(max(round(code), int(self._spec.a)), int(self._spec.b) - 1)
        x = math.exp(min(code, 700.0)) if self._log else code
        if not self._spec.type.gaussian:
            x = min(max(x, self._spec.a), self._spec.b)
        return self._spec.quantise(x)

    def _cells(self, values: Floats) -> tuple[Floats, Floats]:
        """From where to where codes are rounded to these values."""
        assert self._q is not None
        lower, upper = values - self._q / 2, values + self._q / 2
        if self._log:
            with np.errstate(divide="ignore"):
                lower, upper = np.log(np.maximum(lower, 0.0)), np.log(upper)
        return np.maximum(lower, self._low), np.minimum(upper, self._high)

    # ---- mixtures -----------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Put new values in their places; among equal ones the order is that of their coming."""
        if not self._fresh:
            return
        fresh, self._fresh = self._fresh, []
        total = self._count + len(fresh)
        if total > len(self._values):
            grown = max(total, 2 * len(self._values))
            self._values, self._ordinals = (
                np.concatenate([column[: self._count], np.empty(grown - self._count, column.dtype)])
                for column in (self._values, self._ordinals)
            )
        if len(fresh) > _FEW:
            merged = _merged(self._values[: self._count], self._ordinals[: self._count], fresh)
            self._values[:total], self._ordinals[:total] = merged
            self._count = total
            return
        for code, ordinal in fresh:
            at = int(self._values[: self._count].searchsorted(code, "right"))
            for column, entry in ((self._values, code), (self._ordinals, ordinal)):
                column[at + 1 : self._count + 1] = column[at : self._count]
                column[at] = entry
            self._count += 1

    def _mixture(self, values: Floats, weights: Floats, prior_weight: float) -> _Mixture:
        """The prior's normal distribution and one around each value, as wide as the way to a neighbour.

        That is the farther one of the two; where more than two results share a value, they are neighbours.
        """
        finest = self._sigma / min(100, len(values) + 2)
        shared: Any = 1  # by how many results each value is
        if self._q is not None and len(values) > 1:
            first = np.flatnonzero(np.concatenate([[True], values[1:] > values[:-1]]))
            shared = np.diff(np.append(first, len(values)))
            values, weights = values[first], np.add.reduceat(weights, first)
        at = int(values.searchsorted(self._mu))
        mu = np.concatenate([values[:at], [self._mu], values[at:]])
        gaps = np.diff(mu, prepend=mu[0], append=mu[-1])
        ways = np.maximum(gaps[:-1], gaps[1:])
        ways = np.concatenate([ways[:at], ways[at + 1 :]])
        ways = np.clip(np.where(shared > 2, 0.0, ways), finest, self._sigma)
        sigma = np.concatenate([ways[:at], [self._sigma], ways[at:]])
        weights = np.concatenate([weights[:at], [prior_weight], weights[at:]])
        return _Mixture(mu, sigma, _shares(weights))

    def _draws(self, mixture: _Mixture, count: int, rng: np.random.Generator) -> Floats:
        """Codes within the bounds."""
        drawn = np.empty(0)
        for _ in range(_MOST_ROUNDS):
            of = _pick(mixture.weights, rng.random(count))
            codes = rng.normal(mixture.mu[of], mixture.sigma[of])
            drawn = np.concatenate([drawn, codes[(codes >= self._low) & (codes <= self._high)]])
            if len(drawn) >= count:
                return drawn[:count]
        return np.concatenate([drawn, np.clip(codes, self._low, self._high)])[:count]


@dataclass(frozen=True, slots=True)
class _Mixture:
    """Normal distributions. How much of them lies within the bounds is a factor that no comparison needs."""

    mu: Floats
    sigma: Floats
    weights: Floats  # their sum is 1


def _density(mixture: _Mixture, x: Floats) -> Floats:
    z = (x[:, None] - mixture.mu) / mixture.sigma
    z *= z
    z *= -0.5
    np.exp(z, out=z)
    found: Floats = z @ (mixture.weights / mixture.sigma)
    return found


def _mass(mixture: _Mixture, lower: Floats, upper: Floats) -> Floats:
    low = (lower[:, None] - mixture.mu) / mixture.sigma
    high = (upper[:, None] - mixture.mu) / mixture.sigma
    # In the lower tail small probabilities keep their digits: the upper one is mirrored.
    mirrored = low + high > 0
    low, high = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    found: Floats = (_cdf(high) - _cdf(low)) @ mixture.weights
    return found


def _cdf(z: Floats) -> Floats:
    """The standard normal distribution function, to 1e-7 (Abramowitz and Stegun, 26.2.17)."""
    distance = np.minimum(np.abs(z), 40.0)
    t = 1.0 / (1.0 + 0.2316419 * distance)
    poly = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = poly * np.exp(-0.5 * distance * distance) / math.sqrt(2 * math.pi)
    return np.where(z > 0, 1.0 - tail, tail)


def _log_ratio(ours: Floats, others: Floats) -> Floats:
    tiny = np.finfo(np.float64).tiny
    ratio: Floats = np.log(np.maximum(ours, tiny)) - np.log(np.maximum(others, tiny))
    return ratio


def _merged(values: Floats, ordinals: Integers, fresh: list[tuple[float, int]]) -> tuple[Floats, Integers]:
    values = np.concatenate([values, [code for code, _ in fresh]])
    ordinals = np.concatenate([ordinals, np.array([ordinal for _, ordinal in fresh], np.int64)])
    order = values.argsort(kind="stable")
    return values[order], ordinals[order]


def _shares(weights: Floats) -> Floats:
    """Of 1; equal ones if there is no weight at all."""
    total = float(weights.sum())
    shares: Floats = weights / total if total > 0 else np.full(len(weights), 1 / len(weights))
    return shares


def _pick(weights: Floats, at: Floats) -> Integers:
    """Indices drawn by weights whose sum is 1, for numbers from 0 to 1."""
    cumulated = weights.cumsum()
    found: Integers = np.minimum(cumulated.searchsorted(at * cumulated[-1], "right"), len(weights) - 1)
    return found


def _key(option: Any) -> str:
    if isinstance(option, float) and option.is_integer():
        option = int(option)  # as files of other tools may have it
    return json.dumps(option, sort_keys=True)

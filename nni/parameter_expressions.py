"""NNI's functions that draw a random value, one function for each parameter type of a search space.

``random_state`` is a ``numpy.random.RandomState``, or an object with its methods ``randint``, ``uniform`` and
``normal``. When a value is rounded to a multiple of ``q``, a tie goes to the even multiple, as in NNI.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

__all__ = [
    "choice",
    "lognormal",
    "loguniform",
    "normal",
    "qlognormal",
    "qloguniform",
    "qnormal",
    "quniform",
    "randint",
    "uniform",
]

Option = TypeVar("Option")


class RandomState(Protocol):
    def randint(self, low: int, high: int) -> Any: ...
    def uniform(self, low: float, high: float) -> Any: ...
    def normal(self, loc: float, scale: float) -> Any: ...


def choice(options: Sequence[Option], random_state: RandomState) -> Option:
    """Return one of the options, chosen at random."""
    return options[int(random_state.randint(0, len(options)))]


def randint(lower: int, upper: int, random_state: RandomState) -> int:
    """Draw an integer of at least ``lower`` and less than ``upper``."""
    return int(random_state.randint(lower, upper))


def uniform(low: float, high: float, random_state: RandomState) -> float:
    """Draw a number from ``low`` to ``high``. Raise ValueError if the range is empty."""
    if high < low:
        raise ValueError(f"the upper bound {high} is less than the lower bound {low}")
    return float(random_state.uniform(low, high))


def quniform(low: float, high: float, q: float, random_state: RandomState) -> float:
    """Draw a number as ``uniform`` does, and round it to a multiple of ``q`` within the bounds."""
    return float(min(max(round(uniform(low, high, random_state) / q) * q, low), high))


def loguniform(low: float, high: float, random_state: RandomState) -> float:
    """Draw a number from ``low`` to ``high`` whose logarithm is uniform. Raise ValueError if ``low`` <= 0."""
    if low <= 0:
        raise ValueError(f"the lower bound {low} must be greater than 0")
    return math.exp(uniform(math.log(low), math.log(high), random_state))


def qloguniform(low: float, high: float, q: float, random_state: RandomState) -> float:
    """Draw a number as ``loguniform`` does, and round it to a multiple of ``q`` within the bounds."""
    return float(min(max(round(loguniform(low, high, random_state) / q) * q, low), high))


def normal(mu: float, sigma: float, random_state: RandomState) -> float:
    """Draw a normally distributed number."""
    return float(random_state.normal(mu, sigma))


def qnormal(mu: float, sigma: float, q: float, random_state: RandomState) -> float:
    """Draw a number as ``normal`` does, and round it to a multiple of ``q``."""
    return float(round(normal(mu, sigma, random_state) / q) * q)


def lognormal(mu: float, sigma: float, random_state: RandomState) -> float:
    """Draw a number whose logarithm is normally distributed."""
    return math.exp(normal(mu, sigma, random_state))


def qlognormal(mu: float, sigma: float, q: float, random_state: RandomState) -> float:
    """Draw a number as ``lognormal`` does, and round it to a multiple of ``q``."""
    return float(round(lognormal(mu, sigma, random_state) / q) * q)

"""Search space as grids of increasing fineness (levels).

Points are computed from their number and never stored. At every level, the grid has all options of choices
and all integers. Any other parameter has 1, 3, 7, ... values at level 0, 1, 2, ...: its quantiles in halves,
quarters, eighths. The quantiles of a parameter that is rounded to ``q`` are rounded too, so that some may be
equal. At a level with at least as many quantiles as the parameter has values, the grid has all these values.
A level contains every point of the lower levels.
"""

from __future__ import annotations

import math
from typing import Any

from nnimgr.search_space import Choice, Nested, Numeric, ParameterType, Space, Spec

__all__ = ["item", "refines", "size"]

_TAIL = 6.0  # a normal distribution with rounding has values within this number of sigmas


def size(space: Space, level: int) -> int:
    """Return the number of points in the grid of this level."""
    return math.prod(_count(spec, level) for _, spec in space.parameters)


def item(space: Space, level: int, index: int) -> dict[str, Any]:
    """Return the parameter set with number ``index`` in the grid of this level.

    The last parameter varies fastest.
    """
    digits = []
    for _, spec in reversed(space.parameters):
        index, digit = divmod(index, _count(spec, level))
        digits.append(digit)
    pairs = zip(space.parameters, reversed(digits), strict=True)
    return {name: _value(spec, level, digit) for (name, spec), digit in pairs}


def refines(space: Space, level: int) -> bool:
    """Return whether the next level's grid has further values.

    It has none if this grid has all values of every parameter, or if the bounds are too close for further
    floats.
    """
    return any(_refines(spec, level) for _, spec in space.parameters)


def _refines(spec: Spec, level: int) -> bool:
    match spec:
        case Nested(options):
            return any(refines(inner, level) for _, inner in options)
        case Numeric(q=None) if spec.type is not ParameterType.RANDINT:
            known = {_value(spec, level, index) for index in range(_count(spec, level))}
            return any(_value(spec, level + 1, index) not in known for index in range(_quantiles(level + 1)))
    return _count(spec, level + 1) > _count(spec, level)


def _count(spec: Spec, level: int) -> int:
    match spec:
        case Choice(options):
            return len(options)
        case Nested(options):
            return sum(size(inner, level) for _, inner in options)
        case Numeric(type=ParameterType.RANDINT, a=a, b=b):
            return int(b) - int(a)
        case Numeric(q=None):
            return _quantiles(level)
        case Numeric():
            first, last = _multiples(spec)
            return min(last - first + 1, _quantiles(level))


def _value(spec: Spec, level: int, index: int) -> Any:
    match spec:
        case Choice(options):
            return options[index]
        case Nested(options):
            for name, inner in options:
                if index < (count := size(inner, level)):
                    return {"_name": name, **item(inner, level, index)}
                index -= count
            raise IndexError(index)
        case Numeric(type=ParameterType.RANDINT, a=a):
            return int(a) + index
        case Numeric(q=float() | int() as q):
            first, last = _multiples(spec)
            if last - first + 1 <= _quantiles(level):
                return spec.quantise((first + index) * q)
    return spec.quantise(_quantile(spec, (index + 1) / (2 << level)))


def _quantiles(level: int) -> int:
    return (2 << level) - 1


def _multiples(spec: Numeric) -> tuple[int, int]:
    """Return the numbers n of the first and the last multiple n * q that the parameter can have."""
    assert spec.q is not None
    low, high = spec.a, spec.b
    if spec.type.gaussian:
        low, high = spec.a - _TAIL * spec.b, spec.a + _TAIL * spec.b
        if spec.type.logarithmic:
            low, high = math.exp(low), math.exp(high)
    return round(low / spec.q), round(high / spec.q)


def _quantile(spec: Numeric, fraction: float) -> float:
    if spec.type.gaussian:
        from statistics import NormalDist  # imported here, because it is slow and seldom used

        x = NormalDist(spec.a, spec.b).inv_cdf(fraction)
        return math.exp(x) if spec.type.logarithmic else x
    if spec.type.logarithmic:
        low, high = math.log(spec.a), math.log(spec.b)
        return math.exp(low + fraction * (high - low))
    return spec.a + fraction * (spec.b - spec.a)

"""Conversion of parameter sets to points of the unit cube. Uses numpy.

Each parameter, also a nested one, becomes a column of numbers from 0 to 1. A number is converted by its
distribution function, so that an evenly drawn point is a parameter set drawn from the search space. A choice
divides its column into equal parts, one per option. The columns of a nested choice's options come after the
column of the choice. Columns of options that are not chosen are *inactive* and contain 0.5.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnimgr.identity import identity
from nnimgr.search_space import Choice, Nested, Numeric, ParameterType, Space

__all__ = ["Column", "Encoding", "from_unit", "to_unit"]

Floats = NDArray[np.float64]

_TAIL = 1e-9  # distance from 0 and 1 at which a normal distribution's column ends: about six sigma
_STANDARD = NormalDist()


@dataclass(frozen=True, slots=True)
class Column:
    """Column for one parameter. ``name`` includes the nested choices above it, such as
    "optimizer.momentum".

    ``options``: the number of options, or 0 for a numeric parameter. ``parent``: for a nested parameter, the
    column of the nested choice and the option to which the parameter belongs.
    """

    name: str
    spec: Choice | Nested | Numeric
    options: int
    parent: tuple[int, int] | None

    @property
    def steps(self) -> int | None:
        """Number of different values of a choice or an integer parameter, or None for any other parameter."""
        if self.options:
            return self.options
        assert isinstance(self.spec, Numeric)
        if self.spec.type is ParameterType.RANDINT:
            return int(self.spec.b) - int(self.spec.a)
        return None


class Encoding:
    """Converter between parameter sets of a search space and points of the unit cube.

    A point is a float64 array of shape (width,).
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self.columns: list[Column] = []
        # (column of a nested choice, option) -> first column of the option's parameters
        self._first: dict[tuple[int, int], int] = {}
        self._index: dict[
            int, dict[str, int]
        ] = {}  # column of a choice -> key of an option -> index of the option
        self._lay_out(space, "", None)
        self._parents = [
            (index, *column.parent) for index, column in enumerate(self.columns) if column.parent is not None
        ]

    @property
    def width(self) -> int:
        return len(self.columns)

    def _lay_out(self, space: Space, prefix: str, parent: tuple[int, int] | None) -> None:
        """Add a column for each parameter of ``space``.

        The columns of a nested choice's options follow directly after it.
        """
        for name, spec in space.parameters:
            at = len(self.columns)
            options = 0 if isinstance(spec, Numeric) else len(spec.options)
            self.columns.append(Column(prefix + name, spec, options, parent))
            if isinstance(spec, Choice):
                self._index[at] = {
                    identity(option): n for n, option in reversed(list(enumerate(spec.options)))
                }
            elif isinstance(spec, Nested):
                self._index[at] = {identity(option): n for n, (option, _) in enumerate(spec.options)}
                for number, (_, inner) in enumerate(spec.options):
                    self._first[at, number] = len(self.columns)
                    self._lay_out(inner, f"{prefix}{name}.", (at, number))

    # ---- from parameters to points ------------------------------------------------------------------------

    def encode(self, parameters: Any) -> Floats | None:
        """Return the point for a parameter set, or None if the set is not in the search space."""
        point = np.full(self.width, 0.5)
        inside = isinstance(parameters, Mapping) and self._encode(self._space, 0, parameters, point)
        return point if inside else None

    def _encode(self, space: Space, at: int, parameters: Mapping[str, Any], point: Floats) -> bool:
        for name, spec in space.parameters:
            if name not in parameters:
                return False
            value = parameters[name]
            if isinstance(spec, Numeric):
                number = to_unit(spec, value)
                if number is None:
                    return False
                point[at] = number
                at += 1
                continue
            nested = isinstance(spec, Nested)
            if nested and not (isinstance(value, Mapping) and "_name" in value):
                return False
            option = self._index[at].get(identity(value["_name"] if nested else value))
            if option is None:
                return False
            point[at] = (option + 0.5) / len(spec.options)
            if isinstance(spec, Nested):
                if not self._encode(spec.options[option][1], self._first[at, option], value, point):
                    return False
                at = self._behind(at, spec)
            else:
                at += 1
        return True

    # ---- from points to parameters ------------------------------------------------------------------------

    def decode(self, point: Floats) -> dict[str, Any]:
        """Return the parameter set for a point. Coordinates outside of 0 to 1 are moved to the
        nearest bound.
        """
        return self._decode(self._space, 0, np.clip(point, 0.0, 1.0).tolist())

    def _decode(self, space: Space, at: int, point: list[float]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, spec in space.parameters:
            if isinstance(spec, Numeric):
                found[name] = from_unit(spec, point[at])
                at += 1
                continue
            option = option_at(point[at], len(spec.options))
            if isinstance(spec, Nested):
                inner = self._decode(spec.options[option][1], self._first[at, option], point)
                found[name] = {"_name": spec.options[option][0], **inner}
                at = self._behind(at, spec)
            else:
                found[name] = spec.options[option]
                at += 1
        return found

    def _behind(self, at: int, spec: Nested) -> int:
        """Return the index of the first column after those of the nested choice ``spec`` at column ``at``."""
        last = len(spec.options) - 1
        return self._end(spec.options[last][1], self._first[at, last])

    def _end(self, space: Space, at: int) -> int:
        for _, spec in space.parameters:
            at = self._behind(at, spec) if isinstance(spec, Nested) else at + 1
        return at

    # ---- points -------------------------------------------------------------------------------------------

    def active(self, point: Floats) -> NDArray[np.bool_]:
        """Return which columns are in use in the point, depending on its nested choices; shape (width,)."""
        found = np.ones(self.width, np.bool_)
        for at, parent, option in self._parents:  # nested choices come before their dependent columns
            chosen = option_at(float(point[parent]), self.columns[parent].options)
            found[at] = found[parent] and chosen == option
        return found

    def snapped(self, point: Floats) -> Floats:
        """Return the exact point for the parameter set into which a point is decoded:
        ``encode(decode(point))``.
        """
        found = self.encode(self.decode(point))
        assert found is not None
        return found

    def one_hot(self, points: Floats) -> Floats:
        """Convert points to a form in which distances are meaningful: (n, width) becomes (n, wider).

        A choice becomes one column per option. The columns are scaled so that two options are as far apart as
        the two ends of a number's column.
        """
        parts = []
        for at, column in enumerate(self.columns):
            values = points[:, at]
            if not column.options:
                parts.append(values[:, None])
                continue
            chosen = np.minimum((values * column.options).astype(np.int64), column.options - 1)
            parts.append(np.eye(column.options)[chosen] / math.sqrt(2))
        return np.concatenate(parts, axis=1) if parts else np.empty((len(points), 0))


def option_at(number: float, options: int) -> int:
    """Return the index of the part that contains ``number`` if 0 to 1 is divided into ``options`` equal
    parts.
    """
    return min(int(number * options), options - 1)


def to_unit(spec: Numeric, value: Any) -> float | None:
    """Convert a parameter's value to a number from 0 to 1. Return None if it is not a possible value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if spec.type is ParameterType.RANDINT:
        if value != int(value) or not spec.a <= value < spec.b:
            return None
        return (int(value) - spec.a + 0.5) / (spec.b - spec.a)
    x = float(value)
    if spec.type.logarithmic:
        if x == 0 and spec.q is not None:
            x = spec.q / 4  # 0 results from rounding a value below q / 2
        if x <= 0:
            return None
        x = math.log(x)
    if spec.type.gaussian:
        return min(max(_STANDARD.cdf((x - spec.a) / spec.b), _TAIL), 1 - _TAIL)
    low, high = _bounds(spec)
    slack = 1e-9 * (high - low)
    if not low - slack <= x <= high + slack:
        return None
    return min(max((x - low) / (high - low), 0.0), 1.0)


def from_unit(spec: Numeric, number: float) -> int | float:
    """Convert a number from 0 to 1 to the parameter's value."""
    if spec.type is ParameterType.RANDINT:
        return int(spec.a) + option_at(number, int(spec.b) - int(spec.a))
    if spec.type.gaussian:
        x = spec.a + spec.b * _STANDARD.inv_cdf(min(max(number, _TAIL), 1 - _TAIL))
    else:
        low, high = _bounds(spec)
        x = low + number * (high - low)
    if spec.type.logarithmic:
        x = math.exp(x)
    if not spec.type.gaussian:
        x = min(max(x, spec.a), spec.b)
    return spec.quantise(x)


def _bounds(spec: Numeric) -> tuple[float, float]:
    return (math.log(spec.a), math.log(spec.b)) if spec.type.logarithmic else (spec.a, spec.b)

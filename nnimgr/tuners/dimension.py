"""Conversion of one parameter's values to numbers, *codes*, for density estimates. Uses numpy.

The code of a number with bounds is its position between them, from 0 to 1, on a logarithmic scale if the
parameter is logarithmic. Codes of a normal distribution are shifted and scaled, so that their mean and
standard deviation are those of numbers drawn evenly from 0 to 1. The code of a choice is the index of its
option. NaN stands for a value that is not possible.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnimgr.identity import identity
from nnimgr.search_space import Choice, Nested, Numeric, ParameterType

__all__ = ["SPREAD", "Categories", "Number"]

Floats = NDArray[np.float64]

SPREAD = 1 / math.sqrt(12)  # standard deviation of the even distribution from 0 to 1
_LARGEST = sys.float_info.max
_MOST_EXPONENT = 700.0
_NONE = object()  # object that differs from every option's name


class Categories:
    """Converter between the options of a choice and their codes. ``size``: the number of options."""

    def __init__(self, spec: Choice | Nested) -> None:
        self.size = len(spec.options)
        self._nested = isinstance(spec, Nested)
        keys = spec.options if isinstance(spec, Choice) else [name for name, _ in spec.options]
        self._index = {_key(key): float(index) for index, key in reversed(list(enumerate(keys)))}

    def encode(self, values: Sequence[Any]) -> Floats:
        """Return the codes (indices) of options, shape (n,)."""
        if self._nested:
            values = [value.get("_name", _NONE) if isinstance(value, Mapping) else _NONE for value in values]
        return np.array([self._index.get(_key(value), math.nan) for value in values], np.float64)


class Number:
    """Converter between the values of a numeric parameter and their codes.

    ``bounded``: all codes are from 0 to 1.
    """

    def __init__(self, spec: Numeric) -> None:
        self._spec = spec
        self._log = spec.type.logarithmic
        self._integers = int(spec.b) - int(spec.a) if spec.type is ParameterType.RANDINT else 0
        self.bounded = not spec.type.gaussian
        if not self.bounded:
            self._span = spec.b / SPREAD
            self._low = spec.a - self._span / 2
        else:
            low, high = (math.log(spec.a), math.log(spec.b)) if self._log else (spec.a, spec.b)
            self._low, self._span = low, high - low

    def encode(self, values: Sequence[Any]) -> Floats:
        """Return the codes of numbers, shape (n,)."""
        spec, x = self._spec, _floats(values)
        if self._integers:
            codes = (x - spec.a + 0.5) / self._integers
            return np.where((x >= spec.a) & (x < spec.b), codes, math.nan)
        if self._log:
            if spec.q is not None:
                x[x == 0] = spec.q / 4  # 0 results from rounding a value below q / 2; take q / 4 for it
            # The logarithm of the standard library, because that of numpy may depend on the length of the
            # array.
            x = np.array([math.log(each) if each > 0 else math.nan for each in x.tolist()], np.float64)
        codes = (x - self._low) / self._span
        if not self.bounded:
            return codes
        inside = np.minimum(np.maximum(codes, 0.0), 1.0)
        return np.where((codes >= -1e-9) & (codes <= 1 + 1e-9), inside, math.nan)

    def decode(self, code: float) -> Any:
        """Return the parameter's value for a code. A code beyond a bound is decoded to that bound."""
        spec = self._spec
        if self._integers:
            return int(spec.a) + min(max(int(code * self._integers), 0), self._integers - 1)
        x = self._low + code * self._span
        if self._log:
            x = math.exp(min(x, _MOST_EXPONENT))
        if self.bounded:
            x = min(max(x, spec.a), spec.b)
        return spec.quantise(x)

    @property
    def stepped(self) -> bool:
        """True if the parameter's values have steps, so that only some codes represent a value."""
        return bool(self._integers) or self._spec.q is not None

    def snapped(self, codes: Floats) -> Floats:
        """Round codes to the nearest codes that represent a value. The parameter must be ``stepped``."""
        spec = self._spec
        if self._integers:
            found: Floats = (np.clip(np.floor(codes * self._integers), 0, self._integers - 1) + 0.5) / (
                self._integers
            )
            return found
        assert spec.q is not None
        x = self._low + codes * self._span
        if self._log:
            x = np.exp(np.minimum(x, _MOST_EXPONENT))
        x = np.round(x / spec.q) * spec.q
        if self.bounded:
            x = np.clip(x, spec.a, spec.b)
        if self._log:
            x = np.log(np.where(x > 0, x, spec.q / 4))
        rounded: Floats = (x - self._low) / self._span
        return rounded

    def reaches(self, codes: Floats) -> Floats | float:
        """Return how far each code may be from another code that is rounded to the same value.

        A code is a parameter's value as a number between 0 and 1.
        """
        spec = self._spec
        if self._integers:
            return 0.5 / self._integers
        if spec.q is None:
            return 0.0
        if not self._log:
            return 0.5 * spec.q / self._span
        x = np.exp(np.minimum(self._low + codes * self._span, _MOST_EXPONENT))
        found: Floats = -np.log1p(-np.minimum(spec.q / (2 * x), 0.5)) / self._span
        return found


def _floats(values: Sequence[Any]) -> Floats:
    """Convert values to an array of floats. A value that is not a finite number becomes NaN."""
    if set(map(type, values)) <= {int, float}:  # usual case, in which single values need no check
        try:
            found = np.array(values, np.float64)
        except OverflowError:
            pass
        else:
            found[np.isinf(found)] = math.nan
            return found
    return np.array([float(value) if _is_number(value) else math.nan for value in values], np.float64)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _key(option: Any) -> Hashable:
    if isinstance(option, str):
        return option
    if option is _NONE:
        return None
    return ("", identity(option))

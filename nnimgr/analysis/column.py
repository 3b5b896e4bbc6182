"""Column of the table of trials: a growing array of numbers, or of codes that stand for categories."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["MISSING", "MOST_CATEGORIES", "Array", "Coded", "Numbers", "as_float", "missing_code"]

Array = NDArray[Any]


class _Missing:
    """Type of the constant MISSING, which stands for an absent value. None stands for JSON's null, which is a
    value.
    """


MISSING: Final = _Missing()
MOST_CATEGORIES = 65_535  # largest number of categories of a column; further values count as missing

_NUMBERS = {int, float}
_OWN_KEYS = {str, int, _Missing}


class Numbers:
    """Column of numbers of one numpy type.

    A value that is not a finite number counts as missing. In a column of floats, a missing value is NaN.
    """

    def __init__(self, dtype: Any = np.float64) -> None:
        self.missing = np.nan if np.dtype(dtype).kind == "f" else 0
        self.buffer: Array = np.empty(0, dtype)

    def write(self, positions: Array, values: Sequence[Any]) -> None:
        """Write values into these rows of the column, one per row. A value that is not a finite number
        becomes "missing".
        """
        self.buffer[positions] = _numbers(values)


class Coded:
    """Column of categories (JSON values). Its elements are codes: uint8 for up to 255 categories, else
    uint16.
    """

    def __init__(self, categories: Sequence[Any] = ()) -> None:
        self.categories: list[Any] = []
        self.buffer: Array = np.empty(0, np.uint8)
        self._codes: dict[Any, int] = {}
        self.add(categories)

    @property
    def missing(self) -> int:
        return missing_code(self.buffer.dtype)

    def add(self, categories: Sequence[Any]) -> None:
        """Add these categories to the column, each with a code of its own."""
        self._add(dict(zip(map(_key, categories), categories, strict=True)))

    def write(self, positions: Array, values: Sequence[Any]) -> None:
        keys = values if set(map(type, values)) <= _OWN_KEYS else list(map(_key, values))
        distinct = set(keys)
        if not self._codes.keys() >= distinct:
            self._add(dict(zip(keys, values, strict=True)))
        codes = {key: self._codes.get(key, self.missing) for key in distinct}
        self.buffer[positions] = list(map(codes.__getitem__, keys))

    def _add(self, values: dict[Any, Any]) -> None:
        for key, value in values.items():
            if key is not MISSING and key not in self._codes and len(self.categories) < MOST_CATEGORIES:
                self._codes[key] = len(self.categories)
                self.categories.append(value)
        if self.buffer.dtype == np.uint8 and len(self.categories) > missing_code(np.uint8):
            wide = self.buffer.astype(np.uint16)
            wide[self.buffer == missing_code(np.uint8)] = missing_code(np.uint16)
            self.buffer = wide


def missing_code(dtype: Any) -> int:
    """Return the code that means "no value" in a column of categories: the highest number of its integer
    type.
    """
    return int(np.iinfo(dtype).max)


def _numbers(values: Sequence[Any]) -> Array:
    if not set(map(type, values)) <= _NUMBERS | {type(None)}:
        values = [value if type(value) in _NUMBERS else None for value in values]
    try:
        found = np.array(values, np.float64)
    except OverflowError:  # an int that is too large for a float
        found = np.array([as_float(value) for value in values], np.float64)
    found[~np.isfinite(found)] = np.nan
    return found


def as_float(value: float | None) -> float:
    """Convert a number to a float. Return NaN for None and for an int that is too large for a float."""
    try:
        return np.nan if value is None else float(value)
    except OverflowError:
        return np.nan


def _key(value: Any) -> Any:
    """Return a hashable key for a category (any JSON value). The key is equal for 1 and 1.0, but not for 1
    and true.
    """
    kind = type(value)
    if kind in _OWN_KEYS:
        return value
    if kind is bool:
        return ("true",) if value else ("false",)
    if kind is float:
        return value if np.isfinite(value) else MISSING
    try:
        return (json.dumps(value, sort_keys=True, allow_nan=False),)
    except ValueError:
        return MISSING

"""Axes: columns divided into bins, and the trials that brushes select on them."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnimgr.analysis.cache import once
from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import Columns
from nnimgr.analysis.errors import BadQuestion
from nnimgr.analysis.table import check_names

__all__ = ["MOST_BINS", "Axis", "axis", "brushed"]

MOST_BINS = 512

_LARGEST = sys.float_info.max
_EXACT = 2.0**52  # below this number, float64 represents the halves between integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A column divided into ``bins`` equal parts from ``low`` to ``high`` (of their logarithms if ``log``).

    ``cells``: for each trial the index of its part, or ``bins`` if it has no value. A column of categories
    has one part per category, and its range is -0.5 to the number of categories - 0.5. A column of few
    distinct integers has one part per integer. ``least`` and ``most``: the lowest and the highest value, None
    if there is none.
    """

    name: str
    log: bool
    bins: int
    low: float
    high: float
    least: float | None
    most: float | None
    categories: Sequence[Any] | None
    cells: NDArray[np.int32]

    def described(self) -> dict[str, Any]:
        """Return the description of the axis for an answer's header."""
        return {
            "name": self.name,
            "kind": "number" if self.categories is None else "category",
            "log": self.log,
            "bins": self.bins,
            "low": self.low,
            "high": self.high,
            "min": self.least,
            "max": self.most,
            "categories": self.categories,
        }


def axis(columns: Columns, name: str, *, log: bool | None = None, bins: int, field: str = "axes") -> Axis:
    """Return the axis of a column.

    If ``log`` is None, the search space decides, where a logarithm is possible.

    Raise BadQuestion if there is no such column, or no logarithm of its values.
    """
    check_names(columns, [name], field=field)
    return once(columns, ("axis", name, log, bins), lambda: _axis(columns, name, log, bins, field))


def brushed(columns: Columns, brushes: Mapping[str, Mapping[str, Any]]) -> Array:
    """Return which trials (bool, one per row) match all of these brushes.

    Each brush is ``{"range": [a, b]}`` (both ends included; None: open) or ``{"values": [...]}``. Raise
    BadQuestion.
    """
    check_names(columns, brushes, field="brushes")
    found = np.ones(len(columns), bool)
    for name, brush in brushes.items():
        if brush.get("values") is not None:
            found &= _among(columns, name, brush["values"])
        else:
            low, high = brush["range"]
            values = columns.numbers(name)
            found &= values >= (-math.inf if low is None else low)
            found &= values <= (math.inf if high is None else high)
    return found


def _axis(columns: Columns, name: str, log: bool | None, bins: int, field: str) -> Axis:
    if name in columns.categories:
        return _of_categories(columns, name, bins)
    values = columns.numbers(name)
    there = ~np.isnan(values)
    finite = values[there]
    if not len(finite):
        cells = np.full(len(values), 1, np.int32)
        return Axis(
            name=name,
            log=False,
            bins=1,
            low=0.0,
            high=1.0,
            least=None,
            most=None,
            categories=None,
            cells=cells,
        )
    least, most = float(finite.min()), float(finite.max())
    if log and least <= 0:
        raise BadQuestion(field, f"{name} cannot have a logarithmic axis: its lowest value is {least:g}")
    log = least > 0 and name in columns.logarithmic if log is None else log
    low, high, count = _range(finite, least, most, log, bins)
    begin, end = (math.log(low), math.log(high)) if log else (low, high)
    cells = np.full(len(values), count, np.int32)
    scaled = ((np.log(finite) if log else finite) / 2 - begin / 2) / (
        end / 2 - begin / 2
    )  # each half is computed separately, so that a large range does not overflow
    cells[there] = np.clip(scaled * count, 0, count - 1).astype(np.int32)
    return Axis(
        name=name,
        log=log,
        bins=count,
        low=low,
        high=high,
        least=least,
        most=most,
        categories=None,
        cells=cells,
    )


def _range(finite: Array, least: float, most: float, log: bool, bins: int) -> tuple[float, float, int]:
    """Return the lower end, the upper end and the number of parts."""
    if log:
        return (least, most, bins) if math.log(most) > math.log(least) else (least / 2, most * 2, 1)
    if most - least < bins and -_EXACT < least <= most < _EXACT and bool(np.all(finite == np.rint(finite))):
        return least - 0.5, most + 0.5, int(most - least) + 1
    if most > least:
        return least, most, bins
    spread = max(abs(least) / 2, 0.5)
    return max(least - spread, -_LARGEST), min(most + spread, _LARGEST), 1


def _of_categories(columns: Columns, name: str, bins: int) -> Axis:
    """Build an axis with one part per category, or with several categories per part if there are many."""
    categories, codes = columns.categories[name], columns.arrays[name]
    count = max(1, len(categories))
    parts = count if count <= max(bins, MOST_BINS) else bins
    cells = np.where(columns.present(name), codes.astype(np.int64) * parts // count, parts).astype(np.int32)
    return Axis(
        name=name,
        log=False,
        bins=parts,
        low=-0.5,
        high=count - 0.5,
        least=0.0,
        most=count - 1.0,
        categories=categories,
        cells=cells,
    )


def _among(columns: Columns, name: str, values: Sequence[Any]) -> Array:
    categories = columns.categories.get(name)
    if categories is None:
        numbers = [value for value in values if type(value) in (int, float)]
        return np.isin(columns.arrays[name], numbers)
    wanted = {_text(value) for value in values}
    codes = [code for code, category in enumerate(categories) if _text(category) in wanted]
    return np.isin(columns.arrays[name], codes)


def _text(value: Any) -> str:
    """Return a text that is equal for 1 and 1.0, but differs for 1 and true."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True)

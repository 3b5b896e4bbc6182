"""Axes of charts: a column's range of values, divided into bins.

This module also finds the trials that a user has selected on axes.
"""

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
    """Axis of a chart: the range of a column's values from ``low`` to ``high``, divided into ``bins`` equal
    bins.

    - ``log``: the scale is logarithmic, so the bins are equal on that scale.
    - ``cells``: for each trial the index of its bin, or ``bins`` if the trial has no value in the column.
    - ``least`` and ``most``: the lowest and the highest value in the column, None if it is empty.

    A column of few distinct integers has one bin per integer. A column of categories has one bin per
    category, or several categories per bin if there are very many. Its range is -0.5 to the number of
    categories - 0.5.
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
        """Return the description of this axis as a JSON object, for the header of a chart's data."""
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
    """Return the axis of the column ``name``. An axis of numbers has at most ``bins`` bins.

    If ``log`` is None, the axis is logarithmic if the search space says so and all values are positive.

    Raise BadQuestion if there is no such column, or if ``log`` is True and a value has no logarithm.
    """
    check_names(columns, [name], field=field)
    return once(columns, ("axis", name, log, bins), lambda: _axis(columns, name, log, bins, field))


def brushed(columns: Columns, brushes: Mapping[str, Mapping[str, Any]]) -> Array:
    """Return which trials match all brushes, as one bool per trial.

    A brush is a user's selection on a column: ``{"range": [a, b]}`` (bounds included; None: no bound) or
    ``{"values": [...]}``. Raise BadQuestion if there is no such column.
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
    """Return the lower end, the upper end and the number of bins of an axis of numbers."""
    if log:
        return (least, most, bins) if math.log(most) > math.log(least) else (least / 2, most * 2, 1)
    if most - least < bins and -_EXACT < least <= most < _EXACT and bool(np.all(finite == np.rint(finite))):
        return least - 0.5, most + 0.5, int(most - least) + 1
    if most > least:
        return least, most, bins
    spread = max(abs(least) / 2, 0.5)
    return max(least - spread, -_LARGEST), min(most + spread, _LARGEST), 1


def _of_categories(columns: Columns, name: str, bins: int) -> Axis:
    """Build the axis of a column of categories: one bin per category, or several categories per bin if there
    are very many.
    """
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
    """Return a JSON text by which values are compared. The text is equal for 1 and 1.0, but not for 1 and
    true.
    """
    if type(value) is float and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True)

"""Pages of the trials table: filtered, searched and sorted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import Columns
from nnimgr.analysis.filters import matching
from nnimgr.analysis.table import check_names
from nnimgr.store.bulk import Snapshot

__all__ = ["in_order", "ordered", "page", "selected"]


def page(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> bytes:
    """Return a page of the trials table as JSON: the number of matching trials (``total``) and the sequence
    numbers of the page's trials.

    ``arguments`` has the arguments of ``in_order``, which select and sort the trials, ``offset`` and
    ``limit``.
    """
    found = in_order(columns, snapshot, arguments)
    offset, limit = arguments["offset"], arguments["limit"]
    shown = columns.arrays["sequence"][found[offset : offset + limit]]
    return json.dumps({"total": len(found), "sequences": shown.tolist()}).encode()


def selected(
    columns: Columns,
    snapshot: Snapshot,
    *,
    filter: str = "",
    search: str = "",
    statuses: Sequence[str] = (),
    trial_ids: Sequence[str] | None = None,
    without_result: bool = False,
) -> Array:
    """Return which trials meet all conditions in the arguments, as one bool per trial.

    Raise BadQuestion if the filter is not valid.
    """
    found = matching(columns, filter)
    if statuses:
        codes = [columns.categories["status"].index(status) for status in statuses]
        found &= np.isin(columns.arrays["status"], codes)
    if search:
        found &= np.isin(columns.arrays["sequence"], snapshot.found(search))
    if trial_ids is not None:
        found &= np.isin(columns.ids, [trial_id.encode() for trial_id in trial_ids])
    if without_result:
        found &= np.isin(columns.arrays["sequence"], snapshot.without_result())
    return found


def ordered(columns: Columns, rows: Array, name: str, *, descending: bool) -> Array:
    """Return these rows of trials, sorted by the values in the column ``name``.

    Rows without a value come last. Rows with equal values keep their order.
    """
    values = _ranks(columns, name)[rows]
    return np.asarray(rows[np.argsort(-values if descending else values, kind="stable")])


def in_order(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> Array:
    """Return the rows of the trials that meet the conditions of ``selected``, sorted by the column ``sort``.

    ``arguments`` has the conditions, ``sort`` and ``descending``. Raise BadQuestion if an argument is not
    valid.
    """
    check_names(columns, [arguments["sort"]], field="sort")
    keys = ("filter", "search", "statuses", "trial_ids", "without_result")
    rows = np.flatnonzero(
        selected(columns, snapshot, **{key: arguments[key] for key in keys if key in arguments})
    )
    return ordered(columns, rows, arguments["sort"], descending=arguments["descending"])


def _ranks(columns: Columns, name: str) -> Array:
    """Return a number for each trial by which the column ``name`` is sorted, NaN if the trial has no value.

    In a column of categories, numbers come first, then texts in alphabetical order.
    """
    categories = columns.categories.get(name)
    if categories is None:
        return columns.numbers(name)
    array = columns.arrays[name]
    ranks = np.full(int(np.iinfo(array.dtype).max) + 1, np.nan)
    ranks[sorted(range(len(categories)), key=lambda code: _rank(categories[code]))] = range(len(categories))
    return ranks[array]


def _rank(category: Any) -> tuple[int, float, str]:
    if type(category) in (int, float):
        return (0, category, "")
    return (1, 0.0, category if isinstance(category, str) else json.dumps(category))

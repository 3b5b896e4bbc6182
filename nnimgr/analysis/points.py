"""All intermediate metrics of an experiment, as numpy arrays. An update reads only the new metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nnimgr.analysis.binary_columns import compact
from nnimgr.analysis.cache import follow, once
from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import Columns
from nnimgr.analysis.gc_pause import uncollected
from nnimgr.store.bulk import Snapshot

__all__ = ["DEFAULT_KEY", "Lines", "keys", "lines_of"]

DEFAULT_KEY = "default"  # key of a metric that is a number, or of an object's main number
_LOOKED_AT = 50  # number of latest objects that are read to find the keys


class Lines:
    """Curves of the intermediate metrics of all trials. The arrays have one element per point (metric).

    - ``steps``: the number that NNI gives each metric of a trial (its sequence); ``values``: the finite
      number
    - ``rows``: row of the point's trial in the table of trials
    - ``starts``: the points of the trial in row i are from ``starts[i]`` to before ``starts[i + 1]``, ordered
      by their steps

    Only points of each trial's latest attempt are included.
    """

    def __init__(self, rows: Array, steps: Array, values: Array, *, trials: int) -> None:
        self.rows, self.steps, self.values = rows, steps, values
        self.starts = np.searchsorted(rows, np.arange(trials + 1))
        self._by_value: Array | None = None

    @property
    def lengths(self) -> Array:
        return np.diff(self.starts)

    @property
    def by_value(self) -> Array:
        """Indices of the points, sorted by their values."""
        if self._by_value is None:
            self._by_value = np.argsort(self.values, kind="stable")
        return self._by_value


def lines_of(columns: Columns, snapshot: Snapshot, key: str) -> Lines:
    """Return the curves of all trials for one key of their intermediate metrics.

    ``key`` is DEFAULT_KEY, or another key that ``keys`` returns.
    """
    kind = _KINDS.get(key)
    if kind is None:
        kind = _KINDS[key] = type("_KeyPoints", (_Points,), {"key": key})
    points = follow(columns, snapshot, kind)
    return once(columns, ("lines", key), lambda: points.lines(columns))


def keys(columns: Columns, snapshot: Snapshot) -> list[str]:
    """Return the keys of intermediate metrics for which there are curves, DEFAULT_KEY first.

    The other keys come from recent metrics that are objects: the keys whose values are numbers.
    """
    return once(columns, "keys", lambda: _keys(snapshot))


def _keys(snapshot: Snapshot) -> list[str]:
    found = {DEFAULT_KEY: None}
    for text in snapshot.latest_objects(limit=_LOOKED_AT):
        found.update((key, None) for key, value in _object(text).items() if type(value) in (int, float))
    return list(found)


class _Points:
    """Table of the intermediate metrics under one key, as they were recorded.

    Each of ``_parts`` contains four arrays: rows of trials, numbers of attempts, steps and values.
    """

    key = DEFAULT_KEY

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._ids: Array = np.empty(0, "S16")
        self._rows: dict[str, int] = {}
        self._parts: list[tuple[Array, ...]] = []

    def refresh(self, columns: Columns, snapshot: Snapshot, *, after: int) -> None:
        """Update this table with the metrics in the database that have fact numbers above ``after``."""
        # Safeguard: read all metrics again if the known trials have other rows than before.
        if not np.array_equal(self._ids, columns.ids[: len(self._ids)]):
            self._clear()
            after = 0
        known, self._ids = len(self._ids), columns.ids.copy()
        self._rows.update(
            zip(self._ids[known:].astype("U16").tolist(), range(known, len(self._ids)), strict=True)
        )
        own = self.key == DEFAULT_KEY
        pages = snapshot.metric_points(after=after) if own else snapshot.metric_objects(after=after)
        with uncollected():
            for page in pages:
                trial_ids, attempts, steps, values = zip(*page, strict=True)
                if not own:
                    values = tuple(_object(text).get(self.key) for text in values)
                self._add(trial_ids, attempts, steps, values)

    def _add(
        self, trial_ids: Sequence[str], attempts: Sequence[int], steps: Sequence[int], values: Sequence[Any]
    ) -> None:
        rows = np.fromiter(map(self._rows.__getitem__, trial_ids), np.uint32, len(trial_ids))
        try:
            found = np.array(values, np.float64)
        except (TypeError, ValueError, OverflowError):
            found = np.array([_number(value) for value in values], np.float64)
        good = np.isfinite(found)
        part = (rows, np.array(attempts, np.uint16), np.array(steps, np.float64), found)
        self._parts.append(tuple(array[good] for array in part))

    def lines(self, columns: Columns) -> Lines:
        if len(self._parts) > 1:
            whole = (np.concatenate(arrays) for arrays in zip(*self._parts, strict=True))
            self._parts = [tuple(map(compact, whole))]
        rows, attempts, steps, values = self._parts[0] if self._parts else [np.empty(0, np.uint32)] * 4
        counts = attempts == columns.arrays["attempt"][rows]
        if not counts.all():
            rows, steps, values = rows[counts], steps[counts], values[counts]
        order = np.argsort(rows, kind="stable")
        rows, steps, values = rows[order], steps[order], values[order]
        if np.any((steps[1:] < steps[:-1]) & (rows[1:] == rows[:-1])):
            order = np.lexsort((steps, rows))
            rows, steps, values = rows[order], steps[order], values[order]
        return Lines(rows, steps, values, trials=len(columns))


_KINDS: dict[str, type[_Points]] = {DEFAULT_KEY: _Points}


def _object(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if type(value) is dict else {}


def _number(value: Any) -> float:
    try:
        return float(value) if type(value) in (int, float) else np.nan
    except OverflowError:
        return np.nan

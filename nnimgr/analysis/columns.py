"""Table of all trials of an experiment, as numpy columns. An update reads only the changed trials.

The columns have these names:

- ``sequence``: the trial's sequence number; ``status``; ``source``; ``attempt``: number of the latest attempt
- ``intermediates``: number of intermediate metrics; ``latest``: the latest of them; ``value``: final metric
- ``created``, ``started``, ``ended``: seconds since the experiment's creation
- ``duration``: seconds between start and end, of ended trials
- ``parameters.<name>``: a parameter. A nested choice ``outer`` has the columns ``parameters.outer/_name`` and
  ``parameters.outer/<inner>``
- ``metrics.<key>``: another number in final metrics that are objects
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from pydantic_core import from_json

from nnimgr.analysis.column import MISSING, MOST_CATEGORIES, Array, Coded, Numbers, as_float
from nnimgr.analysis.flatten import is_branch
from nnimgr.analysis.gc_pause import uncollected
from nnimgr.rules.facts import SuggestionSource, TrialStatus
from nnimgr.search_space import Choice, Nested, Numeric, SearchSpaceError, Space, parse
from nnimgr.store.bulk import TRIAL_COLUMNS, Mark, Snapshot

__all__ = ["METRICS", "PARAMETERS", "TIMES", "Columns"]

PARAMETERS, METRICS = "parameters.", "metrics."
TIMES = ("created", "started", "ended")
MOST_COLUMNS = 500  # largest number of columns; a trial could report any number of keys

_SPARE = 1.25
_MANY = 4  # if more than 1 / _MANY of the trials have changed, reading all trials is faster


class Columns:
    """Table of all trials of an experiment, ordered by their sequence numbers, with one row per trial.

    - ``arrays``: the columns by name. In a column of floats, NaN means that the trial has no value.
    - ``categories``: for each column of categories, their JSON values. The column has indices into this list.
      The highest number of its type (255 or 65535) means that the trial has no value.
    - ``revision``: number of the last fact that the columns contain
    - ``origin_at``: time of the experiment's creation
    - ``left_out``: number of columns that were omitted because there are more than MOST_COLUMNS
    - ``tags``: users' tags by sequence number, for all trials whose tags were ever changed
    - ``annotated``: number of the last change of a tag
    """

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.revision = 0
        self.origin_at = datetime.fromtimestamp(0, UTC)
        self.arrays: dict[str, Array] = {}
        self.categories: dict[str, list[Any]] = {}
        self.ids: Array = np.empty(0, "S16")
        self.logarithmic: set[str] = set()
        self.tags: dict[int, frozenset[str]] = {}
        self.annotated = 0
        self._left_out: set[str] = set()
        self._rows = 0
        self._db_id = self._space = ""
        self._numeric: set[str] = set()  # parameters whose search space contains only numbers
        self._ids = Numbers("S16")
        self._columns: dict[str, Numbers | Coded] = {
            "sequence": Numbers(np.uint32),
            "status": Coded([status.value for status in TrialStatus]),
            "source": Coded([source.value for source in SuggestionSource]),
            "attempt": Numbers(np.uint16),
            "intermediates": Numbers(np.uint32),
            **{name: Numbers() for name in ("value", "latest", *TIMES, "duration")},
        }

    def __len__(self) -> int:
        return self._rows

    @property
    def left_out(self) -> int:
        return len(self._left_out)

    # ---- reading ------------------------------------------------------------------------------------------

    @property
    def version(self) -> tuple[str, int, int]:
        """Database of the columns, and the numbers of its last changes. Another version has other content."""
        return self._db_id, self.revision, self.annotated

    def of_search(self) -> Array:
        """Return which trials are not only runs that confirm other trials, as one bool per trial."""
        code = self.categories["source"].index(SuggestionSource.CONFIRMATION.value)
        found: Array = self.arrays["source"] != code
        return found

    def numbers(self, name: str) -> Array:
        """Return the column ``name`` as float64. In a column of categories, a category that is not a number
        becomes NaN.
        """
        array = self.arrays[name]
        if name not in self.categories:
            return array.astype(np.float64, copy=False)
        values = np.full(int(np.iinfo(array.dtype).max) + 1, np.nan)
        for code, value in enumerate(self.categories[name]):
            if type(value) in (int, float):
                values[code] = as_float(value)
        return values[array]

    def present(self, name: str) -> Array:
        """Return which trials have a value in the column ``name``, as one bool per trial."""
        array = self.arrays[name]
        if name in self.categories:
            found: Array = array != np.iinfo(array.dtype).max
            return found
        return ~np.isnan(array) if array.dtype.kind == "f" else np.ones(len(array), bool)

    def positions(self, sequences: Iterable[int]) -> Array:
        """Return the rows of the trials with these sequence numbers. Unknown numbers are left out."""
        wanted = np.fromiter(sequences, np.int64)
        places = np.searchsorted(self.arrays["sequence"], wanted)
        known = places < self._rows
        known[known] = self.arrays["sequence"][places[known]] == wanted[known]
        return places[known]

    # ---- refreshing ---------------------------------------------------------------------------------------

    def refresh(self, snapshot: Snapshot) -> None:
        """Update the columns with all changes in the database ``snapshot`` that they do not contain yet."""
        mark, annotated = snapshot.mark(), snapshot.annotation_revision()
        if (
            mark.db_id != self._db_id
            or mark.last_number < self.revision
            or annotated < self.annotated  # the database was replaced by an older copy
        ):
            self._clear()
            self._db_id = mark.db_id
            self.origin_at = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=mark.created_at)
        if mark.search_space != self._space:
            self._space = mark.search_space
            self._declare(mark.search_space)
        if mark.last_number != self.revision or not self.arrays:
            before = self._rows
            with uncollected():
                for page in self._pages(snapshot):
                    self._take(page, mark, before)
            self._sort()
            self._show()
            self.revision = mark.last_number
        if annotated != self.annotated:
            self.tags.update(
                (sequence, frozenset(tags)) for sequence, tags in snapshot.tags(after=self.annotated)
            )
            self.annotated = annotated

    def _pages(self, snapshot: Snapshot) -> Iterator[list[tuple[Any, ...]]]:
        if self.revision:
            changed = snapshot.changed(after=self.revision)
            if len(changed) * _MANY < self._rows:
                return snapshot.trials(changed)
        return snapshot.trials()

    def _take(self, page: list[tuple[Any, ...]], mark: Mark, before: int) -> None:
        """Write a page of trials from the database into the columns.

        Some of these trials may already have a row, which is then one of the first ``before`` rows.
        """
        rows = dict(zip(TRIAL_COLUMNS, zip(*page, strict=True), strict=True))
        positions = self._places(np.array(rows["sequence"], np.int64), before)
        self._ids.buffer[positions] = rows["trial_id"]
        for name in ("status", "source"):
            self._columns[name].write(positions, rows[name])
        for name in ("sequence", "attempt", "intermediates"):
            self._columns[name].buffer[positions] = rows[name]
        for name, column in (("value", "final_value"), ("latest", "latest_value")):
            self._columns[name].write(positions, rows[column])
        instants = [np.array(rows[f"{name}_at"], np.float64) for name in TIMES]
        for name, instant in zip(TIMES, instants, strict=True):
            self._columns[name].buffer[positions] = (instant - mark.created_at) / 1e6
        self._columns["duration"].buffer[positions] = (instants[2] - instants[1]) / 1e6
        self._scatter(PARAMETERS, _objects(rows["parameters"]), positions)
        objects = [index for index, text in enumerate(rows["final_object"]) if text is not None]
        if objects:
            finals = _objects([rows["final_object"][index] for index in objects])
            self._scatter_metrics(finals, positions[objects])

    def _places(self, sequences: Array, before: int) -> Array:
        """Return the row of each trial with one of these sequence numbers. A trial that is not in the first
        ``before`` rows gets a new row.

        New rows are at the end until ``_sort`` puts them in order.
        """
        old = self._columns["sequence"].buffer[:before]
        places = np.searchsorted(old, sequences)
        known = places < before
        known[known] = old[places[known]] == sequences[known]
        fresh = len(sequences) - int(np.count_nonzero(known))
        places[~known] = np.arange(self._rows, self._rows + fresh)
        self._rows += fresh
        for column in self._all():
            _fit(column, self._rows)
        if fresh < len(sequences):
            for name, column in self._columns.items():
                if name.startswith(METRICS):  # another attempt may report other metrics
                    column.buffer[places[known]] = column.missing
        return places

    def _scatter(self, prefix: str, objects: Sequence[dict[str, Any]], positions: Array) -> None:
        """Write each key of these dicts into the column ``prefix`` + key. ``positions`` has the row of each
        dict.
        """
        for key, values in _members(objects):
            name = prefix + key
            if dict in set(map(type, values)):
                branches = [value if is_branch(value) else {} for value in values]
                if any(branches):
                    self._scatter(f"{name}/", branches, positions)
                    pairs = zip(branches, values, strict=True)
                    values = [MISSING if branch else value for branch, value in pairs]
            kinds = set(map(type, values)) - {type(MISSING)}
            if kinds:
                column = self._parameter(name, coded=not kinds <= {int, float})
                if column is not None:
                    column.write(positions, values)

    def _scatter_metrics(self, objects: Sequence[dict[str, Any]], positions: Array) -> None:
        for key, values in _members(objects):
            if key != "default" and {int, float} & set(map(type, values)):
                name = METRICS + key
                column = self._columns.get(name) or self._new(name, Numbers())
                if column is not None:
                    column.write(positions, values)

    # ---- columns ------------------------------------------------------------------------------------------

    def _declare(self, search_space: str) -> None:
        """Create a column for each parameter of the search space, before any trial has a value for it."""
        self.logarithmic.clear()
        self._numeric.clear()
        try:
            space = parse(json.loads(search_space))
        except SearchSpaceError:  # a user's tuner may have its own form of search space
            return
        self._declare_in(PARAMETERS, space)
        self._show()

    def _declare_in(self, prefix: str, space: Space) -> None:
        for key, spec in space.parameters:
            name = prefix + key
            match spec:
                case Numeric():
                    self._numeric.add(name)
                    if spec.type.logarithmic:
                        self.logarithmic.add(name)
                    self._parameter(name, coded=False)
                case Choice(options) if not any(isinstance(option, dict) for option in options):
                    self._categorise(name, options)
                case Nested(options):
                    self._categorise(f"{name}/_name", [option for option, _ in options])
                    for _, inner in options:
                        self._declare_in(f"{name}/", inner)

    def _categorise(self, name: str, options: Sequence[Any]) -> None:
        self._numeric.discard(name)
        column = self._parameter(name, coded=True)
        if isinstance(column, Coded):
            column.add(options)

    def _parameter(self, name: str, *, coded: bool) -> Numbers | Coded | None:
        """Return the column of a parameter, created if necessary. Return None if there are too many columns.

        A column of numbers becomes a column of categories (``coded``) when a value is not a number, unless
        the search space declares the parameter as a number.
        """
        column = self._columns.get(name)
        if column is None:
            return self._new(name, Coded() if coded and name not in self._numeric else Numbers())
        if coded and isinstance(column, Numbers) and name not in self._numeric:
            values = column.buffer[: self._rows]
            distinct = np.unique(values[~np.isnan(values)])
            if len(distinct) < MOST_CATEGORIES:
                column = self._columns[name] = _coded(values, distinct)
                _fit(column, self._rows)
        return column

    def _new(self, name: str, column: Numbers | Coded) -> Numbers | Coded | None:
        if len(self._columns) >= MOST_COLUMNS:
            self._left_out.add(name)
            return None
        self._columns[name] = column
        _fit(column, self._rows)
        return column

    def _all(self) -> Iterator[Numbers | Coded]:
        yield self._ids
        yield from self._columns.values()

    def _sort(self) -> None:
        sequences = self._columns["sequence"].buffer[: self._rows]
        if np.any(sequences[1:] < sequences[:-1]):
            order = np.argsort(sequences)
            for column in self._all():
                column.buffer[: self._rows] = column.buffer[order]

    def _show(self) -> None:
        """Update the public attributes ``ids``, ``arrays`` and ``categories`` from the internal columns.

        Columns of parameters come before columns of metrics.
        """
        names = sorted(self._columns, key=lambda name: name.startswith(METRICS))
        self.ids = self._ids.buffer[: self._rows]
        self.arrays = {name: self._columns[name].buffer[: self._rows] for name in names}
        self.categories = {
            name: column.categories for name in names if isinstance(column := self._columns[name], Coded)
        }


def _fit(column: Numbers | Coded, rows: int) -> None:
    """Enlarge the column's array so that it has at least this number of rows, and some spare rows."""
    buffer = column.buffer
    if len(buffer) < rows:
        column.buffer = np.full(int(rows * _SPARE) + 64, column.missing, buffer.dtype)
        column.buffer[: len(buffer)] = buffer


def _coded(values: Array, distinct: Array) -> Coded:
    column = Coded([int(value) if value.is_integer() else value for value in distinct.tolist()])
    codes = np.searchsorted(distinct, values)
    codes[np.isnan(values)] = column.missing
    column.buffer = codes.astype(column.buffer.dtype)
    return column


def _objects(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Parse each JSON text into a dict. A text that is not a JSON object becomes an empty dict."""
    try:
        found = from_json(f"[{','.join(texts)}]", cache_strings="keys")  # three times as fast as json
    except ValueError:
        found = []
    if len(found) != len(texts):
        found = [_object(text) for text in texts]
    return [value if type(value) is dict else {} for value in found]


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {}


def _members(objects: Sequence[dict[str, Any]]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield each key that any of the dicts has, with one value per dict: MISSING if the dict lacks it."""
    shapes = dict.fromkeys(map(tuple, objects))
    if len(shapes) == 1:
        (keys,) = shapes
        yield from zip(keys, zip(*map(dict.values, objects), strict=True), strict=True)
        return
    for key in dict.fromkeys(key for shape in shapes for key in shape):
        yield key, [found.get(key, MISSING) for found in objects]

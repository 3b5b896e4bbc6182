"""Export of trials as an Arrow IPC stream: a message with the schema, then one with a batch for each page.

The schema is chosen once, and pages follow it, also if the columns change meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import TIMES, Columns
from nnimgr.analysis.filters import parse_names
from nnimgr.analysis.paging import in_order
from nnimgr.analysis.table import check_names
from nnimgr.store.bulk import Snapshot

__all__ = ["arrow", "arrow_page"]

_ID = "id"
_WHOLE = ("sequence", "attempt", "intermediates")


def arrow(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> bytes:
    """Return which trials and fields an export contains, as JSON ``{sequences, fields}`` for ``arrow_page``.

    ``arguments`` has the arguments of ``in_order``, and ``columns``: names separated by commas (empty: all).
    A field is a pair of its name and its kind. Raise BadQuestion if an argument is not valid.
    """
    names = parse_names(arguments["columns"], field="columns") or [_ID, *columns.arrays]
    check_names(columns, [name for name in names if name != _ID], field="columns")
    sequences = columns.arrays["sequence"][in_order(columns, snapshot, arguments)]
    fields = [(name, _kind(columns, name)) for name in names]
    return json.dumps({"sequences": sequences.tolist(), "fields": fields}).encode()


def arrow_page(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> bytes:
    """Return one message of the stream.

    ``arguments`` has ``fields``, and ``sequences``: sequence numbers of the page's trials. Without any, the
    message is the schema.
    """
    import pyarrow

    kinds = {
        "text": pyarrow.string(),
        "time": pyarrow.timestamp("us", "UTC"),
        "whole": pyarrow.int64(),
        "number": pyarrow.float64(),
    }
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in arguments["fields"]])
    if not arguments["sequences"]:
        return bytes(schema.serialize())
    rows = columns.positions(arguments["sequences"])
    arrays = [
        pyarrow.array(_values(columns, name, kind, rows), kinds[kind]) for name, kind in arguments["fields"]
    ]
    return bytes(pyarrow.record_batch(arrays, schema=schema).serialize())


def _kind(columns: Columns, name: str) -> str:
    """Return the kind of a field: text, time, whole or number.

    A column of categories is text, unless all of them are numbers or None. A column of numbers is whole if
    all are.
    """
    if name == _ID:
        return "text"
    if name in TIMES:
        return "time"
    categories = columns.categories.get(name)
    if categories is not None and not all(
        value is None or type(value) in (int, float) for value in categories
    ):
        return "text"
    values = columns.numbers(name)
    values = values[~np.isnan(values)]
    is_whole = len(values) > 0 and name.startswith("parameters.") and bool(np.all(values == np.rint(values)))
    return "whole" if name in _WHOLE or (is_whole and np.abs(values).max() < 2**53) else "number"


def _values(columns: Columns, name: str, kind: str, rows: Array) -> Sequence[Any]:
    """Return the values of a field in these rows. None: the trial has no value."""
    if name == _ID:
        return [trial_id.decode() for trial_id in columns.ids[rows].tolist()]
    if name not in columns.arrays:  # the database was replaced meanwhile
        return [None] * len(rows)
    if kind == "text":
        return _texts(columns, name, rows)
    numbers = columns.numbers(name)[rows]
    missing = np.isnan(numbers)
    if kind == "time":
        origin = np.datetime64(columns.origin_at.replace(tzinfo=None), "us")
        times = origin + np.rint(np.where(missing, 0, numbers) * 1e6).astype("timedelta64[us]")
        return [None if lacks else time for time, lacks in zip(times.tolist(), missing, strict=True)]
    plain = numbers.tolist()
    if kind == "whole":
        return [
            None if lacks or value != int(value) else int(value)
            for value, lacks in zip(plain, missing, strict=True)
        ]
    return [None if lacks else value for value, lacks in zip(plain, missing, strict=True)]


def _texts(columns: Columns, name: str, rows: Array) -> list[str | None]:
    categories = columns.categories.get(name)
    if categories is None:
        return [None if np.isnan(value) else repr(value) for value in columns.numbers(name)[rows].tolist()]
    texts: dict[int, str] = {
        code: value if isinstance(value, str) else json.dumps(value)
        for code, value in enumerate(categories)
        if value is not None
    }
    return [texts.get(code) for code in columns.arrays[name][rows].tolist()]

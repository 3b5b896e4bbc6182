"""Answers with columns of the table of trials, and with a description of all its columns."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from nnimgr.analysis.binary_columns import PackedColumn, compact, pack
from nnimgr.analysis.columns import TIMES, Columns
from nnimgr.analysis.errors import BadQuestion
from nnimgr.analysis.filters import matching, parse_names
from nnimgr.store.bulk import Snapshot

__all__ = ["changed_columns", "check_names", "schema"]


def changed_columns(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> bytes:
    """Return columns of the table of trials, in the format of ``binary_columns``. ``sequence`` is always
    included.

    ``arguments`` has ``names`` (text with commas between names; empty: all columns), ``filter``,
    ``since``: return only trials that may have changed after this fact number (0: all trials), and
    ``exact``: do not round floats. Raise BadQuestion if an argument is not valid.
    """
    names = parse_names(arguments["names"], field="names") or list(columns.arrays)
    check_names(columns, names, field="names")
    rows: Any = matching(columns, arguments["filter"]) if arguments["filter"] else slice(None)
    if arguments["since"]:
        changed = np.isin(columns.ids, _ids(snapshot.changed(after=arguments["since"])))
        rows = np.flatnonzero(changed if isinstance(rows, slice) else changed & rows)
    arrays = {name: columns.arrays[name][rows] for name in dict.fromkeys(("sequence", *names))}
    header = {
        "revision": columns.revision,
        "rows": len(arrays["sequence"]),
        "total": len(columns),
        "originAt": columns.origin_at.isoformat(),
    }
    if not arguments["exact"]:
        arrays = {name: compact(array) for name, array in arrays.items()}
    categories = columns.categories
    return pack(header, [PackedColumn(name, array, categories.get(name)) for name, array in arrays.items()])


def schema(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> bytes:
    """Return the description of all columns of the table of trials, as the JSON text of a
    ``models.ColumnsSchema``.
    """
    described = [_described(columns, name) for name in columns.arrays]
    answer = {
        "revision": columns.revision,
        "total": len(columns),
        "leftOut": columns.left_out,
        "columns": described,
    }
    return json.dumps(answer, allow_nan=False).encode()


def check_names(columns: Columns, names: Iterable[str], *, field: str) -> None:
    """Raise BadQuestion if there is no column with one of these names.

    ``field``: field of the request from which the names come, for the error.
    """
    for name in names:
        if name not in columns.arrays:
            near = difflib.get_close_matches(name, columns.arrays, n=3, cutoff=0.5)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise BadQuestion(field, f"there is no column {name}{hint}")


def _described(columns: Columns, name: str) -> dict[str, Any]:
    coded = name in columns.categories
    kind = "status" if name == "status" else "category" if coded else "time" if name in TIMES else "number"
    values = columns.numbers(name)
    finite = values[~np.isnan(values)]
    some = len(finite) > 0
    return {
        "name": name,
        "kind": kind,
        "min": float(finite.min()) if some else None,
        "max": float(finite.max()) if some else None,
        "categories": columns.categories.get(name),
        "count": int(np.count_nonzero(columns.present(name))),
        "integer": some and not coded and bool(np.all(finite == np.rint(finite))),
        "log": name in columns.logarithmic,
    }


def _ids(trial_ids: set[str]) -> list[bytes]:
    return [trial_id.encode() for trial_id in trial_ids]

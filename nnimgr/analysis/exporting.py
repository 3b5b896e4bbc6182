"""Export of trials as text: CSV with a column for each parameter and metric, or JSON objects with the same
names.

The text is made page by page. Each page is a separate question to the analysis process, so that a long export
does not delay other questions. In CSV, text that a spreadsheet would take for a formula is made harmless.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from nnimgr.analysis.columns import METRICS, PARAMETERS, Columns
from nnimgr.analysis.errors import BadQuestion
from nnimgr.analysis.filters import parse_names
from nnimgr.analysis.flatten import flatten
from nnimgr.analysis.paging import in_order
from nnimgr.store.bulk import ExportRow, Snapshot

__all__ = ["export", "export_page"]

_EPOCH = datetime.fromtimestamp(0, UTC)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # how formulas in spreadsheets can begin


class _Tags(list[str]):
    """Tags of a trial. JSON shows them as a list, CSV as one text with commas between the tags."""


_OWN: Mapping[str, Callable[[ExportRow], Any]] = {
    "id": lambda row: row.trial_id,
    "sequence": lambda row: row.sequence,
    "status": lambda row: row.status,
    "source": lambda row: row.source,
    "attempt": lambda row: row.attempt,
    "created": lambda row: _instant(row.created_at),
    "started": lambda row: _instant(row.started_at),
    "ended": lambda row: _instant(row.ended_at),
    "duration": lambda row: _seconds(row.started_at, row.ended_at),
    "value": lambda row: _result(row.final_value, row.final_text),
    "latest": lambda row: _result(row.latest_value, row.latest_text),
    "intermediates": lambda row: row.intermediates,
    "reason": lambda row: row.reason,
    "note": lambda row: row.note,
    "userNote": lambda row: row.user_note or None,
    "tags": lambda row: _Tags(json.loads(row.tags)),
}


def export(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> bytes:
    """Return which trials and columns an export contains, as JSON ``{sequences, columns}`` for
    ``export_page``.

    ``arguments`` has the arguments of ``in_order``, which select and sort the trials, and ``columns``: names
    separated by commas (empty: all columns). Raise BadQuestion if an argument is not valid.
    """
    known = (*_OWN, *(name for name in columns.arrays if name.startswith((PARAMETERS, METRICS))))
    names = parse_names(arguments["columns"], field="columns")
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        message = f"there is no column {unknown}; valid for all trials are {', '.join(_OWN)}"
        raise BadQuestion("columns", message)
    sequences = columns.arrays["sequence"][in_order(columns, snapshot, arguments)]
    return json.dumps({"sequences": sequences.tolist(), "columns": names or known}).encode()


def export_page(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> bytes:
    """Return the text of one page of an export.

    ``arguments`` has ``sequences`` (sequence numbers of the page's trials, in the order of the text),
    ``columns`` and ``format``: "csv" gives lines, "json" gives objects with commas between them. CSV without
    any sequence numbers gives the header line.
    """
    names = arguments["columns"]
    rows = {row.sequence: row for row in snapshot.export_rows(arguments["sequences"])}
    found = [_values(rows[sequence], names) for sequence in arguments["sequences"] if sequence in rows]
    if arguments["format"] == "csv":
        return _lines([[_cell(value) for value in values] for values in found or [names]])
    objects = (dict(zip(names, values, strict=True)) for values in found)
    text = ",".join(json.dumps(value, allow_nan=False, ensure_ascii=False) for value in objects)
    return text.encode("utf-8", "backslashreplace")  # half of a surrogate pair is written as in JSON


def _values(row: ExportRow, names: Sequence[str]) -> list[Any]:
    """Return one trial's values in the columns ``names``, as JSON values. A value that the trial lacks is
    None.
    """
    more: dict[str, Any] = {}
    parameters, final = _plain(row.parameters), _plain(row.final_text)
    if isinstance(parameters, dict):
        more.update((PARAMETERS + name, value) for name, value in flatten(parameters))
    if isinstance(final, dict):
        more.update((METRICS + key, value) for key, value in final.items())
    return [_OWN[name](row) if name in _OWN else more.get(name) for name in names]


def _plain(text: str | None) -> Any:
    """Return the value of a JSON text. Numbers that are not finite become None; other text is returned
    unchanged.
    """
    if text is None:
        return None
    try:
        return json.loads(text, parse_constant=lambda _: None, parse_float=_finite)
    except (ValueError, RecursionError):
        return text


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _result(value: float | None, text: str | None) -> Any:
    """Return a metric's number. If there is none, return the value that the trial reported, such as NaN.

    The result is None for a metric that is an object without a main number.
    """
    if value is not None or text is None:
        return value
    plain = _plain(text)
    return None if isinstance(plain, dict) else text if plain is None else plain


def _instant(us: int | None) -> str | None:
    return None if us is None else (_EPOCH + timedelta(microseconds=us)).isoformat()


def _seconds(begin: int | None, end: int | None) -> float | None:
    return None if begin is None or end is None else (end - begin) / 1e6


def _lines(rows: Sequence[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", "backslashreplace")


def _cell(value: Any) -> Any:
    if value is None or type(value) in (int, float):
        return value
    if isinstance(value, _Tags):
        value = ",".join(value)
    return _harmless(value) if isinstance(value, str) else json.dumps(value)


def _harmless(text: str) -> str:
    """Return the text in a form that no spreadsheet takes for a formula."""
    if not text.startswith(_FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text

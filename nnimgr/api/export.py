"""The text of exported trials, page by page. It is made in threads, from the database's rows."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from nnimgr.analysis.flat import flat
from nnimgr.api import models
from nnimgr.api.convert import plain_json, trials_fields
from nnimgr.api.places import Places
from nnimgr.store.reader import ExperimentReader, TrialRow

__all__ = ["CELLS", "as_csv", "as_json"]

_PAGE = 500
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # what spreadsheets take for the beginning of one

_Cell = Callable[[TrialRow], Any]

CELLS: Mapping[str, _Cell] = {
    "id": lambda row: row.trial_id,
    "sequence": lambda row: row.sequence,
    "status": lambda row: row.status.value,
    "source": lambda row: row.source.value,
    "attempt": lambda row: row.attempt,
    "created": lambda row: row.created_at.isoformat(),
    "started": lambda row: _instant(row.started_at),
    "ended": lambda row: _instant(row.ended_at),
    "duration": lambda row: _duration(row),
    "value": lambda row: _result(row.final_value, row.final_text),
    "latest": lambda row: _result(row.latest_value, row.latest_text),
    "intermediates": lambda row: row.intermediates,
    "reason": lambda row: row.reason,
    "note": lambda row: row.note,
}


def as_csv(reader: ExperimentReader, sequences: Sequence[int], columns: Sequence[str]) -> Iterator[str]:
    """A line with the columns' names, then one per trial. A text never begins like a formula."""
    yield _lines([[_harmless(name) for name in columns]])
    for rows in _pages(reader, sequences):
        yield _lines([[_csv_cell(value) for value in _values(row, columns)] for row in rows])


def as_json(
    reader: ExperimentReader, sequences: Sequence[int], columns: Sequence[str] | None, *, places: Places
) -> Iterator[str]:
    """``{"total", "trials"}`` as ``models.Trials``; with columns, each trial is an object of these only."""
    yield f'{{"total":{len(sequences)},"trials":['
    separator = ""
    for rows in _pages(reader, sequences):
        if columns is None:
            found = trials_fields(reader, rows, places)
            texts = [models.Trial(**fields).model_dump_json() for fields in found]
        else:
            texts = [
                json.dumps(dict(zip(columns, _values(row, columns), strict=True)), allow_nan=False)
                for row in rows
            ]
        yield separator + ",".join(texts)
        separator = ","
    yield "]}"


def _pages(reader: ExperimentReader, sequences: Sequence[int]) -> Iterator[list[TrialRow]]:
    for begin in range(0, len(sequences), _PAGE):
        yield reader.trials_at(sequences[begin : begin + _PAGE])


def _values(row: TrialRow, columns: Sequence[str]) -> list[Any]:
    """JSON values; None where the trial has none."""
    named: dict[str, Any] = {}
    parameters = plain_json(row.parameters)
    if isinstance(parameters, dict):
        named.update((f"parameters.{name}", value) for name, value in flat(parameters))
    final = None if row.final_text is None else plain_json(row.final_text)
    if isinstance(final, dict):
        named.update((f"metrics.{key}", value) for key, value in final.items())
    return [CELLS[name](row) if name in CELLS else named.get(name) for name in columns]


def _instant(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()


def _duration(row: TrialRow) -> float | None:
    if row.started_at is None or row.ended_at is None:
        return None
    return (row.ended_at - row.started_at).total_seconds()


def _result(value: float | None, text: str | None) -> Any:
    """The number in a metric; of one without any what the trial wrote."""
    if value is not None or text is None:
        return value
    try:
        written = json.loads(text)
    except ValueError:
        return text
    if isinstance(written, dict):
        return None
    return text if isinstance(written, float) and not math.isfinite(written) else plain_json(text)


def _lines(rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _csv_cell(value: Any) -> Any:
    if value is None or type(value) in (int, float):
        return value
    return _harmless(value) if isinstance(value, str) else json.dumps(value)


def _harmless(text: str) -> str:
    """The same text, which no spreadsheet takes for a formula."""
    if not text.startswith(_FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text

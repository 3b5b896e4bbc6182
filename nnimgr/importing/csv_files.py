"""Reader of CSV files: one line for each trial."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from nnimgr.importing.trials import (
    Foreigners,
    ForeignTrial,
    SourceError,
    Wanted,
    instant,
    parsed,
    result_of,
    text_of,
)
from nnimgr.rules.terms import TrialStatus

__all__ = ["check_columns", "read_csv", "rows_of"]

_RESULTS = ("reward", "value", "default")
_NAMES = ("trialJobId", "id", "trial", "number", "sequence")
_STATUSES = ("status", "state")
_TIMES = ("created", "started", "ended")
_INTERMEDIATE = "intermediate"
_PREFIX, _METRICS = "parameters.", "metrics."
# further columns of files that nnimgr writes
_OTHERS = ("source", "attempt", "duration", "latest", "intermediates", "reason", "note", "userNote", "tags")
_KNOWN = frozenset((*_RESULTS, *_NAMES, *_STATUSES, *_TIMES, _INTERMEDIATE, *_OTHERS))

Row = tuple[int, Mapping[str, str]]


def read_csv(source: str, wanted: Wanted) -> Foreigners:
    """Read a CSV file. Raise SourceError with line and column of the first value that is not valid."""
    path = Path(source)
    columns, rows = rows_of(path)
    metrics = wanted.metrics or _metrics_in(path, columns)
    named = (*metrics, *wanted.parameters)
    check_columns(path, [name for name in named if not _column(name, columns)], columns)
    parameters = wanted.parameters or _parameters_in(path, columns, metrics)
    trials = [_trial(path, line, row, metrics, parameters) for line, row in rows]
    return Foreigners(title=f"the file {path.name}", trials=trials)


def check_columns(path: Path, missing: Sequence[str], columns: Sequence[str]) -> None:
    """Raise SourceError if a column is missing."""
    if missing:
        raise SourceError(
            f"{path}, line 1: there is no column {missing[0]!r}; valid are {', '.join(columns)}"
        )


def rows_of(path: Path) -> tuple[list[str], list[Row]]:
    """Return the names of the columns, and the rows with their line numbers. Raise SourceError."""
    reader = csv.reader(io.StringIO(text_of(path), newline=""), strict=True)
    rows: list[Row] = []
    columns: list[str] = []
    try:
        for cells in reader:
            if not columns:
                columns = cells
                continue
            if not cells:
                continue
            if len(cells) != len(columns):
                raise SourceError(
                    f"{path}, line {reader.line_num}: it has {len(cells)} cells, but line 1 names "
                    f"{len(columns)} columns"
                )
            rows.append((reader.line_num, dict(zip(columns, cells, strict=True))))
    except csv.Error as error:
        raise SourceError(f"{path}, line {reader.line_num}: it is not CSV: {error}") from error
    if not rows:
        raise SourceError(
            f"{path} has no trials: line 1 must name the columns, and each further line is a trial"
        )
    twice = next((name for at, name in enumerate(columns) if name in columns[:at]), None)
    if twice is not None:
        raise SourceError(f"{path}, line 1: there are two columns {twice!r}")
    return columns, rows


def _column(name: str, columns: Sequence[str]) -> str | None:
    """Return the column of a parameter or metric, whose name may have a prefix."""
    return next((each for each in (name, _PREFIX + name, _METRICS + name) if each in columns), None)


def _metrics_in(path: Path, columns: Sequence[str]) -> tuple[str, ...]:
    found = next((name for name in _RESULTS if name in columns), None)
    if found is None:
        raise SourceError(
            f"{path}, line 1: there is no column {' or '.join(map(repr, _RESULTS))} with the results; "
            f"the columns are {', '.join(columns)}",
            hint="Name the column: {command} --metric NAME",
        )
    return (found,)


def _parameters_in(path: Path, columns: Sequence[str], metrics: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the parameters: the columns with their prefix, or else those that mean nothing
    else.
    """
    prefixed = tuple(name[len(_PREFIX) :] for name in columns if name.startswith(_PREFIX))
    others = tuple(name for name in columns if name not in _KNOWN and name not in metrics)
    if not (prefixed or others):
        raise SourceError(
            f"{path}, line 1: there is no column of a parameter; the columns are {', '.join(columns)}"
        )
    return prefixed or others


def _trial(
    path: Path, line: int, row: Mapping[str, str], metrics: Sequence[str], parameters: Sequence[str]
) -> ForeignTrial:
    place = f"{path}, line {line}"
    cells = {name: row[_column(name, list(row)) or name] for name in (*metrics, *parameters)}
    final = result_of(cells, metrics, place=place)
    status = _status(row, final, place)
    live = not status.terminal
    times: dict[str, datetime | None] = {
        name: instant(row.get(name), place=f"{place}: {name!r}") for name in _TIMES
    }
    return ForeignTrial(
        name=next((row[name] for name in _NAMES if row.get(name)), f"line {line}"),
        parameters={name: parsed(cells[name]) for name in parameters if cells[name] != ""},
        status=TrialStatus.SYS_CANCELED if live else status,
        reason=row.get("reason") or f"its row is line {line} of {path.name}",
        final=final,
        reports=[(value, None) for value in _reports(row.get(_INTERMEDIATE), place)],
        rerun=live or status is TrialStatus.SYS_CANCELED,
        **times,
    )


def _status(row: Mapping[str, str], final: Any, place: str) -> TrialStatus:
    name = next((each for each in _STATUSES if row.get(each)), None)
    if name is None:
        return TrialStatus.FAILED if final is None else TrialStatus.SUCCEEDED
    status = next((each for each in TrialStatus if each.value == row[name].upper()), None)
    if status is None:
        raise SourceError(f"{place}: {name!r} is {row[name]!r}; valid are {', '.join(TrialStatus)}")
    return status


def _reports(text: str | None, place: str) -> list[Any]:
    if not text:
        return []
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, list):
        raise SourceError(f"{place}: {_INTERMEDIATE!r} is {text!r}; it must be a list such as [0.1, 0.2]")
    return values

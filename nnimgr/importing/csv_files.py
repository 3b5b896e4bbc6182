"""Reader of tables: CSV files with one line for each trial, and what the dashboard downloads."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from nnimgr.importing.spaces import options_at
from nnimgr.importing.trials import (
    Foreigners,
    ForeignTrial,
    SourceError,
    Wanted,
    instant,
    number_of,
    parsed,
    part_of,
    result_of,
    text_of,
    without_final,
)
from nnimgr.rules.terms import SuggestionSource, TrialStatus

__all__ = ["check_columns", "read_csv", "read_download", "rows_of"]

_REWARD, _DEFAULT = "reward", "default"  # columns that "nnictl experiment export" has for results
_RESULTS = (_REWARD, "value", _DEFAULT)
_NAMES = ("trialJobId", "id", "trial", "number", "sequence")
_STATUSES = ("status", "state")
_TIMES = ("created", "started", "ended")
_INTERMEDIATE = "intermediate"
_PARAMETERS, _METRICS = "parameters.", "metrics."
_BRANCH = "_name"  # key of the name in a branch of a nested choice
_KNOWN = frozenset((*_RESULTS, *_NAMES, *_STATUSES, *_TIMES, _INTERMEDIATE, "reason"))
# further columns of tables from the dashboard and of the sink
_OTHERS = frozenset(("source", "attempt", "duration", "latest", "intermediates", "note", "userNote", "tags"))
_EXPORTED = "trialJobId"  # column that only "nnictl experiment export" writes
_DOWNLOADED = frozenset(("id", "sequence", "attempt", "value"))  # columns of a table from the dashboard
_OF_SINK = frozenset(("number", "id", "status", "value", "result"))  # columns of the sink ``csv``
_CONFIRMS = SuggestionSource.CONFIRMATION.value  # source of trials that are no results of the search
_JSON = "result"  # column of the sink with the result as JSON
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # before such a letter, an export may write an apostrophe

Row = tuple[int, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class _Table:
    """What the columns of a table mean.

    ``whole``: the column with a result that is one value. ``metrics``: name -> column of each part of a
    result that is a mapping. ``parameters``: the keys that lead to a value, several in a nested choice -> its
    column. ``options``: the same keys -> the values from which a choice was made, if they are known.
    ``meanings``: the columns whose name has a meaning, such as "status". ``own``: an export, the dashboard or
    a sink has written the table, so a result that is no number is what the trial has reported.
    """

    wanted: Sequence[str]  # names of the numbers that make up a result; empty: all
    coded: bool  # the whole result is JSON
    whole: str | None
    metrics: Mapping[str, str]
    parameters: Mapping[tuple[str, ...], str]
    options: Mapping[tuple[str, ...], Sequence[Any]]
    meanings: frozenset[str]
    own: bool


def read_csv(source: str, wanted: Wanted) -> Foreigners:
    """Read a CSV file. Raise SourceError with line and column of the first value that is not valid."""
    path = Path(source)
    columns, rows = rows_of(path)
    return _read(path, columns, ((f"line {line}", row) for line, row in rows), wanted)


def read_download(path: Path, trials: Sequence[Any], wanted: Wanted) -> Foreigners:
    """Read the trials in a JSON file that the dashboard has downloaded. Raise SourceError."""
    if not trials or not all(isinstance(trial, dict) for trial in trials):
        raise SourceError(f"{path} must have an object for each trial under 'trials'")
    columns = list(dict.fromkeys(name for trial in trials for name in trial))
    rows = [{name: _text(trial.get(name)) for name in columns} for trial in trials]
    return _read(path, columns, ((f"trial {at}", row) for at, row in enumerate(rows, 1)), wanted)


def _text(value: Any) -> str:
    """Return a JSON value as the text that a cell of a CSV file has for it."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _read(
    path: Path, columns: Sequence[str], rows: Iterable[tuple[str, Mapping[str, str]]], wanted: Wanted
) -> Foreigners:
    rows = list(rows)
    cells = [row for _, row in rows]
    if _is_mixed(columns, cells):
        table = _mixed_table(path, columns, wanted)
    else:
        table = _table(path, columns, wanted, in_parts=_in_parts(columns, cells))
    search = ((place, row) for place, row in rows if not (table.own and row.get("source") == _CONFIRMS))
    return Foreigners(
        title=f"the file {path.name}", trials=[_trial(path, place, row, table) for place, row in search]
    )


def check_columns(path: Path, missing: Sequence[str], columns: Sequence[str], *, wanted_by: str = "") -> None:
    """Raise SourceError if a column is missing. ``wanted_by``: says who needs it, for the error."""
    if missing:
        raise SourceError(
            f"{path}, line 1: there is no column {missing[0]!r}{wanted_by}; the columns are "
            f"{', '.join(columns)}"
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


def _in_parts(columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> bool:
    """Return whether this is an export of nnimgr: parameters, then the trial's id, then the result.

    NNI's exports have the same columns in any order. No row of an export has both a reward and other metrics.
    """
    if _EXPORTED not in columns:
        return False
    at = columns.index(_EXPORTED)
    before, after = columns[:at], [name for name in columns[at + 1 :] if name != _INTERMEDIATE]
    if any(name in before and _METRICS + name not in after for name in (_REWARD, _DEFAULT)):
        return False
    reward = _reward_in(after)
    metrics = [name for name in after if name != reward]
    both = reward is not None and any(row[reward] and any(row[name] for name in metrics) for row in rows)
    return bool(after) and not both


def _is_mixed(columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> bool:
    """Return whether this is an export of NNI with results that are mappings.

    NNI writes the columns in any order, so their places do not say which are parameters and which are parts
    of a result. The ids of NNI's trials have capital letters, those of nnimgr do not.
    """
    by_nni = _EXPORTED in columns and any(row[_EXPORTED] != row[_EXPORTED].lower() for row in rows)
    return by_nni and not (_REWARD in columns and all(row[_REWARD] for row in rows))


def _mixed_table(path: Path, columns: Sequence[str], wanted: Wanted) -> _Table:
    """Return what the columns of such an export mean. Raise SourceError if the parameters are not known."""
    if not wanted.parameters:
        raise SourceError(
            f"{path}, line 1: NNI has written the columns in any order, so it is not known which are "
            f"parameters and which are parts of the results; the columns are {', '.join(columns)}",
            hint="Name the parameters with --parameters x,y or --config FILE, or import NNI's JSON export",
        )
    names = {name: name for name in columns}
    parameters = _parameters_in(path, columns, names, wanted.parameters)
    others = {*parameters.values(), _EXPORTED, _INTERMEDIATE}
    if wanted.metrics:
        whole, metrics = _results_in(path, columns, wanted, in_parts=False)
    else:
        whole = _REWARD if _REWARD in columns and _REWARD not in others else None
        metrics = {name: name for name in columns if name not in others and name != whole}
    return _Table(
        wanted=wanted.metrics,
        coded=False,
        whole=whole,
        metrics=metrics,
        parameters=parameters,
        options={keys: options_at(wanted.space, keys) for keys in parameters},
        meanings=frozenset((_EXPORTED, _INTERMEDIATE)),
        own=True,
    )


def _reward_in(columns: Sequence[str]) -> str | None:
    return next((name for name in columns if name in (_REWARD, _METRICS + _REWARD)), None)


def _table(path: Path, columns: Sequence[str], wanted: Wanted, *, in_parts: bool) -> _Table:
    """Return what the columns mean. Raise SourceError if one is missing."""
    coded, exported = _OF_SINK.issubset(columns), _EXPORTED in columns
    whole, metrics = (_JSON, {}) if coded else _results_in(path, columns, wanted, in_parts=in_parts)
    downloaded = _DOWNLOADED.issubset(columns)
    meanings = frozenset((_EXPORTED, _INTERMEDIATE)) if exported else _KNOWN
    if coded or downloaded:
        meanings |= _OTHERS
    names = {name.removeprefix(_PARAMETERS): name for name in columns if name.startswith(_PARAMETERS)}
    if not names:
        others = (*meanings, *metrics.values(), whole)
        known = columns[: columns.index(_EXPORTED)] if in_parts else columns
        names = {name: name for name in known if in_parts or name not in others}
    parameters = _parameters_in(path, columns, names, wanted.parameters)
    return _Table(
        wanted=wanted.metrics,
        coded=coded,
        whole=whole,
        metrics=metrics,
        parameters=parameters,
        options={keys: options_at(wanted.space, keys) for keys in parameters},
        meanings=meanings - {*parameters.values()},
        own=exported or coded or downloaded,
    )


def _column(prefix: str, name: str, columns: Sequence[str]) -> str | None:
    """Return the column of a parameter or metric, whose name may have the prefix."""
    return next((each for each in (prefix + name, name) if each in columns), None)


def _results_in(
    path: Path, columns: Sequence[str], asked: Wanted, *, in_parts: bool
) -> tuple[str | None, dict[str, str]]:
    """Return the column of results that are one value, and the columns of those that are mappings."""
    if wanted := asked.metrics:
        found = {name: _column(_METRICS, name, columns) for name in wanted}
        if not (asked.named or wanted[1:] or found[wanted[0]]) and _EXPORTED in columns:
            found[wanted[0]] = _reward_in(columns)
        if found[wanted[0]] is None and _DOWNLOADED.issubset(columns):
            found[wanted[0]] = "value"  # where the dashboard writes the main objective
        check_columns(path, [name for name, column in found.items() if column is None], columns)
        metrics = {name: column for name, column in found.items() if column is not None}
        return (None, metrics) if len(metrics) > 1 else (metrics[wanted[0]], {})
    if in_parts:
        after = [name for name in columns[columns.index(_EXPORTED) + 1 :] if name != _INTERMEDIATE]
        whole = _reward_in(after)
        return whole, {name.removeprefix(_METRICS): name for name in after if name != whole}
    results = (_REWARD, _DEFAULT) if _EXPORTED in columns else _RESULTS
    whole = next((name for name in results if name in columns), None)
    if whole is None:
        raise SourceError(
            f"{path}, line 1: there is no column {' or '.join(map(repr, _RESULTS))} with the results; "
            f"the columns are {', '.join(columns)}",
            hint="Name the column: {command} --metric NAME",
        )
    return whole, {}


def _parameters_in(
    path: Path, columns: Sequence[str], names: Mapping[str, str], wanted: Sequence[str]
) -> dict[tuple[str, ...], str]:
    """Return the columns of the parameters: all in ``names`` (name -> column), or those that are wanted."""
    found: dict[tuple[str, ...], str] = {}
    missing = []
    all_keys = {_keys(name, names): column for name, column in names.items()}
    for name in wanted:
        column = _column(_PARAMETERS, name, columns)
        nested = {keys: each for keys, each in all_keys.items() if keys[0] == name}
        found |= nested if column is None else {(name,): column}
        missing += [name] if column is None and not nested else []
    check_columns(
        path, missing, columns, wanted_by=" for this parameter of the search space or of --parameters"
    )
    if not (wanted or all_keys):
        raise SourceError(
            f"{path}, line 1: there is no column of a parameter; the columns are {', '.join(columns)}"
        )
    return found or all_keys


def _keys(name: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """Split the name of a column such as ``net/width`` into keys if there is a column ``net/_name``."""
    keys, begin = [], 0
    for at, letter in enumerate(name):
        if letter == "/" and f"{name[:at]}/{_BRANCH}" in names:
            keys.append(name[begin:at])
            begin = at + 1
    return (*keys, name[begin:])


def _trial(path: Path, where: str, row: Mapping[str, str], table: _Table) -> ForeignTrial:
    place = f"{path}, {where}"
    final = _result(row, table, place)
    known = {name: cell for name, cell in row.items() if name in table.meanings}
    status = _status(known, final, place, own=table.own)
    live = not status.terminal
    times: dict[str, datetime | None] = {
        name: instant(known.get(name), place=f"{place}: {name!r}") for name in _TIMES
    }
    reports = _reports(known.get(_INTERMEDIATE), place)
    return ForeignTrial(
        name=next((known[name] for name in _NAMES if known.get(name)), where),
        parameters=_parameters(row, table),
        status=TrialStatus.SYS_CANCELED if live else status,
        reason=known.get("reason") or f"its row is {where} of {path.name}",
        final=final,
        reports=[
            (part_of(value, table.wanted), None)
            for value in (without_final(reports, final) if table.own else reports)
        ],
        rerun=live or status is TrialStatus.SYS_CANCELED,
        **times,
    )


def _result(row: Mapping[str, str], table: _Table, place: str) -> Any:
    """Return the result in a row; None: it has none. Raise SourceError."""
    if table.coded:
        return part_of(_parsed(row[_JSON]), table.wanted)
    if table.whole is not None and (row[table.whole] != "" or not table.metrics):
        columns = {table.whole: table.whole}
    else:
        columns = dict(table.metrics)
    if not table.own:
        return result_of({name: row[column] for name, column in columns.items()}, tuple(columns), place=place)
    reported = {name: _reported(row[column]) for name, column in columns.items() if row[column] != ""}
    return reported.get(table.whole) if table.whole in columns else reported or None


def _parsed(text: str) -> Any:
    """Return the value of a JSON text; without one, None."""
    try:
        return json.loads(text)
    except ValueError:
        return text or None


def _reported(cell: str) -> Any:
    """Return what a trial has reported: a number, or another value of JSON, or text."""
    if cell == "null":
        return None
    number = number_of(cell)
    return parsed(_plain(cell)) if number is None else number


def _parameters(row: Mapping[str, str], table: _Table) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for keys, column in table.parameters.items():
        cell, options = row[column], table.options[keys]
        if cell == "" and "" not in options and None not in options:
            continue
        *branches, name = keys
        at = found
        for branch in branches:
            at = at.setdefault(branch, {})
        at[name] = (
            cell if branches and name == _BRANCH else _value(_plain(cell) if table.own else cell, options)
        )
    return found


def _value(cell: str, options: Sequence[Any]) -> Any:
    """Return the value in a cell. Text that is an option stays a text, even if it looks like a number."""
    if cell in options:
        return cell
    return parsed(cell) if cell else None


def _plain(cell: str) -> str:
    """Return a cell without the apostrophe with which an export keeps spreadsheets from running a formula."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA) else cell


def _status(row: Mapping[str, str], final: Any, place: str, *, own: bool) -> TrialStatus:
    name = next((each for each in _STATUSES if row.get(each)), None)
    if name is None:
        return TrialStatus.SUCCEEDED if final is not None or own else TrialStatus.FAILED
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

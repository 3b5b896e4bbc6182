"""Trials of another program as its reader returns them, before they become facts of an experiment."""

from __future__ import annotations

import ast
import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nnimgr.rules.terms import TrialStatus

__all__ = [
    "ForeignTrial",
    "Foreigners",
    "SourceError",
    "Wanted",
    "expressible",
    "instant",
    "json_of",
    "number_of",
    "parsed",
    "part_of",
    "result_of",
    "text_of",
    "without_final",
]


class SourceError(Exception):
    """Error: a source cannot be read, or a value in it is not valid. ``hint``: what the user can do."""

    def __init__(self, sentence: str, *, hint: str = "") -> None:
        super().__init__(sentence)
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a user has said about a source.

    ``metrics``: names of the numbers that make up a result. ``named``: whether the user has named them; else
    they are the objectives of the experiment, and a result that is one number is the only objective.
    ``parameters``: names of the parameters. ``space``: the search space of the experiment that gets the
    trials. ``study``: name of an Optuna study.
    Empty and None: the reader decides.
    """

    metrics: tuple[str, ...] = ()
    named: bool = True
    parameters: tuple[str, ...] = ()
    space: Mapping[str, Any] = field(default_factory=dict)
    study: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTrial:
    """Ended trial of another program.

    ``name``: its name there. ``final``: its result, a number or a mapping of names to numbers; None: it has
    none. ``reports``: its intermediate results, each with its time. None as a time: unknown. ``rerun``: the
    trial had not ended there, so a resume runs its parameters again.
    """

    name: str
    parameters: Mapping[str, Any]
    status: TrialStatus
    reason: str
    final: Any = None
    reports: Sequence[tuple[Any, datetime | None]] = ()
    created: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None
    rerun: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreigners:
    """All trials of a source, in their order there.

    ``title``: what the source is, for sentences. ``space``: the search space that the source states.
    ``directions``: name of each number in a result -> "maximize" or "minimize"; a single result without a
    name has the name "". Both are empty if the source does not state them.
    """

    title: str
    trials: Sequence[ForeignTrial]
    space: Mapping[str, Any] = field(default_factory=dict)
    directions: Mapping[str, str] = field(default_factory=dict)


def expressible(value: Any) -> Any:
    """Return a value in JSON's types. What JSON cannot express, such as infinity, becomes text."""
    return json.loads(json.dumps(value, default=str), parse_constant=str)


def parsed(text: str) -> Any:
    """Return the value in the cell of a table: a number, true, false, a list, an object, or text.

    Lists and objects are written as JSON or, as in NNI's tables, as Python writes them.
    """
    try:
        value = json.loads(text)
    except ValueError:
        value = {"True": True, "False": False}.get(text, text)
        if text.startswith(("{", "[")):
            with contextlib.suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                value = json.loads(json.dumps(ast.literal_eval(text)))
    return text if value is None else value


def number_of(value: Any) -> float | int | None:
    """Return a value if it is a number, also if it is a text with a number; otherwise None."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}.get(value.strip().lower())
    return value if type(value) in (int, float) else None


def result_of(values: Mapping[str, Any], metrics: Sequence[str], *, place: str) -> Any:
    """Return a result: one number, or a mapping if there are several metrics. None: all of them are missing.

    A mapping lacks the metrics that are missing. ``place``: where the values are, for errors. Raise
    SourceError if a metric is not a number.
    """
    present = {name: values[name] for name in metrics if values.get(name) not in (None, "")}
    numbers = {}
    for name, value in present.items():
        number = number_of(value)
        if number is None:
            raise SourceError(f"{place}: {name!r} is {value!r}; it must be a number")
        numbers[name] = number
    return (numbers or None) if len(metrics) > 1 else numbers.get(metrics[0])


def part_of(result: Any, metrics: Sequence[str]) -> Any:
    """Return the part of a result that is wanted. Several metrics stay a mapping, with everything else."""
    if isinstance(result, Mapping) and len(metrics) == 1:
        return result.get(metrics[0], result)
    return result


def without_final(reports: Sequence[Any], final: Any) -> list[Any]:
    """Return the intermediate results of an export, which has the final result among them, too."""
    for at in reversed(range(len(reports))):
        if _includes(reports[at], final):
            return [*reports[:at], *reports[at + 1 :]]
    return list(reports)


def _includes(report: Any, final: Any) -> bool:
    """Return whether the report is the final result, of which a reader may have taken only a part."""
    if isinstance(report, Mapping) and isinstance(final, Mapping):
        return all(name in report and _same(report[name], value) for name, value in final.items())
    parts = report.values() if isinstance(report, Mapping) else (report,)
    return any(_same(part, final) for part in parts)


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def instant(value: Any, *, place: str) -> datetime | None:
    """Return the time in an ISO 8601 text or in a number of seconds since 1970. Raise SourceError."""
    if value in (None, ""):
        return None
    seconds = number_of(value)
    try:
        if seconds is not None:
            return datetime.fromtimestamp(seconds, UTC)
        found = datetime.fromisoformat(str(value))
    except (ValueError, OverflowError, OSError):
        raise SourceError(
            f"{place} is {value!r}; it must be a time such as 2026-01-31T12:00:00+00:00, or a number of "
            "seconds since 1970"
        ) from None
    return found if found.tzinfo is not None else found.astimezone()


def text_of(path: Path) -> str:
    """Return the text of a file. Raise SourceError if the file cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(f"{path} is not UTF-8 text: {error.reason}") from error
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from error


def json_of(path: Path) -> Any:
    """Return the JSON value in a file. Raise SourceError if the file holds no JSON."""
    try:
        return json.loads(text_of(path))
    except ValueError as error:
        raise SourceError(f"{path} is not JSON: {error}") from error

"""Sink that writes two CSV files: the ended trials, and the intermediate results that count."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nnimgr.sink import (
    Event,
    Experiment,
    Reported,
    Sink,
    TrialCreated,
    TrialEnded,
    TrialRestarted,
    TrialStarted,
    as_json,
)
from nnimgr.sinks.appended import AppendedFiles

__all__ = ["CsvSink"]

TRIALS, METRICS = "trials.csv", "metrics.csv"
_OPEN = "open.json"  # the trials that have not ended, which have no row yet
_TRIAL_COLUMNS = (
    *("number", "id", "status", "value", "created", "started", "ended", "reason", "result", "source"),
)
_METRIC_COLUMNS = ("trial", "step", "value", "at", "result")
_PREFIX = "parameters."


class CsvSink(Sink):
    """Sink that writes ``trials.csv`` and ``metrics.csv``. ``directory``: their folder.

    A rollback removes the rows of the trial that no longer count from ``metrics.csv``.
    """

    def __init__(self, directory: str | None = None) -> None:
        self._directory = directory
        self._files: AppendedFiles
        self._names: list[str] = []  # of the parameters
        self._columns: Sequence[str] = _TRIAL_COLUMNS  # the others; earlier versions have written fewer
        self._live: dict[str, dict[str, Any]] = {}  # the trials that have not ended, by their ids

    def open(self, experiment: Experiment) -> int:
        folder = Path(self._directory) if self._directory else experiment.directory
        self._files = AppendedFiles(folder, experiment, sink="csv")
        number = self._files.open()
        if number == 0:
            self._names = list(experiment.search_space)
        else:
            with (folder / TRIALS).open(encoding="utf-8", newline="") as file:
                header = next(csv.reader(file))
            self._names = [name.removeprefix(_PREFIX) for name in header if name.startswith(_PREFIX)]
            self._columns = [name for name in header if not name.startswith(_PREFIX)]
            self._live = json.loads((folder / _OPEN).read_text(encoding="utf-8"))
        return number

    def write(self, events: Sequence[Event]) -> None:
        before = len(self._names)
        trials, metrics, dropped = self._rows(events)
        appended: dict[str, Iterable[bytes]] = {}
        replaced: dict[str, Iterable[bytes]] = {_OPEN: [as_json(self._live).encode()]}
        if not self._files.size(TRIALS):
            appended[TRIALS] = [_lines([self._header(), *self._filled(trials)])]
        elif len(self._names) == before:
            appended[TRIALS] = [_lines(trials)]
        else:
            replaced[TRIALS] = self._widened(trials)
        if dropped and self._files.size(METRICS):
            replaced[METRICS] = self._kept(dropped, metrics)
        else:
            appended[METRICS] = [
                _lines(metrics if self._files.size(METRICS) else [_METRIC_COLUMNS, *metrics])
            ]
        self._files.commit(events[-1].number, appended, replaced)

    def _rows(
        self, events: Sequence[Event]
    ) -> tuple[list[Sequence[Any]], list[Sequence[Any]], Mapping[int, int]]:
        """Return new rows of trials and of metrics, and the earlier metrics to drop: trial -> first step."""
        trials: list[Sequence[Any]] = []
        metrics: list[Sequence[Any]] = []
        dropped: dict[int, int] = {}
        for event in events:
            match event:
                case TrialCreated():
                    created = {"created": event.at.isoformat(), "source": event.source}
                    self._live[event.trial_id] = created | {"given": event.parameters}
                case TrialStarted():
                    self._live.setdefault(event.trial_id, {})["started"] = event.at.isoformat()
                case Reported():
                    row = (event.trial, event.step, event.value, event.at.isoformat(), as_json(event.result))
                    metrics.append(row)
                case TrialRestarted():
                    dropped[event.trial] = min(dropped.get(event.trial, event.step), event.step)
                    metrics = [row for row in metrics if row[0] != event.trial or row[1] < event.step]
                    if event.parameters is not None:
                        self._live.setdefault(event.trial_id, {})["given"] = event.parameters
                case TrialEnded():
                    trials.append(self._ended(event, self._live.pop(event.trial_id, {})))
                case _:
                    pass
        return trials, metrics, dropped

    def _ended(self, event: TrialEnded, known: Mapping[str, Any]) -> list[Any]:
        given = known.get("given")
        if event.parameters is not None:
            given = event.parameters
        cells = given if isinstance(given, dict) else {}
        self._names += [name for name in cells if name not in self._names]
        own = {
            "number": event.trial,
            "id": event.trial_id,
            "status": event.status,
            "value": event.value,
            "created": known.get("created"),
            "started": known.get("started"),
            "ended": event.at.isoformat(),
            "reason": event.reason,
            "result": as_json(event.result),
            "source": known.get("source"),
        }
        named = [own.get(name) for name in self._columns]
        return [*named, *(_cell(cells.get(name)) for name in self._names)]

    def _header(self) -> list[str]:
        return [*self._columns, *(_PREFIX + name for name in self._names)]

    def _filled(self, rows: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
        """Yield rows that were made before all names of parameters were known, in full length."""
        length = len(self._columns) + len(self._names)
        return ([*row, *[None] * (length - len(row))] for row in rows)

    def _widened(self, rows: Sequence[Sequence[Any]]) -> Iterator[bytes]:
        """Yield the content of the file of trials with columns for new parameters, and with the new rows."""
        yield _lines([self._header()])
        with (self._files.folder / TRIALS).open(encoding="utf-8", newline="") as file:
            lines = csv.reader(file)
            next(lines, None)
            for line in lines:
                yield _lines(self._filled([line]))
        yield _lines(self._filled(rows))

    def _kept(self, dropped: Mapping[int, int], rows: Sequence[Sequence[Any]]) -> Iterator[bytes]:
        """Yield the content of the file of metrics without the dropped rows, and with the new ones."""
        yield _lines([_METRIC_COLUMNS])
        with (self._files.folder / METRICS).open(encoding="utf-8", newline="") as file:
            lines = csv.reader(file)
            next(lines, None)
            for line in lines:
                if int(line[1]) < dropped.get(int(line[0]), int(line[1]) + 1):
                    yield _lines([line])
        yield _lines(rows)


def _cell(value: Any) -> Any:
    return as_json(value) if isinstance(value, dict | list | bool) else value


def _lines(rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", "backslashreplace")

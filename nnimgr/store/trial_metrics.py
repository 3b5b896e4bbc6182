"""Queries for metrics of single trials, each of which may have millions: pages, all metrics, or curves of few
points.

An attempt's metrics are recorded in the order of their positions, so positions and numbers ascend together.
The unique key of a metric begins with trial, attempt and position. It finds any place in an attempt with a
few seeks, whereas a search by number would read all metrics of the trial.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from nnimgr.store.connections import DatabaseReader
from nnimgr.store.rows import from_us

__all__ = ["BY_TRIAL", "MetricLine", "MetricRow", "TrialCurve", "TrialMetrics"]

BY_TRIAL = "sqlite_autoindex_metrics_2"  # index of the key metric_recorded_once
_ONE = (
    f"FROM metrics INDEXED BY {BY_TRIAL} "
    "WHERE experiment_id = :experiment AND trial_id = :trial AND attempt = :attempt "
)
_FINALS = (
    "FROM metrics INDEXED BY metric_finals WHERE type = 'FINAL' "
    "AND experiment_id = :experiment AND trial_id = :trial AND attempt = :attempt "
)
_NEXT_ATTEMPT = (
    f"SELECT attempt FROM metrics INDEXED BY {BY_TRIAL} "  # noqa: S608
    "WHERE experiment_id = :experiment AND trial_id = :trial AND attempt > :attempt "
    "ORDER BY attempt LIMIT 1"
)
_FROM = f"SELECT position, number {_ONE} AND position >= :position ORDER BY position LIMIT 1"
_LAST = f"SELECT position, number {_ONE} ORDER BY position DESC LIMIT 1"
_PAGE = 10_000
_DENSE = 4  # reading up to this many times as many rows in sequence is faster than a seek per metric


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    number: int
    trial_id: str
    attempt: int
    position: int
    parameter_id: str | None
    type: str
    sequence: int
    at: datetime
    value: float | None
    text: str


class MetricLine(NamedTuple):
    """Metric of a trial, in a form that is fast to read in large numbers. ``at_us``: microseconds since
    1970.
    """

    number: int
    trial_id: str
    attempt: int
    parameter_id: str | None
    type: str
    sequence: int
    at_us: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCurve:
    """Intermediate metrics of the latest attempt of a trial that has reported any.

    ``metrics``: all of them, or a selection that includes the peaks. ``total``: number of all intermediate
    metrics. ``after``: fact number of the last metric that was read.
    """

    attempt: int
    total: int
    after: int
    metrics: Sequence[MetricRow]


_ROW = "number, trial_id, attempt, position, parameter_id, type, sequence, at, value, text"
_LINE = "number, trial_id, attempt, parameter_id, type, sequence, at, text"


class TrialMetrics(DatabaseReader):
    """Queries about the metrics of single trials."""

    def trial_page(
        self,
        trial_id: str,
        *,
        attempt: int | None = None,
        kind: str | None = None,
        after: int = 0,
        limit: int = _PAGE,
    ) -> list[MetricRow]:
        """Return the first metrics of a trial with fact numbers above ``after``, in order of their
        numbers.
        """
        with self._connect() as connection:
            attempts = self._attempts_of(connection, trial_id) if attempt is None else [attempt]
            pages = [
                self._page(connection, _ROW, self._key(trial_id, each), kind=kind, after=after, limit=limit)
                for each in attempts
            ]
        merged = pages[0] if len(pages) == 1 else sorted(row for page in pages for row in page)
        return [_metric(row) for row in merged[:limit]]

    def attempt_lines(
        self, trial_id: str, attempt: int, *, kind: str | None = None, page: int = _PAGE
    ) -> Iterator[MetricLine]:
        """Yield all metrics of an attempt in order. They are read in pages, without a connection between
        pages.
        """
        key = self._key(trial_id, attempt)
        after, rows = 0, page
        while rows == page:
            with self._connect() as connection:
                found = self._page(connection, _LINE, key, kind=kind, after=after, limit=page)
            rows = len(found)
            after = found[-1][0] if found else after
            yield from map(MetricLine._make, found)

    def merged_lines(
        self, attempts: dict[str, int], *, kind: str | None = None, page: int = _PAGE
    ) -> Iterator[MetricLine]:
        """Yield the metrics of these attempts in the order in which they were recorded.

        ``attempts``: trial id -> number of the attempt.
        """
        each = max(50, page // max(1, len(attempts)))
        lines = [
            self.attempt_lines(trial_id, attempt, kind=kind, page=each)
            for trial_id, attempt in attempts.items()
        ]
        return heapq.merge(*lines)

    def curve(self, trial_id: str, *, points: int) -> TrialCurve:
        """Return the intermediate metrics of a trial's latest attempt, or a selection of about ``points``
        metrics.

        The selection has the first and the last metric. The metrics in between are cut into equal parts, and
        the lowest and the highest metric of each part are kept.
        """
        with self._connect() as connection:
            attempts = self._attempts_of(connection, trial_id)
            for attempt in reversed(attempts):
                found = self._curve(connection, self._key(trial_id, attempt), points)
                if found.metrics:
                    return found
        return TrialCurve(attempt=0, total=0, after=0, metrics=())

    def _curve(self, connection: Connection, key: dict[str, Any], points: int) -> TrialCurve:
        first, last = (
            self._seek(connection, _FROM, {**key, "position": 0}),
            self._seek(connection, _LAST, key),
        )
        assert first is not None and last is not None  # the attempt was found by one of its metrics
        parts = max(1, points // 2 - 1)
        width = max(2, -(-(last[0] + 1 - first[0]) // parts))
        numbers: set[int] = set()
        total = 0
        for begin in range(first[0], last[0] + 1, width):
            end = min(begin + width, last[0] + 1)
            count, found = self._peaks(connection, {**key, "begin": begin, "end": end})
            total += count
            numbers.update(found)
        if total <= points:
            rows = self._page(connection, _ROW, key, kind="PERIODICAL", after=0, limit=points)
        else:
            rows = self._numbered(connection, sorted(numbers | self._ends(connection, key)))
        return TrialCurve(
            attempt=key["attempt"], total=total, after=last[1], metrics=[_metric(row) for row in rows]
        )

    def _peaks(self, connection: Connection, bounds: dict[str, Any]) -> tuple[int, list[int]]:
        """Return the number of intermediate metrics between two positions, and the fact numbers of two
        metrics.

        These are the metrics with the lowest and with the highest value.
        """
        first = self._seek(connection, _FROM, {**bounds, "position": bounds["begin"]})
        if first is None or first[0] >= bounds["end"]:
            return 0, []
        following = self._seek(connection, _FROM, {**bounds, "position": bounds["end"]})
        last = following or self._seek(connection, _LAST, bounds)
        assert last is not None
        # the attempt's metrics are dense here, so read the whole table between the two numbers
        if last[1] - first[1] <= _DENSE * (bounds["end"] - bounds["begin"]):
            where = (
                "FROM metrics INDEXED BY sqlite_autoindex_metrics_1 WHERE experiment_id = :experiment "
                "AND number >= :low AND number < :high AND trial_id = :trial AND attempt = :attempt "
            )
            bounds = {**bounds, "low": first[1], "high": last[1] + (following is None)}
        else:
            where = f"{_ONE} AND position >= :begin AND position < :end "
        where += "AND type = 'PERIODICAL'"
        found = []
        count = 0
        for extreme in ("min", "max"):
            # SQLite guarantees that ``number`` beside min() or max() is from the row with the extreme.
            query = f"SELECT count(*), number, {extreme}(value) {where}"
            count, number, _ = connection.exec_driver_sql(query, bounds).one()
            if number is not None:
                found.append(number)
        return count, found

    def _ends(self, connection: Connection, key: dict[str, Any]) -> set[int]:
        """Return the fact numbers of an attempt's first and last intermediate metric."""
        query = f"SELECT number {_ONE} AND type = 'PERIODICAL' ORDER BY position"
        orders = (f"{query} LIMIT 1", f"{query} DESC LIMIT 1")
        return {number for order in orders for number in connection.exec_driver_sql(order, key).scalars()}

    def _numbered(self, connection: Connection, numbers: Sequence[int]) -> list[Any]:
        marks = ", ".join(str(int(number)) for number in numbers)
        query = f"SELECT {_ROW} FROM metrics WHERE experiment_id = ? AND number IN ({marks}) ORDER BY number"  # noqa: S608
        return list(connection.exec_driver_sql(query, (self._id,)))

    def _page(
        self,
        connection: Connection,
        columns: str,
        key: dict[str, Any],
        *,
        kind: str | None,
        after: int,
        limit: int,
    ) -> list[Any]:
        position = self._position_after(connection, key, after)
        if position is None:
            return []
        where = _ONE if kind is None else f"{_ONE} AND type = :kind "
        if kind == "FINAL" and self._has_index("metric_finals"):
            where = _FINALS
        query = f"SELECT {columns} {where} AND position >= :position ORDER BY position LIMIT :limit"
        values = {**key, "position": position, "limit": limit, "kind": kind}
        return [tuple(row) for row in connection.exec_driver_sql(query, values)]

    def _position_after(self, connection: Connection, key: dict[str, Any], after: int) -> int | None:
        """Return the position of an attempt's first metric with a number above ``after``; None if there is
        none.
        """
        last = self._seek(connection, _LAST, key)
        if last is None or last[1] <= after:
            return None
        low, high = 0, last[0]
        while low < high:
            middle = (low + high) // 2
            found = self._seek(connection, _FROM, {**key, "position": middle})
            assert found is not None  # the last metric is at this position or after it
            if found[1] > after:
                high = middle
            else:
                low = found[0] + 1
        return low

    def _attempts_of(self, connection: Connection, trial_id: str) -> list[int]:
        """Return the numbers of the attempts of a trial that have reported metrics."""
        attempts: list[int] = []
        while True:
            key = self._key(trial_id, attempts[-1] if attempts else -1)
            found = connection.exec_driver_sql(_NEXT_ATTEMPT, key).scalar_one_or_none()
            if found is None:
                return attempts
            attempts.append(found)

    def _seek(self, connection: Connection, query: str, values: dict[str, Any]) -> tuple[int, int] | None:
        """Return the position and the number of the metric that ``query`` finds; None if it finds no
        metric.
        """
        row = connection.exec_driver_sql(query, values).one_or_none()
        return None if row is None else (row[0], row[1])

    def _key(self, trial_id: str, attempt: int) -> dict[str, Any]:
        return {"experiment": self._id, "trial": trial_id, "attempt": attempt}


def _metric(row: Any) -> MetricRow:
    number, trial_id, attempt, position, parameter_id, kind, sequence, at, value, text = row
    instant = from_us(at)
    assert instant is not None
    return MetricRow(
        number=number,
        trial_id=trial_id,
        attempt=attempt,
        position=position,
        parameter_id=parameter_id,
        type=kind,
        sequence=sequence,
        at=instant,
        value=value,
        text=text,
    )

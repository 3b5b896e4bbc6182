"""Columns and databases with given contents, and a reader of packed answers."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from nnimgr.analysis.columns import Columns
from nnimgr.rules.facts import SuggestionSource, TrialStatus
from nnimgr.store.bulk import Mark, Snapshot
from nnimgr.store.bulk_runs import Attempt, MetricPoint, Opinion, StoppedAt

_TYPES = {"f32": "<f4", "f64": "<f8", "u8": "<u1", "u16": "<u2", "u32": "<u4"}
STATUSES = [status.value for status in TrialStatus]
SUCCEEDED, FAILED = STATUSES.index("SUCCEEDED"), STATUSES.index("FAILED")
EARLY_STOPPED, RUNNING = STATUSES.index("EARLY_STOPPED"), STATUSES.index("RUNNING")


def unpack(answer: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the columns of a packed answer. Check its alignment."""
    (size,) = struct.unpack_from("<I", answer)
    header = json.loads(answer[4 : 4 + size])
    begin = (4 + size + 7) // 8 * 8
    columns = {}
    for column in header["columns"]:
        assert column["offset"] % 8 == 0
        columns[column["name"]] = np.frombuffer(
            answer, _TYPES[column["type"]], column["length"], begin + column["offset"]
        )
    return header, columns


class GivenColumns(Columns):
    """Trials t0, t1, ... with the given columns. Other columns are as for succeeded trials."""

    def __init__(
        self,
        rows: int,
        given: Mapping[str, Any] | None = None,
        *,
        categories: Mapping[str, list[Any]] | None = None,
        logarithmic: Iterable[str] = (),
        **more: Any,
    ) -> None:
        super().__init__()
        self._rows, self.revision = rows, 1
        self.origin_at = datetime(2026, 1, 1, tzinfo=UTC)
        self.logarithmic = set(logarithmic)
        self.ids = np.array([f"t{number}".encode() for number in range(rows)], "S16")
        sources = [source.value for source in SuggestionSource]
        self.categories = {"status": STATUSES, "source": sources, **(categories or {})}
        usual: dict[str, Any] = {
            "sequence": np.arange(rows, dtype=np.uint32),
            "status": np.full(rows, SUCCEEDED, np.uint8),
            "source": np.zeros(rows, np.uint8),
            "attempt": np.ones(rows, np.uint16),
            "intermediates": np.zeros(rows, np.uint32),
            **{name: np.full(rows, np.nan) for name in ("value", "latest", "created", "started", "ended")},
        }
        self.arrays = {
            name: np.asarray(values, usual[name].dtype if name in usual else None)
            for name, values in {**usual, **more, **(given or {})}.items()
        }


class GivenSnapshot:
    """A database with given contents. ``number`` is that of its last fact; pages are short."""

    def __init__(
        self,
        *,
        config: Mapping[str, Any] | None = None,
        points: Sequence[tuple[int, MetricPoint]] = (),
        objects: Sequence[tuple[int, tuple[str, int, int, str]]] = (),
        attempts: Sequence[Attempt] = (),
        verdicts: Sequence[StoppedAt] = (),
        metrics: Mapping[tuple[str, int, int], tuple[int, float | None, str]] | None = None,
        opinions: Mapping[int, Opinion] | None = None,
        db_id: str = "db",
        number: int = 1,
    ) -> None:
        self.points, self.objects = list(points), list(objects)
        self.all_attempts, self.all_verdicts = list(attempts), list(verdicts)
        self.metrics, self.all_opinions = dict(metrics or {}), dict(opinions or {})
        self.db_id, self.number = db_id, number
        self.changed_ids: set[str] = set()
        self._config = dict(config or {})

    def mark(self) -> Mark:
        return Mark(self.db_id, self.number, 0, "{}")

    def config(self) -> dict[str, Any]:
        return self._config

    def last_at(self) -> int:
        return int(datetime(2026, 1, 1, 1, tzinfo=UTC).timestamp() * 1e6)  # an hour after the creation

    def changed(self, *, after: int) -> set[str]:
        return self.changed_ids

    def metric_points(self, *, after: int) -> Iterator[list[tuple[Any, ...]]]:
        return _pages([point for number, point in self.points if number > after])

    def metric_objects(self, *, after: int) -> Iterator[list[tuple[Any, ...]]]:
        return _pages([row for number, row in self.objects if number > after])

    def latest_objects(self, *, limit: int) -> list[str]:
        return [row[3] for _, row in self.objects][-limit:]

    def attempts(self, trial_ids: Iterable[str] | None = None) -> Iterator[list[tuple[Any, ...]]]:
        wanted = None if trial_ids is None else set(trial_ids)
        return _pages([row for row in self.all_attempts if wanted is None or row.trial_id in wanted])

    def verdicts(self, *, after: int) -> list[StoppedAt]:
        return [verdict for verdict in self.all_verdicts if verdict.number > after]

    def opinions(self, numbers: Iterable[int]) -> dict[int, Opinion]:
        return {number: self.all_opinions.get(number, Opinion("", ())) for number in numbers}

    def metric_at(self, trial_id: str, attempt: int, position: int) -> tuple[int, float | None, str] | None:
        return self.metrics.get((trial_id, attempt, position))

    def reasons(self, trial_ids: Iterable[str]) -> dict[str, str]:
        return {trial_id: f"why {trial_id}" for trial_id in trial_ids}

    @property
    def taken(self) -> Snapshot:
        return cast(Snapshot, self)


def _pages(rows: Sequence[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    for begin in range(0, len(rows), 3):
        yield [tuple(row) for row in rows[begin : begin + 3]]


MAXIMISED = GivenSnapshot()
MINIMISED = GivenSnapshot(config={"tuner": {"classArgs": {"optimize_mode": "minimize"}}})

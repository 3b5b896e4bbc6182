"""Metrics of a trial with very many: pages from any place, and a curve that keeps the peaks."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from nnimgr.store.location import database_path
from nnimgr.store.reader import ExperimentReader
from nnimgr.store.writer import ExperimentWriter
from tests.api.stored_life import StoredLife, full_config

TRIALS = ("aaaaa", "bbbbb")
COUNT = 4_000


def rows() -> Iterator[tuple[Any, ...]]:
    """Yield metrics of two trials in turns, with gaps in the positions. One trial has a lost attempt."""
    draw = random.Random(3)
    position = {(trial, attempt): 0 for trial in TRIALS for attempt in (1, 2)}
    for number in range(100, 100 + COUNT):
        trial = draw.choice(TRIALS)
        attempt = 2 if trial == TRIALS[0] and number > 1000 else 1
        at = position[trial, attempt] = position[trial, attempt] + draw.choice((1, 1, 1, 4))
        kind = "FINAL" if draw.random() < 0.01 else "PERIODICAL"
        value = None if draw.random() < 0.05 else draw.gauss(0, 1)
        yield ("exp", number, trial, attempt, at, None, kind, at, number, value, str(value))


@pytest.fixture
async def reader(tmp_path: Path) -> AsyncIterator[ExperimentReader]:
    writer = ExperimentWriter(tmp_path)
    await writer.open()
    life = StoredLife(full_config(tmp_path))
    for turn, touched in life.turns:
        await writer.append(life.state, turn, touched)
    await writer.close()
    with closing(sqlite3.connect(database_path(tmp_path))) as database:
        marks = ", ".join("?" * 11)
        database.executemany(
            "INSERT INTO metrics (experiment_id, number, trial_id, attempt, position, parameter_id, type, "
            f"sequence, at, value, text) VALUES ({marks})",
            rows(),
        )
        database.commit()
    found = ExperimentReader(tmp_path)
    yield found
    found.close()


def numbers(trial: str, *, attempt: int | None = None, kind: str | None = None, after: int = 0) -> list[int]:
    """Return the numbers of the metrics that a page without a limit has to hold."""
    return [
        row[1]
        for row in rows()
        if row[2] == trial and row[1] > after and attempt in (None, row[3]) and kind in (None, row[6])
    ]


@pytest.mark.parametrize("attempt", [None, 1, 2, 3])
@pytest.mark.parametrize("kind", [None, "PERIODICAL", "FINAL", "else"])
def test_pages_begin_anywhere(reader: ExperimentReader, kind: str | None, attempt: int | None) -> None:
    for trial in (*TRIALS, "zzzzz"):
        for after in (0, 99, 100, 101, 999, 1000, 1001, 2500, 100 + COUNT - 2, 100 + COUNT - 1, 2**62):
            wanted = numbers(trial, attempt=attempt, kind=kind, after=after)
            for limit in (1, 7, COUNT):
                page = reader.metrics(trial_id=trial, attempt=attempt, kind=kind, after=after, limit=limit)
                assert [metric.number for metric in page] == wanted[:limit], (trial, after, limit)


def test_the_lines_of_trials_are_merged(reader: ExperimentReader) -> None:
    merged = list(reader.merged_lines({TRIALS[0]: 2, TRIALS[1]: 1}, page=100))
    wanted = sorted(numbers(TRIALS[0], attempt=2) + numbers(TRIALS[1], attempt=1))
    assert [line.number for line in merged] == wanted


@pytest.mark.parametrize("points", [4, 5, 20, 101, 1000])
def test_a_curve_keeps_its_ends_and_peaks(reader: ExperimentReader, points: int) -> None:
    for trial, attempt in zip(TRIALS, (2, 1), strict=True):
        own = [row for row in rows() if row[2:4] == (trial, attempt) and row[6] == "PERIODICAL"]
        curve = reader.curve(trial, points=points)
        assert (curve.attempt, curve.total) == (attempt, len(own))
        assert curve.after == numbers(trial)[-1]
        assert len(curve.metrics) <= points
        found = [metric.number for metric in curve.metrics]
        assert found == sorted(set(found)) and set(found) <= {row[1] for row in own}
        assert (found[0], found[-1]) == (own[0][1], own[-1][1])
        values = [row[9] for row in own if row[9] is not None]
        shown = [metric.value for metric in curve.metrics if metric.value is not None]
        assert (min(shown), max(shown)) == (min(values), max(values))


def test_a_short_curve_is_whole(reader: ExperimentReader) -> None:
    whole = reader.curve(TRIALS[0], points=10_000)
    assert [metric.number for metric in whole.metrics] == numbers(TRIALS[0], attempt=2, kind="PERIODICAL")
    nothing = reader.curve("zzzzz", points=4)
    assert (nothing.attempt, nothing.total, nothing.after, nothing.metrics) == (0, 0, 0, ())

"""Stored checkpoints, and the metrics of trials that continue from them."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nnimgr.rules import facts as f
from nnimgr.rules.decisions import recorded_as
from nnimgr.store.checkpoints import CheckpointRow
from nnimgr.store.location import database_path
from nnimgr.store.reader import ExperimentReader
from nnimgr.store.writer import ExperimentWriter
from tests.rules.saving import Saving
from tests.store.test_store import StoredLife


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[ExperimentWriter]:
    writer = ExperimentWriter(tmp_path)
    await writer.open()
    yield writer
    await writer.close()


def twice_lost() -> Saving:
    """Return the life of a trial that has lost two attempts; the second one had saved nothing."""
    saving = Saving(StoredLife, max_lost_attempts=5)
    saving.report(0.1, 0.2)
    saving.save(2)
    saving.report(0.3)
    saving.lose()
    saving.start()
    saving.report(0.31, 0.41)
    saving.lose()
    saving.start()
    saving.report(0.32)
    saving.save(3)
    saving.report(0.42)
    return saving


def curve(directory: Path, saving: Saving) -> list[tuple[int, float | None]]:
    with contextlib.closing(ExperimentReader(directory)) as reader:
        shown = reader.curve(saving.life.trial(0), points=100)
        assert shown.attempt == saving.attempt
        return [(metric.sequence, metric.value) for metric in shown.metrics]


async def store(saving: Saving, writer: ExperimentWriter) -> None:
    assert isinstance(saving.life, StoredLife)
    await saving.life.store(writer)


async def test_a_trial_that_continues_has_one_curve(tmp_path: Path, writer: ExperimentWriter) -> None:
    saving = twice_lost()
    await store(saving, writer)
    assert curve(tmp_path, saving) == [(0, 0.1), (1, 0.2), (2, 0.32), (3, 0.42)]
    with contextlib.closing(ExperimentReader(tmp_path)) as reader:
        trial = saving.life.trial(0)
        # The results that no longer count stay with the attempts that have reported them.
        assert [row.value for row in reader.metrics(trial_id=trial, attempt=1)] == [0.3]
        assert [row.value for row in reader.metrics(trial_id=trial, attempt=2)] == [0.31, 0.41]
        assert reader.facts(limit=1000) == saving.life.log


async def test_results_of_an_abandoned_attempt_are_not_taken_over(
    tmp_path: Path, writer: ExperimentWriter
) -> None:
    saving = Saving(StoredLife, max_lost_attempts=5)
    saving.report(0.1, 0.2)
    saving.lose()
    saving.start()  # from the beginning
    saving.save(1)
    saving.save(2)
    saving.lose()
    saving.start()
    saving.report(0.11)
    await store(saving, writer)
    assert curve(tmp_path, saving) == [(0, 0.11)]


async def test_the_log_folds_back(tmp_path: Path, writer: ExperimentWriter) -> None:
    saving = twice_lost()
    await store(saving, writer)
    await writer.close()
    with contextlib.closing(sqlite3.connect(database_path(tmp_path))) as database:
        database.execute("DELETE FROM snapshots")
        database.commit()
    again = ExperimentWriter(tmp_path)
    assert await again.open() == saving.life.state
    await again.close()


async def test_checkpoints_are_listed(tmp_path: Path, writer: ExperimentWriter) -> None:
    saving = Saving(StoredLife, checkpoints_kept=1)
    saving.save(1)
    saving.save(2)
    await store(saving, writer)
    with contextlib.closing(ExperimentReader(tmp_path)) as reader:
        found = reader.checkpoints(saving.life.trial(0))
    at = saving.life.now
    assert found == [
        CheckpointRow(attempt=1, number=1, step=1, size=10, files=1, at=at, state="deleted"),
        CheckpointRow(attempt=1, number=2, step=2, size=10, files=1, at=at, state="saved"),
    ]


async def test_a_refusal_counts_until_a_trial_saves(tmp_path: Path, writer: ExperimentWriter) -> None:
    def refused() -> bool:
        with contextlib.closing(ExperimentReader(tmp_path)) as reader:
            return reader.refused_for_nothing_saved()

    saving = Saving(StoredLife)
    await store(saving, writer)
    assert not refused()
    pause = f.Decided(trial_id=saving.id, kind=f.DecisionKind.PAUSE, cause=1, reason="because")
    saving.life.take(*recorded_as(saving.life.state, pause))
    await store(saving, writer)
    assert refused()
    saving.save(1)
    await store(saving, writer)
    assert not refused()


async def test_stored_copies_are_listed(tmp_path: Path, writer: ExperimentWriter) -> None:
    saving = Saving(StoredLife, stores_copies=True)
    stored = [f.CheckpointStored(job_id=saving.job_id, number=number) for number in (1, 2)]
    for number in (1, 2):
        saving.save(number)
        saving.keep(number)
        saving.life.take(stored[number - 1])
    saving.life.take(f.CheckpointLost(job_id=saving.job_id, number=2, reason="it is damaged"))
    saving.keep(2)
    await store(saving, writer)
    with contextlib.closing(ExperimentReader(tmp_path)) as reader:
        rows = reader.checkpoints(saving.life.trial(0))
    assert [(row.kept, row.stored) for row in rows] == [(True, True), (True, False)]


async def test_a_database_of_the_version_before_is_read_and_then_migrated(
    tmp_path: Path, writer: ExperimentWriter
) -> None:
    life = StoredLife(trial_concurrency=1)
    life.start(0)
    life.metric(0, 0, 0.5)
    await life.store(writer)
    await writer.close()
    with contextlib.closing(sqlite3.connect(database_path(tmp_path))) as database:
        database.executescript(
            "DROP TABLE checkpoints; ALTER TABLE metrics DROP COLUMN ran_in; "
            "ALTER TABLE jobs DROP COLUMN cause; PRAGMA user_version = 5;"
        )
    with contextlib.closing(ExperimentReader(tmp_path)) as reader:
        assert reader.checkpoints(life.trial(0)) == []
        assert reader.facts(limit=1000) == life.log
        assert [row.value for row in reader.metrics()] == [0.5]
        assert [row.cause for row in reader.jobs(life.trial(0))] == [None]
    again = ExperimentWriter(tmp_path)
    assert await again.open() == life.state
    life.take(f.JobLost(job_id=life.job(0), reason="gone"))
    await life.store(again)
    await again.close()
    with contextlib.closing(ExperimentReader(tmp_path)) as reader:
        assert reader.facts(limit=1000) == life.log
        assert [row.cause for row in reader.jobs(life.trial(0))][:1] == [f.Cause.INFRASTRUCTURE]

"""The store: committed facts are stored once and fold to an equal state."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState, Touched
from nnimgr.store import writer as store
from nnimgr.store.errors import DatabaseDeleted, NewerDatabase, StoreError, StoreLocked
from nnimgr.store.location import database_path
from nnimgr.store.overview import stored_live_trials, stored_status
from nnimgr.store.reader import ExperimentReader
from nnimgr.store.schema import SCHEMA_VERSION
from nnimgr.store.writer import ExperimentWriter, load
from tests.rules.driver import Life


class StoredLife(Life):
    """A life that keeps its turns to be stored."""

    def __init__(self, **limits: Any) -> None:
        self.turns: list[tuple[list[f.Recorded], Touched]] = []
        super().__init__(**limits)

    def take(self, *facts: f.Fact, after: timedelta = timedelta(0)) -> list[f.Fact]:
        start = len(self.log)
        taken = super().take(*facts, after=after)
        if taken:
            self.turns.append((self.log[start:], self.touched))
        return taken

    async def store(self, writer: ExperimentWriter) -> None:
        turns, self.turns = self.turns, []
        for turn, touched in turns:
            await writer.append(self.state, turn, touched)


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[ExperimentWriter]:
    writer = ExperimentWriter(tmp_path)
    state = await writer.open()
    assert state == ExperimentState()
    yield writer
    await writer.close()


async def test_nothing_is_written_to_a_database_that_was_deleted(
    writer: ExperimentWriter, tmp_path: Path
) -> None:
    life = busy_life()
    shutil.rmtree(tmp_path / "db")
    with pytest.raises(DatabaseDeleted, match="was deleted; put a copy of it back"):
        await life.store(writer)
    again = ExperimentWriter(tmp_path)
    with pytest.raises(DatabaseDeleted):
        await again.open(new=False)
    assert not (tmp_path / "db").exists()
    await again.close()


def busy_life() -> StoredLife:
    life = StoredLife(trial_concurrency=2, max_trial_number=4)
    life.start(0)
    life.metric(0, 0, 0.25)
    life.metric(0, 1, 0.75, "FINAL")
    life.take(f.FrameSkipped(job_id=life.job(0), position=2, reason="no JSON"))
    life.end(0)
    life.start(1)
    life.take(f.JobLost(job_id=life.job(1), reason="gone"))
    life.take(f.TrialNoted(trial_id=life.trial(0), note="noted after its end"))
    life.take(f.AlgorithmFailed(role=f.Role.TUNER, call="receive", sentence="boom", traceback="tb"))
    return life


async def test_what_is_committed_folds_back(tmp_path: Path, writer: ExperimentWriter) -> None:
    life = busy_life()
    await life.store(writer)
    first = writer.db_id
    await writer.close()
    again = ExperimentWriter(tmp_path)
    state = await again.open()
    assert state == life.state
    assert (again.db_id, again.m_epoch) == (first, 2)
    await again.close()


@pytest.mark.parametrize("name", ["a#b", "a?mode=memory", "a%41", "100%", "a b&c='d';e"])
async def test_any_directory_will_do(tmp_path: Path, name: str) -> None:
    directory = tmp_path / name / "exp"
    writer = ExperimentWriter(directory)
    await writer.open()
    life = StoredLife(trial_concurrency=1)
    life.start(0)
    await life.store(writer)
    await writer.close()
    assert os.listdir(tmp_path) == [name] and database_path(directory).is_file()
    with contextlib.closing(ExperimentReader(directory)) as reader:
        assert reader.experiment().experiment_id == life.state.id
    assert (stored_status(directory), stored_live_trials(directory)) == ("RUNNING", 1)


async def test_a_snapshot_folds_to_the_same_state_as_the_log(
    tmp_path: Path, writer: ExperimentWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SNAPSHOT_EVERY", 5)
    life = StoredLife(trial_concurrency=2, max_trial_number=4)
    await life.store(writer)
    life.start(0)
    await life.store(writer)
    life.metric(0, 0, 0.5)
    await life.store(writer)
    life.end(0)
    await life.store(writer)
    life.take(f.StopRequested(trial_id=life.trial(1)))
    await life.store(writer)
    await writer.close(life.state)
    engine = create_engine(f"sqlite:///{database_path(tmp_path)}")
    with engine.connect() as connection:
        kept = connection.exec_driver_sql("SELECT count(*) FROM snapshots").scalar_one()
        with_snapshot, folded = load(connection, "exp")
        from_log, all_folded = load(connection, "exp", snapshots=False)
        connection.exec_driver_sql("UPDATE snapshots SET body = 'junk' WHERE number % 2 = 0")
        connection.exec_driver_sql("UPDATE snapshots SET version = 99 WHERE number % 2 = 1")
        despite_junk, _ = load(connection, "exp")
        connection.rollback()
    engine.dispose()
    assert kept == 2
    assert folded < all_folded
    assert with_snapshot == from_log == despite_junk == life.state


async def test_metrics_lead_to_a_snapshot_too(
    tmp_path: Path, writer: ExperimentWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SNAPSHOT_EVERY", 50)
    life = StoredLife(trial_concurrency=1, max_trial_number=1)
    life.start(0)
    await life.store(writer)
    for position in range(60 * store.METRICS_A_FACT):
        life.metric(0, position, 0.5)
        await life.store(writer)
    await writer.close()
    again = ExperimentWriter(tmp_path)
    assert await again.open() == life.state
    await again.close()
    engine = create_engine(f"sqlite:///{database_path(tmp_path)}")
    with engine.connect() as connection:
        _, folded = load(connection, "exp")
        connection.rollback()
    engine.dispose()
    assert folded < 50


async def test_rows_say_what_happened(tmp_path: Path, writer: ExperimentWriter) -> None:
    life = busy_life()
    await life.store(writer)
    reader = ExperimentReader(tmp_path)
    experiment = reader.experiment()
    assert (experiment.status, experiment.counts) == (f.ExperimentStatus.RUNNING, life.state.counts)
    assert (experiment.best_trial_id, experiment.best_value) == (life.trial(0), 0.75)
    total, (first, second) = reader.trials(limit=2)
    assert total == 3
    assert (first.status, first.final_text, first.intermediates) == (f.TrialStatus.SUCCEEDED, "0.75", 1)
    assert first.note == "noted after its end"
    assert second.reason == "is being started" and second.attempt == 2 and second.detail == "placed"
    assert [job.end_reason for job in reader.jobs(life.trial(1))] == ["lost", None]
    assert [m.text for m in reader.metrics(trial_id=life.trial(0))] == ["0.25", "0.75"]
    assert [row.sequence for row in reader.trials(sort="value", descending=True)[1]] == [0, 1, 2]
    assert reader.trials(search=life.trial(1))[0] == 1
    assert reader.trials(statuses=[f.TrialStatus.SUCCEEDED])[0] == 1
    assert reader.facts(after=0, limit=1000) == life.log
    paged = [r for after in range(0, len(life.log), 3) for r in reader.facts(after=after, limit=3)]
    assert paged == life.log
    assert reader.failures()[0].fact.sentence == "boom"
    reader.close()


async def test_a_second_writer_is_refused(tmp_path: Path, writer: ExperimentWriter) -> None:
    second = ExperimentWriter(tmp_path)
    with pytest.raises(StoreLocked, match=f"is open in another server, process {os.getpid()} on "):
        await second.open()
    await second.close()


async def test_a_newer_database_is_refused_untouched(tmp_path: Path, writer: ExperimentWriter) -> None:
    await busy_life().store(writer)
    await writer.close()
    path = database_path(tmp_path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    newer = ExperimentWriter(tmp_path)
    with pytest.raises(
        NewerDatabase, match=rf"has schema version 99, but this nnimgr knows versions up to {SCHEMA_VERSION}"
    ):
        await newer.open()
    await newer.close()
    assert path.read_bytes() == before


async def test_a_file_that_is_no_database_is_a_sentence(tmp_path: Path) -> None:
    path = database_path(tmp_path)
    path.parent.mkdir()
    path.write_bytes(b"this is no database, it is a text of some length" * 20)
    writer = ExperimentWriter(tmp_path)
    with pytest.raises(StoreError, match="file is not a database"):
        await writer.open()
    await writer.close()


async def test_a_metric_cannot_be_recorded_twice(tmp_path: Path, writer: ExperimentWriter) -> None:
    life = StoredLife()
    life.start(0)
    life.metric(0, 0, 0.5)
    await life.store(writer)
    twice = [f.Recorded(life.state.number + 1, life.now, life.log[-1].fact)]
    with pytest.raises(StoreError, match="UNIQUE constraint failed"):
        await writer.append(life.state, twice, Touched())
    reader = ExperimentReader(tmp_path)
    assert len(reader.metrics()) == 1
    reader.close()


async def test_values_that_are_no_finite_numbers_are_kept_as_text(
    tmp_path: Path, writer: ExperimentWriter
) -> None:
    life = StoredLife()
    life.start(0)
    life.take(f.MetricReported(life.job(0), 0, "FINAL", 0, "0", None, "NaN"))
    await life.store(writer)
    reader = ExperimentReader(tmp_path)
    (metric,) = reader.metrics()
    assert (metric.value, metric.text) == (None, "NaN")
    assert reader.trials()[1][0].final_text == "NaN"
    reader.close()


async def test_a_damaged_database_is_a_sentence_to_readers(tmp_path: Path, writer: ExperimentWriter) -> None:
    await busy_life().store(writer)
    await writer.close()
    path = database_path(tmp_path)
    path.write_bytes(b"this is no database" * 1000)
    reader = ExperimentReader(tmp_path)
    with pytest.raises(StoreError, match=f"the database {path} cannot be read: file is not a database"):
        reader.experiment()
    reader.close()


async def test_a_database_that_was_repaired_is_read_again(tmp_path: Path, writer: ExperimentWriter) -> None:
    await busy_life().store(writer)
    await writer.close()
    path, reader = database_path(tmp_path), ExperimentReader(tmp_path)
    known, whole = reader.experiment(), shutil.copy(path, tmp_path / "whole")
    path.write_bytes(b"this is no database" * 1000)
    with pytest.raises(StoreError, match="cannot be read"):
        reader.trials()
    os.replace(whole, path)
    assert reader.experiment() == known
    assert reader.trials()[0] > 0
    reader.close()

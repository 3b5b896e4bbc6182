"""Queries about the attempts that count: their results, and that no query reads a whole table."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from nnimgr.rules import facts as f
from nnimgr.store.location import database_path
from nnimgr.store.reader import ExperimentReader
from nnimgr.store.writer import ExperimentWriter
from tests.store.test_store import StoredLife


def report(
    life: StoredLife, sequence: int, position: int, text: str, *, number: int, kind: str = "PERIODICAL"
) -> None:
    attempt = life.state.trials[life.trial(sequence)].attempt
    life.take(
        f.MetricReported(life.job(sequence, attempt), position, kind, number, str(sequence), None, text)
    )


@pytest.fixture
async def reader(tmp_path: Path) -> AsyncIterator[ExperimentReader]:
    """Give a reader of a database with two trials.

    Trial 1 reports before trial 0. The first attempt of trial 0 is lost. Trial 0 ends with two final results.
    """
    writer = ExperimentWriter(tmp_path)
    await writer.open()
    life = StoredLife(trial_concurrency=3, max_trial_number=3)
    life.start(1)
    report(life, 1, 0, "10", number=0)
    life.start(0)
    report(life, 0, 0, "99", number=0)
    report(life, 0, 1, "98", number=0, kind="FINAL")
    life.take(f.JobLost(job_id=life.job(0), reason="gone"))
    life.take(after=life.wake_at - life.now if life.wake_at else life.now - life.now)
    assert life.state.trials[life.trial(0)].attempt == 2
    life.start(0, 2)
    report(life, 0, 0, "1", number=0)
    report(life, 1, 1, "12", number=2)
    report(life, 1, 2, "11", number=1)
    report(life, 0, 1, "2", number=0, kind="FINAL")
    report(life, 0, 2, "3", number=0, kind="FINAL")
    life.take(f.DataImported(records='[{"parameter":{},"value":1}]'))
    life.end(0, attempt=2)
    await life.store(writer)
    await writer.close()
    found = ExperimentReader(tmp_path)
    yield found
    found.close()


def texts(pages: Any) -> list[str]:
    return [line.text for page in pages for line in page]


@pytest.mark.parametrize("page", [1, 2, 10_000])
def test_pages_of_metrics(reader: ExperimentReader, page: int) -> None:
    assert texts(reader.lines(page=page)) == ["10", "1", "12", "11", "2", "3"]
    assert texts(reader.lines(page=page, kind="FINAL")) == ["2", "3"]
    assert texts(reader.lines(page=page, kind="else")) == []
    assert texts(reader.lines(page=page, trials=(0, 0))) == ["1", "2", "3"]
    assert texts(reader.lines(page=page, trials=(0.5, 7), kind="PERIODICAL")) == ["10", "12", "11"]
    assert texts(reader.lines(page=page, trials=(5, 4))) == []


def test_metrics_of_many_trials(reader: ExperimentReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnimgr.store.counted_metrics._FEW_TRIALS", 0)
    assert texts(reader.lines(page=2, trials=(0, 0))) == ["1", "2", "3"]


def test_metrics_of_one_trial(reader: ExperimentReader) -> None:
    first, second, _ = reader.trials_from()
    assert [line.text for line in reader.trial_lines(first.trial_id)] == ["1", "2", "3"]
    assert [line.text for line in reader.trial_lines(second.trial_id, kind="FINAL")] == []
    assert list(reader.trial_lines("zzzzz")) == []
    finals = reader.finals([first.trial_id, second.trial_id])
    assert {key: [final.line.text for final in found] for key, found in finals.items()} == {
        (first.trial_id, 1): ["98"],
        (first.trial_id, 2): ["2"],
    }


def test_the_latest_metric_has_the_highest_sequence(reader: ExperimentReader) -> None:
    assert [line.text for line in reader.latest_lines()] == ["12", "1"]


def test_pages_of_trials(reader: ExperimentReader) -> None:
    assert [row.sequence for row in reader.trials_from(limit=2)] == [0, 1]
    assert [row.sequence for row in reader.trials_from(2)] == [2]
    assert [row.sequence for row in reader.trials_from(statuses=(f.TrialStatus.SUCCEEDED,))] == [0]
    assert reader.first_sequences(["WAITING", "SUCCEEDED", "FAILED"]) == {"WAITING": 2, "SUCCEEDED": 0}


def test_imports(reader: ExperimentReader) -> None:
    assert reader.imports() == ['[{"parameter":{},"value":1}]']


def test_queries_read_no_more_than_they_need(reader: ExperimentReader) -> None:
    plans: list[str] = []

    def explain(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith("SELECT") and "sqlite_master" not in statement:
            rows = connection.connection.cursor().execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.extend(row[3] for row in rows if "metrics" in row[3] or "facts" in row[3])

    trial = reader.trials_from()[0].trial_id
    with listening(explain):
        list(reader.trial_lines(trial))
        reader.metrics(trial_id=trial)
        reader.metrics(trial_id=trial, after=3, kind="FINAL")
        reader.curve(trial, points=4)
        reader.finals([trial])
        reader.further_sets([trial])
        reader.latest_lines()
        reader.imports()
        reader.failures()
        reader.facts_between(["TrialEnded"], trial_id="abcde", before=9)
        list(reader.lines(trials=(0, 2)))
        list(reader.lines(kind="FINAL"))
    assert plans
    assert [
        plan
        for plan in plans
        if ("PRIMARY KEY" in plan and "number<?" not in plan) or plan.startswith("SCAN")
    ] == []
    assert any(plan.endswith("trial_id=? AND attempt=? AND position=?)") for plan in plans)


@contextlib.contextmanager
def listening(explain: Any) -> Any:
    event.listen(Engine, "before_cursor_execute", explain)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", explain)


async def test_a_database_without_these_indexes_is_read_and_gets_them(
    tmp_path: Path, reader: ExperimentReader
) -> None:
    path = database_path(tmp_path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "DROP INDEX metric_finals; DROP INDEX fact_imports; DROP INDEX fact_further_sets; "
            "DROP INDEX fact_by_trial; "
            "PRAGMA user_version = 1;"
        )
    older = ExperimentReader(tmp_path)
    assert texts(older.lines(kind="FINAL")) == ["2", "3"]
    assert len(older.imports()) == 1
    older.close()
    writer = ExperimentWriter(tmp_path)
    await writer.open()
    await writer.close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        names = {
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")
        }
    assert {"metric_finals", "fact_imports", "fact_further_sets", "fact_by_trial"} <= names

"""What users add to an experiment: notes and tags of trials, and saved views, beside a running writer."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nnimgr.analysis.questions import Answers
from nnimgr.store.annotations import Annotation, MissingTrial, annotate, retag
from nnimgr.store.errors import NewerDatabase, StoreError, StoreLocked
from nnimgr.store.location import database_path
from nnimgr.store.reader import ExperimentReader
from nnimgr.store.schema import SCHEMA_VERSION
from nnimgr.store.views import (
    MOST_VIEWS,
    MissingView,
    SavedView,
    ViewRefused,
    add_view,
    change_view,
    remove_view,
)
from nnimgr.store.writer import ExperimentWriter
from tests.store.test_store import StoredLife, busy_life


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[ExperimentWriter]:
    """The writer of an experiment with three trials, which stays open."""
    writer = ExperimentWriter(tmp_path)
    await writer.open()
    yield writer
    await writer.close()


@pytest.fixture
async def life(writer: ExperimentWriter) -> StoredLife:
    life = busy_life()
    await life.store(writer)
    return life


@pytest.fixture
def reader(tmp_path: Path) -> contextlib.closing[ExperimentReader]:
    return contextlib.closing(ExperimentReader(tmp_path))


def as_version_4(directory: Path) -> None:
    """Bring the database into the form of an earlier version."""
    with contextlib.closing(sqlite3.connect(database_path(directory))) as connection:
        connection.executescript("DROP TABLE trial_annotations; DROP TABLE views; PRAGMA user_version = 4;")


def version(directory: Path) -> int:
    with contextlib.closing(sqlite3.connect(database_path(directory))) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


async def test_notes_and_tags_are_stored_beside_an_open_writer(
    tmp_path: Path, writer: ExperimentWriter, life: StoredLife, reader: contextlib.closing[ExperimentReader]
) -> None:
    first, second = life.trial(0), life.trial(1)
    assert annotate(tmp_path, first, note="good\nrun") == Annotation("good\nrun")
    assert annotate(tmp_path, first, tags=["b", "a", "b"]) == Annotation("good\nrun", ("b", "a"))
    assert annotate(tmp_path, second, tags=["a"]).note == ""
    life.metric(1, 0, 0.5)
    await life.store(writer)
    with reader as found:
        assert found.annotations([first, second, life.trial(2)]) == {
            first: Annotation("good\nrun", ("b", "a")),
            second: Annotation("", ("a",)),
        }
        assert found.annotations([]) == {}
        assert found.tags() == [("a", 2), ("b", 1)]
        assert found.tags(limit=1) == [("a", 2)]
        assert found.facts(limit=1000) == life.log
    with pytest.raises(MissingTrial, match="There is no trial nobody"):
        annotate(tmp_path, "nobody", note="x")


async def test_many_changes_and_a_busy_writer_wait_for_each_other(
    tmp_path: Path, writer: ExperimentWriter, life: StoredLife, reader: contextlib.closing[ExperimentReader]
) -> None:
    first = life.trial(0)
    tags = [str(number) for number in range(20)]
    life.start(2)
    for position in range(20):
        life.metric(2, position, 0.5)
    changes = [asyncio.to_thread(retag, tmp_path, [first], add=[tag], remove=[], most=20) for tag in tags]
    await asyncio.gather(life.store(writer), *changes)
    with reader as found:
        assert sorted(found.annotations([first])[first].tags) == sorted(tags)
        assert found.facts(limit=1000) == life.log


async def test_tags_of_several_trials_change_together_or_not_at_all(
    tmp_path: Path, life: StoredLife, reader: contextlib.closing[ExperimentReader]
) -> None:
    ids = [life.trial(sequence) for sequence in range(3)]
    retag(tmp_path, ids, add=["x", "y"], remove=[], most=2)
    found = retag(tmp_path, ids[:2], add=["z"], remove=["x", "unknown"], most=2)
    assert found == dict.fromkeys(ids[:2], Annotation("", ("y", "z")))
    with pytest.raises(ValueError, match=f"Trial {ids[0]} would have 3 tags; the limit is 2"):
        retag(tmp_path, ids, add=["w"], remove=["x"], most=2)
    with pytest.raises(MissingTrial):
        retag(tmp_path, [*ids, "nobody"], add=[], remove=["y"], most=2)
    with reader as reading:
        assert reading.tags() == [("y", 3), ("z", 2), ("x", 1)]


async def test_a_search_finds_notes_and_tags(
    tmp_path: Path, life: StoredLife, reader: contextlib.closing[ExperimentReader]
) -> None:
    annotate(tmp_path, life.trial(0), note="The 100% run", tags=["base line"])
    annotate(tmp_path, life.trial(2), tags=["100 percent", 'a "b\\c"'])
    with reader as found:
        searches = {
            text: [row.sequence for row in found.trials(search=text)[1]]
            for text in ("the 100", "100%", "100", "se li", '"b\\c"', "[", '"', "")
        }
    assert searches == {
        "the 100": [0],
        "100%": [0],
        "100": [0, 2],
        "se li": [0],
        '"b\\c"': [2],
        "[": [],
        '"': [0, 1, 2],  # of their parameters
        "": [0, 1, 2],
    }


async def test_a_database_of_an_earlier_version_has_no_annotations_until_one_is_written(
    tmp_path: Path, writer: ExperimentWriter, life: StoredLife, reader: contextlib.closing[ExperimentReader]
) -> None:
    await writer.close()
    as_version_4(tmp_path)
    with reader as found:
        assert found.annotations([life.trial(0)]) == {}
        assert (found.tags(), found.views()) == ([], [])
        assert found.trials(search="note")[0] == 0
        page = {"filter": "tags:a", "sort": "sequence", "descending": False, "offset": 0, "limit": 9}
        exported = {"sequences": [0], "columns": ["userNote", "tags"], "format": "csv"}
        answers, database = Answers(), str(database_path(tmp_path))
        assert b'"total": 0' in answers.answer(database, "exp", "page", page)
        assert answers.answer(database, "exp", "export_page", exported) == b",\n"
        assert version(tmp_path) == 4
        annotate(tmp_path, life.trial(0), note="a note", tags=["a"])
        assert version(tmp_path) == SCHEMA_VERSION
        assert found.annotations([life.trial(0)]) == {life.trial(0): Annotation("a note", ("a",))}
        assert found.trials(search="note")[0] == 1
        assert b'"total": 1' in answers.answer(database, "exp", "page", page)
        assert answers.answer(database, "exp", "export_page", exported) == b"a note,a\n"
    again = ExperimentWriter(tmp_path)
    assert await again.open() == life.state
    await again.close()


async def test_a_server_of_an_earlier_version_keeps_its_database_as_it_is(
    tmp_path: Path, writer: ExperimentWriter, life: StoredLife
) -> None:
    as_version_4(tmp_path)  # while the writer holds the lock
    with pytest.raises(StoreLocked, match="is open in a server of an earlier version"):
        annotate(tmp_path, life.trial(0), note="x")
    assert version(tmp_path) == 4


async def test_databases_that_cannot_be_written(
    tmp_path: Path, writer: ExperimentWriter, life: StoredLife
) -> None:
    with pytest.raises(FileNotFoundError):
        annotate(tmp_path / "elsewhere", life.trial(0), note="x")
    await writer.close()
    with contextlib.closing(sqlite3.connect(database_path(tmp_path))) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(NewerDatabase):
        annotate(tmp_path, life.trial(0), note="x")
    database_path(tmp_path).write_bytes(b"this is no database, it is a text of some length" * 20)
    with pytest.raises(StoreError, match="cannot be written: file is not a database"):
        annotate(tmp_path, life.trial(0), note="x")


async def test_views_are_saved_renamed_and_removed(
    tmp_path: Path, life: StoredLife, reader: contextlib.closing[ExperimentReader]
) -> None:
    assert add_view(tmp_path, "slow", {"sort": "-duration"}) == SavedView(1, "slow", {"sort": "-duration"})
    assert add_view(tmp_path, "best", {"sort": "-value"}).view_id == 2
    with pytest.raises(ViewRefused, match='another view with the name "best"'):
        add_view(tmp_path, "best", {})
    with pytest.raises(ViewRefused, match='another view with the name "best"'):
        change_view(tmp_path, 1, name="best")
    assert change_view(tmp_path, 1, name="a slow one").content == {"sort": "-duration"}
    assert change_view(tmp_path, 2, content={}) == SavedView(2, "best", {})
    with reader as found:
        assert [view.name for view in found.views()] == ["a slow one", "best"]
        remove_view(tmp_path, 1)
        assert found.views() == [SavedView(2, "best", {})]
    with pytest.raises(MissingView, match="There is no saved view 1"):
        remove_view(tmp_path, 1)
    with pytest.raises(MissingView):
        change_view(tmp_path, 1, name="x")


async def test_the_number_of_views_is_limited(tmp_path: Path, life: StoredLife) -> None:
    for number in range(MOST_VIEWS):
        add_view(tmp_path, str(number), {})
    with pytest.raises(ViewRefused, match="delete one first"):
        add_view(tmp_path, "one more", {})

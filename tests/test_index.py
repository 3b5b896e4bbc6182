"""The index of experiments, in NNI's format."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nnimgr.home import Home
from nnimgr.index import Index, IndexDamaged, IndexEntry, check_experiment_id, new_experiment_id

STARTED = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)


def entry(experiment_id: str, **changes: Any) -> IndexEntry:
    fields: dict[str, Any] = {
        "id": experiment_id,
        "port": 8080,
        "started_at": STARTED,
        "ended_at": None,
        "status": "RUNNING",
        "platform": "local",
        "name": "a name",
        "log_dir": "/data/dir",
        "pid": 17,
    }
    return IndexEntry(**{**fields, **changes})


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def index(home: Home) -> Index:
    return Index(home)


def test_an_entry_looks_as_nni_writes_it(home: Home, index: Index) -> None:
    index.add(entry("abc"))
    text = home.index_path.read_text()
    assert text.startswith('{\n    "abc": {\n        "id": "abc",\n')
    assert json.loads(text) == {
        "abc": {
            "id": "abc",
            "port": 8080,
            "startTime": 1767323045678,
            "endTime": "N/A",
            "status": "RUNNING",
            "platform": "local",
            "experimentName": "a name",
            "tag": [],
            "pid": 17,
            "webuiUrl": [],
            "logDir": "/data/dir",
            "prefixUrl": None,
        }
    }


def test_entries_are_read_back(index: Index) -> None:
    assert index.entries() == {}
    ended = entry("old", ended_at=STARTED, port=None, tag=("a",), webui_url=("u",), prefix_url="p")
    index.add(ended)
    index.add(entry("new"))
    assert list(index.entries()) == ["old", "new"]
    assert index.get("old") == ended
    assert index.get("none") is None
    assert ended.directory == Path("/data/dir/old")


def test_changes(index: Index) -> None:
    index.add(entry("abc"))
    index.update("abc", status="DONE", ended_at=STARTED, port=None)
    changed = index.get("abc")
    assert changed == entry("abc", status="DONE", ended_at=STARTED, port=None)
    index.put(entry("abc", status="STOPPED"))
    index.put(entry("def"))
    assert [found.status for found in index.entries().values()] == ["STOPPED", "RUNNING"]
    assert index.remove("abc") is True
    assert index.remove("abc") is False
    assert list(index.entries()) == ["def"]


def test_an_id_is_taken_once(index: Index) -> None:
    index.add(entry("abc"))
    with pytest.raises(ValueError, match="Experiment id abc is taken already"):
        index.add(entry("abc"))
    with pytest.raises(KeyError):
        index.update("none", status="DONE")
    with pytest.raises(KeyError):
        index.update("abc", colour="red")


def test_what_is_not_ours_stays(home: Home, index: Index) -> None:
    home.prepare()
    foreign = {"old1": "a string", "old2": {"id": "old2", "status": "STOPPED", "mine": [1], "port": "x"}}
    home.index_path.write_text(json.dumps(foreign))
    found = index.entries()
    assert list(found) == ["old2"]
    assert (found["old2"].port, found["old2"].started_at, found["old2"].log_dir) == (None, None, "")
    index.add(entry("abc"))
    index.update("old2", status="DONE")
    index.put(entry("old2"))
    stored = json.loads(home.index_path.read_text())
    assert stored["old1"] == "a string"
    assert stored["old2"]["mine"] == [1]


@pytest.mark.parametrize("text", ["{", "[]", '"text"', "\x00\xff"])
def test_a_damaged_index_is_not_touched(home: Home, index: Index, text: str) -> None:
    home.prepare()
    home.index_path.write_bytes(text.encode("latin-1"))
    with pytest.raises(IndexDamaged, match=r"\.experiment cannot be used: it .* Move it away"):
        index.entries()
    with pytest.raises(IndexDamaged):
        index.add(entry("abc"))
    assert home.index_path.read_bytes() == text.encode("latin-1")


def test_an_empty_file_is_an_empty_index(home: Home, index: Index) -> None:
    home.prepare()
    home.index_path.write_text("\n")
    assert index.entries() == {}


def test_changes_at_once_are_all_kept(home: Home) -> None:
    start = threading.Barrier(6)

    def add(number: int) -> None:
        start.wait()
        for turn in range(5):
            Index(home).add(entry(f"e{number}-{turn}"))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Index(home).entries()) == 30


def test_new_ids_are_those_of_nni() -> None:
    ids = {new_experiment_id() for _ in range(50)}
    assert len(ids) == 50
    for experiment_id in ids:
        assert len(set(experiment_id)) == len(experiment_id) == 8
        assert experiment_id.isalnum()
        assert experiment_id == experiment_id.lower()


@pytest.mark.parametrize("text", ["a", "A_b-9", "x" * 32])
def test_ids_that_users_may_choose(text: str) -> None:
    assert check_experiment_id(text) == text


@pytest.mark.parametrize("text", ["", "a b", "../x", "x" * 33, "a\n", "é"])
def test_ids_that_users_may_not_choose(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be an experiment id"):
        check_experiment_id(text)


def test_what_users_note_is_kept(home: Home, index: Index) -> None:
    index.add(entry("abc"))
    before = index.stamp()
    index.update("abc", tag=("one", "two"), archived=True)
    assert index.stamp() != before
    assert json.loads(home.index_path.read_text())["abc"]["tag"] == ["one", "two"]
    assert json.loads(home.index_path.read_text())["abc"]["archived"] is True
    found = index.get("abc")
    assert found is not None and (found.tag, found.archived) == (("one", "two"), True)
    index.update("abc", archived=False, status="DONE")
    found = index.get("abc")
    assert found is not None and (found.tag, found.archived) == (("one", "two"), False)


def test_an_entry_cannot_name_a_place_outside(home: Home, index: Index) -> None:
    index.add(entry("abc"))
    raw = json.loads(home.index_path.read_text())
    raw["../x"] = raw["abc"]
    raw["abc"] = {**raw["abc"], "logDir": 5}
    home.index_path.write_text(json.dumps(raw))
    (found,) = index.entries().values()
    assert found.directory == Path.cwd() / "5" / "abc"
    index.update("abc", status="DONE")
    assert "../x" in json.loads(home.index_path.read_text())

"""Tests of the copies of checkpoints in the experiment's folder."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest

from training_services.base import KeptCopy
from training_services.checkpoint_store import CheckpointStore
from trial_keeper.checkpoints.contents import Entry

JOB = "exp-aaaaa-1"
ENTRIES = [Entry("a", 5), Entry("b/c", 3), Entry("d", 0)]
CONTENT = b"firsttwo"
HASHES = [hashlib.sha256(content).hexdigest() for content in (b"first", b"two", b"")]


def keep(store: CheckpointStore, number: int, job_id: str = JOB) -> KeptCopy:
    incoming = store.begin(job_id, number, ENTRIES)
    incoming.write(CONTENT)
    return store.finish(job_id, number, incoming, HASHES)


def names(directory: Path) -> list[str]:
    return sorted(
        str(path.relative_to(directory / "checkpoints")) for path in directory.glob("checkpoints/*/*")
    )


def test_a_copy_has_its_manifest_and_its_files(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    kept = keep(store, 3)
    assert names(tmp_path) == ["aaaaa/1-3"]
    assert sorted(path.name for path in store.path(JOB, 3).iterdir()) == ["files", "manifest.json"]
    assert kept == KeptCopy(digest=hashlib.sha256(store.manifest(JOB, 3)).hexdigest(), size=8)
    assert store.path(JOB, 3).parent.stat().st_mode & 0o777 == 0o700


def test_an_unfinished_transfer_is_no_copy_and_is_continued(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    assert store.resume(JOB, 3) is None
    incoming = store.begin(JOB, 3, ENTRIES)
    incoming.write(CONTENT[:6])
    incoming.close()
    assert names(tmp_path) == ["aaaaa/.part-1-3"]
    with pytest.raises(FileNotFoundError):
        store.manifest(JOB, 3)
    again = CheckpointStore(tmp_path).resume(JOB, 3)
    assert again is not None and again.offset == 6
    again.write(CONTENT[6:])
    store.finish(JOB, 3, again, HASHES)
    assert names(tmp_path) == ["aaaaa/1-3"]


def test_a_copy_that_no_fact_names_is_replaced(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    assert keep(store, 3) == keep(store, 3)


@pytest.mark.parametrize("offset", [0, 2, 5, 6, 8])
def test_the_content_is_read_from_an_offset_on(tmp_path: Path, offset: int) -> None:
    store = CheckpointStore(tmp_path)
    keep(store, 3)
    content = store.content(JOB, 3)
    content.seek(offset)
    found = b""
    while piece := content.read(2):
        found += piece
    content.close()
    assert (content.size, found) == (8, CONTENT[offset:])


def test_a_copy_with_a_shorter_file_is_not_read(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    keep(store, 3)
    path = store.path(JOB, 3) / "files" / "a"
    path.chmod(0o600)
    path.write_bytes(b"fir")
    with pytest.raises(FileNotFoundError, match="a has 3 bytes in place of 5"):
        store.content(JOB, 3)


def test_copies_are_removed_by_number(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    for number in (1, 2, 3):
        keep(store, number)
    keep(store, 1, "exp-aaaaa-12")
    store.begin(JOB, 4, ENTRIES).close()
    store.remove(JOB, 3, [2])
    assert names(tmp_path) == ["aaaaa/.part-1-4", "aaaaa/1-2", "aaaaa/12-1"]
    store.remove("exp-bbbbb-1", 3, [])
    store.drop_parts("aaaaa")
    assert names(tmp_path) == ["aaaaa/1-2", "aaaaa/12-1"]


def test_two_removals_at_a_time_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CheckpointStore(tmp_path)
    for number in (1, 2):
        keep(store, number)
    other = threading.Thread(target=store.remove, args=(JOB, 2, ()))
    rename = os.rename

    def late(source: Path, target: Path) -> None:
        monkeypatch.undo()
        other.start()
        other.join(0.05)
        rename(source, target)

    monkeypatch.setattr(os, "rename", late)
    store.remove(JOB, 1, ())
    other.join()
    assert names(tmp_path) == []


def test_what_nobody_names_is_removed_at_the_opening(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.tidy((), ())
    keep(store, 1)
    keep(store, 2)
    keep(store, 1, "exp-bbbbb-1")
    for number in (3, 4):
        store.begin(JOB, number, ENTRIES).close()
    (tmp_path / "checkpoints" / "aaaaa" / ".gone-1-9").mkdir()
    store.tidy({(JOB, 2)}, {(JOB, 4)})
    assert names(tmp_path) == ["aaaaa/.part-1-4", "aaaaa/1-2"]
    assert not (tmp_path / "checkpoints" / "bbbbb").exists()

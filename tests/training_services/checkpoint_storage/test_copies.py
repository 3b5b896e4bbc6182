"""Copies of checkpoints in a storage: each is whole, or does not count."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.training_services.checkpoint_storage.copying import JOB, keep, stored
from tests.training_services.checkpoint_storage.fake_files import FakeFiles
from training_services.checkpoint_storage.copies import Interrupted, StoredCopies
from training_services.checkpoint_storage.files import StorageError
from training_services.checkpoint_store import CheckpointStore, Damaged
from trial_keeper.machine.disk import remove

NAME = (JOB, 3)


class Site:
    """Server's disk and a storage."""

    def __init__(self, directory: Path) -> None:
        self.store = CheckpointStore(directory)
        self.files = FakeFiles()
        self.copies = StoredCopies("exp", self.files, self.store)

    def lose_disk(self) -> None:
        remove(str(self.store.path(*NAME).parent))

    def content(self) -> dict[str, bytes]:
        folder = self.store.path(*NAME)
        return {
            str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_the_manifest_is_stored_last(site: Site) -> None:
    keep(site.store, 3)
    site.copies.upload(NAME)
    assert site.files.put_names == stored(3)
    found = site.copies.find()
    assert found.whole == found.begun == {NAME}


def test_a_copy_without_its_manifest_does_not_count(site: Site) -> None:
    keep(site.store, 3)
    site.files.breaks_at = "manifest"
    with pytest.raises(StorageError):
        site.copies.upload(NAME)
    found = site.copies.find()
    assert (found.whole, found.begun) == (set(), {NAME})


@pytest.mark.parametrize("change", ["cut", "missing", "other manifest", "no manifest"])
def test_an_incomplete_copy_does_not_count(site: Site, change: str) -> None:
    keep(site.store, 3)
    site.copies.upload(NAME)
    manifest, first = "aaaaa/1-3/manifest.json", "aaaaa/1-3/files/a"
    if change == "cut":
        site.files.content[first] = b"fir"
    elif change == "missing":
        del site.files.content[first]
    elif change == "other manifest":  # an older database has been restored
        site.files.content[manifest] = site.files.content[manifest].replace(b'"a"', b'"A"')
        site.files.content["aaaaa/1-3/files/A"] = b"first"
    else:
        site.files.content[manifest] = b"{"
    assert site.copies.find().whole == set()


def test_a_copy_counts_if_the_server_has_lost_its_own(site: Site) -> None:
    keep(site.store, 3)
    site.copies.upload(NAME)
    (site.store.path(*NAME) / "files" / "a").unlink()
    assert site.copies.find().whole == {NAME}
    site.lose_disk()
    assert site.copies.find().whole == {NAME}


def test_files_with_other_names_are_left_alone(site: Site) -> None:
    for name in ("readme", "aaaaa/notes.txt", "aaaaa/1-3", "aaaaa/01-3/x", "aaaaa/1-x/x", "x-aaaaa/1-3/x"):
        site.files.content[name] = b"x"
    assert site.copies.find().begun == set()


def test_a_lost_copy_is_restored(site: Site) -> None:
    kept = keep(site.store, 3)
    before = site.content()
    site.copies.upload(NAME)
    site.lose_disk()
    site.copies.restore(NAME)
    assert site.content() == before and (site.store.path(*NAME) / "files" / "e").is_dir()
    assert keep(site.store, 4) == kept  # with the same manifest
    site.store.check(*NAME)


def test_a_damaged_copy_is_noticed_and_restored(site: Site) -> None:
    keep(site.store, 3)
    before = site.content()
    site.copies.upload(NAME)
    damaged = site.store.path(*NAME) / "files" / "a"
    damaged.chmod(0o600)
    damaged.write_bytes(b"wrong")
    with pytest.raises(ValueError, match="the hash of a is wrong"):
        site.store.check(*NAME)
    site.copies.restore(NAME)
    assert site.content() == before
    site.store.check(*NAME)


@pytest.mark.parametrize("content", [b"other", b"fir"])
def test_a_copy_that_is_damaged_in_the_storage_is_not_used(site: Site, content: bytes) -> None:
    keep(site.store, 3)
    site.copies.upload(NAME)
    site.lose_disk()
    site.files.content["aaaaa/1-3/files/a"] = content
    with pytest.raises(Damaged):
        site.copies.restore(NAME)
    assert site.store.resume(*NAME) is None
    with pytest.raises(FileNotFoundError):
        site.store.manifest(*NAME)


def test_an_interrupted_restore_is_continued(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(site.store, 3)
    before = site.content()
    site.copies.upload(NAME)
    site.lose_disk()
    answers: Iterator[bool] = iter([False, True])
    with pytest.raises(Interrupted):
        StoredCopies("exp", site.files, site.store, lambda: next(answers)).restore(NAME)
    part = site.store.resume(*NAME)
    assert part is not None and part.offset == 5
    part.close()
    site.copies.restore(NAME)
    assert site.content() == before


def test_what_the_storage_lacks_cannot_be_restored(site: Site) -> None:
    with pytest.raises(FileNotFoundError):
        site.copies.restore(NAME)


def test_a_copy_that_the_server_lacks_cannot_be_stored(site: Site) -> None:
    with pytest.raises(FileNotFoundError):
        site.copies.upload(NAME)
    keep(site.store, 3)
    (site.store.path(*NAME) / "files" / "a").unlink()
    with pytest.raises(FileNotFoundError):
        site.copies.upload(NAME)
    assert site.files.put_names == []


def test_the_manifest_is_removed_first(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (3, 30):
        keep(site.store, number)
        site.copies.upload((JOB, number))
    monkeypatch.setattr(site.files, "remove_folder", lambda name: None)  # the server is killed here
    site.copies.remove(NAME)
    found = site.copies.find()
    assert (found.whole, found.begun) == ({(JOB, 30)}, {NAME, (JOB, 30)})
    monkeypatch.undo()
    site.copies.remove(NAME)
    assert list(site.files.content) == stored(30)

"""Implementations of ``StorageFiles`` pass its contract."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from tests.training_services.checkpoint_storage.fake_files import FakeFiles
from tests.training_services.checkpoint_storage.files_contract import FilesContract
from training_services.checkpoint_storage.files import StorageError, StorageFiles
from training_services.checkpoint_storage.fsspec_files import FsspecFiles


class TestFakeFiles(FilesContract):
    @pytest.fixture
    def files(self, tmp_path: Path) -> StorageFiles:
        return FakeFiles()


class TestLocalFolder(FilesContract):
    @pytest.fixture
    def files(self, tmp_path: Path) -> StorageFiles:
        (tmp_path / "shared").mkdir()
        return FsspecFiles(f"file://{tmp_path}/shared/", "exp")


class TestMemory(FilesContract):
    @pytest.fixture
    def files(self, tmp_path: Path) -> StorageFiles:
        return FsspecFiles(f"memory://{uuid.uuid4().hex}/prefix", "exp")


def test_files_of_other_experiments_are_not_seen(tmp_path: Path) -> None:
    first, second = (FsspecFiles(f"file://{tmp_path}", name) for name in ("exp", "exp2"))
    (tmp_path / "x").write_text("x")
    second.put("t/x", tmp_path / "x")
    assert first.sizes() == {}
    first.put("t/x", tmp_path / "x")
    first.remove_folder("t")
    assert second.sizes() == {"t/x": 1}


def test_a_folder_that_was_emptied_is_removed(tmp_path: Path) -> None:
    files = FsspecFiles(f"file://{tmp_path}", "exp")
    (tmp_path / "x").write_text("x")
    for name in ("t/1-1/x", "t/1-2/x"):
        files.put(name, tmp_path / "x")
    files.remove_folder("t/1-1")
    assert [path.name for path in (tmp_path / "exp" / "t").iterdir()] == ["1-2"]
    files.remove_folder("t/1-2")
    assert not (tmp_path / "exp" / "t").exists()


def test_a_link_is_removed_and_not_followed(tmp_path: Path) -> None:
    files = FsspecFiles(f"file://{tmp_path}/shared", "exp")
    (tmp_path / "shared" / "exp" / "t" / "1-1").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x").write_text("x")
    os.symlink(tmp_path / "elsewhere", tmp_path / "shared" / "exp" / "t" / "1-1" / "files")
    assert "t/1-1/files/x" not in files.sizes()
    files.remove_folder("t/1-1")
    assert (tmp_path / "elsewhere" / "x").exists() and not (tmp_path / "shared" / "exp" / "t").exists()


def test_a_missing_folder_is_not_made(tmp_path: Path) -> None:
    files = FsspecFiles(f"file://{tmp_path}/unmounted", "exp")
    (tmp_path / "x").write_text("x")
    for work in (files.sizes, lambda: files.put("t/x", tmp_path / "x"), lambda: files.open("t/x")):
        with pytest.raises(StorageError, match="unmounted does not exist; create it, or mount its disk"):
            work()
    assert not (tmp_path / "unmounted").exists()


def test_errors_of_drivers_are_sentences_without_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FsspecFiles("memory://bucket", "exp")
    (tmp_path / "x").write_text("x")
    files.put("x", tmp_path / "x")
    memory = pytest.importorskip("fsspec.implementations.memory").MemoryFileSystem

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("GET https://host/key?signature=secret was refused\nmore")

    monkeypatch.setattr(memory, "find", refuse)
    with pytest.raises(StorageError) as caught:
        files.sizes()
    assert str(caught.value) == "GET https://host/key was refused"

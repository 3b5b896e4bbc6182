"""Contract of ``StorageFiles``, which each implementation passes."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from training_services.checkpoint_storage.files import StorageFiles


class FilesContract:
    """Tests of an implementation. A subclass has the fixture ``files``: an empty storage."""

    @pytest.fixture
    def files(self, tmp_path: Path) -> StorageFiles:
        raise NotImplementedError

    @staticmethod
    def put(files: StorageFiles, folder: Path, name: str, content: bytes) -> None:
        source = folder / "source"
        source.write_bytes(content)
        files.put(name, source)

    @staticmethod
    def read(files: StorageFiles, name: str, offset: int = 0) -> bytes:
        with contextlib.closing(files.open(name)) as file:
            file.seek(offset)
            return b"".join(iter(lambda: file.read(2), b""))

    def test_an_empty_storage_has_no_files(self, files: StorageFiles) -> None:
        assert files.sizes() == {}

    def test_a_file_is_stored_under_its_name(self, files: StorageFiles, tmp_path: Path) -> None:
        self.put(files, tmp_path, "t/1-2/files/a/b.bin", b"first")
        self.put(files, tmp_path, "t/1-2/empty", b"")
        assert files.sizes() == {"t/1-2/files/a/b.bin": 5, "t/1-2/empty": 0}
        assert self.read(files, "t/1-2/files/a/b.bin") == b"first"
        assert self.read(files, "t/1-2/files/a/b.bin", 3) == b"st"
        assert self.read(files, "t/1-2/empty") == b""

    def test_a_file_replaces_an_earlier_one(self, files: StorageFiles, tmp_path: Path) -> None:
        self.put(files, tmp_path, "t/x", b"a long text")
        self.put(files, tmp_path, "t/x", b"short")
        assert files.sizes() == {"t/x": 5} and self.read(files, "t/x") == b"short"

    def test_names_with_special_characters(self, files: StorageFiles, tmp_path: Path) -> None:
        for name in ("t/a b", "t/[1]", "t/x*y", "t/é", "t/#1"):
            self.put(files, tmp_path, name, name.encode())
            assert self.read(files, name) == name.encode()
        assert len(files.sizes()) == 5
        files.remove_file("t/x*y")
        assert sorted(files.sizes()) == sorted(["t/a b", "t/[1]", "t/é", "t/#1"])

    def test_a_missing_file_is_reported(self, files: StorageFiles, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            self.read(files, "t/missing")
        with pytest.raises(FileNotFoundError):
            files.put("t/x", tmp_path / "missing")

    def test_only_what_is_named_is_removed(self, files: StorageFiles, tmp_path: Path) -> None:
        for name in ("t/1-1/files/a", "t/1-1/manifest.json", "t/1-10/a", "u/1-1/a"):
            self.put(files, tmp_path, name, b"x")
        files.remove_file("t/1-1/manifest.json")
        assert sorted(files.sizes()) == ["t/1-1/files/a", "t/1-10/a", "u/1-1/a"]
        files.remove_folder("t/1-1")
        assert sorted(files.sizes()) == ["t/1-10/a", "u/1-1/a"]
        files.remove_folder("t/1-1")
        files.remove_file("t/1-1/manifest.json")
        assert sorted(files.sizes()) == ["t/1-10/a", "u/1-1/a"]

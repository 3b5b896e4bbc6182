"""Interface of a storage: the files of one experiment, in a folder below the URL that a user has given."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

__all__ = ["StorageError", "StorageFiles", "StoredFile"]


class StorageError(Exception):
    """Error: the storage cannot be used now. The text is a sentence about the reason."""


class StoredFile(Protocol):
    """Open file of a storage. All methods raise StorageError."""

    def seek(self, offset: int, /) -> object: ...

    def read(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


class StorageFiles(Protocol):
    """Files of one experiment in a storage.

    A name is the path of a file below the experiment's folder, with slashes. No other file is ever touched.
    All methods block the thread, may be called by several threads at once, and raise StorageError.
    """

    def sizes(self) -> dict[str, int]:
        """Return the names of all files, with their bytes."""

    def put(self, name: str, source: Path) -> None:
        """Store a local file under this name, in place of an earlier one. Raises FileNotFoundError if the
        local file is missing.
        """

    def open(self, name: str) -> StoredFile:
        """Open a file for reading. Raises FileNotFoundError."""

    def remove_file(self, name: str) -> None:
        """Remove a file, if it exists."""

    def remove_folder(self, name: str) -> None:
        """Remove a folder with all its files, if it exists."""

"""Files in a storage, through a driver of fsspec. The package is imported on first use."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from training_services.checkpoint_storage.files import StorageError, StoredFile
from training_services.checkpoint_storage.url import LOCAL, driver_fault, protocol_of

__all__ = ["FsspecFiles"]

# Storages without folders. Their drivers may create a bucket if they are asked for a folder.
_WITHOUT_FOLDERS = frozenset(("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "memory"))
_LONGEST = 300  # characters of a driver's message
_QUERY = re.compile(r"\?\S+")


class FsspecFiles:
    """Implementation of ``StorageFiles``. ``url`` may be any URL that fsspec knows; ``folder``: the name of
    the experiment's folder below it.
    """

    def __init__(self, url: str, folder: str) -> None:
        self._url, self._folder = url.rstrip("/"), folder
        self._has_folders = protocol_of(url) not in _WITHOUT_FOLDERS
        self._lock = threading.Lock()
        self._opened: tuple[Any, str] | None = None

    def sizes(self) -> dict[str, int]:
        with self._using() as (driver, root):
            driver.invalidate_cache()
            try:
                found = driver.find(root, detail=True)
            except FileNotFoundError:
                return {}
            prefix = f"{root.rstrip('/')}/"
            return {
                name[len(prefix) :]: int(about.get("size") or 0)
                for name, about in found.items()
                if name.startswith(prefix)
            }

    def put(self, name: str, source: Path) -> None:
        os.stat(source)
        with self._using() as (driver, root):
            path = f"{root}/{name}"
            if self._has_folders:
                driver.makedirs(path.rpartition("/")[0], exist_ok=True)
            driver.put_file(str(source), path)

    def open(self, name: str) -> StoredFile:
        with self._using() as (driver, root):
            try:
                return _Reader(driver.open(f"{root}/{name}", "rb"))
            except FileNotFoundError as error:
                raise _Missing(name) from error

    def remove_file(self, name: str) -> None:
        with self._using() as (driver, root), contextlib.suppress(FileNotFoundError):
            driver.rm_file(f"{root}/{name}")

    def remove_folder(self, name: str) -> None:
        with self._using() as (driver, root):
            path = f"{root}/{name}"
            with contextlib.suppress(FileNotFoundError):
                driver.rm(path, recursive=True)
            if self._has_folders:
                with contextlib.suppress(OSError):  # the folder above has other copies
                    driver.rmdir(path.rpartition("/")[0])

    @contextlib.contextmanager
    def _using(self) -> Iterator[tuple[Any, str]]:
        """Give the driver and the path of the experiment's folder. All errors become StorageError."""
        with _sentences():
            with self._lock:
                if self._opened is None:
                    self._opened = self._open()
            if protocol_of(self._url) in LOCAL and (fault := driver_fault(self._url)) is not None:
                raise StorageError(fault)
            yield self._opened

    def _open(self) -> tuple[Any, str]:
        try:
            core = importlib.import_module("fsspec.core")
        except ImportError as error:
            raise StorageError("the package fsspec is not installed for the server's Python") from error
        driver, path = core.url_to_fs(
            f"{self._url}/{self._folder}", skip_instance_cache=True, use_listings_cache=False
        )
        return driver, str(path)


class _Missing(FileNotFoundError):
    """Error: the storage has no file with this name."""


class _Reader:
    """Open file of a storage, whose errors are StorageError."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        with _sentences():
            return bytes(self._file.read(size))

    def seek(self, offset: int) -> None:
        with _sentences():
            self._file.seek(offset)

    def close(self) -> None:
        with _sentences():
            self._file.close()


@contextlib.contextmanager
def _sentences() -> Iterator[None]:
    """Raise StorageError in place of what a driver raises, which may be any exception."""
    try:
        yield
    except (StorageError, _Missing):
        raise
    except Exception as error:
        raise StorageError(_sentence(error)) from error


def _sentence(error: Exception) -> str:
    """Return the first line of a driver's message, without queries of URLs, which may contain secrets."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        text = f"{error.strerror} ({error.filename})"
    else:
        text = next(iter(str(error).strip().splitlines()), "")
    text = _QUERY.sub("", text)[:_LONGEST]
    return text or type(error).__name__

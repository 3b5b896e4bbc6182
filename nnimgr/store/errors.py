"""Errors of an experiment's database::

StoreError            the database cannot be read or written
+-- StoreLocked       another server holds the database
+-- DatabaseDeleted   somebody has deleted the database
+-- NewerDatabase     a newer nnimgr has written the database
"""

from __future__ import annotations

from pathlib import Path


class StoreError(Exception):
    """Error: the database cannot be read or written. The message is one sentence for the user."""


class StoreLocked(StoreError):
    """Error: another server has the experiment's database open."""


def empty_database(path: Path) -> StoreError:
    """Build the error for an experiment's database that has lost all of its content."""
    return StoreError(f"the database {path} is empty; put a copy of it back in its place")


class DatabaseDeleted(StoreError):
    """Error: somebody has deleted the experiment's database."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"the database {path} was deleted; put a copy of it back in its place")


class NewerDatabase(StoreError):
    """Error: a newer version of nnimgr has written the database. The database was not changed."""

    def __init__(self, path: str, *, found: int, known: int) -> None:
        super().__init__(
            f"{path} has schema version {found}, but this nnimgr knows versions up to {known}: "
            "use the newer nnimgr that wrote it; nothing was changed"
        )

"""What can go wrong with an experiment's database::

StoreError            it cannot be read or written
+-- StoreLocked       another server holds it
+-- NewerDatabase     a newer nnimgr has written it
"""

from __future__ import annotations

from pathlib import Path


class StoreError(Exception):
    """The database cannot be read or written; the message is one sentence for the user."""


class StoreLocked(StoreError):
    """Another server holds the experiment."""


def empty_database(path: Path) -> StoreError:
    """Build the error for a database that has lost all it held."""
    return StoreError(f"the database {path} is empty; put a copy of it back in its place")


class NewerDatabase(StoreError):
    """The database was written by a newer nnimgr; it was not touched."""

    def __init__(self, path: str, *, found: int, known: int) -> None:
        super().__init__(
            f"{path} has schema version {found}, but this nnimgr knows versions up to {known}: "
            "use the newer nnimgr that wrote it; nothing was changed"
        )

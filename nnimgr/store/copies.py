"""Copies the database of an experiment, also while a server writes to it."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from nnimgr.store.errors import StoreError

__all__ = ["copy_database"]


def copy_database(source: Path, target: Path) -> None:
    """Copy the committed content of the database ``source`` to the new file ``target``. Raise StoreError."""
    try:
        with (
            contextlib.closing(sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True)) as connection,
            contextlib.closing(sqlite3.connect(target)) as copy,
        ):
            connection.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # the copy is one file
    except sqlite3.Error as error:
        raise StoreError(f"the database {source} cannot be copied: {error}") from error

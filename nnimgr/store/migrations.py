"""Numbered migrations, run when a database is opened for writing.

``PRAGMA user_version`` holds the number of the last one. A database of a newer version is refused, untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection

from nnimgr.store.schema import SCHEMA_VERSION, metadata


class NewerDatabase(Exception):
    """The database was written by a newer nnimgr; it was not touched."""

    def __init__(self, path: str, found: int) -> None:
        super().__init__(
            f"{path} has schema version {found}, but this nnimgr knows versions up to {SCHEMA_VERSION}: "
            "use the newer nnimgr that wrote it; nothing was changed"
        )


def _create(connection: Connection) -> None:
    metadata.create_all(connection)


MIGRATIONS: Sequence[Callable[[Connection], None]] = (_create,)


def migrate(connection: Connection, path: str) -> None:
    """Bring the schema up to date, in the transaction of ``connection``. Raises NewerDatabase."""
    found = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
    if found > SCHEMA_VERSION:
        raise NewerDatabase(path, found)
    for number, step in enumerate(MIGRATIONS[found:], start=found + 1):
        step(connection)
        connection.exec_driver_sql(f"PRAGMA user_version = {number}")

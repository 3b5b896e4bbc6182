"""Short transactions that store users' notes, tags and saved views, even while a server has the experiment
open.

Only a runner's writer writes the log. The notes, tags and views are in other tables, which are written
through a separate connection; SQLite lets the two writers take turns.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, create_engine, exc
from sqlalchemy.pool import NullPool

from nnimgr.store.errors import NewerDatabase, StoreError, StoreLocked, empty_database
from nnimgr.store.location import database_path
from nnimgr.store.migrations import migrate
from nnimgr.store.schema import SCHEMA_VERSION

__all__ = ["now_us", "user_change"]

_TIMEOUT_S = 10.0  # the longest wait for another writer's transaction


@contextmanager
def user_change(directory: Path) -> Iterator[tuple[Connection, str]]:
    """Open a transaction in the database of an experiment's folder. Yield the connection and the experiment's
    id.

    A database of an earlier version is migrated first. The transaction is committed durably at the end of the
    block, and rolled back if the block raises. Raise FileNotFoundError if there is no database, StoreError,
    StoreLocked or NewerDatabase.
    """
    path = database_path(directory)
    if not path.is_file():  # opening a pipe would block for ever
        raise FileNotFoundError(f"there is no database {path}")
    engine = create_engine(
        URL.create("sqlite", database=path.as_uri(), query={"mode": "rw", "uri": "true"}),
        poolclass=NullPool,
        connect_args={"isolation_level": None, "timeout": _TIMEOUT_S},
    )
    try:
        with engine.connect() as connection:
            with connection.begin():  # SQLite's own transactions begin with BEGIN
                connection.exec_driver_sql("PRAGMA synchronous = FULL")
                version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
            if version != SCHEMA_VERSION:
                _migrate_older(connection, path, version)
            with connection.begin():
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                found = connection.exec_driver_sql("SELECT experiment_id FROM experiments").scalar()
                if found is None:
                    raise empty_database(path)
                yield connection, found
    except exc.DatabaseError as error:
        raise StoreError(f"the database {path} cannot be written: {error.orig}") from error
    finally:
        engine.dispose()


def now_us() -> int:
    """Return the current time as the database stores it: microseconds since 1970."""
    return time.time_ns() // 1000


def _migrate_older(connection: Connection, path: Path, version: int) -> None:
    """Migrate a database of an earlier version, unless a server of that version has the experiment open."""
    if version > SCHEMA_VERSION:
        raise NewerDatabase(str(path), found=version, known=SCHEMA_VERSION)
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _lock(lock, path)
        with connection.begin():
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            migrate(connection, str(path))
    finally:
        os.close(lock)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        raise StoreLocked(
            f"experiment {path.parent.parent.name} is open in a server of an earlier version: "
            "restart that server first"
        ) from error

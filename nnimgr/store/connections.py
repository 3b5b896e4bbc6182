"""Read-only connections to an experiment's database, and helpers that build its queries."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Column, Connection, Select, Table, create_engine, exc, select
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.pool import QueuePool

from nnimgr.store import schema
from nnimgr.store.errors import StoreError, empty_database
from nnimgr.store.location import database_path

CONNECTIONS = 10  # requests that read one experiment's database at the same time; others wait
POOL_S = 30.0  # longest wait for one of these connections


class _Compiler(SQLiteCompiler):
    """SQL compiler that includes index hints for SQLite in queries. SQLAlchemy's own compiler leaves them
    out.
    """

    def get_from_hint_text(self, table: Any, text: str | None) -> str | None:
        return text


class DatabaseReader:
    """Read-only connections to one experiment's database. Thread-safe."""

    def __init__(self, directory: Path) -> None:
        self.path = database_path(directory)
        self._engine = create_engine(
            URL.create("sqlite", database=self.path.as_uri(), query={"mode": "ro", "uri": "true"}),
            poolclass=QueuePool,
            pool_size=2,
            max_overflow=CONNECTIONS - 2,
            pool_timeout=POOL_S,
            connect_args={"check_same_thread": False, "timeout": 10},
        )
        self._engine.dialect.statement_compiler = _Compiler
        self._closed = threading.Event()
        self._experiment_id: str | None = None
        self._indexes: frozenset[str] = frozenset()
        self._tables: frozenset[str] = frozenset()
        self._columns: set[Column[Any]] = set()

    def close(self) -> None:
        self._closed.set()
        self._engine.dispose()

    def release(self) -> None:
        """Close the idle connections now, and the connections in use when they are returned to the pool.

        SQLite opens a database's shared memory once for all connections of a process. A connection that was
        opened while the disk was not writable would block the writer as long as the connection is open.
        """
        self._engine.dispose()

    @contextmanager
    def _connect(self) -> Iterator[Connection]:
        if not self.path.is_file():  # opening a pipe would block for ever
            raise FileNotFoundError(f"there is no database {self.path}")
        pool = self._engine.pool
        try:
            with self._engine.connect() as connection:
                yield connection
        except exc.TimeoutError as error:
            raise StoreError(
                f"{CONNECTIONS} requests have been reading the database {self.path} for {POOL_S:g} s, and no "
                "other request can read it meanwhile; try again"
            ) from error
        except exc.DatabaseError as error:
            self._engine.dispose()  # after a repair, old connections would still read the damaged database
            if "no such table" in str(error.orig):
                raise empty_database(self.path) from error
            raise StoreError(f"the database {self.path} cannot be read: {error.orig}") from error
        finally:
            # the connections were released while this query was running
            if pool is not self._engine.pool or self._closed.is_set():
                pool.dispose()

    @property
    def _id(self) -> str:
        """Id of the database's experiment, which is the first column of each table's key."""
        if self._experiment_id is None:
            with self._connect() as connection:
                query = select(schema.experiments.c.experiment_id)
                try:
                    self._experiment_id = connection.execute(query).scalar_one()
                except (exc.NoResultFound, exc.OperationalError) as error:
                    if isinstance(error, exc.OperationalError) and "no such table" not in str(error.orig):
                        raise
                    raise FileNotFoundError(f"no experiment was created in {self.path}") from error
        return self._experiment_id

    def _of(self, table: Table) -> Select[Any]:
        return select(table).where(table.c.experiment_id == self._id)

    def _rows(self, query: Select[Any], make: Any) -> list[Any]:
        with self._connect() as connection:
            return [make(row._mapping) for row in connection.execute(query)]

    def _by(self, index: str | None, query: Select[Any], table: Table) -> Select[Any]:
        """Return ``query`` with a hint to read ``table`` by the index with this name, if the database has the
        index.

        SQLite has no statistics of our tables. Without the hint it uses the primary key and reads the whole
        table.
        """
        known = index is not None and self._has_index(index)
        return query.with_hint(table, f"INDEXED BY {index}", "sqlite") if known else query

    def _has_index(self, index: str) -> bool:
        """Return whether the database has the index with this name. A database of an earlier version may
        lack it.
        """
        if not self._indexes:
            self._indexes = self._names("index")
        return index in self._indexes

    def _has_table(self, table: Table) -> bool:
        """Return whether the database has this table. A server may add the table while the database is
        read.
        """
        if table.name not in self._tables:
            self._tables = self._names("table")
        return table.name in self._tables

    def _has_column(self, column: Column[Any]) -> bool:
        """Return whether the database has this column. A server may add the column while the database is
        read.
        """
        if column not in self._columns:
            with self._connect() as connection:
                rows = connection.exec_driver_sql(f"PRAGMA table_info({column.table.name})")
                if column.name in {row[1] for row in rows}:
                    self._columns.add(column)
        return column in self._columns

    def _names(self, kind: str) -> frozenset[str]:
        with self._connect() as connection:
            names = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = ?", (kind,))
            return frozenset(names.scalars())

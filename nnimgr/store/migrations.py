"""Numbered migrations of the database's schema, which are run when a database is opened for writing.

``PRAGMA user_version`` holds the number of the last migration. A database of a newer version is refused and
not changed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from sqlalchemy import Connection, create_mock_engine
from sqlalchemy.dialects import sqlite

from nnimgr.store.errors import NewerDatabase
from nnimgr.store.schema import (
    SCHEMA_VERSION,
    checkpoint_copies,
    checkpoints,
    fact_by_trial,
    fact_further_sets,
    fact_imports,
    legs,
    metadata,
    metric_finals,
    trial_annotations,
    views,
)


@functools.cache
def _creation() -> tuple[str, ...]:
    """Return the SQL statements that create a database. SQLAlchemy takes 20 ms to write them."""
    statements: list[str] = []
    dialect = sqlite.dialect()
    engine = create_mock_engine(
        "sqlite://", lambda ddl, *_, **__: statements.append(str(ddl.compile(dialect=dialect)))
    )
    metadata.create_all(engine, checkfirst=False)
    return tuple(statements)


def _create(connection: Connection) -> None:
    for statement in _creation():
        connection.exec_driver_sql(statement)


def _index_finals_and_imports(connection: Connection) -> None:
    for index in (metric_finals, fact_imports):
        index.create(connection, checkfirst=True)


def _index_further_sets(connection: Connection) -> None:
    fact_further_sets.create(connection, checkfirst=True)


def _index_facts_by_trial(connection: Connection) -> None:
    fact_by_trial.create(connection, checkfirst=True)


def _create_annotations_and_views(connection: Connection) -> None:
    for table in (trial_annotations, views):
        table.create(connection, checkfirst=True)


def _add_checkpoints_and_causes(connection: Connection) -> None:
    checkpoints.create(connection, checkfirst=True)
    _add_columns(connection, ("metrics", "ran_in", "INTEGER"), ("jobs", "cause", "VARCHAR(16)"))


def _add_legs_and_copies(connection: Connection) -> None:
    for table in (legs, checkpoint_copies):
        table.create(connection, checkfirst=True)
    _add_columns(connection, ("checkpoints", "reports", "INTEGER"))


def _add_members(connection: Connection) -> None:
    _add_columns(connection, ("jobs", "members", "TEXT"))


def _add_place_reason(connection: Connection) -> None:
    _add_columns(connection, ("jobs", "place_reason", "TEXT"))


def _add_columns(connection: Connection, *wanted: tuple[str, str, str]) -> None:
    """Add the columns (table, name, type) that the database does not have yet."""
    for table, column, kind in wanted:
        columns = {row[1] for row in connection.exec_driver_sql(f"PRAGMA table_info({table})")}
        if column not in columns:
            connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")


MIGRATIONS: Sequence[Callable[[Connection], None]] = (  # from version 1 to 2, from 2 to 3 and so on
    _index_finals_and_imports,
    _index_further_sets,
    _index_facts_by_trial,
    _create_annotations_and_views,
    _add_checkpoints_and_causes,
    _add_legs_and_copies,
    _add_members,
    _add_place_reason,
)


def migrate(connection: Connection, path: str) -> None:
    """Bring the database's schema up to date, in the transaction of ``connection``. Raise NewerDatabase."""
    found = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
    if found > SCHEMA_VERSION:
        raise NewerDatabase(path, found=found, known=SCHEMA_VERSION)
    for step in MIGRATIONS[found - 1 :] if found else (_create,):
        step(connection)
    connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")

"""The only writer of an experiment's database: one thread, and one transaction per turn of the runner.

In addition to SQLite's locks, the writer holds a lock (flock) on a file beside the database for its whole
life. This lock keeps a second server out.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, exc
from sqlalchemy.pool import StaticPool

from nnimgr.rules import facts as f
from nnimgr.rules.fold import apply
from nnimgr.rules.state import ExperimentState, Touched
from nnimgr.store import schema
from nnimgr.store.errors import DatabaseDeleted, StoreError, StoreLocked
from nnimgr.store.high_water import HighWater, HighWaterFile
from nnimgr.store.holder import holder, write_holder
from nnimgr.store.location import database_path
from nnimgr.store.migrations import migrate
from nnimgr.store.rows import (
    Batch,
    Row,
    batch,
    from_us,
    read_fact,
    read_metric,
    read_snapshot,
    snapshot_row,
)
from training_services.private import (
    FILE,
    FOLDER,
    forbid_writing,
    make_private_folder,
    open_private,
    tighten,
)

SNAPSHOT_EVERY = 5000  # number of facts after which a snapshot of the state is stored
METRICS_A_FACT = 20  # this number of metrics counts as one fact, because metrics are folded faster
SNAPSHOTS_KEPT = 2
PAGE = 10_000

T = TypeVar("T")


def _insert(table: Table, verb: str = "INSERT") -> str:
    columns = ", ".join(column.name for column in table.columns)
    marks = ", ".join("?" for _ in table.columns)
    return f"{verb} INTO {table.name} ({columns}) VALUES ({marks})"


def _upsert(table: Table, key: str) -> str:
    changing = [c.name for c in table.columns if c.name not in ("experiment_id", key)]
    updates = ", ".join(f"{name} = excluded.{name}" for name in changing)
    return f"{_insert(table)} ON CONFLICT (experiment_id, {key}) DO UPDATE SET {updates}"


_FACT = _insert(schema.facts)
_METRIC = _insert(schema.metrics)
_TRIAL = _upsert(schema.trials, "trial_id")
_JOB = _upsert(schema.jobs, "job_id")
_KEEPER = _upsert(schema.keepers, "keeper_id")
_GONE = "DELETE FROM keepers WHERE experiment_id = ? AND keeper_id = ?"
_SNAPSHOT = _insert(schema.snapshots, "INSERT OR REPLACE")
_CREATE = _insert(schema.experiments)
_CHECKPOINT = _insert(schema.checkpoints, "INSERT OR REPLACE")
_LEG = _insert(schema.legs, "INSERT OR REPLACE")
_DELETED = (
    "UPDATE checkpoints SET state = 'deleted' WHERE experiment_id = ? AND trial_id = ? AND attempt = ? "
    "AND number <= ? AND number NOT IN (SELECT value FROM json_each(?))"
)
_LOST = (
    "UPDATE checkpoints SET state = 'lost' "
    "WHERE experiment_id = ? AND trial_id = ? AND attempt = ? AND number = ?"
)
_COPIED = _insert(schema.checkpoint_copies, "INSERT OR REPLACE")
_UNCOPIED = (
    "DELETE FROM checkpoint_copies WHERE experiment_id = ? AND trial_id = ? AND attempt = ? "
    "AND number <= ? AND number NOT IN (SELECT value FROM json_each(?))"
)
CONTINUED = (
    "UPDATE metrics SET ran_in = coalesce(ran_in, attempt), attempt = ? "
    "WHERE experiment_id = ? AND trial_id = ? AND attempt = ? AND position < ? "
    "AND (? OR (type = 'PERIODICAL' AND sequence < ?))"
)
_NOTE = "UPDATE trials SET note = ? WHERE experiment_id = ? AND trial_id = ?"
_EXPERIMENT = (
    "UPDATE experiments SET m_epoch = ?, status = ?, drain = ?, reason = ?, "
    "ended_at = ?, active_us = ?, active_since = ?, next_sequence = ?, counts = ?, best_trial_id = ?, "
    "best_value = ?, last_number = ? WHERE experiment_id = ?"
)
_DEFINITION = "UPDATE experiments SET config = ?, search_space = ? WHERE experiment_id = ?"
_PRUNE = (
    "DELETE FROM snapshots WHERE experiment_id = ? AND number NOT IN "
    "(SELECT number FROM snapshots WHERE experiment_id = ? ORDER BY number DESC LIMIT ?)"
)


class ExperimentWriter:
    """Opens, locks and migrates an experiment's database, writes new facts, and computes the state from the
    log.

    All work on the database is done in the writer's thread.
    """

    def __init__(self, directory: Path) -> None:
        self.path = database_path(directory)
        self.db_id = ""
        self.m_epoch = 0
        # progress that the database lacks, if it was replaced by an older copy; else None
        self.missing: HighWater | None = None
        self._mark: HighWaterFile | None = None
        self._since_snapshot = 0.0
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"store-{directory.name}")
        self._lock: int | None = None
        self._engine: Engine | None = None
        self._connection: Connection | None = None

    async def open(self, *, new: bool = True) -> ExperimentState:
        """Lock and open the database. Return the experiment's state, which is empty if the database is new.

        ``new``: whether a database that does not exist is created. Raise StoreLocked or StoreError.
        """
        return await self._call(lambda: self._open(new))

    async def append(self, state: ExperimentState, turn: Sequence[f.Recorded], touched: Touched) -> None:
        """Commit the facts of one turn durably to the database. Raise StoreError; the writer cannot be
        used after that.
        """
        rows = batch(state, turn, touched)
        self._since_snapshot += len(rows.facts) + len(rows.metrics) / METRICS_A_FACT
        if self._since_snapshot >= SNAPSHOT_EVERY:
            rows.snapshot = snapshot_row(state)
            self._since_snapshot = 0
        mark = HighWater(state.number, state.m_epoch, state.next_sequence)
        await self._call(lambda: self._write(rows, mark))

    async def close(self, state: ExperimentState | None = None) -> None:
        """Close and unlock the database. If ``state`` is given, store a snapshot, so that the next start
        is fast.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if state is not None and state.id and self._since_snapshot:
                row = snapshot_row(state)
                await self._call(lambda: self._write_snapshot(row))
        finally:
            await self._call(self._close)
            self._thread.shutdown(wait=False)

    async def _call(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except (exc.SQLAlchemyError, sqlite3.Error) as error:
            raise StoreError(_sentence(self.path, error)) from error
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror or error}") from error

    # ---- in the writer's thread ---------------------------------------------------------------------------

    def _open(self, new: bool) -> ExperimentState:
        if not new and not self.path.exists():
            raise DatabaseDeleted(self.path)
        make_private_folder(self.path.parent)
        forbid_writing(self.path.parent.parent)  # the owner may have shared the folder with others
        tighten(self.path.parent, FOLDER)
        self._lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            where = f"experiment {self.path.parent.parent.name} is open in another server"
            raise StoreLocked(f"{where}{holder(self._lock)}") from error
        write_holder(self._lock)
        self._mark = HighWaterFile(self.path.with_suffix(".mark"))
        os.close(open_private(self.path, os.O_RDWR | os.O_CREAT))  # SQLite gives its own files the same mode
        for beside in ("-wal", "-shm"):
            tighten(self.path.with_name(self.path.name + beside), FILE)
        self._engine = _engine(self.path)
        connection = self._connection = self._engine.connect()
        with connection.begin():
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            migrate(connection, str(self.path))
            row = connection.exec_driver_sql(
                "SELECT db_id, m_epoch, experiment_id FROM experiments"
            ).one_or_none()
        if row is None:
            self.db_id, self.m_epoch = secrets.token_hex(16), 1
            return ExperimentState()
        with connection.begin():
            state, self._since_snapshot = load(connection, row[2])
        self.db_id, self.m_epoch = row[0], row[1] + 1
        mark = self._mark.read()
        if mark is not None and mark.number > state.number:
            self.missing, self.m_epoch = mark, max(row[1], mark.m_epoch) + 1
        return state

    def _write(self, rows: Batch, mark: HighWater) -> None:
        assert self._lock is not None
        if not os.fstat(self._lock).st_nlink:  # SQLite would go on writing to files that have no name
            raise DatabaseDeleted(self.path)
        with self._transaction() as driver:
            for statement, values in (
                (_FACT, rows.facts),
                (_METRIC, rows.metrics),
                (CONTINUED, rows.continued),
                (_LEG, rows.legs),
                (_CHECKPOINT, rows.checkpoints),
                (_COPIED, rows.copied),
                (_DELETED, rows.pruned),
                (_LOST, rows.lost),
                (_UNCOPIED, rows.uncopied),
                (_TRIAL, rows.trials),
                (_JOB, rows.jobs),
                (_KEEPER, rows.keepers),
                (_GONE, rows.gone),
                (_NOTE, rows.notes),
            ):
                if values:
                    driver.executemany(statement, values)
            if driver.execute(_EXPERIMENT, rows.experiment).rowcount == 0:
                driver.execute(_CREATE, self._new_row(rows))
            elif rows.definition is not None:
                driver.execute(_DEFINITION, rows.definition)
            if rows.snapshot is not None:
                _store_snapshot(driver, rows.snapshot)
        if self._mark is not None:
            self._mark.note(mark)

    def _new_row(self, rows: Batch) -> Row:
        assert rows.definition is not None
        config, space, experiment_id = rows.definition
        m_epoch, status, drain, reason, *rest, _ = rows.experiment
        created = rows.facts[0][2]
        return (experiment_id, self.db_id, m_epoch, config, space, status, drain, reason, created, *rest)

    def _write_snapshot(self, row: Row) -> None:
        with self._transaction() as driver:
            _store_snapshot(driver, row)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit what the block writes, or undo it if the block or the commit fails.

        Yield the driver's own connection: through SQLAlchemy, a commit takes twice the processor time.
        """
        assert self._connection is not None
        driver = self._connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        driver.execute("BEGIN IMMEDIATE")
        try:
            yield driver
            driver.execute("COMMIT")
        except BaseException:
            if driver.in_transaction:  # SQLite itself undoes the changes when the disk is full
                driver.execute("ROLLBACK")
            raise

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None
        if self._mark is not None:
            self._mark.close()
            self._mark = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _store_snapshot(driver: sqlite3.Connection, row: Row) -> None:
    driver.execute(_SNAPSHOT, row)
    driver.execute(_PRUNE, (row[0], row[0], SNAPSHOTS_KEPT))


def load(
    connection: Connection, experiment_id: str, *, snapshots: bool = True
) -> tuple[ExperimentState, float]:
    """Compute the experiment's state from the newest snapshot and the facts after it.

    Return the state, and the number of facts after the snapshot. METRICS_A_FACT metrics count as one fact.
    """
    rows = connection.exec_driver_sql(
        "SELECT number, version, body FROM snapshots WHERE experiment_id = ? ORDER BY number DESC",
        (experiment_id,),
    )
    state = (read_snapshot((r[0], r[1], r[2]) for r in rows) if snapshots else None) or ExperimentState()
    folded = 0.0
    for recorded in read_log(connection, experiment_id, after=state.number):
        apply(state, recorded)
        folded += 1 if type(recorded.fact) is not f.MetricReported else 1 / METRICS_A_FACT
        state.take_touched()
    return state, folded


def read_log(connection: Connection, experiment_id: str, *, after: int) -> Iterator[f.Recorded]:
    """Yield all facts of the log with numbers above ``after``, including metrics, in order."""
    while True:
        page = read_page(connection, experiment_id, after=after, limit=PAGE)
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].number


def read_page(
    connection: Connection, experiment_id: str, *, after: int, limit: int, moves: bool = True
) -> list[f.Recorded]:
    """Return at most ``limit`` facts with numbers above ``after``, from the tables of facts and of metrics.

    If a fact and a metric have the same number, the metric is the copy of a reused result, and only the fact
    is returned. ``moves``: the table has the column ``ran_in``, which databases of earlier versions lack.
    """
    facts = connection.exec_driver_sql(
        "SELECT number, at, kind, payload FROM facts "
        "WHERE experiment_id = ? AND number > ? ORDER BY number LIMIT ?",
        (experiment_id, after, limit),
    ).all()
    attempt = "coalesce(ran_in, attempt)" if moves else "attempt"
    metrics = connection.exec_driver_sql(
        f"SELECT number, trial_id, {attempt}, position, parameter_id, type, sequence, at, value, text "  # noqa: S608
        "FROM metrics WHERE experiment_id = ? AND number > ? ORDER BY number LIMIT ?",
        (experiment_id, after, limit),
    ).all()
    merged = {row[0]: read_metric(experiment_id, tuple(row)) for row in metrics}
    for number, at, kind, payload in facts:
        instant = from_us(at)
        assert instant is not None
        merged[number] = f.Recorded(number, instant, read_fact(kind, payload))
    return [merged[number] for number in sorted(merged)[:limit]]


def _engine(path: Path) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        poolclass=StaticPool,
        connect_args={"check_same_thread": False, "isolation_level": None, "timeout": 10},
    )

    @event.listens_for(engine, "connect")
    def _pragmas(connection: Any, _: Any) -> None:
        if connection.execute("PRAGMA user_version").fetchone()[0] <= schema.SCHEMA_VERSION:
            connection.execute("PRAGMA journal_mode = WAL")  # would change the file of a newer version
        connection.execute("PRAGMA synchronous = FULL")

    return engine


def _sentence(path: Path, error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    return f"the database {path} cannot be written: {cause}"

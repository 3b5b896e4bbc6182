"""Reads an experiment's database in bulk, for a process that must stay small and start quickly.

It uses plain sqlite3: building records for 100,000 rows would take longer than all work on them, and
importing the store's libraries would take longer than that process needs to start.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

from nnimgr.store.bulk_runs import RunQueries
from nnimgr.store.errors import StoreError
from nnimgr.store.without_result import query_without_result

__all__ = ["ANNOTATED_LIKE", "TRIAL_COLUMNS", "ExportRow", "Mark", "Snapshot", "like_pattern", "snapshot"]

# seconds; short, because readers hardly ever wait, and a waiting query delays the queries after it
_TIMEOUT_S = 2.0

TRIAL_COLUMNS = (
    "trial_id",
    "sequence",
    "status",
    "source",
    "attempt",
    "intermediates",
    "final_value",
    "latest_value",
    "created_at",
    "started_at",
    "ended_at",
    "parameters",
    "final_object",
)
"""Columns that ``Snapshot.trials`` gives for each trial.

All except ``final_object`` are columns of the table ``trials``. Instants are microseconds since 1970.
``final_object`` is the JSON text of the final metric if that may be an object.
"""

_TRIALS = """
SELECT trial_id, sequence, status, source, attempt, intermediates, final_value, latest_value, created_at,
started_at, ended_at, parameters, CASE WHEN final_text GLOB '[{ ]*' THEN final_text END
FROM trials WHERE experiment_id = ?
"""
_OF_IDS = " ".join((_TRIALS, "AND trial_id IN (SELECT value FROM json_each(?))"))
_EXPORT = """
SELECT trial_id, sequence, status, source, attempt, intermediates, created_at, started_at, ended_at, reason,
trials.note, final_value, final_text, latest_value, latest_text, parameters, {annotation}
FROM trials INDEXED BY sqlite_autoindex_trials_2 {joined}
WHERE experiment_id = ? AND sequence IN (SELECT value FROM json_each(?))
"""
_EXPORT_ANNOTATED = _EXPORT.format(
    annotation="coalesce(trial_annotations.note, ''), coalesce(trial_annotations.tags, '[]')",
    joined="LEFT JOIN trial_annotations USING (experiment_id, trial_id)",
)
_EXPORT_PLAIN = _EXPORT.format(annotation="'', '[]'", joined="")
_MARK = "SELECT db_id, last_number, created_at, search_space FROM experiments WHERE experiment_id = ?"
_FACTS = "SELECT DISTINCT trial_id FROM facts WHERE experiment_id = ? AND number > ?"
_METRICS = "SELECT DISTINCT trial_id FROM metrics WHERE experiment_id = ? AND number > ?"
_LIVE = (
    "SELECT trial_id FROM trials INDEXED BY trial_by_status WHERE experiment_id = ? "
    "AND status IN ('WAITING', 'RUNNING', 'PAUSED', 'UNKNOWN')"
)
_SEARCH = (
    "SELECT sequence FROM trials WHERE experiment_id = ? "
    r"AND (trial_id LIKE ? ESCAPE '\' OR parameters LIKE ? ESCAPE '\')"
)

ANNOTATED_LIKE = (
    "SELECT trial_id FROM trial_annotations WHERE experiment_id = :annotated "
    r"AND (note LIKE :like ESCAPE '\' "
    r"OR ((tags LIKE :like ESCAPE '\' OR instr(tags, '\')) "
    r"AND EXISTS (SELECT 1 FROM json_each(tags) WHERE value LIKE :like ESCAPE '\')))"
)
"""Query for the ids of the trials whose note or tags match a LIKE pattern.

Its arguments are ``annotated`` (the experiment's id) and ``like`` (the pattern). The pattern is compared with
the JSON text of the tags first, because parsing the JSON of every row would be slower.
"""

_HAS_ANNOTATIONS = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'trial_annotations'"
_REVISION = "SELECT coalesce(max(revision), 0) FROM trial_annotations WHERE experiment_id = ?"
_TAGS = (
    "SELECT sequence, tags FROM trial_annotations JOIN trials USING (experiment_id, trial_id) "
    "WHERE experiment_id = ? AND revision > ?"
)
_SEARCH_ANNOTATIONS = " ".join(
    ("SELECT sequence FROM trials WHERE experiment_id = :annotated AND trial_id IN (", ANNOTATED_LIKE, ")")
)


class Mark(NamedTuple):
    """Identity and progress of an experiment's database: its id, and the number of its last fact.

    ``search_space``: JSON text. ``created_at``: microseconds since 1970.
    """

    db_id: str
    last_number: int
    created_at: int
    search_space: str


class ExportRow(NamedTuple):
    """Values of one trial for an export. Times are microseconds since 1970."""

    trial_id: str
    sequence: int
    status: str
    source: str
    attempt: int
    intermediates: int
    created_at: int
    started_at: int | None
    ended_at: int | None
    reason: str | None
    note: str | None
    final_value: float | None
    final_text: str | None
    latest_value: float | None
    latest_text: str | None
    parameters: str
    user_note: str
    tags: str  # JSON list


class Snapshot(RunQueries):
    """Queries that all see the state of the database at one instant. Use it only inside its ``with``
    block.
    """

    def mark(self) -> Mark:
        row = self._connection.execute(_MARK, (self._id,)).fetchone()
        if row is None:
            raise FileNotFoundError(f"the database of experiment {self._id} does not contain the experiment")
        return Mark._make(row)

    def trials(self, ids: Iterable[str] | None = None) -> Iterator[list[tuple[Any, ...]]]:
        """Yield pages of trials as rows with TRIAL_COLUMNS, in no particular order.

        ``ids``: only these trials; None: all trials.
        """
        if ids is None:
            return self._pages(_TRIALS, (self._id,))
        return self._pages(_OF_IDS, (self._id, json.dumps(list(ids))))

    def export_rows(self, sequences: Sequence[int]) -> Iterator[ExportRow]:
        """Yield the rows to export for the trials with these sequence numbers, in no particular order."""
        query = _EXPORT_ANNOTATED if self._annotated else _EXPORT_PLAIN
        return map(ExportRow._make, self._connection.execute(query, (self._id, json.dumps(sequences))))

    def annotation_revision(self) -> int:
        """Return the number of the last change of a note or tag; 0 if there was no change."""
        return int(self._connection.execute(_REVISION, (self._id,)).fetchone()[0]) if self._annotated else 0

    def tags(self, *, after: int) -> Iterator[tuple[int, list[str]]]:
        """Yield the sequence number and the tags of each trial whose note or tags have changed since
        revision ``after``.
        """
        if self._annotated:
            for sequence, tags in self._connection.execute(_TAGS, (self._id, after)):
                yield sequence, json.loads(tags)

    def changed(self, *, after: int) -> set[str]:
        """Return the ids of all trials whose rows may have changed after fact number ``after``."""
        ids = {trial_id for (trial_id,) in self._connection.execute(_FACTS, (self._id, after))}
        ids.update(trial_id for (trial_id,) in self._connection.execute(_METRICS, (self._id, after)))
        if None in ids:  # a fact about a host or the experiment may have changed any live trial
            ids.remove(None)
            ids.update(trial_id for (trial_id,) in self._connection.execute(_LIVE, (self._id,)))
        return ids

    def found(self, search: str) -> list[int]:
        """Return the sequence numbers of the trials that match the text ``search``.

        A trial matches if its id, parameters, note or tags contain the text, or if the text is its sequence
        number.
        """
        pattern = like_pattern(search)
        rows = self._connection.execute(_SEARCH, (self._id, pattern, pattern))
        sequences = [sequence for (sequence,) in rows]
        if self._annotated:
            asked = {"annotated": self._id, "like": pattern}
            sequences += [sequence for (sequence,) in self._connection.execute(_SEARCH_ANNOTATIONS, asked)]
        if search.isdecimal() and len(search) < 18:
            sequences.append(int(search))
        return sequences

    def without_result(self) -> list[int]:
        """Return the sequence numbers of the trials that have succeeded without a usable result."""
        rows = self._connection.execute(query_without_result(self.config(), "sequence"), (self._id,))
        return [sequence for (sequence,) in rows]

    @property
    def _annotated(self) -> bool:
        """Return whether the database has the table of notes and tags, which earlier versions lack."""
        return self._connection.execute(_HAS_ANNOTATIONS).fetchone() is not None


@contextmanager
def snapshot(database: str, experiment_id: str) -> Iterator[Snapshot]:
    """Open the experiment's database for reading, and yield queries that all see one state of the database.

    Raise FileNotFoundError if there is no database, and StoreError if it cannot be read.
    """
    if not os.path.isfile(database):  # opening a pipe would block forever
        raise FileNotFoundError(f"there is no database {database}")
    try:
        address = f"file:{quote(database)}?mode=ro"
        with closing(
            sqlite3.connect(address, uri=True, timeout=_TIMEOUT_S, isolation_level=None)
        ) as connection:
            connection.execute("BEGIN")
            yield Snapshot(connection, experiment_id)
    except sqlite3.DatabaseError as error:
        raise StoreError(f"the database {database} cannot be read: {error}") from error


def like_pattern(text: str) -> str:
    r"""Return the LIKE pattern (with ESCAPE '\') that matches all strings which contain this text."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"

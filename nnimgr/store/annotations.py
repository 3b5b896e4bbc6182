"""Notes and tags (annotations) that users add to trials. They are in a table of their own, not in the log.

The row of a trial stays in the table when its note and tags are removed, so that readers which follow the
revision notice the change.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, TextClause, text

from nnimgr.store import schema
from nnimgr.store.bulk import ANNOTATED_LIKE
from nnimgr.store.connections import DatabaseReader
from nnimgr.store.user_changes import now_us, user_change

__all__ = ["NO_ANNOTATION", "Annotation", "AnnotationQueries", "MissingTrial", "annotate", "retag"]

_TRIALS = (
    "SELECT trial_id FROM trials WHERE experiment_id = ? AND trial_id IN (SELECT value FROM json_each(?))"
)
_STORED = (
    "SELECT trial_id, note, tags FROM trial_annotations WHERE experiment_id = ? "
    "AND trial_id IN (SELECT value FROM json_each(?))"
)
_LAST = "SELECT coalesce(max(revision), 0) FROM trial_annotations WHERE experiment_id = ?"
_WRITE = (
    "INSERT INTO trial_annotations (experiment_id, trial_id, note, tags, at, revision) "
    "VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (experiment_id, trial_id) DO UPDATE SET note = excluded.note, tags = excluded.tags, "
    "at = excluded.at, revision = excluded.revision"
)
_COUNTED = (
    "SELECT value, count(*) FROM trial_annotations, json_each(tags) WHERE experiment_id = ? "
    "GROUP BY value ORDER BY count(*) DESC, value LIMIT ?"
)


class Annotation(NamedTuple):
    """Note and tags that users have added to a trial. ``note``: "" if there is no note."""

    note: str = ""
    tags: tuple[str, ...] = ()


NO_ANNOTATION = Annotation()


class MissingTrial(Exception):
    """Error: the experiment has no trial with the id ``trial_id``."""

    def __init__(self, trial_id: str) -> None:
        super().__init__(f"There is no trial {trial_id}.")
        self.trial_id = trial_id


def annotate(
    directory: Path, trial_id: str, *, note: str | None = None, tags: Sequence[str] | None = None
) -> Annotation:
    """Change the note or the tags of a trial; None keeps the stored value. Return the new annotation.

    Raise MissingTrial, and the errors of ``user_change``.
    """
    with user_change(directory) as (connection, experiment_id):
        before = _read(connection, experiment_id, [trial_id])[trial_id]
        after = Annotation(
            before.note if note is None else note,
            before.tags if tags is None else tuple(dict.fromkeys(tags)),
        )
        _write(connection, experiment_id, {trial_id: after} if after != before else {})
        return after


def retag(
    directory: Path, trial_ids: Iterable[str], *, add: Collection[str], remove: Collection[str], most: int
) -> dict[str, Annotation]:
    """Add tags to trials and remove tags from them, in one transaction. Return the new annotations by trial
    id.

    Raise MissingTrial, ValueError if a trial would have more than ``most`` tags, and the errors of
    ``user_change``. After an error, nothing is changed.
    """
    ids = list(dict.fromkeys(trial_ids))
    with user_change(directory) as (connection, experiment_id):
        before = _read(connection, experiment_id, ids)
        after = {trial_id: _retagged(before[trial_id], add, remove) for trial_id in ids}
        for trial_id, annotation in after.items():
            if len(annotation.tags) > most:
                raise ValueError(
                    f"Trial {trial_id} would have {len(annotation.tags)} tags; the limit is {most}."
                )
        changed = {trial_id: after[trial_id] for trial_id in ids if after[trial_id] != before[trial_id]}
        _write(connection, experiment_id, changed)
        return after


class AnnotationQueries(DatabaseReader):
    """Queries about annotations (notes and tags of trials).

    They find nothing in a database of an earlier version, which has no table of annotations.
    """

    def annotations(self, trial_ids: Sequence[str]) -> dict[str, Annotation]:
        """Return the notes and tags of these trials, by trial id. The result lacks trials that have
        neither.
        """
        table = schema.trial_annotations
        if not trial_ids or not self._has_table(table):
            return {}
        query = self._of(table).where(table.c.trial_id.in_(trial_ids))
        rows = self._rows(query, lambda row: (row["trial_id"], _annotation(row["note"], row["tags"])))
        return dict(rows)

    def tags(self, *, limit: int = 1000) -> list[tuple[str, int]]:
        """Return the tags of all trials, the most frequent first, each with the number of its trials."""
        if not self._has_table(schema.trial_annotations):
            return []
        with self._connect() as connection:
            rows = connection.exec_driver_sql(_COUNTED, (self._id, limit)).all()
        return [(str(tag), int(count)) for tag, count in rows]

    def _annotated_like(self, like: str) -> TextClause | None:
        """Return an SQL condition for trials whose note or tags match a LIKE pattern.

        Return None if the database has no table of annotations.
        """
        if not self._has_table(schema.trial_annotations):
            return None
        condition = " ".join(("trials.trial_id IN (", ANNOTATED_LIKE, ")"))
        return text(condition).bindparams(annotated=self._id, like=like)


def _retagged(before: Annotation, add: Collection[str], remove: Collection[str]) -> Annotation:
    kept = [tag for tag in before.tags if tag not in remove]
    return Annotation(before.note, tuple(dict.fromkeys((*kept, *add))))


def _read(connection: Connection, experiment_id: str, trial_ids: Sequence[str]) -> dict[str, Annotation]:
    """Return the note and tags of each of these trials, by trial id. Raise MissingTrial."""
    asked = (experiment_id, json.dumps(trial_ids))
    known = set(connection.exec_driver_sql(_TRIALS, asked).scalars())
    for trial_id in trial_ids:
        if trial_id not in known:
            raise MissingTrial(trial_id)
    rows = connection.exec_driver_sql(_STORED, asked).all()
    return dict.fromkeys(trial_ids, NO_ANNOTATION) | {row[0]: _annotation(row[1], row[2]) for row in rows}


def _write(connection: Connection, experiment_id: str, annotations: dict[str, Annotation]) -> None:
    if annotations:
        last, at = connection.exec_driver_sql(_LAST, (experiment_id,)).scalar_one(), now_us()
        rows = [
            (experiment_id, trial_id, each.note, json.dumps(each.tags, ensure_ascii=False), at, revision)
            for revision, (trial_id, each) in enumerate(annotations.items(), start=last + 1)
        ]
        connection.exec_driver_sql(_WRITE, rows)


def _annotation(note: Any, tags: Any) -> Annotation:
    return Annotation(str(note), tuple(json.loads(tags)))

"""Views of an experiment's trials that users have saved by name. They are in a table of their own, not in
the log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection

from nnimgr.store import schema
from nnimgr.store.connections import DatabaseReader
from nnimgr.store.user_changes import now_us, user_change

__all__ = [
    "MOST_VIEWS",
    "MissingView",
    "SavedView",
    "ViewQueries",
    "ViewRefused",
    "add_view",
    "change_view",
    "remove_view",
]

MOST_VIEWS = 100

_COUNT = "SELECT count(*), coalesce(max(view_id), 0) FROM views WHERE experiment_id = ?"
_NAMED = "SELECT view_id FROM views WHERE experiment_id = ? AND name = ?"
_ONE = "SELECT view_id, name, content FROM views WHERE experiment_id = ? AND view_id = ?"
_INSERT = "INSERT INTO views (experiment_id, view_id, name, content, at) VALUES (?, ?, ?, ?, ?)"
_UPDATE = "UPDATE views SET name = ?, content = ?, at = ? WHERE experiment_id = ? AND view_id = ?"
_DELETE = "DELETE FROM views WHERE experiment_id = ? AND view_id = ?"


class SavedView(NamedTuple):
    """View of the trials that a user has saved. ``content``: JSON object with the columns, the filter and
    the order.
    """

    view_id: int
    name: str
    content: dict[str, Any]


class MissingView(Exception):
    """Error: the experiment has no saved view with this id. The message is one sentence for the user."""


class ViewRefused(Exception):
    """Error: the view cannot be saved. The message is one sentence for the user."""


def add_view(directory: Path, name: str, content: Mapping[str, Any]) -> SavedView:
    """Save a view of the trials under a new name. Raise ViewRefused, and the errors of ``user_change``."""
    with user_change(directory) as (connection, experiment_id):
        count, last = connection.exec_driver_sql(_COUNT, (experiment_id,)).one()
        if count >= MOST_VIEWS:
            raise ViewRefused(f"At most {MOST_VIEWS} views can be saved: delete one first.")
        _refuse_taken(connection, experiment_id, name, but=None)
        saved = SavedView(last + 1, name, dict(content))
        row = (experiment_id, saved.view_id, name, json.dumps(saved.content), now_us())
        connection.exec_driver_sql(_INSERT, row)
        return saved


def change_view(
    directory: Path, view_id: int, *, name: str | None = None, content: Mapping[str, Any] | None = None
) -> SavedView:
    """Change the name or the content of a saved view; None keeps the stored value. Return the new view.

    Raise MissingView, ViewRefused, and the errors of ``user_change``.
    """
    with user_change(directory) as (connection, experiment_id):
        row = connection.exec_driver_sql(_ONE, (experiment_id, view_id)).one_or_none()
        if row is None:
            raise _missing(view_id)
        before = _saved(row)
        after = SavedView(
            view_id,
            before.name if name is None else name,
            before.content if content is None else dict(content),
        )
        _refuse_taken(connection, experiment_id, after.name, but=view_id)
        values = (after.name, json.dumps(after.content), now_us(), experiment_id, view_id)
        connection.exec_driver_sql(_UPDATE, values)
        return after


def remove_view(directory: Path, view_id: int) -> None:
    """Delete a saved view. Raise MissingView, and the errors of ``user_change``."""
    with user_change(directory) as (connection, experiment_id):
        if connection.exec_driver_sql(_DELETE, (experiment_id, view_id)).rowcount == 0:
            raise _missing(view_id)


class ViewQueries(DatabaseReader):
    """Queries about saved views. They find nothing in a database of an earlier version, which has no
    views.
    """

    def views(self) -> list[SavedView]:
        """Return all saved views, sorted by name."""
        table = schema.views
        if not self._has_table(table):
            return []
        query = self._of(table).with_only_columns(table.c.view_id, table.c.name, table.c.content)
        rows = self._rows(query.order_by(table.c.name), lambda row: _saved(tuple(row.values())))
        return list(rows)


def _refuse_taken(connection: Connection, experiment_id: str, name: str, *, but: int | None) -> None:
    found = connection.exec_driver_sql(_NAMED, (experiment_id, name)).scalar()
    if found is not None and found != but:
        raise ViewRefused(f'There is another view with the name "{name}": choose another name.')


def _missing(view_id: int) -> MissingView:
    return MissingView(f"There is no saved view {view_id}.")


def _saved(row: Any) -> SavedView:
    view_id, name, content = row
    return SavedView(int(view_id), str(name), json.loads(content))

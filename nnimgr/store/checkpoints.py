"""Query for the saved states of a trial."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from nnimgr.store import schema
from nnimgr.store.connections import DatabaseReader
from nnimgr.store.rows import from_us

__all__ = ["CheckpointQueries", "CheckpointRow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """Checkpoint ``number`` of an attempt. ``state``: "saved", "deleted", or "unusable" for attempts."""

    attempt: int
    number: int
    step: int | None
    size: int
    files: int
    at: datetime
    state: str


class CheckpointQueries(DatabaseReader):
    """Queries for checkpoints."""

    def checkpoints(self, trial_id: str) -> list[CheckpointRow]:
        """Return the saved states of a trial, in the order in which they were saved."""
        table = schema.checkpoints
        if not self._has_table(table):
            return []  # a database of an earlier version
        t = table.c
        query = (
            select(t.attempt, t.number, t.step, t.size, t.files, t.at, t.state)
            .where(t.experiment_id == self._id, t.trial_id == trial_id)
            .order_by(t.attempt, t.number)
        )
        return self._rows(query, lambda row: CheckpointRow(**{**row, "at": from_us(row["at"])}))

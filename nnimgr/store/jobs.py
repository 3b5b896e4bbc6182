"""Queries for the attempts of trials, which are jobs of the training service."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select

from nnimgr.rules.facts import Cause
from nnimgr.store import schema
from nnimgr.store.connections import DatabaseReader
from nnimgr.store.members import MemberRow, read_members
from nnimgr.store.rows import from_us
from training_services.base import job_id_of

__all__ = ["JobQueries", "JobRow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    job_id: str
    trial_id: str
    attempt: int
    keeper_id: str | None
    gpus: list[int] | None
    placed_at: datetime | None
    started_at: datetime | None
    pid: int | None
    ended_at: datetime | None
    end_reason: str | None
    exit_code: int | None
    signal: int | None
    frames: int
    message: str | None
    cause: Cause | None = None
    members: tuple[MemberRow, ...] = ()  # of a gang, the leader first
    place_reason: str | None = None


class JobQueries(DatabaseReader):
    """Queries for jobs."""

    def jobs(self, trial_id: str) -> list[JobRow]:
        """Return the attempts of a trial, oldest first."""
        table = schema.jobs
        columns = [column for column in table.c if column is not table.c.experiment_id]
        if not self._has_causes:
            columns.remove(table.c.cause)
        for later in (table.c.members, table.c.place_reason):
            if not self._has_column(later):
                columns.remove(later)
        query = select(*columns).where(table.c.experiment_id == self._id, table.c.trial_id == trial_id)
        return self._rows(query.order_by(table.c.attempt), _job)

    def causes(self, attempts: Mapping[str, int]) -> dict[str, Cause]:
        """Return trial id -> cause of the failure of one attempt. Attempts without a known cause are left
        out.

        ``attempts``: trial id -> number of the attempt.
        """
        if not attempts or not self._has_causes:
            return {}
        table = schema.jobs
        ids = [job_id_of(self._id, trial_id, attempt) for trial_id, attempt in attempts.items()]
        query = select(table.c.trial_id, table.c.cause).where(
            table.c.experiment_id == self._id, table.c.job_id.in_(ids), table.c.cause.is_not(None)
        )
        return dict(self._rows(query, lambda row: (row["trial_id"], Cause(row["cause"]))))

    @property
    def _has_causes(self) -> bool:
        """True unless an earlier version has stored the experiment."""
        return self._has_table(schema.checkpoints)  # the same migration has added the table and the causes


def _job(row: Mapping[str, Any]) -> JobRow:
    gpus, cause = row["gpus"], row.get("cause")
    times = {name: from_us(row[name]) for name in ("placed_at", "started_at", "ended_at")}
    converted = {
        "gpus": None if gpus is None else json.loads(gpus),
        "cause": None if cause is None else Cause(cause),
        "members": read_members(row.get("members")),
    }
    return JobRow(**{**row, **times, **converted})

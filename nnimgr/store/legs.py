"""Queries for the legs of trials: stretches with other parameters, which begin with a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from nnimgr.rules.facts import Origin, SuggestionSource
from nnimgr.store import schema
from nnimgr.store.connections import DatabaseReader
from nnimgr.store.rows import from_us

__all__ = ["LegQueries", "LegRow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LegRow:
    """Leg ``leg`` of a trial, which begins with the attempt ``attempt``. ``parameters``: JSON text.

    It continues from a checkpoint: number ``origin_number`` of attempt ``origin_attempt`` of the trial
    ``origin_trial_id``. Its first intermediate result has the number ``reports``. ``step``: the origin's.
    """

    trial_id: str
    leg: int
    attempt: int
    at: datetime
    parameters: str
    reports: int
    origin_trial_id: str
    origin_attempt: int
    origin_number: int
    step: int | None
    reason: str


class LegQueries(DatabaseReader):
    """Queries for legs and forks."""

    def legs(self, trial_id: str | None = None) -> list[LegRow]:
        """Return the legs of a trial, or of all trials in the order in which they began.

        The first leg of a trial, with which the trial begins, is not among them.
        """
        table = schema.legs
        if not self._has_table(table):
            return []  # a database of an earlier version
        columns = [c for c in table.c if c not in (table.c.experiment_id, table.c.number)]
        query = select(*columns).where(table.c.experiment_id == self._id)
        if trial_id is not None:
            query = query.where(table.c.trial_id == trial_id)
        query = query.order_by(table.c.number)
        return self._rows(query, lambda row: LegRow(**{**row, "at": from_us(row["at"])}))

    def forks(self) -> list[tuple[str, str]]:
        """Return (trial, the trial from whose checkpoint it continues) of all forks, the oldest first."""
        t = schema.trials.c
        query = select(t.trial_id, t.retry_of).where(
            t.experiment_id == self._id, t.source == SuggestionSource.FORK.value
        )
        return self._rows(query.order_by(t.sequence), lambda row: (row["trial_id"], row["retry_of"]))

    def origin(self, trial_id: str, named: tuple[int, int] | None) -> Origin | None:
        """Return a checkpoint of a trial, from which a fork can continue; None if there is none.

        ``named``: (attempt, number); None: the newest checkpoint that was not deleted.
        """
        c, j = schema.checkpoints.c, schema.jobs.c
        if not self._has_table(schema.legs):
            return None  # a database of an earlier version lacks the number of results before a checkpoint
        query = (
            select(c.attempt, c.number, c.step, c.reports, j.keeper_id)
            .join_from(
                schema.checkpoints,
                schema.jobs,
                (j.experiment_id == c.experiment_id) & (j.trial_id == c.trial_id) & (j.attempt == c.attempt),
            )
            .where(c.experiment_id == self._id, c.trial_id == trial_id, c.state == "saved")
            .where(c.reports.is_not(None), j.keeper_id.is_not(None))
        )
        if named is not None:
            query = query.where(c.attempt == named[0], c.number == named[1])
        query = query.order_by(c.attempt.desc(), c.number.desc()).limit(1)
        found = self._rows(query, lambda row: Origin(**row, trial_id=trial_id))
        return found[0] if found else None

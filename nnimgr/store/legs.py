"""Queries for the lineage of trials: their legs, which are stretches with other parameters, and forks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select, union

from nnimgr.rules.facts import Origin, Suggested, SuggestionSource, TrialStatus
from nnimgr.store import schema
from nnimgr.store.connections import DatabaseReader
from nnimgr.store.rows import from_us, read_fact

__all__ = ["ForkRow", "LegQueries", "LegRow", "RelatedRow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LegRow:
    """Leg ``leg`` of a trial, which begins with the attempt ``attempt``. ``parameters``: JSON text.

    It continues from a checkpoint: number ``origin_number`` of attempt ``origin_attempt`` of the trial
    ``origin_trial_id``. Its first intermediate result has the number ``reports``. ``step``, ``saved_at``: the
    origin's.
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
    saved_at: datetime | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRow:
    """Trial that has begun with a checkpoint of another trial. The fields are as in LegRow."""

    trial_id: str
    reports: int
    origin_trial_id: str
    origin_attempt: int
    origin_number: int
    step: int | None
    saved_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedRow:
    """Trial that has several legs, or that a leg or a fork connects with another trial.

    ``parameters``: those of its first leg, as JSON text. ``started_at``: start of its first attempt.
    """

    trial_id: str
    sequence: int
    status: TrialStatus
    parameters: str
    intermediates: int
    started_at: datetime | None
    ended_at: datetime | None


class LegQueries(DatabaseReader):
    """Queries for legs and forks."""

    def legs(self, trial_id: str | None = None) -> list[LegRow]:
        """Return the legs of a trial, or of all trials in the order in which they began.

        The first leg of a trial, with which the trial begins, is not among them.
        """
        table = schema.legs
        if not self._has_table(table):
            return []  # a database of an earlier version
        saved = schema.checkpoints.c
        columns = [c for c in table.c if c not in (table.c.experiment_id, table.c.number)]
        query = (
            select(*columns, saved.at.label("saved_at"))
            .outerjoin_from(
                table,
                schema.checkpoints,
                (saved.experiment_id == table.c.experiment_id)
                & (saved.trial_id == table.c.origin_trial_id)
                & (saved.attempt == table.c.origin_attempt)
                & (saved.number == table.c.origin_number),
            )
            .where(table.c.experiment_id == self._id)
        )
        if trial_id is not None:
            query = query.where(table.c.trial_id == trial_id)
        query = query.order_by(table.c.number)
        return self._rows(query, lambda row: LegRow(**{**row, **_instants(row, "at", "saved_at")}))

    def origins(self, trial_ids: Collection[str] | None = None) -> dict[str, Origin]:
        """Return the checkpoints of other trials with which trials began: id of the trial -> checkpoint.

        The order is that of the trials. ``trial_ids``: only these trials count; None: all trials.
        """
        t = schema.trials.c
        # A retry of a failed fork is a fork, too.
        sources = (SuggestionSource.FORK.value, SuggestionSource.RERUN.value)
        forks = select(t.trial_id).where(t.experiment_id == self._id, t.source.in_(sources))
        return {
            trial_id: fact.origin
            for trial_id, fact in self._suggested(forks).items()
            if fact.origin is not None
            and fact.origin.trial_id is not None
            and (trial_ids is None or trial_id in trial_ids)
        }

    def forks(self) -> list[ForkRow]:
        """Return all forks, the oldest first."""
        c = schema.checkpoints.c
        origins = self.origins()
        query = select(c.trial_id, c.attempt, c.number, c.at).where(
            c.experiment_id == self._id, c.trial_id.in_({origin.trial_id for origin in origins.values()})
        )
        saved = dict(
            self._rows(
                query, lambda row: ((row["trial_id"], row["attempt"], row["number"]), from_us(row["at"]))
            )
        )
        return [
            ForkRow(
                trial_id=trial_id,
                reports=origin.reports,
                origin_trial_id=origin.trial_id or "",
                origin_attempt=origin.attempt,
                origin_number=origin.number,
                step=origin.step,
                saved_at=saved.get((origin.trial_id or "", origin.attempt, origin.number)),
            )
            for trial_id, origin in origins.items()
        ]

    def related(self) -> list[RelatedRow]:
        """Return the trials that legs and forks connect, and those with several legs, by sequence number."""
        t, j, leg = schema.trials.c, schema.jobs.c, schema.legs.c
        forks = self.origins()
        of_forks = {*forks, *(origin.trial_id for origin in forks.values())}
        parts = [select(t.trial_id).where(t.experiment_id == self._id, t.trial_id.in_(of_forks))]
        if self._has_table(schema.legs):
            own = leg.experiment_id == self._id
            parts += [select(leg.trial_id).where(own), select(leg.origin_trial_id).where(own)]
        ids = union(*parts)
        started = (
            select(func.min(j.started_at))
            .where(j.experiment_id == t.experiment_id, j.trial_id == t.trial_id)
            .scalar_subquery()
            .label("started_at")
        )
        query = (
            select(t.trial_id, t.sequence, t.status, t.intermediates, t.ended_at, started)
            .where(t.experiment_id == self._id, t.trial_id.in_(ids))
            .order_by(t.sequence)
        )
        first = self._suggested(select(ids.subquery().c.trial_id))
        return self._rows(
            query,
            lambda row: RelatedRow(
                **{
                    **row,
                    **_instants(row, "started_at", "ended_at"),
                    "status": TrialStatus(row["status"]),
                    "parameters": first[row["trial_id"]].parameters,
                }
            ),
        )

    def first_parameters(self, trial_id: str) -> str:
        """Return the parameters with which a trial began, as JSON text."""
        t = schema.trials.c
        query = select(t.trial_id).where(t.experiment_id == self._id, t.trial_id == trial_id)
        return self._suggested(query)[trial_id].parameters

    def _suggested(self, trial_ids: Select[tuple[str]]) -> dict[str, Suggested]:
        """Return the facts with which these trials came about, in their order."""
        c = schema.facts.c
        query = (
            select(c.kind, c.payload)
            .where(c.experiment_id == self._id, c.kind == "Suggested", c.trial_id.in_(trial_ids))
            .order_by(c.number)
        )
        facts = self._rows(query, lambda row: read_fact(row["kind"], row["payload"]))
        return {fact.trial_id: fact for fact in facts if isinstance(fact, Suggested)}

    def origin(self, trial_id: str, named: tuple[int, int] | None) -> Origin | None:
        """Return a checkpoint of a trial, from which a fork can continue; None if there is none.

        ``named``: (attempt, number); None: the newest checkpoint that was not deleted.
        """
        c, j = schema.checkpoints.c, schema.jobs.c
        if not self._has_table(schema.legs):
            return None  # a database of an earlier version lacks the number of results before a checkpoint
        query = (
            select(c.attempt, c.number, c.step, c.reports, c.size, j.keeper_id)
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


def _instants(row: Mapping[str, Any], *names: str) -> dict[str, datetime | None]:
    """Return these columns, which hold microseconds, as instants."""
    return {name: from_us(row[name]) for name in names}

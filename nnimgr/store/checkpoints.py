"""Query for the saved states of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select

from nnimgr.rules.decisions import NOTHING_SAVED
from nnimgr.rules.facts import CheckpointLost, CheckpointPinned, CheckpointStored, DecisionRefused, Fact
from nnimgr.rules.state import trial_of_job
from nnimgr.store import schema
from nnimgr.store.connections import DatabaseReader
from nnimgr.store.rows import from_us, read_fact

__all__ = ["CheckpointQueries", "CheckpointRow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """Checkpoint ``number`` of an attempt. ``state``: "saved", "deleted", "lost", or "unusable" for attempts.

    ``kept``: the server has a copy. ``stored``: the storage has it, too. ``pinned``: a user has pinned it.
    """

    attempt: int
    number: int
    step: int | None
    size: int
    files: int
    at: datetime
    state: str
    kept: bool = False
    stored: bool = False
    pinned: bool = False


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
        copies, stored, pins = self._copies(trial_id), self._stored(trial_id), self._pins(trial_id)

        def read(row: Mapping[str, Any]) -> CheckpointRow:
            name = row["attempt"], row["number"]
            at, is_kept = from_us(row["at"]), name in copies
            is_pinned = name in pins and (is_kept or row["state"] == "saved")
            found = {"at": at, "kept": is_kept, "stored": is_kept and name in stored, "pinned": is_pinned}
            return CheckpointRow(**{**row, **found})

        return self._rows(query, read)

    def refused_for_nothing_saved(self) -> bool:
        """Return whether a decision of the scheduler was refused because no trial has saved a checkpoint."""
        table, c = schema.checkpoints, schema.facts.c
        if not self._has_table(table):
            return False  # a database of an earlier version
        saved = select(table.c.number).where(table.c.experiment_id == self._id).limit(1)
        refusal = (
            select(c.number)
            .where(
                c.experiment_id == self._id,
                c.kind == DecisionRefused.__name__,
                c.payload.contains(NOTHING_SAVED, autoescape=True),
            )
            .limit(1)
        )
        first = [self._rows(query, lambda row: row["number"]) for query in (saved, refusal)]
        return first[0] == [] and first[1] != []

    def _copies(self, trial_id: str) -> set[tuple[int, int]]:
        """Return attempt and number of each checkpoint of the trial of which the server has a copy."""
        table = schema.checkpoint_copies
        if not self._has_table(table):
            return set()  # a database of an earlier version
        t = table.c
        query = select(t.attempt, t.number).where(t.experiment_id == self._id, t.trial_id == trial_id)
        return set(self._rows(query, lambda row: (row["attempt"], row["number"])))

    def _stored(self, trial_id: str) -> set[tuple[int, int]]:
        """Return attempt and number of each checkpoint of the trial whose copy was put into the storage."""
        stored = set[tuple[int, int]]()
        for fact in self._facts_of(trial_id, CheckpointStored, CheckpointLost):
            if isinstance(fact, CheckpointStored):
                stored.add((trial_of_job(fact.job_id)[1], fact.number))
            elif isinstance(fact, CheckpointLost) and fact.keeper_id is None:
                stored.discard((trial_of_job(fact.job_id)[1], fact.number))
        return stored

    def _pins(self, trial_id: str) -> set[tuple[int, int]]:
        """Return attempt and number of each checkpoint of the trial that a user has pinned."""
        pinned: dict[tuple[int, int], bool] = {}
        for fact in self._facts_of(trial_id, CheckpointPinned):
            if isinstance(fact, CheckpointPinned):
                pinned[trial_of_job(fact.job_id)[1], fact.number] = fact.pinned
        return {name for name, is_pinned in pinned.items() if is_pinned}

    def _facts_of(self, trial_id: str, *kinds: type[Fact]) -> list[Fact]:
        """Return the trial's facts of these kinds, in their order."""
        c = schema.facts.c
        names = [kind.__name__ for kind in kinds]
        query = (
            select(c.kind, c.payload)
            .where(c.experiment_id == self._id, c.trial_id == trial_id, c.kind.in_(names))
            .order_by(c.number)
        )
        return self._rows(query, lambda row: read_fact(row["kind"], row["payload"]))

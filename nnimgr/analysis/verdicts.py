"""Trials that the assessor has judged bad: the attempt, the step and the value of each verdict."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import Columns
from nnimgr.rules.facts import TrialStatus
from nnimgr.store.bulk import Snapshot

__all__ = ["Judged", "Verdicts", "status_is"]


class Judged(NamedTuple):
    """A verdict. ``step`` (NNI's sequence) and ``value`` are of the judged metric, None if it has none."""

    number: int  # number of the fact
    attempt: int
    step: int | None
    value: float | None
    rung: int | None  # number of reports, from assessors that judge at rungs


class Verdicts:
    """The latest verdict on each trial."""

    def __init__(self) -> None:
        self.found: dict[bytes, Judged] = {}

    def refresh(self, columns: Columns, snapshot: Snapshot, *, after: int) -> None:
        """Read the new verdicts (see ``Following``)."""
        for number, trial_id, attempt, position, rung in snapshot.verdicts(after=after):
            metric = snapshot.metric_at(trial_id, attempt, position)
            step, value = (None, None) if metric is None else metric[:2]
            self.found[trial_id.encode()] = Judged(number, attempt, step, value, rung)

    def of(self, columns: Columns, row: int) -> Judged | None:
        """Return the verdict on this trial's latest attempt, or None."""
        judged = self.found.get(columns.ids[row])
        return judged if judged is not None and judged.attempt == columns.arrays["attempt"][row] else None


def status_is(columns: Columns, *statuses: TrialStatus) -> Array:
    """Return which trials have one of these statuses (bool, one per row)."""
    names = columns.categories["status"]
    return np.isin(columns.arrays["status"], [names.index(status.value) for status in statuses])

"""Verdicts of the assessor. A verdict is the assessor's judgment, at one metric of an attempt, that a trial
is bad.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import Columns
from nnimgr.rules.facts import Role, TrialStatus
from nnimgr.store.bulk import Snapshot

__all__ = ["Judged", "Verdicts", "status_is"]


class Judged(NamedTuple):
    """Verdict of the assessor on an attempt.

    ``step`` (the number that NNI gives the metric) and ``value`` are those of the metric at which the
    assessor judged. They are None if it judged without a metric.
    """

    number: int  # number of the fact
    attempt: int
    step: int | None
    value: float | None
    rung: int | None  # number of reports, from assessors that judge at rungs
    by: str = Role.ASSESSOR  # role of the algorithm


class Verdicts:
    """Table of the assessor's latest verdict on each trial."""

    def __init__(self) -> None:
        self.found: dict[bytes, Judged] = {}

    def refresh(self, columns: Columns, snapshot: Snapshot, *, after: int) -> None:
        """Update this table with the verdicts in the database that have fact numbers above ``after``."""
        for number, trial_id, attempt, position, rung, by in snapshot.verdicts(after=after):
            metric = snapshot.metric_at(trial_id, attempt, position)
            step, value = (None, None) if metric is None else metric[:2]
            self.found[trial_id.encode()] = Judged(number, attempt, step, value, rung, by)

    def of(self, columns: Columns, row: int) -> Judged | None:
        """Return the verdict on the latest attempt of the trial in this row, None if there is none.

        That of a scheduler also counts if the trial was paused meanwhile, and would have begun another one.
        """
        judged = self.found.get(columns.ids[row])
        if judged is None or judged.by == Role.SCHEDULER:
            return judged
        return judged if judged.attempt == columns.arrays["attempt"][row] else None


def status_is(columns: Columns, *statuses: TrialStatus) -> Array:
    """Return which trials have one of these statuses, as one bool per trial."""
    names = columns.categories["status"]
    return np.isin(columns.arrays["status"], [names.index(status.value) for status in statuses])

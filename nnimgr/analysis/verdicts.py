"""What the assessor has judged bad: of each trial the attempt, and the step and the value at which it did."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import Columns
from nnimgr.rules.facts import TrialStatus
from nnimgr.store.bulk import Snapshot

__all__ = ["Judged", "Verdicts", "status_is"]


class Judged(NamedTuple):
    """``step`` (NNI's sequence) and ``value`` are of the metric it was judged by, None if that has none."""

    number: int  # of the fact
    attempt: int
    step: int | None
    value: float | None
    rung: int | None  # the number of reports, for assessors that judge at rungs


class Verdicts:
    """By trial its latest verdict."""

    def __init__(self) -> None:
        self.found: dict[bytes, Judged] = {}

    def refresh(self, columns: Columns, snapshot: Snapshot, *, after: int) -> None:
        """As ``Following``."""
        for number, trial_id, attempt, position, rung in snapshot.verdicts(after=after):
            metric = snapshot.metric_at(trial_id, attempt, position)
            step, value = (None, None) if metric is None else metric[:2]
            self.found[trial_id.encode()] = Judged(number, attempt, step, value, rung)

    def of(self, columns: Columns, row: int) -> Judged | None:
        """The verdict on this trial's latest attempt."""
        judged = self.found.get(columns.ids[row])
        return judged if judged is not None and judged.attempt == columns.arrays["attempt"][row] else None


def status_is(columns: Columns, *statuses: TrialStatus) -> Array:
    """Which trials have one of these statuses."""
    names = columns.categories["status"]
    return np.isin(columns.arrays["status"], [names.index(status.value) for status in statuses])

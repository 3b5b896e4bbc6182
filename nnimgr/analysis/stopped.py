"""Stopped trials: the cause, step and value of each stop, and how many trials continued after that step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from nnimgr.analysis.cache import follow, once
from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import Columns
from nnimgr.analysis.filters import matching
from nnimgr.analysis.verdicts import Verdicts
from nnimgr.builtins import meant
from nnimgr.rules.facts import Role, TrialStatus
from nnimgr.store.bulk import Snapshot

__all__ = ["stopped"]

DURATION = "duration"
_BY = {TrialStatus.USER_CANCELED: "user", TrialStatus.SYS_CANCELED: "system"}


def stopped(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> bytes:
    """Return a page of the stopped trials, the latest stop first, as the JSON text of a
    ``models.StoppedTrials``.

    ``arguments`` has ``filter``, ``by`` (return only trials with this cause of the stop), ``offset`` and
    ``limit``. Trials with the status EARLY_STOPPED were stopped by the assessor, the scheduler or
    maxTrialDuration. In NNI, maxTrialDuration does not give this status.
    """
    found = once(columns, "stopped", lambda: _found(columns, follow(columns, snapshot, Verdicts)))
    among = matching(columns, arguments.get("filter") or "")
    rows = np.flatnonzero(among & (found["by"] != ""))
    counts = {
        by: int(np.count_nonzero(found["by"][rows] == by))
        for by in (Role.ASSESSOR, Role.SCHEDULER, DURATION, *_BY.values())
    }
    if arguments.get("by"):
        rows = rows[found["by"][rows] == arguments["by"]]
    order = np.argsort(-columns.arrays["ended"][rows], kind="stable")
    page = rows[order][arguments["offset"] : arguments["offset"] + arguments["limit"]]
    reasons = snapshot.reasons(columns.ids[row].decode() for row in page)
    config = snapshot.config()
    tuner = config.get("tuner") or {}
    builtin = meant("tuner", tuner)
    judges = builtin is not None and builtin.advisor
    assessor = tuner if judges else config.get("assessor") or {}
    answer = {
        "revision": columns.revision,
        "total": len(rows),
        "assessor": assessor.get("name") or assessor.get("className"),
        "counts": counts,
        "steps": _steps(columns, found, among, rows),
        "trials": [_told(columns, found, row, reasons) for row in page],
    }
    return json.dumps(answer, allow_nan=False).encode()


def _found(columns: Columns, verdicts: Verdicts) -> dict[str, Array]:
    """Return the cause, the step and the value of each trial's stop, as arrays with one element per trial.

    A trial that was not stopped has the cause "". The step is -1 if the trial had not reported anything.
    """
    names = columns.categories["status"]
    status = columns.arrays["status"]
    by = np.zeros(len(columns), "U9")
    for name, who in ((TrialStatus.EARLY_STOPPED, DURATION), *_BY.items()):
        by[status == names.index(name.value)] = who
    steps = columns.arrays["intermediates"].astype(np.int64) - 1
    values = columns.arrays["latest"].copy()
    for row in np.flatnonzero(by == DURATION):
        judged = verdicts.of(columns, int(row))
        if judged is not None:
            by[row] = Role.SCHEDULER if judged.by == Role.SCHEDULER else Role.ASSESSOR
            steps[row] = steps[row] if judged.step is None else judged.step
            values[row] = np.nan if judged.value is None else judged.value
    return {"by": by, "step": steps, "value": values}


def _steps(columns: Columns, found: dict[str, Array], among: Array, rows: Array) -> list[dict[str, int]]:
    """Return, for each step at which a trial was stopped, how many trials reached the step and how many were
    stopped at it.
    """
    steps = found["step"][rows]
    at, counts = np.unique(steps[steps >= 0], return_counts=True)
    reported = np.sort(columns.arrays["intermediates"][among])
    reached = len(reported) - np.searchsorted(reported, at, "right")
    return [
        {"step": int(step), "reached": int(came), "stopped": int(count)}
        for step, came, count in zip(at, reached, counts, strict=True)
    ]


def _told(columns: Columns, found: dict[str, Array], row: int, reasons: Mapping[str, str]) -> dict[str, Any]:
    trial_id, step, value = columns.ids[row].decode(), int(found["step"][row]), float(found["value"][row])
    ended = float(columns.arrays["ended"][row])
    return {
        "sequence": int(columns.arrays["sequence"][row]),
        "trialId": trial_id,
        "status": columns.categories["status"][columns.arrays["status"][row]],
        "by": str(found["by"][row]),
        "step": None if step < 0 else step,
        "value": None if np.isnan(value) else value,
        "endedS": None if np.isnan(ended) else ended,
        "reason": reasons.get(trial_id, ""),
    }

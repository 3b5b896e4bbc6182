"""Visits of trials at rungs. A visit is a trial that reached a rung, its value there, and whether it
continued.

If the tuner gives trials different budgets (the parameter TRIAL_BUDGET), each budget is a rung. A promoted
configuration is then a further trial with a larger budget. Otherwise, a rung is a number of reports after
which the assessor has stopped trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import PARAMETERS, Columns
from nnimgr.analysis.points import Lines
from nnimgr.analysis.verdicts import Judged, Verdicts, status_is
from nnimgr.rules.facts import TrialStatus

__all__ = [
    "BUDGET",
    "FATES",
    "LEFT",
    "PROMOTED",
    "RUNNING",
    "STOPPED",
    "RungVisits",
    "at_budgets",
    "at_steps",
]

BUDGET = f"{PARAMETERS}TRIAL_BUDGET"
FATES = ("promoted", "stopped", "running", "left")
PROMOTED, STOPPED, RUNNING, LEFT = range(len(FATES))

_MOST_BUDGETS = 60  # with more budgets, a budget is treated as an ordinary parameter
_MOST_STEPS = 12  # largest number of rungs; with more steps, a rung is a range of steps
_LIVE = (TrialStatus.WAITING, TrialStatus.RUNNING, TrialStatus.PAUSED, TrialStatus.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class RungVisits:
    """All visits of trials at rungs. The arrays have one element per visit, in the order of the rungs.

    - ``by``: "budget" or "step" (a rung is a number of reports)
    - ``rungs``: for each rung the lowest and the highest budget or number of reports
    - ``rows``: row of the trial in the table of trials; ``rung``: index of ``rungs``
    - ``values``: value of the trial at the rung, NaN if there is none
    - ``fates``: what happened to the trial at the rung, as an index of FATES
    - ``nexts``: index of the visit of the same configuration at a later rung, or -1
    - ``chains``: index of the first visit of the same configuration
    - ``judged``: the assessor's verdicts by the trial's row
    """

    by: str
    rungs: Sequence[tuple[float, float]]
    rows: Array
    rung: Array
    values: Array
    fates: Array
    nexts: Array
    chains: Array
    judged: dict[int, Judged]


def at_budgets(columns: Columns, verdicts: Verdicts) -> RungVisits | None:
    """Return the visits of trials at rungs that are budgets. Return None if there are not several budgets."""
    if BUDGET not in columns.arrays:
        return None
    budgets = columns.numbers(BUDGET)
    rows = np.flatnonzero(~np.isnan(budgets))
    known = np.unique(budgets[rows])
    if not 1 < len(known) <= _MOST_BUDGETS:
        return None
    rows = rows[np.argsort(budgets[rows], kind="stable")]
    rung = np.searchsorted(known, budgets[rows])
    nexts = _promotions(_configurations(columns)[rows], rung, rows)
    judged = _stopped_by_verdict(columns, verdicts)
    fates = _fates(columns, rows, stopped=np.isin(rows, list(judged)), promoted=nexts >= 0)
    values = columns.arrays["value"][rows]
    values = np.where(np.isnan(values), columns.arrays["latest"][rows], values)
    return RungVisits(
        by="budget",
        rungs=[(budget, budget) for budget in known.tolist()],
        rows=rows,
        rung=rung,
        values=values,
        fates=fates,
        nexts=nexts,
        chains=_chains(nexts),
        judged=judged,
    )


def at_steps(columns: Columns, lines: Lines, verdicts: Verdicts) -> RungVisits:
    """Return the visits of trials at rungs that are numbers of reports, after which the assessor has stopped
    trials.

    If there are many such numbers, a rung is a range of numbers.
    """
    judged = _stopped_by_verdict(columns, verdicts)
    reports = _reports(lines)
    stops = np.zeros(len(columns), np.int64)  # 0: the trial was not stopped
    for row, verdict in judged.items():
        step = None if verdict.step is None else verdict.step + 1
        stops[row] = verdict.rung or step or max(1, reports[row])
    rungs = _ranges(stops[stops > 0])
    parts = [np.flatnonzero(_reached(reports, stops, *ends)) for ends in rungs]
    values = [
        _values_at(lines, rows, np.where(_within(stops[rows], *ends), stops[rows], ends[1]))
        for rows, ends in zip(parts, rungs, strict=True)
    ]
    sizes = [len(rows) for rows in parts]
    rows, rung = _joined(parts, np.int64), np.repeat(np.arange(len(rungs)), sizes)
    nexts = _same_later(parts, len(columns))
    ends_at = np.array(rungs, np.int64).reshape(-1, 2)[rung]
    stopped = _within(stops[rows], ends_at[:, 0], ends_at[:, 1])
    promoted = (nexts >= 0) | ((rung == len(rungs) - 1) & (reports[rows] > ends_at[:, 1]))
    return RungVisits(
        by="step",
        rungs=rungs,
        rows=rows,
        rung=rung,
        values=_joined(values, np.float64),
        fates=_fates(columns, rows, stopped=stopped, promoted=promoted),
        nexts=nexts,
        chains=_chains(nexts),
        judged=judged,
    )


def _stopped_by_verdict(columns: Columns, verdicts: Verdicts) -> dict[int, Judged]:
    """Return the assessor's verdicts that have stopped a trial or are about to, by the trial's row."""
    open_to_it = status_is(columns, TrialStatus.EARLY_STOPPED, *_LIVE)
    found = ((int(row), verdicts.of(columns, int(row))) for row in np.flatnonzero(open_to_it))
    return {row: judged for row, judged in found if judged is not None}


def _fates(columns: Columns, rows: Array, *, stopped: Array, promoted: Array) -> Array:
    live = status_is(columns, *_LIVE)[rows]
    return np.select([stopped, promoted, live], [STOPPED, PROMOTED, RUNNING], LEFT).astype(np.uint8)


# ---- by budget


def _configurations(columns: Columns) -> Array:
    """Return a hash of each trial's parameters without the budget. Trials that differ only in their budget
    have the same hash.
    """
    mixed = np.zeros(len(columns), np.uint64)
    for name, array in columns.arrays.items():
        if name.startswith(PARAMETERS) and name != BUDGET:
            bits = array.astype(np.uint64) if name in columns.categories else array.view(np.uint64)
            mixed = (mixed ^ bits) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)  # without this, the high bits would never affect the low bits
    return mixed


def _promotions(configurations: Array, rung: Array, rows: Array) -> Array:
    """Return, for each visit, the index of the visit of the same configuration at its next rung, or -1.

    A configuration has several trials at a rung if a failed trial was run again. These trials are paired
    with those at the next rung backwards from the last: last with last, last but one with last but one.
    """
    nexts = np.full(len(rows), -1, np.int64)
    order = np.lexsort((rows, rung, configurations))
    kind, level = configurations[order], rung[order]
    begins = np.flatnonzero(np.concatenate(([True], (kind[1:] != kind[:-1]) | (level[1:] != level[:-1]))))
    ends = np.append(begins[1:], len(order))
    run = np.repeat(np.arange(len(begins)), ends - begins)
    lengths = np.append((ends - begins)[1:], 0)  # length of the following run
    target = np.arange(len(order)) + lengths[run]
    good = (lengths[run] > 0) & (target >= ends[run])
    good[good] = kind[target[good]] == kind[good]
    good[good] = rows[order[target[good]]] > rows[order[good]]
    nexts[order[good]] = order[target[good]]
    return nexts


def _chains(nexts: Array) -> Array:
    chains = np.arange(len(nexts))
    for at in np.flatnonzero(nexts >= 0):  # in the order of the rungs, lowest first
        chains[nexts[at]] = chains[at]
    return chains


# ---- by step


def _reports(lines: Lines) -> Array:
    """Return the number of intermediate metrics that each trial has reported: its highest step + 1."""
    counts = np.zeros(len(lines.lengths), np.int64)
    some = lines.lengths > 0
    counts[some] = lines.steps[lines.starts[1:][some] - 1].astype(np.int64) + 1
    return counts


def _ranges(stops: Array) -> list[tuple[float, float]]:
    known = np.unique(stops)
    if len(known) <= _MOST_STEPS:
        return [(int(step), int(step)) for step in known]
    shares = np.arange(1, _MOST_STEPS + 1) / _MOST_STEPS
    ends = np.unique(np.quantile(stops, shares, method="higher")).astype(int)
    begins = np.concatenate(([int(known[0])], ends[:-1] + 1))
    return list(zip(begins.tolist(), ends.tolist(), strict=True))


def _within(stops: Array, begin: float | Array, end: float | Array) -> Array:
    return (stops >= begin) & (stops <= end)


def _reached(reports: Array, stops: Array, begin: float, end: float) -> Array:
    """Return which trials reached a rung, as one bool per trial. The rung is a range of numbers of reports.

    If the assessor has stopped a trial, its reports after the verdict do not count.
    """
    return np.where(stops > 0, stops >= begin, reports >= end)


def _values_at(lines: Lines, rows: Array, reports: Array) -> Array:
    """Return the last value of each of these trials, among its first ``reports`` intermediate metrics."""
    values = np.full(len(rows), np.nan)
    limits = np.full(len(lines.lengths), -1.0)
    limits[rows] = reports - 1
    counts = np.bincount(lines.rows[lines.steps <= limits[lines.rows]], minlength=len(limits))
    some = counts[rows] > 0
    values[some] = lines.values[lines.starts[rows[some]] + counts[rows[some]] - 1]
    return values


def _same_later(parts: Sequence[Array], trials: int) -> Array:
    """Return, for each visit, the index of the visit of the same trial at the next rung, or -1."""
    nexts = []
    begin = 0
    for rows, after in zip(parts, [*parts[1:], np.empty(0, np.int64)], strict=False):
        begin += len(rows)
        places = np.full(trials, -1, np.int64)
        places[after] = begin + np.arange(len(after))
        nexts.append(places[rows])
    return _joined(nexts, np.int64)


def _joined(parts: Sequence[Array], dtype: type) -> Array:
    return np.concatenate([np.empty(0, dtype), *parts])

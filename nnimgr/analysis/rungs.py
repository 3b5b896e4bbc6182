"""Rungs of successive halving: which trials reached each rung, continued from it, or were stopped there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nnimgr.analysis.binary_columns import PackedColumn, compact, pack
from nnimgr.analysis.cache import follow, once
from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import Columns
from nnimgr.analysis.filters import matching
from nnimgr.analysis.metric import minimises
from nnimgr.analysis.points import DEFAULT_KEY, lines_of
from nnimgr.analysis.rung_visits import FATES, PROMOTED, STOPPED, RungVisits, at_budgets, at_steps
from nnimgr.analysis.verdicts import Verdicts
from nnimgr.store.bulk import Snapshot

__all__ = ["rungs"]

_NO_NEXT = 2**32 - 1


def rungs(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> bytes:
    """Return the data of the chart of rungs, in the format of ``binary_columns``.

    A point of the chart is a trial that reached a rung. A line connects the points of one configuration: a
    parameter set, which may have trials with several budgets. ``arguments`` has ``filter`` and ``lines``, the
    largest number of configurations. Configurations that reached high rungs are preferred.

    The columns have one element per point: ``rung``, ``sequence`` (number of the trial), ``value``, ``fate``
    (promoted, stopped, running or left) and ``next``, the index of the configuration's next point
    (the highest number: none).

    The header has:

    - ``by`` ("budget" or "step"), ``minimise``, ``total`` (number of matching configurations) and ``lines``
      (number of returned configurations)
    - ``rungs``, each with ``from``, ``to``, ``reached`` (number of matching trials that reached it), the
      number of trials with each fate, and ``cut`` (the worst trial that continued)
    - ``verdicts``, for each returned trial that the assessor has stopped: ``sequence``, ``reason``, and
      ``better`` (sequence numbers of the trials that were better)
    """
    visits = once(columns, "visits", lambda: _visits(columns, snapshot))
    minimise = minimises(snapshot, arguments)
    there = matching(columns, arguments.get("filter") or "")[visits.rows]
    heights = _heights(visits, there)
    drawn = _drawn(heights, len(visits.rungs), arguments["lines"])
    chosen = np.flatnonzero(there & drawn[visits.chains])
    places = np.full(len(there), _NO_NEXT, np.uint32)
    places[chosen] = np.arange(len(chosen), dtype=np.uint32)
    nexts = visits.nexts[chosen]
    header = {
        "revision": columns.revision,
        "by": visits.by,
        "minimise": minimise,
        "total": int(np.count_nonzero(heights >= 0)),
        "lines": int(np.count_nonzero(drawn)),
        "rungs": [
            _told(columns, visits, there & (visits.rung == rung), ends, minimise)
            for rung, ends in enumerate(visits.rungs)
        ],
        "verdicts": _verdicts(columns, snapshot, visits, chosen),
    }
    return pack(
        header,
        [
            PackedColumn("rung", visits.rung[chosen].astype(np.uint8)),
            PackedColumn("sequence", columns.arrays["sequence"][visits.rows[chosen]].astype(np.uint32)),
            PackedColumn("value", compact(visits.values[chosen])),
            PackedColumn("fate", visits.fates[chosen], FATES),
            PackedColumn("next", np.where(nexts < 0, _NO_NEXT, places[nexts]).astype(np.uint32)),
        ],
    )


def _visits(columns: Columns, snapshot: Snapshot) -> RungVisits:
    verdicts = follow(columns, snapshot, Verdicts)
    found = at_budgets(columns, verdicts)
    return at_steps(columns, lines_of(columns, snapshot, DEFAULT_KEY), verdicts) if found is None else found


def _heights(visits: RungVisits, there: Array) -> Array:
    """Return the highest rung that each chain has reached. A chain is all visits of one configuration.

    The result has one element per visit: the rung at the first visit of a chain, and -1 at its other visits.
    """
    heights = np.full(len(there), -1, np.int64)
    np.maximum.at(heights, visits.chains[there], visits.rung[there])
    return heights


def _drawn(heights: Array, rungs: int, most: int) -> Array:
    """Choose at most ``most`` chains to draw, and return True at the first visit of each. A chain is all
    visits of one configuration.

    Few chains reach the high rungs, so all of these are drawn. The other chains are spread evenly over the
    experiment.
    """
    drawn = np.zeros(len(heights), bool)
    for rung in reversed(range(rungs)):
        highest = np.flatnonzero(heights == rung)
        count = min(len(highest), most // (rung + 1))
        if count:
            drawn[highest[np.arange(count) * len(highest) // count]] = True
            most -= count
    return drawn


def _told(
    columns: Columns, visits: RungVisits, here: Array, ends: tuple[float, float], minimise: bool
) -> dict[str, Any]:
    """Return the description of one rung in the answer's header: its range, its trials by fate, and the worst
    promoted trial.
    """
    counts = np.bincount(visits.fates[here], minlength=len(FATES)).tolist()
    on = np.flatnonzero(here & (visits.fates == PROMOTED) & ~np.isnan(visits.values))
    cut = None
    if len(on):
        values = visits.values[on]
        worst = on[np.argmax(values) if minimise else np.argmin(values)]
        sequence = columns.arrays["sequence"][visits.rows[worst]]
        cut = {"sequence": int(sequence), "value": float(visits.values[worst])}
    described = {"from": ends[0], "to": ends[1], "reached": int(np.count_nonzero(here)), "cut": cut}
    return described | dict(zip(FATES, counts, strict=True))


def _verdicts(
    columns: Columns, snapshot: Snapshot, visits: RungVisits, chosen: Array
) -> list[dict[str, Any]]:
    rows = np.unique(visits.rows[chosen][visits.fates[chosen] == STOPPED]).tolist()
    opinions = snapshot.opinions(visits.judged[row].number for row in rows)
    reasons = snapshot.reasons(columns.ids[row].decode() for row in rows)
    better = [trial_id.encode() for row in rows for trial_id in opinions[visits.judged[row].number].better]
    sequences = _sequences(columns, better)
    return [
        {
            "sequence": int(columns.arrays["sequence"][row]),
            "reason": opinion.reason or reasons.get(columns.ids[row].decode(), ""),
            "better": [sequences[one.encode()] for one in opinion.better if one.encode() in sequences],
        }
        for row, opinion in ((row, opinions[visits.judged[row].number]) for row in rows)
    ]


def _sequences(columns: Columns, trial_ids: Sequence[bytes]) -> dict[bytes, int]:
    """Return the sequence numbers of these trials by trial id. Unknown ids are left out."""
    rows = np.flatnonzero(np.isin(columns.ids, np.array(trial_ids, "S16")))
    return {bytes(columns.ids[row]): int(columns.arrays["sequence"][row]) for row in rows}

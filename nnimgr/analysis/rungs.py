"""The rungs of successive halving: who came to each, who went on from it, who was stopped there and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import Columns
from nnimgr.analysis.filters import matching
from nnimgr.analysis.kept import follow, once
from nnimgr.analysis.metric import minimises
from nnimgr.analysis.packed import PackedColumn, compact, pack
from nnimgr.analysis.passages import FATES, PROMOTED, STOPPED, Passages, at_budgets, at_steps
from nnimgr.analysis.points import DEFAULT_KEY, lines_of
from nnimgr.analysis.verdicts import Verdicts
from nnimgr.store.bulk import Snapshot

__all__ = ["rungs"]

_NO_NEXT = 2**32 - 1


def rungs(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> bytes:
    """``{filter, lines}`` → packed: who was at which rung, as points and the lines between them.

    At most ``lines`` configurations are drawn, those that came far rather than others. Columns, of a point
    each: ``rung``, ``sequence``, ``value``, ``fate`` (one of FATES) and ``next`` (the point that follows; the
    highest number: none). Header: ``by`` (budget or step), ``minimise``, ``total`` (configurations that
    match), ``lines`` (those drawn), ``rungs`` (of each ``from``, ``to``, how many of the matching trials came
    to it in ``reached``, how many of them had each fate, and ``cut``: the worst that went on) and
    ``verdicts`` (of the trials drawn that were stopped: ``sequence``, ``reason``, and in ``better`` the
    sequences of trials that beat it).
    """
    passages = once(columns, "passages", lambda: _passages(columns, snapshot))
    minimise = minimises(snapshot, arguments)
    there = matching(columns, arguments.get("filter") or "")[passages.rows]
    heights = _heights(passages, there)
    drawn = _drawn(heights, len(passages.rungs), arguments["lines"])
    chosen = np.flatnonzero(there & drawn[passages.chains])
    places = np.full(len(there), _NO_NEXT, np.uint32)
    places[chosen] = np.arange(len(chosen), dtype=np.uint32)
    nexts = passages.nexts[chosen]
    header = {
        "revision": columns.revision,
        "by": passages.by,
        "minimise": minimise,
        "total": int(np.count_nonzero(heights >= 0)),
        "lines": int(np.count_nonzero(drawn)),
        "rungs": [
            _told(columns, passages, there & (passages.rung == rung), ends, minimise)
            for rung, ends in enumerate(passages.rungs)
        ],
        "verdicts": _verdicts(columns, snapshot, passages, chosen),
    }
    return pack(
        header,
        [
            PackedColumn("rung", passages.rung[chosen].astype(np.uint8)),
            PackedColumn("sequence", columns.arrays["sequence"][passages.rows[chosen]].astype(np.uint32)),
            PackedColumn("value", compact(passages.values[chosen])),
            PackedColumn("fate", passages.fates[chosen], FATES),
            PackedColumn("next", np.where(nexts < 0, _NO_NEXT, places[nexts]).astype(np.uint32)),
        ],
    )


def _passages(columns: Columns, snapshot: Snapshot) -> Passages:
    verdicts = follow(columns, snapshot, Verdicts)
    found = at_budgets(columns, verdicts)
    return at_steps(columns, lines_of(columns, snapshot, DEFAULT_KEY), verdicts) if found is None else found


def _heights(passages: Passages, there: Array) -> Array:
    """Of each chain, at its first passage, the highest rung of any of these passages; -1 elsewhere."""
    heights = np.full(len(there), -1, np.int64)
    np.maximum.at(heights, passages.chains[there], passages.rung[there])
    return heights


def _drawn(heights: Array, rungs: int, most: int) -> Array:
    """Which chains are drawn (bool, by first passage): as many of each highest rung as there is room for.

    Few come far, so that all of these are drawn, and the rest evenly spread over the experiment.
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
    columns: Columns, passages: Passages, here: Array, ends: tuple[float, float], minimise: bool
) -> dict[str, Any]:
    """What the header says of a rung."""
    counts = np.bincount(passages.fates[here], minlength=len(FATES)).tolist()
    on = np.flatnonzero(here & (passages.fates == PROMOTED) & ~np.isnan(passages.values))
    cut = None
    if len(on):
        values = passages.values[on]
        worst = on[np.argmax(values) if minimise else np.argmin(values)]
        sequence = columns.arrays["sequence"][passages.rows[worst]]
        cut = {"sequence": int(sequence), "value": float(passages.values[worst])}
    described = {"from": ends[0], "to": ends[1], "reached": int(np.count_nonzero(here)), "cut": cut}
    return described | dict(zip(FATES, counts, strict=True))


def _verdicts(
    columns: Columns, snapshot: Snapshot, passages: Passages, chosen: Array
) -> list[dict[str, Any]]:
    rows = np.unique(passages.rows[chosen][passages.fates[chosen] == STOPPED]).tolist()
    opinions = snapshot.opinions(passages.judged[row].number for row in rows)
    reasons = snapshot.reasons(columns.ids[row].decode() for row in rows)
    better = [trial_id.encode() for row in rows for trial_id in opinions[passages.judged[row].number].better]
    sequences = _sequences(columns, better)
    return [
        {
            "sequence": int(columns.arrays["sequence"][row]),
            "reason": opinion.reason or reasons.get(columns.ids[row].decode(), ""),
            "better": [sequences[one.encode()] for one in opinion.better if one.encode() in sequences],
        }
        for row, opinion in ((row, opinions[passages.judged[row].number]) for row in rows)
    ]


def _sequences(columns: Columns, trial_ids: Sequence[bytes]) -> dict[bytes, int]:
    """Of those that there are."""
    rows = np.flatnonzero(np.isin(columns.ids, np.array(trial_ids, "S16")))
    return {bytes(columns.ids[row]): int(columns.arrays["sequence"][row]) for row in rows}

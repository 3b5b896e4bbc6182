"""Timeline chart: which attempts ran on each machine and GPU, and when. Bars narrower than a pixel are
merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from nnimgr.analysis.attempts import AttemptTable, Lane, lanes_of
from nnimgr.analysis.binary_columns import PackedColumn, pack
from nnimgr.analysis.cache import follow, once
from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import Columns
from nnimgr.analysis.filters import matching
from nnimgr.store.bulk import Snapshot

__all__ = ["LOST", "RETRIED", "timeline"]

LOST, RETRIED = "LOST", "RETRIED"  # statuses of attempts that another attempt has followed


class _Bars(NamedTuple):
    """Bars of the timeline chart, as arrays with one element per bar. ``lane``: indices of ``lanes``."""

    lanes: list[Lane]
    lane: Array
    begin: Array
    end: Array
    row: Array  # row of the trial in the columns
    attempt: Array
    status: Array


def timeline(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> bytes:
    """Return the data of the timeline chart, in the format of ``binary_columns``. Times are seconds since the
    experiment's creation.

    ``arguments`` has ``begin`` and ``end`` (the shown time), ``pixels`` (width of the chart), ``filter``, and
    ``now``: end of the bars of running attempts, in seconds since 1970 (None: the time of the last fact).

    The columns of the bars are:

    - ``lane``, ``start``, ``end``, ``sequence`` (number of the trial) and ``attempt``
    - ``count``: number of attempts. If it is above 1, the bar is merged, and shows the first attempt's trial.
    - ``busy``: share of the bar's time in which an attempt ran
    - ``status``: status of the trial, or LOST or RETRIED if another attempt has followed. A merged bar has
      the most frequent status.

    The columns of the queue describe the whole experiment at the end of each pixel: ``queue.at`` (time),
    ``queue.waiting`` and ``queue.running`` (numbers of waiting trials and of running attempts).

    The header has ``lanes``, ``from`` and ``to`` (the shown time), and ``begin`` and ``end`` of all bars.
    """
    table = follow(columns, snapshot, AttemptTable)
    now = arguments.get("now")
    if now is None:
        now = snapshot.last_at() / 1e6
    now -= columns.origin_at.timestamp()
    live = bool(np.isnan(table["ended"]).any())  # bars of running attempts grow as time passes
    bars = _bars(columns, table, now) if live else once(columns, "bars", lambda: _bars(columns, table, now))
    end = max(float(bars.end.max(initial=0.0)), float(np.nanmax(columns.arrays["created"], initial=0.0)))
    low = max(arguments.get("begin") or 0.0, 0.0)
    high = end if arguments.get("end") is None else arguments["end"]
    high = max(high, low + 1e-3)
    shown = _merged(
        _within(columns, bars, arguments.get("filter") or "", low, high), low, high, arguments["pixels"]
    )
    header = {
        "revision": columns.revision,
        "originAt": columns.origin_at.isoformat(),
        "from": low,
        "to": high,
        "begin": float(bars.begin.min(initial=end)),
        "end": end,
        "lanes": [
            {"keeperId": lane.keeper_id, "gpu": None if lane.gpu < 0 else lane.gpu, "part": lane.part}
            for lane in bars.lanes
        ],
    }
    sequences = columns.arrays["sequence"][shown["row"]]
    categories = [*columns.categories["status"], LOST, RETRIED]
    return pack(
        header,
        [
            PackedColumn("lane", shown["lane"].astype(np.uint16)),
            PackedColumn("start", shown["begin"]),
            PackedColumn("end", shown["end"]),
            PackedColumn("sequence", sequences),
            PackedColumn("attempt", shown["attempt"]),
            PackedColumn("count", shown["count"].astype(np.uint32)),
            PackedColumn("busy", shown["busy"].astype(np.float32)),
            PackedColumn("status", shown["status"].astype(np.uint8), categories),
            *_queue(columns, table, low, high, arguments["pixels"]),
        ],
    )


def _bars(columns: Columns, table: AttemptTable, now: float) -> _Bars:
    begins = table["placed"]
    ends = np.maximum(np.where(np.isnan(table["ended"]), now, table["ended"]), begins)
    seats = np.where(np.isnan(begins), -1, table["seat"])
    lanes, who, lane = lanes_of(table.places, seats, begins, ends)
    rows = table.rows(columns)
    latest = table["attempt"] == columns.arrays["attempt"][rows]
    known = len(columns.categories["status"])
    status = np.where(latest, columns.arrays["status"][rows], np.where(table["lost"], known, known + 1))
    return _Bars(lanes, lane, begins[who], ends[who], rows[who], table["attempt"][who], status[who])


def _within(columns: Columns, bars: _Bars, text: str, low: float, high: float) -> dict[str, Array]:
    """Return the bars that are at least partly in the shown time and match the filter ``text``."""
    seen = (bars.end >= low) & (bars.begin <= high)
    if text:
        seen &= matching(columns, text)[bars.row]
    return {name: getattr(bars, name)[seen] for name in _Bars._fields if name != "lanes"}


def _merged(bars: dict[str, Array], low: float, high: float, pixels: int) -> dict[str, Array]:
    """Merge all bars that are narrower than a pixel and begin in the same pixel of the same lane into one
    bar.
    """
    width = (high - low) / pixels
    lengths = bars["end"] - bars["begin"]
    wide = lengths >= width
    pixel = np.clip(((bars["begin"] - low) / width).astype(np.int64), -1, pixels) + 1
    single = len(bars["lane"]) + np.arange(len(lengths))
    groups = np.where(
        wide, single + (pixels + 2) * (bars["lane"].max(initial=0) + 1), bars["lane"] * (pixels + 2) + pixel
    )
    _, first, group, counts = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    ends = np.full(len(first), -np.inf)
    np.maximum.at(ends, group, bars["end"])
    begins = np.full(len(first), np.inf)
    np.minimum.at(begins, group, bars["begin"])
    spans = ends - begins
    sums = np.bincount(group, weights=lengths, minlength=len(first))
    kinds = int(bars["status"].max(initial=0)) + 1
    by_status = np.bincount(group * kinds + bars["status"], minlength=len(first) * kinds).reshape(-1, kinds)
    return {
        "lane": bars["lane"][first],
        "begin": begins,
        "end": ends,
        "row": bars["row"][first],
        "attempt": bars["attempt"][first],
        "count": counts,
        "busy": np.where(spans > 0, np.minimum(sums / np.where(spans > 0, spans, 1), 1), 1.0),
        "status": by_status.argmax(axis=1),
    }


def _queue(columns: Columns, table: AttemptTable, low: float, high: float, pixels: int) -> list[PackedColumn]:
    """Return columns with the number of trials that wait for a place and of attempts that run, at each
    pixel's end.
    """
    at = low + (np.arange(pixels) + 1) * (high - low) / pixels
    waits, runs = once(columns, "queue", lambda: _changes(columns, table))
    found = [
        np.searchsorted(begin, at, "right") - np.searchsorted(end, at, "right")
        for begin, end in (waits, runs)
    ]
    return [
        PackedColumn("queue.at", at),
        *(
            PackedColumn(f"queue.{name}", np.maximum(count, 0).astype(np.uint32))
            for name, count in zip(("waiting", "running"), found, strict=True)
        ),
    ]


def _changes(columns: Columns, table: AttemptTable) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return the sorted times at which a trial began to wait for a place or ceased to wait, and the sorted
    times at which an attempt started or ended.
    """
    placed = np.full(len(columns), np.inf)
    there = ~np.isnan(table["placed"])
    np.minimum.at(placed, table.rows(columns)[there], table["placed"][there])
    ended = columns.arrays["ended"]
    ceased = np.where(np.isinf(placed), ended, placed)
    runs = [table[name] for name in ("started", "ended")]
    ran = ~np.isnan(runs[0])
    return (_sorted(columns.arrays["created"]), _sorted(ceased)), (_sorted(runs[0]), _sorted(runs[1][ran]))


def _sorted(instants: Array) -> Array:
    return np.sort(instants[~np.isnan(instants)])

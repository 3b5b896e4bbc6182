"""Table of all attempts of an experiment, kept as numpy arrays. An update reads only the changed attempts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import Columns
from nnimgr.store.bulk import Snapshot

__all__ = ["AttemptTable", "Lane", "lanes_of"]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Lane:
    """Lane of the timeline chart, which shows one attempt at a time.

    A lane stands for one GPU (``gpu``; -1: no GPU) on the machine of the keeper ``keeper_id``. Attempts that
    share a GPU at the same time get a lane each, numbered by ``part``.
    """

    keeper_id: str
    gpu: int
    part: int = 0


class AttemptTable:
    """Table of all attempts of an experiment, one row per attempt. ``table[name]`` returns one of these
    columns:

    - ``trial_id`` and ``attempt`` (its number) identify the attempt.
    - ``seat`` is an index of ``places``: pairs of a keeper and the GPUs that attempts have there. -1: the
      attempt has no place.
    - ``placed``, ``started`` and ``ended`` are seconds since the experiment's creation. NaN: not yet.
    - ``lost`` is True if the attempt ended because it was lost.
    """

    def __init__(self) -> None:
        self.places: list[tuple[str, tuple[int, ...]]] = []
        self._seat_of: dict[tuple[str | None, str | None], int] = {}
        self._positions: dict[tuple[str, int], int] = {}
        self._table = np.empty(0, self._KIND)

    _KIND = np.dtype(
        [
            ("trial_id", "S16"),
            ("attempt", np.uint16),
            ("seat", np.int32),
            ("placed", np.float64),
            ("started", np.float64),
            ("ended", np.float64),
            ("lost", bool),
        ]
    )

    def refresh(self, columns: Columns, snapshot: Snapshot, *, after: int) -> None:
        """Update the table with the attempts that have changed since fact number ``after``."""
        origin_us = columns.origin_at.timestamp() * 1e6
        for page in snapshot.attempts(snapshot.changed(after=after) if after else None):
            positions = [self._positions.setdefault(row[:2], len(self._positions)) for row in page]
            if len(self._positions) > len(self._table):
                grown = np.zeros(int(len(self._positions) * 1.5), self._KIND)
                grown[: len(self._table)] = self._table
                self._table = grown
            ids, attempts, keepers, gpus, placed, started, ended, reasons = zip(*page, strict=True)
            table = self._table
            table["trial_id"][positions] = [trial_id.encode() for trial_id in ids]
            table["attempt"][positions] = attempts
            table["seat"][positions] = list(map(self._seat, keepers, gpus))
            for name, instants in (("placed", placed), ("started", started), ("ended", ended)):
                table[name][positions] = (np.array(instants, np.float64) - origin_us) / 1e6
            table["lost"][positions] = [reason == "lost" for reason in reasons]

    def _seat(self, keeper_id: str | None, gpus: str | None) -> int:
        seat = self._seat_of.get((keeper_id, gpus))
        if seat is None:
            seat = -1
            if keeper_id is not None:
                seat = len(self.places)
                self.places.append((keeper_id, tuple(json.loads(gpus or "[]"))))
            self._seat_of[keeper_id, gpus] = seat
        return seat

    def __getitem__(self, name: str) -> Array:
        return self._table[name][: len(self._positions)]

    def rows(self, columns: Columns) -> Array:
        """Return, for each attempt, the row of its trial in ``columns``, the table of all trials."""
        order = np.argsort(columns.ids)
        return order[np.searchsorted(columns.ids, self["trial_id"], sorter=order)]


def lanes_of(
    places: Sequence[tuple[str, tuple[int, ...]]], seats: Array, begins: Array, ends: Array
) -> tuple[list[Lane], Array, Array]:
    """Assign attempts to lanes of the timeline chart, with one bar per attempt and GPU. Attempts that use the
    same GPU at the same time get separate lanes.

    Return the lanes, the index of each bar's attempt, and the index of each bar's lane.
    """
    spots = sorted({(keeper_id, gpu) for keeper_id, gpus in places for gpu in gpus or (-1,)})
    numbers = {spot: number for number, spot in enumerate(spots)}
    held = [[numbers[keeper_id, gpu] for gpu in gpus or (-1,)] for keeper_id, gpus in places]
    widths = np.array([*map(len, held), 0])  # the last element is for seat -1, an attempt without a place
    firsts = np.concatenate(([0], np.cumsum(widths[:-1])))
    flat = np.array([number for numbers in held for number in numbers] or [0])
    counts = widths[seats]
    who = np.repeat(np.arange(len(seats)), counts)
    within = np.arange(len(who)) - np.repeat(np.cumsum(counts) - counts, counts)
    spot_of = flat[firsts[seats[who]] + within] if len(who) else np.empty(0, np.int64)
    order = np.lexsort((begins[who], spot_of))
    who, spot_of = who[order], spot_of[order]
    lanes: list[Lane] = []
    lane_of = np.zeros(len(who), np.int64)
    edges = np.searchsorted(spot_of, np.arange(len(spots) + 1))
    for number, (keeper_id, gpu) in enumerate(spots):
        there = slice(edges[number], edges[number + 1])
        parts = _parts(begins[who[there]], ends[who[there]])
        lane_of[there] = parts + len(lanes)
        lanes += [
            Lane(keeper_id=keeper_id, gpu=gpu, part=part) for part in range(int(parts.max(initial=-1)) + 1)
        ]
    return lanes, who, lane_of


def _parts(begins: Array, ends: Array) -> Array:
    """Assign attempts on the same GPU to numbered lanes. Each attempt gets the lowest lane that is free when
    it begins.

    The attempts must be sorted by the times at which they begin.
    """
    parts = np.zeros(len(begins), np.int64)
    if not np.any(np.maximum.accumulate(ends)[:-1] > begins[1:]):
        return parts
    free_at: list[float] = []
    for index, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        part = next((part for part, free in enumerate(free_at) if free <= begin), len(free_at))
        free_at[part : part + 1] = [end]
        parts[index] = part
    return parts

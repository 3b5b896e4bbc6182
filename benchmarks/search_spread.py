"""Spread of pending points: the smallest distance of 16 of them, compared with 16 random points."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Better, Row
from benchmarks.search_loops import Own
from benchmarks.search_problems import EASY, Parameters, Problem
from benchmarks.search_runs import Runs
from benchmarks.search_statistics import median
from nnimgr import search_space as spaces
from nnimgr.tuners.encoding import Encoding

CONCURRENCY = 16
SKIPPED = 2 * CONCURRENCY  # trials before the first look, because earlier pending points were drawn at random
AT_LEAST = 0.5


def rows(runs: Runs) -> Iterator[Row]:
    """Yield TPE's smallest distance as a share of Random's, for each problem."""
    for problem in EASY:
        ours, chance = (
            [typical(name, problem, seed, trials=max(runs.trials, SKIPPED + 1)) for seed in range(runs.seeds)]
            for name in ("TPE", "Random")
        )
        yield Row(
            name=f"smallest distance of {CONCURRENCY} pending points over Random's, {problem.name}",
            value=statistics.median(ours) / statistics.median(chance),
            unit="",
            better=Better.MORE,
            limit=AT_LEAST,
            details={"TPE": str(median(ours)), "Random": str(median(chance)), "seeds": runs.seeds},
        )


def typical(name: str, problem: Problem, seed: int, *, trials: int) -> float:
    """Return the median over a search of the smallest distance of pending points, in the unit cube."""
    searcher, encoding = Own(name, problem.space, seed), Encoding(spaces.parse(problem.space))
    pending: list[tuple[int, Parameters]] = []
    found = []
    for number in range(trials + CONCURRENCY):
        if len(pending) == CONCURRENCY:
            done, parameters = pending.pop(0)
            searcher.tell(done, parameters, problem.loss(parameters))
        pending.append((number, searcher.ask(number)))
        if number >= SKIPPED:
            points = [encoding.encode(parameters) for _, parameters in pending]
            found.append(smallest([point for point in points if point is not None]))
    return statistics.median(found)


def smallest(points: Sequence[NDArray[np.float64]]) -> float:
    """Return the smallest distance between two of the points."""
    all_of_them = np.stack(points)
    distances = np.linalg.norm(all_of_them[:, None] - all_of_them[None], axis=2)
    return float(distances[np.triu_indices(len(points), 1)].min())

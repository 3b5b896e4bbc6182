"""Trials per second that preloaded modules allow, relative to a bare loop.

    python -m benchmarks.preloaded [--trials 600] [--pairs 5] [--concurrency 8 2]

A function that returns its parameter is forked from preloaded modules. Then a class that reports its
parameter in one step is ``resident``: two processes run trial after trial. The trials are measured and
checked as in ``throughput``, in turn with ``python -c pass``. So a share above 1 means that a durable trial
takes less time than the start of an interpreter.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from typing import Any

from benchmarks import program, throughput
from benchmarks.ground import Ground, popen_loop
from benchmarks.peers.ask import Peers, figures
from benchmarks.report import Better, Row

CODE = """def train(parameters):
    return parameters["x"]
"""
CLASS = """class Train:
    steps = 1

    def setup(self, parameters):
        self.reset(parameters)

    def reset(self, parameters):
        self.x = parameters["x"]

    def step(self):
        return self.x
"""
PRELOAD = ["decimal"]
LIMITS = {8: 1.0, 2: 0.8}
RESIDENT_CONCURRENCY, RESIDENT_LIMIT = 2, 1.3


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Yield the share of a bare loop for each concurrency, and for a resident class."""
    for concurrency in options.concurrency:
        yield _share(
            ground,
            peers,
            options,
            name="no-op trials of a preloaded function",
            concurrency=concurrency,
            limit=LIMITS.get(concurrency),
            target="train",
            code=CODE,
        )
    yield _share(
        ground,
        peers,
        options,
        name="no-op trials of a resident class",
        concurrency=RESIDENT_CONCURRENCY,
        limit=RESIDENT_LIMIT,
        target="Train",
        code=CLASS,
        metrics=2,
        resident=True,
    )


def _share(
    ground: Ground,
    peers: Peers,
    options: argparse.Namespace,
    *,
    name: str,
    concurrency: int,
    limit: float | None,
    target: str,
    **how: Any,
) -> Row:
    """Return the row of one kind of trial. ``how``: further arguments of ``throughput.our_rate``."""
    python = str(ground.python)
    ours, raws = [], []
    with ground.product(f"preloaded{target}{concurrency}") as own:
        for number in range(options.pairs + 1):  # the first one warms up
            trials = options.trials if number else 3 * concurrency
            rate, _ = throughput.our_rate(
                own,
                f"pair{number}",
                command=f"{python} -m nni.run trial.py:{target}",
                trials=trials,
                concurrency=concurrency,
                preload=PRELOAD,
                **how,
            )
            if number:
                raws.append(popen_loop([python, "-c", "pass"], count=trials, concurrency=concurrency))
                ours.append(rate)
    return Row(
        name=f"{name} at concurrency {concurrency}, share of a bare loop",
        value=statistics.median(a / b.per_s for a, b in zip(ours, raws, strict=True)),
        unit="",
        better=Better.MORE,
        limit=limit,
        details={
            "trials": options.trials,
            "pairs": options.pairs,
            "per_s": statistics.median(ours),
            "raw_per_s": statistics.median(raw.per_s for raw in raws),
            "busy_elsewhere": statistics.median(raw.busy_elsewhere for raw in raws),
        },
        peers=figures(peers.ask("noop", concurrency=concurrency), "per_s"),
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    throughput.arguments(parser)


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)

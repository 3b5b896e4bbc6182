"""Trials per second of a function that is forked from preloaded modules, relative to a bare loop.

    python -m benchmarks.preloaded [--trials 600] [--pairs 5] [--concurrency 8 2]

The function returns its parameter. The trials are measured and checked as in ``throughput``, in turn with
``python -c pass``. So a share above 1 means that a durable trial takes less time than the start of an
interpreter.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator

from benchmarks import program, throughput
from benchmarks.ground import Ground, popen_loop
from benchmarks.peers.ask import Peers, figures
from benchmarks.report import Better, Row

CODE = """def train(parameters):
    return parameters["x"]
"""
PRELOAD = ["decimal"]
LIMITS = {8: 1.0, 2: 0.8}


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Yield the share of a bare loop for each concurrency."""
    python = str(ground.python)
    command = f"{python} -m nni.run trial.py:train"
    for concurrency in options.concurrency:
        ours, raws = [], []
        with ground.product(f"preloaded{concurrency}") as own:
            for number in range(options.pairs + 1):  # the first one warms up
                trials = options.trials if number else 3 * concurrency
                rate, _ = throughput.our_rate(
                    own,
                    f"pair{number}",
                    command=command,
                    trials=trials,
                    concurrency=concurrency,
                    code=CODE,
                    preload=PRELOAD,
                )
                if number:
                    raws.append(popen_loop([python, "-c", "pass"], count=trials, concurrency=concurrency))
                    ours.append(rate)
        yield Row(
            name=f"no-op trials of a preloaded function at concurrency {concurrency}, share of a bare loop",
            value=statistics.median(a / b.per_s for a, b in zip(ours, raws, strict=True)),
            unit="",
            better=Better.MORE,
            limit=LIMITS.get(concurrency),
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

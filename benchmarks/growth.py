"""Cost of an experiment with a long past: CPU per trial, memory, and time to open it again.

    python -m benchmarks.growth [--trials 11000] [--runs 5] [--past 100000] [--metrics 10]

The real runner, with its database and the tuner Random, runs in a separate server process. The service runs
nothing, so the figures are only the server's (see ``growth_server``). The past ends with a crash just before
a snapshot is due. Opening it is compared with opening an empty experiment, in turn.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import program
from benchmarks.ground import Ground
from benchmarks.growth_server import MORE
from benchmarks.peers.ask import Peers
from benchmarks.report import Better, Row

CPU_LIMIT = 1.2
MIB_LIMIT = 5.0
REOPEN_LIMIT_S = 1.0
WINDOW = 1000
LAST = 10_000  # end of the late window, which is compared with the first window

Mark = Sequence[float]  # trials, CPU s of the server, resident MiB


def serve(directory: Path, what: str, *, trials: int, metrics: int) -> dict[str, Any]:
    """Run one part in a separate process. Raise CalledProcessError."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.growth_server", str(directory), what),
            *("--trials", str(trials), "--metrics", str(metrics)),
        ],
        stdout=subprocess.PIPE,
        check=True,
        cwd=Path(__file__).parent.parent,
    )
    return dict(json.loads(done.stdout))


def at(marks: Sequence[Mark], trials: int) -> Mark:
    """Return the first mark with at least this number of trials."""
    return next(mark for mark in marks if mark[0] >= trials)


def cpu_ms(marks: Sequence[Mark], begin: int, end: int) -> float:
    """Return the CPU ms per trial between these two marks."""
    first, last = at(marks, begin), at(marks, end)
    return 1e3 * (last[1] - first[1]) / (last[0] - first[0])


def lives(ground: Ground, *, trials: int, runs: int) -> Iterator[Row]:
    """Measure the CPU of late trials relative to early ones, and the memory after ten thousand trials."""
    last = min(LAST, trials)
    early, late, growths = [], [], []
    for _ in range(runs):
        marks = serve(ground.folder("life"), "life", trials=trials, metrics=1)["marks"]
        early.append(cpu_ms(marks, 0, WINDOW))
        late.append(cpu_ms(marks, last - WINDOW, last))
        first, end = at(marks, WINDOW), marks[-1]
        growths.append((end[2] - first[2]) * 10_000 / (end[0] - first[0]))
    yield Row(
        name=f"CPU of a trial, the {last - WINDOW:,}th to {last:,}th over the first {WINDOW:,}",
        value=statistics.median(b / a for a, b in zip(early, late, strict=True)),
        unit="",
        better=Better.LESS,
        limit=CPU_LIMIT,
        details={
            "first_ms": statistics.median(early),
            "last_ms": statistics.median(late),
            "runs": runs,
        },
    )
    yield Row(
        name="server's memory per 10,000 ended trials",
        value=max(growths),
        unit="MiB",
        better=Better.LESS,
        limit=MIB_LIMIT,
        details={"trials": trials, "runs": runs},
    )


def openings(ground: Ground, *, past: int, metrics: int, runs: int) -> Iterator[Row]:
    """Measure the CPU of opening a long past, minus that of opening an empty one."""
    directory = ground.folder("past")
    filled = serve(directory, "fill", trials=past, metrics=metrics)
    empty, full = [], []
    for number in range(runs):
        empty.append(serve(ground.folder("empty"), "reopen", trials=0, metrics=metrics))
        full.append(serve(directory, "reopen", trials=past + number * MORE, metrics=metrics))

    def middle(found: list[dict[str, Any]], what: str) -> float:
        return float(statistics.median(one[what] for one in found))

    yield Row(
        name=f"opening {past:,} trials with {past * metrics:,} metrics, above an empty start",
        value=middle(full, "cpu_s") - middle(empty, "cpu_s"),
        unit="s CPU of the server",
        better=Better.LESS,
        limit=REOPEN_LIMIT_S,
        details={
            "empty_s": middle(empty, "cpu_s"),
            "tuner_rebuild_s": middle(full, "tuner_s") - middle(empty, "tuner_s"),
            "more_mib": middle(full, "rss_mib") - middle(empty, "rss_mib"),
            "database_mib": filled["bytes"] / 2**20,
            "runs": runs,
        },
    )


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Measure trials that end one after the other, then openings."""
    yield from lives(ground, trials=options.trials, runs=options.runs)
    yield from openings(ground, past=options.past, metrics=options.metrics, runs=options.runs)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=11_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--past", type=int, default=100_000)
    parser.add_argument("--metrics", type=int, default=10, help="of each trial of the past")


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)

"""Parts that all benchmark programs share: options, the folder of a run, and printing row by row."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.ground import Ground, popen_loop
from benchmarks.peers.ask import Peers
from benchmarks.report import Row, emit

Arguments = Callable[[argparse.ArgumentParser], None]
Measure = Callable[[Ground, Peers, argparse.Namespace], Iterator[Row]]
LOOP = 160  # bare processes: about a second
QUIET = 0.1  # limit for other processes' share of the machine
NOT_QUIET = "the machine was busy"


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of every program."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--peers", action="store_true", help="have the installed peers do the same")
    made.add_argument("--directory", type=Path, help="where to run; a temporary folder's parent by default")
    return made


def rows(measure: Measure, ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of a program, each with the speed of the machine and its disk just before."""
    loop = popen_loop([str(ground.python), "-c", "pass"], count=LOOP, concurrency=8)
    around: dict[str, float | int | str | None] = {
        "raw_per_s": loop.per_s,
        "fdatasync_ms": ground.fdatasync_ms(),
        "busy_elsewhere": loop.busy_elsewhere,
    }
    for row in measure(ground, peers, options):
        missing = {key: value for key, value in around.items() if key not in row.details}
        made = replace(row, details={**row.details, **missing})
        busy = max(float(made.details.get(key) or 0) for key in ("busy_elsewhere", "busy_beside_us"))
        yield replace(made, note=row.note or NOT_QUIET) if busy > QUIET else made


def main(doc: str | None, arguments: Arguments, measure: Measure) -> None:
    """Run one program. Exit with status 1 if a limit does not hold."""
    options_of = parser(doc)
    arguments(options_of)
    options = options_of.parse_args()
    held = True
    with Ground(options.directory) as ground:
        for row in rows(measure, ground, Peers(ground, wanted=options.peers), options):
            held = emit(row).ok is not False and held
    sys.exit(not held)

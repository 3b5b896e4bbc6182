"""What all benchmark programs share: options, the folder they run in, printing row by row."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.ground import Ground
from benchmarks.peers.ask import Peers
from benchmarks.report import Row, emit

Arguments = Callable[[argparse.ArgumentParser], None]
Measure = Callable[[Ground, Peers, argparse.Namespace], Iterator[Row]]


def parser(doc: str | None) -> argparse.ArgumentParser:
    """With the options that every program has."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--peers", action="store_true", help="have the installed peers do the same")
    made.add_argument("--directory", type=Path, help="where to run; a temporary folder's parent by default")
    return made


def main(doc: str | None, arguments: Arguments, measure: Measure) -> None:
    """Run one program. The exit status is 1 if a limit does not hold."""
    options_of = parser(doc)
    arguments(options_of)
    options = options_of.parse_args()
    held = True
    with Ground(options.directory) as ground:
        for row in measure(ground, Peers(ground, wanted=options.peers), options):
            held = emit(row).ok is not False and held
    sys.exit(not held)

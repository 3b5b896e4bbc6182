"""Quality and cost of the tuners, compared with Optuna's multivariate TPE and NNI 3.0's TPE.

    python -m benchmarks.search [--parts tpe random spread budget cost] [--quick]
        [--results FILE] [--again TPE ...] [--table docs/search.md]

There are seven problems, with 100 trials at concurrency 4 and seeds 0 to 29. d is (our median - theirs) /
Random's interquartile range, so negative is better, with 95 % bootstrap intervals. ``--results`` stores the
runs in a file, and ``--again`` runs some tuners again. Optuna is installed in this environment; NNI is the
peer ``nni`` (``python -m benchmarks.peers.setup nni``).
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks import search_budget, search_cost, search_spread
from benchmarks.report import Better, Row, emit, table
from benchmarks.search_loops import NNI, OPTUNA, NotThere
from benchmarks.search_problems import EASY, PROBLEMS
from benchmarks.search_runs import Runs
from benchmarks.search_statistics import Comparison, compare

SEEDS, TRIALS = 30, 100
QUICK_SEEDS, QUICK_TRIALS = 3, 30
NO_WORSE = 0.1  # limit for the upper end of the interval of d's mean
BETTER_ON = 4  # of the 7 problems
OURS, CHANCE = "TPE", "Random"
BEAT_CHANCE = ("TPE", "GP", "CMAES", "SMAC", "Metis", "Evolution", "Anneal")
LIBRARIES = ("numpy", "scipy", "scikit-learn", "optuna", "cmaes", "smac")


def tpe(runs: Runs) -> Iterator[Row]:
    """Compare our TPE with the others'."""
    for peer, better in ((OPTUNA, False), (NNI, True)):
        try:
            found = compared(runs, peer)
        except NotThere as error:
            yield Row(name=f"TPE against {peer}", value=None, unit="", better=Better.LESS, note=str(error))
            continue
        beside: dict[str, float | int | str | None] = {
            problem.name: str(interval) for problem, interval in zip(PROBLEMS, found.problems, strict=True)
        }
        if better:
            yield Row(
                name=f"problems of {len(PROBLEMS)} on which TPE is better than {peer}",
                value=found.below,
                unit="",
                better=Better.MORE,
                limit=BETTER_ON,
                details={"mean d": str(found.mean), **beside},
            )
        else:
            yield Row(
                name=f"where the interval of the mean of d of TPE against {peer} ends",
                value=found.mean.high,
                unit="",
                better=Better.LESS,
                limit=NO_WORSE,
                details={"mean d": str(found.mean), **beside},
            )
        yield Row(
            name=f"problems on which TPE is worse than {peer}",
            value=found.above,
            unit="",
            better=Better.LESS,
            limit=0,
        )


def compared(runs: Runs, peer: str) -> Comparison:
    """Compare our TPE with a peer on all problems. Raise NotThere."""
    return compare(
        [(runs.best(OURS, each), runs.best(peer, each), runs.best(CHANCE, each)) for each in PROBLEMS]
    )


def against_chance(runs: Runs) -> Iterator[Row]:
    """Compare every tuner with Random."""
    for name in BEAT_CHANCE:
        what = f"problems of {len(EASY)} on which {name} is better than Random"
        try:
            cases = [
                (runs.best(name, each), runs.best(CHANCE, each), runs.best(CHANCE, each)) for each in EASY
            ]
        except NotThere as error:
            yield Row(name=what, value=None, unit="", better=Better.MORE, note=str(error))
            continue
        found = compare(cases)
        yield Row(
            name=what,
            value=found.below,
            unit="",
            better=Better.MORE,
            limit=len(EASY),
            details={each.name: str(d) for each, d in zip(EASY, found.problems, strict=True)},
        )


PARTS: dict[str, Callable[[Runs], Iterator[Row]]] = {
    "tpe": tpe,
    "random": against_chance,
    "spread": search_spread.rows,
    "budget": search_budget.rows,
    "cost": search_cost.rows,
}


def document(found: Sequence[Row], command: str) -> str:
    """Return the page with the figures, how they were measured, and on which machine."""
    return f"""# Search

Made by `{command}` on {datetime.now(UTC):%Y-%m-%d}.
Seven problems, {TRIALS} trials at concurrency 4, seeds 0 to {SEEDS - 1}. d is (our median - theirs) /
Random's interquartile range over the seeds, minimised, so that negative is better; in brackets its 95 %
bootstrap interval. "Better" is an interval that lies below 0, "worse" one above. Costs are CPU of one ask and
one tell.

- Python {platform.python_version()}, {", ".join(_versions())}

{table(found)}"""


def _versions() -> Iterator[str]:
    for name in LIBRARIES:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            continue


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART")
    parser.add_argument("--quick", action="store_true", help="to try the program, not to believe its figures")
    parser.add_argument("--results", type=Path, help="a JSON file that keeps the runs")
    parser.add_argument("--again", nargs="+", default=[], metavar="TUNER", help="whose runs are not believed")
    parser.add_argument("--table", type=Path, help="the Markdown file to write")
    options = parser.parse_args()
    shown = [*(("--quick",) if options.quick else ()), "--table docs/search.md"]
    if options.parts != list(PARTS):
        shown.insert(0, f"--parts {' '.join(options.parts)}")
    trials, seeds = (QUICK_TRIALS, QUICK_SEEDS) if options.quick else (TRIALS, SEEDS)
    found: list[Row] = []
    with Runs(options.results, trials=trials, seeds=seeds) as runs:
        for name in options.again:
            runs.forget(name)
        for part in options.parts:
            for row in PARTS[part](runs):
                found.append(emit(row))
                if options.table is not None:
                    text = document(found, " ".join(("python -m benchmarks.search", *shown)))
                    options.table.write_text(text, encoding="utf-8")
    sys.exit(any(row.ok is False for row in found))


if __name__ == "__main__":
    main()

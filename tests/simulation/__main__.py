"""Run seeds: ``python -m tests.simulation --seeds 0:2000 --jobs 2``; one with its log: ``--seed 7 -v``."""

from __future__ import annotations

import argparse
import sys

from tests.simulation.runs import run, tell


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="one seed")
    parser.add_argument("--seeds", default="0:200", metavar="A:B", help="from A to B - 1")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-v", "--verbose", action="store_true", help="print the whole log of the seed")
    options = parser.parse_args()
    if options.seed is not None:
        return 0 if tell(options.seed, whole=options.verbose) else 1
    first, _, end = options.seeds.partition(":")
    return 0 if run(range(int(first), int(end)), jobs=options.jobs) else 1


if __name__ == "__main__":
    sys.exit(main())

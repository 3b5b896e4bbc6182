"""Attacks a real server with requests made from the description of its API, and reports what it cannot take.

    python -m tests.fuzz --requests 10000 --seed 1

The requests name real experiments, trials and machines, and hold wrong types, empty keys, huge and malformed
texts, numbers without an end, deep nesting, doubled keys, paths that lead elsewhere, wrong content types, and
missing or odd headers. It fails on a status 500, on a request without an answer, on an error of more than
1 MiB, on a traceback in the server's log, and when the server's event loop answers nobody for 200 ms.
``--first N --requests 1`` sends one request of a run again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fuzz.attack import attack
from tests.fuzz.scene import scene


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first request")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nnimgr-fuzz-") as name, scene(Path(name)) as attacked:
        report = attack(attacked, requests=wanted.requests, seed=wanted.seed, first=wanted.first)
        if report.findings:
            sys.stderr.write(attacked.server.said[-20_000:])
    for finding in report.findings:
        sys.stderr.write(f"{finding}\n")
    sys.stdout.write(f"{report}\n")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())

"""Time from the call of ``nnimgr.tune`` to the first report of its first trial.

    python -m benchmarks.tune [--runs 5] [--peers]

It is measured in a new Python process, first without a server and then with the server that the first call
has started. The time includes what ``tune`` imports, and ends when the trial's own code has reported. Beside
it is ``imports_s``, the time of the bare imports of ``benchmarks.startup``, taken in turn.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Iterator

from benchmarks import program
from benchmarks.ground import Ground
from benchmarks.peers.ask import Peers, figures
from benchmarks.report import Better, Row
from benchmarks.startup import imports_s
from tests.e2e.product import Product

COLD_S, WARM_S = 1.0, 0.15
FUNCTION = """
import time

def train(parameters, trial):
    trial.report(parameters["x"])
    with open("reported", "w") as file:
        file.write(str(time.time()))
    return parameters["x"]
"""
PROGRAM = """
import sys, time
from nnimgr import space, tune
began = time.time()
space = {"x": space.uniform(0, 1)}
tune("mine.py:train", space, maximize=True, trials=1, server=int(sys.argv[1]), show="nothing")
with open("reported") as file:
    print(float(file.read()) - began)
"""


def first_report_s(own: Product) -> float:
    """Return the seconds to the first report. The server stays, because its experiment is not stopped."""
    code = own.directory / "code"
    if not code.exists():
        code.mkdir()
        (code / "mine.py").write_text(FUNCTION, encoding="utf-8")
    command = [sys.executable, "-c", PROGRAM, str(own.port)]
    done = subprocess.run(command, env=own.environ, cwd=code, check=True, capture_output=True, text=True)
    return float(done.stdout)


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Measure the seconds without a server, and with one."""
    bare, cold, warm = [], [], []
    for _ in range(options.runs):
        with ground.product("tune") as own:
            bare.append(imports_s())
            cold.append(first_report_s(own))
            warm.append(first_report_s(own))
    theirs = figures(peers.ask("startup"), "seconds")
    for name, found, limit, beside in (
        ("tune to the first report, without a server", cold, COLD_S, theirs),
        ("tune to the first report, with a server", warm, WARM_S, ()),
    ):
        yield Row(
            name=name,
            value=statistics.median(found),
            unit="s",
            better=Better.LESS,
            limit=limit,
            details={
                "least_s": min(found),
                "most_s": max(found),
                "imports_s": statistics.median(bare),
                "runs": options.runs,
            },
            peers=beside,
        )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int, default=5)


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)

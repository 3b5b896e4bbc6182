"""Cost of the trial API for a trial: CPU for importing it, reading the parameters and one report.

    python -m benchmarks.sdk [--runs 50]

The figures are medians above ``python -c pass`` of the same interpreter, measured in turn.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import program
from benchmarks.ground import Ground, plain_environ
from benchmarks.peers.ask import Peers
from benchmarks.report import Better, Row

TRIAL = "import nni; nni.get_next_parameter(); nni.report_intermediate_result(0.5)"
LIMIT_MS = 2.0


def cpu_ms(argv: Sequence[str], environ: Mapping[str, str], *, cwd: Path | None = None) -> float:
    """Return the CPU ms of one process and its children. Raise RuntimeError if it fails."""
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, env=environ, cwd=cwd)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if status:
        raise RuntimeError(f"{argv} ended with {process.returncode}")
    return 1e3 * (used.ru_utime + used.ru_stime)


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Measure the CPU ms beyond a bare interpreter's."""
    python = str(ground.python)
    alone, plain = ground.sdk_environ(), plain_environ()
    cpu_ms([python, "-c", TRIAL], alone)  # writes the compiled modules
    bare, ours = [], []
    for _ in range(options.runs):
        bare.append(cpu_ms([python, "-c", "pass"], plain))
        ours.append(cpu_ms([python, "-c", TRIAL], alone))
    yield Row(
        name="trial API: import, parameters, one report",
        value=statistics.median(ours) - statistics.median(bare),
        unit="ms CPU",
        better=Better.LESS,
        limit=LIMIT_MS,
        details={"runs": options.runs, "python_pass_ms": statistics.median(bare)},
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int, default=50)


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)

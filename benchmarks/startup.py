"""Time from ``nnictl create`` (no server running) to the first trial's process, relative to bare imports.

    python -m benchmarks.startup [--runs 5] [--peers]

It is measured in turn with ``python -c 'import fastapi, uvicorn, sqlalchemy, pydantic, numpy'``. Further
rows: the CPU time of ``nnictl --help`` and the resident memory of an idle server.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks import proc, program
from benchmarks.ground import Ground, Look, create, server_pid
from benchmarks.peers.ask import Peers, figures
from benchmarks.report import Better, Row
from tests.e2e.product import Product

IMPORTS = "import fastapi, uvicorn, sqlalchemy, pydantic, numpy"
RATIO, HELP_MS, IDLE_MIB = 3.0, 120.0, 110.0


def imports_s() -> float:
    before = time.monotonic()
    subprocess.run([sys.executable, "-c", IMPORTS], check=True)
    return time.monotonic() - before


def first_trial_s(own: Product) -> tuple[float, float]:
    """Return (seconds to the first trial's process, idle server's MiB) in a fresh home."""
    stamp = own.directory / "stamp"
    before = time.time()
    experiment = create(
        own, "first", "", trialCommand=f"date +%s.%N > {stamp}", trialConcurrency=1, maxTrialNumber=1
    )
    look = Look(own, experiment)
    look.wait_done(30)
    look.close()
    seconds = float(stamp.read_text(encoding="ascii")) - before
    return seconds, proc.memory_kib(server_pid(own), "VmRSS") / 1024


def help_cpu_ms(own: Product) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    own.nnictl("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Measure the ratio to bare imports, the seconds, the command's CPU, and the server's memory."""
    bare, first, memory, helped = [], [], [], []
    for _ in range(options.runs):
        with ground.product("startup") as own:
            bare.append(imports_s())
            seconds, mib = first_trial_s(own)
            first.append(seconds)
            memory.append(mib)
            helped.append(help_cpu_ms(own))
    yield Row(
        name="nnictl create to the first trial, over bare imports",
        value=statistics.median(a / b for a, b in zip(first, bare, strict=True)),
        unit="",
        better=Better.LESS,
        limit=RATIO,
        details={
            "imports_s": statistics.median(bare),
            "runs": options.runs,
        },
    )
    yield Row(
        name="cold start to the first trial",
        value=statistics.median(first),
        unit="s",
        better=Better.LESS,
        details={"runs": options.runs},
        peers=figures(peers.ask("startup"), "seconds"),
    )
    yield Row(
        name="nnictl --help",
        value=statistics.median(helped),
        unit="ms CPU",
        better=Better.LESS,
        limit=HELP_MS,
        details={"runs": options.runs},
    )
    yield Row(
        name="memory of an idle server",
        value=max(memory),
        unit="MiB",
        better=Better.LESS,
        limit=IDLE_MIB,
        details={"runs": options.runs},
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int, default=5)


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)

"""From ``nnictl create`` (no server running) to the first trial's process, against bare imports.

    python -m benchmarks.startup [--runs 5]

Taken in turn with ``python -c 'import fastapi, uvicorn, sqlalchemy, pydantic, numpy'``. Also: the CPU time of
``nnictl --help`` and the resident memory of an idle server.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.e2e.product import Product, product

IMPORTS = "import fastapi, uvicorn, sqlalchemy, pydantic, numpy"


def imports_s() -> float:
    before = time.monotonic()
    subprocess.run([sys.executable, "-c", IMPORTS], check=True)
    return time.monotonic() - before


def first_trial_s(own: Product, name: str) -> tuple[float, float]:
    """(seconds to the first trial's process, idle server's MiB) of a fresh home."""
    code = own.directory / name
    code.mkdir()
    stamp = code / "stamp"
    config: dict[str, Any] = {
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
        "trialCommand": f"date +%s.%N > {stamp}",
        "trialCodeDirectory": str(code),
        "trialConcurrency": 1,
        "maxTrialNumber": 1,
        "tuner": {"name": "Random"},
    }
    before = time.time()
    experiment = own.create(name, config)
    own.wait(experiment, limit_s=30)
    seconds = float(stamp.read_text()) - before
    memory = resident_mib(own)
    own.nnictl("stop", experiment)
    return seconds, memory


def resident_mib(own: Product) -> float:
    server = json.loads((own.home / ".nnimgr" / f"server-{own.port}.json").read_text())
    pages = int(Path(f"/proc/{server['pid']}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def help_cpu_ms(own: Product) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    own.nnictl("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    bare, first, memory, helped = [], [], [], []
    for number in range(options.runs):
        with product("nnimgr-startup-") as own:
            bare.append(imports_s())
            seconds, mib = first_trial_s(own, f"run{number}")
            first.append(seconds)
            memory.append(mib)
            helped.append(help_cpu_ms(own))
    row = {
        "benchmark": "startup",
        "runs": options.runs,
        "imports_s": round(statistics.median(bare), 3),
        "first_trial_s": round(statistics.median(first), 3),
        "ratio": round(statistics.median(a / b for a, b in zip(first, bare, strict=True)), 2),
        "idle_server_mib": round(max(memory), 1),
        "help_cpu_ms": round(statistics.median(helped), 1),
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main()

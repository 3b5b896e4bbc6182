"""Cost of many open experiments with one sleeping trial each: recovery after kill -9, idle CPU, memory.

    python -m benchmarks.many [--experiments 100] [--seconds 20] [--tuner TPE]

The trials' own processes are not counted. The server is killed and started again; it has recovered once each
experiment is open and its keeper has called. CPU is read from the scheduler's own clock. Memory is the sum of
the proportional shares (PSS) of server, tuners, keepers, spawners and shims.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator

from benchmarks import proc, program
from benchmarks.ground import Ground, Look, create, looks, server_pid
from benchmarks.peers.ask import Peers
from benchmarks.report import Better, Row
from tests.e2e.product import Product
from tests.processes import Process, of_home

BACK_S = 5.0
IDLE_PERCENT = 1.0
MEMORY_GIB = 1.5
SETTLE_S = 15.0  # after the last change; unused tuners are put to rest after 10 s
TRIAL = "sleep 3600"


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Measure memory and CPU of the idle experiments, then the time until they are open again."""
    number, seconds = options.experiments, options.seconds
    with ground.product("many") as own:
        ids = [
            create(
                own,
                f"many-{each}",
                "",
                trialCommand=f"exec {TRIAL}",
                trialConcurrency=1,
                maxTrialNumber=1,
                tuner={"name": options.tuner},
            )
            for each in range(number)
        ]
        for _ in looks(120):
            if all(_running(own, each) for each in ids):
                break
        time.sleep(SETTLE_S)
        yield _memory(own, number)
        yield _cpu(own, number, seconds)
        yield _back(own, ids)


def _running(own: Product, experiment_id: str) -> bool:
    look = Look(own, experiment_id)
    try:
        return bool(look.one("SELECT count(*) FROM trials WHERE status = 'RUNNING'"))
    finally:
        look.close()


def _watched(own: Product) -> list[Process]:
    """Return the product's processes, without the trials."""
    return [process for process in of_home(own.home) if process.command != TRIAL]


def _kind(process: Process) -> str:
    for kind in ("server", "dispatcher", "trial_keeper"):
        if kind in process.command:
            return kind
    return "other"


def _memory(own: Product, number: int) -> Row:
    shares: Counter[str] = Counter()
    for process in _watched(own):
        shares[_kind(process)] += proc.pss_kib(process.pid)
    return Row(
        name=f"memory (PSS) of {number} open experiments",
        value=sum(shares.values()) / (1 << 20),
        unit="GiB",
        better=Better.LESS,
        limit=MEMORY_GIB,
        details={f"{kind}_mib": share / 1024 for kind, share in sorted(shares.items())},
    )


def _cpu(own: Product, number: int, seconds: float) -> Row:
    before = {process.pid: (_kind(process), proc.run_ns(process.pid)) for process in _watched(own)}
    begun = time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - begun
    used: Counter[str] = Counter()
    for pid, (kind, ran) in before.items():
        used[kind] += proc.run_ns(pid) - ran
    return Row(
        name=f"idle CPU of {number} open experiments, share of a core",
        value=sum(used.values()) / 1e7 / passed,
        unit="%",
        better=Better.LESS,
        limit=IDLE_PERCENT,
        details={f"{kind}_percent": ran / 1e7 / passed for kind, ran in sorted(used.items())},
    )


def _back(own: Product, ids: list[str]) -> Row:
    os.kill(server_pid(own), signal.SIGKILL)
    begun = time.monotonic()
    options = ("serve", "--port", str(own.port), "--until-idle")
    command = [sys.executable, "-P", "-m", "nnimgr.server.main", *options]
    with subprocess.Popen(
        command, env=own.environ, cwd=own.home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        waiting = list(ids)
        for _ in looks(120):
            waiting = [each for each in waiting if not _is_back(own, each)]
            if not waiting:
                break
        passed = time.monotonic() - begun
        own.stop_all()
        server.wait()
    return Row(
        name=f"{len(ids)} open experiments are back after kill -9 of the server",
        value=passed,
        unit="s",
        better=Better.LESS,
        limit=BACK_S,
        details={},
    )


def _is_back(own: Product, experiment_id: str) -> bool:
    """Return whether a second server has opened the experiment and its keeper follows that server."""
    return b'"m_epoch":2}' in (own.home / experiment_id / "keeper" / "journal").read_bytes()


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--experiments", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--tuner", default="TPE")


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)

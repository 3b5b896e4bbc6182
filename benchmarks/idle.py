"""Cost of a thousand sleeping trials: the keeper's CPU, and the memory of each trial's shim.

    python -m benchmarks.idle [--trials 1000] [--seconds 30]

CPU is read from the scheduler's own clock, in nanoseconds. Memory is the proportional share (PSS) of each
shim; the trial's own process is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator

from benchmarks import proc, program
from benchmarks.ground import Ground, Look, create, looks, server_pid
from benchmarks.peers.ask import Peers
from benchmarks.report import Better, Row
from tests.processes import processes

KEEPER_MS = 5.0
PSS_MIB = 0.75
SETTLE_S = 3.0  # after the last start


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Measure the keeper's CPU, then the shims' memory."""
    trials, seconds = options.trials, options.seconds
    with ground.product("idle") as own:
        experiment = create(
            own,
            "idle",
            "",
            trialCommand="exec sleep 3600",
            trialConcurrency=trials,
            maxTrialNumber=trials,
        )
        look = Look(own, experiment)
        for _ in looks(120):
            if look.one("SELECT count(*) FROM trials WHERE status = 'RUNNING'") == trials:
                break
        started_s = look.one("SELECT (max(started_at) - min(created_at)) / 1e6 FROM trials")
        keeper, spawner = proc.keepers(str(look.directory))
        look.close()
        time.sleep(SETTLE_S)
        watched = {"keeper": keeper, "spawner": spawner, "server": server_pid(own)}
        before = {name: proc.run_ns(pid) for name, pid in watched.items()}
        begun = time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - begun
        used = {name: (proc.run_ns(pid) - before[name]) / 1e6 / passed for name, pid in watched.items()}
        yield Row(
            name=f"keeper's CPU a second beside {trials} sleeping trials",
            value=used["keeper"],
            unit="ms",
            better=Better.LESS,
            limit=KEEPER_MS,
            details={
                "server_ms": used["server"],
                "spawner_ms": used["spawner"],
                "seconds": seconds,
                "all_started_s": started_s,
            },
        )
        shares = [proc.pss_kib(p.pid) / 1024 for p in processes() if p.parent == spawner]
        if len(shares) != trials:
            raise RuntimeError(f"{len(shares)} shims for {trials} trials")
        yield Row(
            name=f"memory (PSS) of a shim, median of {trials}",
            value=statistics.median(shares),
            unit="MiB",
            better=Better.LESS,
            limit=PSS_MIB,
            details={
                "least": min(shares),
                "most": max(shares),
                "keeper_mib": proc.pss_kib(keeper) / 1024,
                "server_mib": proc.pss_kib(watched["server"]) / 1024,
            },
        )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30.0)


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)

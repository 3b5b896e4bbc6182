"""Trials per second, relative to a bare loop of the same interpreter that does nothing.

    python -m benchmarks.throughput [--trials 600] [--pairs 5] [--concurrency 8 2] [--peers]

A trial reads its parameter, reports one final result and exits; all of this is durable. The rate is from the
first trial's start to DONE. Then each trial must have one SUCCEEDED row and one final metric. It is measured
in turn with ``python -c pass``, started by Popen at the same concurrency, on the same interpreter of a plain
virtual environment. The row is the median of the shares of all pairs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks import proc, program
from benchmarks.ground import Ground, Look, Loop, create, looks, own_cpu_s, popen_loop, server_pid
from benchmarks.peers.ask import Peers, figures
from benchmarks.report import Better, Row
from tests.e2e.product import Product
from tests.processes import processes

TRIAL = """import nni
nni.report_final_result(nni.get_next_parameter()["x"])
"""
LIMITS = {8: 0.5, 2: 0.35}
ALONE = 200  # trials outside an experiment, to measure a trial's own cost


@dataclass(frozen=True, slots=True)
class Parts:
    """CPU ms per trial in the product's processes. ``reaped``: the shim including the trial.

    ``elsewhere``: the share of the machine that other processes used.
    """

    server: float
    tuner: float
    keeper: float
    spawner: float
    reaped: float
    elsewhere: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """CPU seconds used when this number of trials had ended."""

    ended: int
    used: Mapping[str, float]
    own: float
    machine: float
    at: float


class Accounts:
    """Measures the CPU of an experiment's processes from its first ended trial on."""

    def __init__(self, own: Product, directory: str) -> None:
        self._server = server_pid(own)
        self._directory = directory
        self._pids: dict[str, int] = {}
        self._snapshots: list[Snapshot] = []  # the first and the last

    def look(self, ended: int) -> None:
        if ended == 0:
            return
        self._pids = self._pids or self._find()
        if not self._pids:
            return
        used: dict[str, float] = {}
        for name, pid in self._pids.items():
            found = proc.cpu(pid)
            if found is None:
                return
            used[name] = found.own
            if name == "spawner":
                used["reaped"] = found.children
        now = Snapshot(ended, used, own_cpu_s(), proc.machine_cpu_s(), time.monotonic())
        self._snapshots = [*self._snapshots[:1], now]

    def parts(self) -> Parts | None:
        """Return the parts, or None if the experiment ended before two snapshots."""
        if len(self._snapshots) < 2 or self._snapshots[0].ended == self._snapshots[1].ended:
            return None
        first, last = self._snapshots
        used = {name: last.used[name] - first.used[name] for name in last.used}
        others = last.machine - first.machine - (last.own - first.own) - sum(used.values())
        cores = len(os.sched_getaffinity(0))
        return Parts(
            **{name: 1e3 * seconds / (last.ended - first.ended) for name, seconds in used.items()},
            elsewhere=max(0.0, others / (last.at - first.at) / cores),
        )

    def _find(self) -> dict[str, int]:
        """Find the processes: the keeper by its folder, the spawner as its child, the tuner by its log."""
        log = f"{self._directory}/log"
        tuners = [
            process.pid
            for process in processes()
            if "nnimgr.dispatcher" in process.command and proc.folder(process.pid) == log
        ]
        try:
            keeper, spawner = proc.keepers(self._directory)
        except LookupError:
            return {}
        if not tuners:
            return {}
        return {"server": self._server, "keeper": keeper, "spawner": spawner, "tuner": tuners[0]}


def our_rate(
    own: Product,
    name: str,
    *,
    command: str,
    trials: int,
    concurrency: int,
    code: str = TRIAL,
    metrics: int = 1,
    **config: Any,
) -> tuple[float, Parts | None]:
    """Run one experiment and check its rows. Return (trials per second, CPU by part).

    ``code``: the content of ``trial.py``. ``metrics``: number of metrics of each trial, with the final one.
    ``config``: further fields of the configuration.
    """
    experiment = create(
        own,
        name,
        code,
        trialCommand=command,
        trialConcurrency=concurrency,
        maxTrialNumber=trials,
        **config,
    )
    look = Look(own, experiment)
    accounts = Accounts(own, str(look.directory))
    for _ in looks(60 + trials):
        status, succeeded = look.status()
        if status == "DONE":
            break
        accounts.look(succeeded)
    check(look, trials, metrics)
    begun, ended = look.rows("SELECT (SELECT min(started_at) FROM trials), ended_at FROM experiments")[0]
    look.close()
    return 1e6 * trials / (ended - begun), accounts.parts()


def check(look: Look, trials: int, metrics: int = 1) -> None:
    """Raise RuntimeError unless every trial has succeeded with its parameter as its final metric.

    ``metrics``: number of metrics of each trial, with the final one, which comes first in the alphabet.
    """
    rows = look.rows(
        "SELECT t.status, t.parameters, count(m.number), min(m.text), min(m.type) FROM trials t "
        "LEFT JOIN metrics m ON m.trial_id = t.trial_id GROUP BY t.trial_id"
    )
    wrong = [
        row
        for row in rows
        if row[0] != "SUCCEEDED"
        or row[2] != metrics
        or row[4] != "FINAL"
        or row[1].replace(" ", "") != f'{{"x":{row[3]}}}'
    ]
    if len(rows) != trials or wrong:
        raise RuntimeError(f"{len(rows)} of {trials} trials are stored, {len(wrong)} wrong: {wrong[:3]}")


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Yield for each concurrency the share of a bare loop, and the rate beside the peers'."""
    for concurrency in options.concurrency:
        yield from at_concurrency(ground, peers, concurrency, trials=options.trials, pairs=options.pairs)


def at_concurrency(
    ground: Ground, peers: Peers, concurrency: int, *, trials: int, pairs: int
) -> Iterator[Row]:
    """Run the pairs at one concurrency."""
    python = str(ground.python)
    command = f"{python} trial.py"
    disks, ours, raws, alones = [], [], [], []
    parts: list[Parts] = []
    with ground.product(f"throughput{concurrency}") as own:
        our_rate(own, "warm", command=command, trials=3 * concurrency, concurrency=concurrency)
        alone = ["/bin/bash", "-c", f"{python} {own.directory / 'warm' / 'trial.py'}"]
        for number in range(pairs):
            disks.append(ground.fdatasync_ms())
            raws.append(popen_loop([python, "-c", "pass"], count=trials, concurrency=concurrency))
            rate, used = our_rate(
                own, f"pair{number}", command=command, trials=trials, concurrency=concurrency
            )
            ours.append(rate)
            parts += [] if used is None else [used]
            alones.append(
                popen_loop(alone, count=ALONE, concurrency=concurrency, environ=ground.sdk_environ())
            )
    details = {
        "trials": trials,
        "pairs": pairs,
        "raw_per_s": statistics.median(raw.per_s for raw in raws),
        "fdatasync_ms": statistics.median(disks),
        **cpu_details(parts, raws, alones),
    }
    yield Row(
        name=f"no-op trials at concurrency {concurrency}, share of a bare loop",
        value=statistics.median(a / b.per_s for a, b in zip(ours, raws, strict=True)),
        unit="",
        better=Better.MORE,
        limit=LIMITS.get(concurrency),
        details=details,
    )
    yield Row(
        name=f"no-op trials a second at concurrency {concurrency}",
        value=statistics.median(ours),
        unit="per s",
        better=Better.MORE,
        details={key: details[key] for key in ("raw_per_s", "fdatasync_ms", "busy_elsewhere")},
        peers=figures(peers.ask("noop", concurrency=concurrency), "per_s"),
    )


def cpu_details(parts: list[Parts], raws: list[Loop], alones: list[Loop]) -> dict[str, float]:
    """Return the median CPU ms per trial by part. The shim's is the reaped CPU without the trial's own."""

    def middle(name: str) -> float:
        return float(statistics.median(getattr(part, name) for part in parts))

    trial = statistics.median(alone.child_ms for alone in alones)
    found: dict[str, float] = {}
    if parts:
        for name in ("server", "tuner", "keeper", "spawner"):
            found[f"{name}_ms"] = middle(name)
        found["shim_ms"] = middle("reaped") - trial
        found["busy_beside_us"] = middle("elsewhere")
    return {
        **found,
        "bash_python_sdk_ms": trial,
        "python_pass_ms": statistics.median(raw.child_ms for raw in raws),
        "busy_elsewhere": statistics.median(raw.busy_elsewhere for raw in raws),
    }


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=600)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[8, 2])


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)

"""Trials in the cluster that KUBECONFIG names, compared with bare Jobs that kubectl creates there.

    python -m benchmarks.kubernetes [--parts own shared kill] [--trials 60] [--pairs 3] [--concurrency 8]

``own``: trials with a pod each, from the request that creates the experiment to DONE. They are compared, in
turn, with the same number of bare Jobs of the same image and parallelism that run a Python file without an
SDK. The requests of our user are those that the API server has counted.
``shared``: the same with ``reuseMode``, in trials per second.
``kill``: kill -9 of the server in the middle, and a new server. The stored rows and the pods are checked.

Requirements: ``kubectl`` with permission to create a namespace, a Role and a FlowSchema; an image with
``python3`` (NNIMGR_BENCHMARK_IMAGE); and pods that reach this machine at the node's address (else
NNIMGR_BENCHMARK_MANAGER_IP).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks import program
from benchmarks.cluster import IMAGE, Bench, NoCluster, Requests
from benchmarks.ground import Ground, Look, create, looks, server_pid
from benchmarks.peers.ask import Peers
from benchmarks.report import Better, Row, rates_row
from benchmarks.throughput import check
from tests.e2e.product import Product

PARTS = ("own", "shared", "kill")
TRIAL = """import nni
nni.report_final_result(nni.get_next_parameter()["x"])
"""
BARE = "print(0.5)\n"  # the same result, without a report
PER_TRIAL_S = 10.0  # limit per trial
OPEN_WATCHES = 3  # watches that are still open, which count only at their end


@dataclass(frozen=True, slots=True)
class Turn:
    """Result of one experiment. ``seconds``: from its creation to DONE."""

    seconds: float
    requests: Requests


class Field:
    """Our server, a cluster, and the sizes of the runs."""

    def __init__(self, own: Product, bench: Bench, options: argparse.Namespace) -> None:
        self.own, self.bench = own, bench
        self.trials: int = options.trials
        self.concurrency: int = options.concurrency

    def create(self, name: str, *, trials: int, **service: Any) -> str:
        return create(
            self.own,
            name,
            TRIAL,
            trialCommand="python3 trial.py",
            trialConcurrency=self.concurrency,
            maxTrialNumber=trials,
            nniManagerIp=self.bench.address,
            trainingService={
                "platform": "kubernetes",
                "image": IMAGE,
                "imagePullPolicy": "IfNotPresent",
                "namespace": self.bench.namespace,
                "kubeconfig": str(self.bench.kubeconfig),
                **service,
            },
        )

    def run(self, name: str, *, trials: int, **service: Any) -> Turn:
        """Run one experiment and check it row by row. Leave nothing of it in the cluster."""
        before = self.bench.requests()
        experiment = self.create(name, trials=trials, **service)
        look = Look(self.own, experiment)
        look.wait_done(60 + PER_TRIAL_S * trials)
        check(look, trials)
        [(made, ended)] = look.rows("SELECT created_at, ended_at FROM experiments")
        look.close()
        asked = self.bench.requests().since(before)
        self.own.nnictl("stop", experiment)
        self.bench.remove_jobs()
        return Turn((ended - made) / 1e6, asked)

    def bare(self, name: str) -> float:
        """Return the seconds for the same number of bare Jobs."""
        seconds = self.bench.bare(name, BARE, jobs=self.trials, parallelism=self.concurrency)
        self.bench.remove_jobs()
        return seconds


@contextlib.contextmanager
def _field(ground: Ground, options: argparse.Namespace) -> Iterator[Field]:
    """Yield a field with a running server and an image that the node has pulled."""
    with Bench(ground.folder("cluster")) as bench, ground.product("kubernetes") as own:
        found = Field(own, bench, options)
        found.run("warm", trials=options.concurrency)
        yield found


def own(ground: Ground, field: Field, options: argparse.Namespace) -> Iterator[Row]:
    turns, bares = [], []
    for number in range(options.pairs):
        bares.append(field.bare(f"bare{number}"))
        turns.append(field.run(f"own{number}", trials=field.trials))
    yield Row(
        name=f"{field.trials} trials with a pod each at concurrency {field.concurrency}, over bare Jobs",
        value=statistics.median(turn.seconds / bare for turn, bare in zip(turns, bares, strict=True)),
        unit="",
        better=Better.LESS,
        limit=1.5,
        details={
            "pairs": options.pairs,
            "ours_s": statistics.median(turn.seconds for turn in turns),
            "bare_s": statistics.median(bares),
        },
    )
    yield _requests_row("with a pod each", [turn.requests for turn in turns], field.trials)


def shared(ground: Ground, field: Field, options: argparse.Namespace) -> Iterator[Row]:
    turns, bares = [], []
    for number in range(options.pairs):
        bares.append(field.bare(f"beside{number}"))
        turns.append(field.run(f"shared{number}", trials=options.shared, reuseMode=True))
    rates = {
        "ours": [options.shared / turn.seconds for turn in turns],
        "bare": [field.trials / seconds for seconds in bares],
    }
    yield rates_row(
        f"trials a second with reuseMode at concurrency {field.concurrency}, over bare Jobs",
        rates,
        limit=5,
        details={"trials": options.shared},
    )
    yield _requests_row("with reuseMode", [turn.requests for turn in turns], options.shared)


def _requests_row(what: str, asked: list[Requests], trials: int) -> Row:
    """Build the row of requests.

    Watches are those of all JSON clients, so they are an upper limit of ours.
    """
    counts = [each.own + each.watches + OPEN_WATCHES for each in asked]
    details: dict[str, float | int | str | None] = {
        f"{verb}_{kind}".lower(): statistics.median(each.json.get((verb, kind), 0) for each in asked)
        for verb, kind in sorted({what for each in asked for what in each.json})
    }
    return Row(
        name=f"requests per trial {what}",
        value=statistics.median(counts) / trials,
        unit="",
        better=Better.LESS,
        limit=4,
        details={"our_user": statistics.median(each.own for each in asked), **details},
    )


def kill(ground: Ground, field: Field, options: argparse.Namespace) -> Iterator[Row]:
    experiment = field.create("kill", trials=field.trials)
    look = Look(field.own, experiment)
    limit_s = 60 + PER_TRIAL_S * field.trials
    for _ in looks(limit_s):
        if look.status()[1] >= field.trials // 3:
            break
    running = look.one("SELECT count(*) FROM jobs WHERE ended_at IS NULL")
    pid = server_pid(field.own)
    os.kill(pid, signal.SIGKILL)
    command = [sys.executable, "-m", "nnimgr.server.main", "serve", "--port", str(field.own.port)]
    again = subprocess.Popen(
        [*command, "--until-idle"],
        env=field.own.environ,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    look.wait_done(limit_s)
    check(look, field.trials)
    attempts = look.one("SELECT max(attempt) FROM jobs")
    look.close()
    pods = field.bench.pods()
    restarts = sum(
        each["restartCount"] for pod in pods for each in pod["status"].get("containerStatuses", [])
    )
    field.own.nnictl("stop", experiment)
    again.wait()
    field.bench.remove_jobs()
    yield Row(
        name="trials run twice, with the server killed and started again in the middle, every row compared",
        value=float(len(pods) - field.trials + attempts - 1 + restarts),
        unit="",
        better=Better.LESS,
        limit=0,
        details={"trials": field.trials, "pods": len(pods), "open_at_the_kill": running},
    )


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    parts = {"own": own, "shared": shared, "kill": kill}
    try:
        with _field(ground, options) as field:
            for name in options.parts:
                yield from parts[name](ground, field, options)
    except NoCluster as error:
        yield Row(name="kubernetes", value=None, unit="", better=Better.MORE, note=str(error))


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--trials", type=int, default=60, help="with a pod each, and bare Jobs")
    parser.add_argument("--shared", type=int, default=300, help="trials with reuseMode")
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--pairs", type=int, default=3)


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)

"""What a generation of population based training costs.

    python -m benchmarks.populations [--members 8] [--steps 20] [--size 1048576]

Each member saves a checkpoint of 1 MiB with its result in each step, and does nothing else. After each step,
all members are paused, compared and continued, and the worst ones continue from a checkpoint of the best.
A generation is what lies between two comparisons. A member may take further steps before it is paused, so
there are fewer generations than steps. The time goes from the first stored result to the end of the
experiment. The CPU is that of the server, the keeper and its spawner in this time, divided by the number of
times that a trial was paused and continued. For this, another population sleeps after each step, so that a
pause comes after one save.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from benchmarks import proc, program
from benchmarks.ground import Ground, Look, create, looks, server_pid
from benchmarks.peers.ask import Peers, figures
from benchmarks.report import Better, Row
from tests.e2e.product import Product

TRIAL = """
import os, time
import nni

parameters = nni.get_next_parameter()
state = nni.load_checkpoint()
step = 0 if state is None else int.from_bytes(state[:8], "big")
body = os.urandom(int(os.environ["BENCH_SIZE"]))
while step < int(os.environ["BENCH_STEPS"]):
    step += 1
    nni.save_checkpoint(step.to_bytes(8, "big") + body[8:], step=step, metric=parameters["x"] * step)
    time.sleep(float(os.environ["BENCH_SLEEP"]))
nni.report_final_result(parameters["x"])
"""
SECONDS = {8: 0.2, 2: 0.4}  # limits for a generation, by the number of slots
CPU_MS = 6.0  # limit for a pause with its continuation
SLEEP_S = 1.0  # longer than a pause takes
LIMIT_S = 300.0
_SPAN = "SELECT (SELECT max(ended_at) FROM trials) - min(at) FROM metrics WHERE type = 'PERIODICAL'"


def run(
    own: Product, name: str, *, slots: int, sleep_s: float, command: str, options: argparse.Namespace
) -> dict[str, Any]:
    """Run one population, whose members sleep after each step.

    Return the seconds of a generation, the number of generations and legs, and the CPU in ms of a pause with
    its continuation, in all and by process.
    """
    own.environ |= {
        "BENCH_SIZE": str(options.size),
        "BENCH_STEPS": str(options.steps),
        "BENCH_SLEEP": str(sleep_s),
    }
    arguments = {
        "perturbation_interval": 1,
        "synchronous": True,
        "population_size": options.members,
        "quantile_fraction": 0.25,
    }
    experiment = create(
        own,
        name,
        TRIAL,
        trialCommand=command,
        trialConcurrency=slots,
        maxTrialNumber=options.members,
        goal="maximize",
        scheduler={"name": "PBT", "classArgs": arguments},
    )
    look = Look(own, experiment)
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    try:
        for _ in looks(LIMIT_S):
            if look.one("SELECT count(*) FROM metrics"):
                last = _used_ms(own, look) or last
                first = first or last
            if look.status()[0] == "DONE":
                break
        seconds = look.one(_SPAN) / 1e6
        succeeded = look.one("SELECT count(*) FROM trials WHERE status = 'SUCCEEDED'")
        if succeeded != options.members:
            raise RuntimeError(f"{succeeded} of {options.members} trials succeeded")
        attempts = look.one("SELECT count(*) FROM jobs")
        shares = {name: (last[name] - first[name]) / (attempts - options.members) for name in last}
        return {
            "cpu_ms": sum(shares.values()),
            **shares,
            "seconds": seconds * options.members / attempts,
            "generations": attempts / options.members,
            "legs": look.one("SELECT count(*) FROM legs"),
        }
    finally:
        look.close()


def _used_ms(own: Product, look: Look) -> dict[str, float]:
    """Return the CPU that the server, the keeper and the spawner have used, if they run."""
    try:
        keeper, spawner = proc.keepers(str(look.directory))
        pids = {"server_ms": server_pid(own), "keeper_ms": keeper, "spawner_ms": spawner}
        return {name: proc.run_ns(pid) / 1e6 for name, pid in pids.items()}
    except (OSError, LookupError):
        return {}


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Measure with a slot for each member, then with two slots."""
    command = f"{ground.python} trial.py"
    with ground.product("populations") as own:
        for slots, limit in SECONDS.items():
            found = run(own, f"slots{slots}", slots=slots, sleep_s=0, command=command, options=options)
            answers = peers.ask(
                "population",
                of=("ray",),
                members=options.members,
                steps=options.steps,
                concurrency=slots,
                size=options.size,
            )
            yield Row(
                name=f"generation of a population of {options.members} on {slots} slots",
                value=found.pop("seconds"),
                unit="s",
                better=Better.LESS,
                limit=limit,
                details={**found, "bytes": options.size, "fdatasync_ms": ground.fdatasync_ms()},
                peers=figures(answers, "seconds"),
            )
            found = run(own, f"cpu{slots}", slots=slots, sleep_s=SLEEP_S, command=command, options=options)
            yield Row(
                name=f"CPU of a pause with its continuation in a population on {slots} slots",
                value=found.pop("cpu_ms"),
                unit="ms",
                better=Better.LESS,
                limit=CPU_MS,
                details={**found, "bytes": options.size, "fdatasync_ms": ground.fdatasync_ms()},
                peers=figures(answers, "cpu_ms"),
            )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--members", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20, help="of each member")
    parser.add_argument("--size", type=int, default=1 << 20, help="bytes of each checkpoint")


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)

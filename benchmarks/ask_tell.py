"""What asking for a trial and telling its result costs, in a program that runs its trials itself.

    python -m benchmarks.ask_tell [--trials 200] [--pairs 2000] [--batch 50] [--runs 3]

The objective is a sphere with two parameters, and costs nothing. All results are durable. First a study of
``--trials`` trials with TPE, one after the other, as Optuna's users write it; then as many asks and tells as
possible with random search, one after the other and in batches. The study exists before the time starts, and
has had one trial. Each figure is the median of ``--runs`` studies.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from benchmarks import program
from benchmarks.ground import Ground
from benchmarks.peers.ask import Peers, figures
from benchmarks.report import Better, Figure, Row
from tests.e2e.product import Product

STUDY = """
import json, sys, time
from nnimgr import Study, space

order = json.loads(sys.argv[1])
study = Study(
    {"x": space.uniform(-5, 5), "y": space.uniform(-5, 5)},
    minimize=True, tuner=order["tuner"], server=order["port"],
)

def sphere(params):
    return params["x"] ** 2 + params["y"] ** 2

study.optimize(sphere, trials=1)
begun = time.perf_counter()
if order["batch"] == 1:
    study.optimize(sphere, trials=order["trials"])
else:
    done, trials = 0, study.ask(order["batch"])
    while trials:
        done += len(trials)
        more = min(order["batch"], order["trials"] - done)
        trials = study.tell(trials, [sphere(trial.params) for trial in trials], ask=more)
seconds = time.perf_counter() - begun
assert len(study.results) == order["trials"] + 1
study.stop()
print(json.dumps(seconds))
"""
PAIRS_PER_S = 500  # limit for batches
PEERS = ("optuna",)


def run(own: Product, **order: Any) -> float:
    """Run one study in a program of its own, and return its seconds."""
    command = [sys.executable, "-c", STUDY, json.dumps({**order, "port": own.port})]
    done = subprocess.run(command, env=own.environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-300:])
    return float(json.loads(done.stdout.splitlines()[-1]))


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Measure the study with TPE, then asks and tells with random search."""
    with ground.product("ask_tell") as own:
        ours, theirs = [], []
        for _ in range(options.runs):  # in turn with the peer
            ours.append(run(own, tuner="TPE", trials=options.trials, batch=1))
            theirs.append(peers.ask("study", of=PEERS, trials=options.trials, sampler="TPE"))
        found = _medians([figures(answers, "seconds") for answers in theirs])
        seconds = statistics.median(ours)
        details = {"runs": options.runs, "fdatasync_ms": ground.fdatasync_ms()}
        yield Row(
            name=f"study of {options.trials} trials with TPE, one after the other",
            value=seconds,
            unit="s",
            better=Better.LESS,
            details=details,
            peers=found,
        )
        journal = next((figure.value for figure in found if "journal" in figure.peer), None)
        if journal is not None:
            yield Row(
                name="the same study, over Optuna with its journal",
                value=seconds / journal,
                unit="",
                better=Better.LESS,
                limit=1.0,
                details=details,
            )
        for batch in (1, options.batch):
            pairs = options.pairs if batch > 1 else options.trials
            took = [run(own, tuner="Random", trials=pairs, batch=batch) for _ in range(options.runs)]
            answers = peers.ask("study", of=PEERS, trials=options.trials, sampler="Random")
            how = "one after the other" if batch == 1 else f"in batches of {batch}"
            yield Row(
                name=f"asks and tells a second with random search, {how}",
                value=pairs / statistics.median(took),
                unit="per s",
                better=Better.MORE,
                limit=PAIRS_PER_S if batch > 1 else None,
                details={**details, "pairs": pairs},
                peers=figures(answers, "per_s"),
            )


def _medians(runs: list[tuple[Figure, ...]]) -> tuple[Figure, ...]:
    """Return for each peer the median of its figures. A peer without a figure in a run has none."""
    found = []
    for same in zip(*runs, strict=True):
        values = [figure.value for figure in same if figure.value is not None]
        median = statistics.median(values) if len(values) == len(same) else None
        found.append(Figure(same[0].peer, median, same[0].note))
    return tuple(found)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=200, help="of a study whose trials follow each other")
    parser.add_argument("--pairs", type=int, default=2000, help="asks and tells in batches")
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--runs", type=int, default=3)


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)

"""Final scores of population based training, beside those of Ray Tune with the same settings.

    python -m benchmarks.population_scores --peers [--seeds 20] [--members 8] [--interval 2]

Both sides train the tasks of ``peers/population_tasks.py``. The score of a run is the best last score of its
members. The value of a row is the probability of our scores, or worse ones, if both sides were equally good
(one-sided rank test by Mann and Whitney).
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import program
from benchmarks.ground import Ground, Look, create
from benchmarks.peers import population_tasks
from benchmarks.peers.ask import Peers
from benchmarks.peers.population_tasks import TASKS
from benchmarks.report import Better, Figure, Row
from tests.e2e.product import Product

LEAST = 0.05
LIMIT_S = 120.0
RAY_LIMIT_S = 1800.0
CODE = """
from population_tasks import TASKS


class Member:
    steps = STEPS

    def setup(self, parameters):
        self.task = TASKS["NAME"](parameters)

    def step(self):
        return self.task.step()

    def save(self):
        return self.task.save()

    def load(self, state):
        self.task.load(state)
"""
_BEST = "SELECT max(final_value) FROM trials WHERE status = 'SUCCEEDED'"
_COUNT = "SELECT count(*) FROM trials WHERE status = 'SUCCEEDED'"


def score(own: Product, task: str, seed: int, options: argparse.Namespace) -> float:
    """Return the best final score of one of our runs."""
    name = f"{task}{seed}"
    code = own.directory / name
    code.mkdir()
    (code / "member.py").write_text(CODE.replace("STEPS", str(TASKS[task].steps)).replace("NAME", task))
    (code / "population_tasks.py").write_text(Path(population_tasks.__file__).read_text())
    space = {
        key: {"_type": "loguniform", "_value": [low, high]} for key, (low, high) in TASKS[task].SPACE.items()
    }
    experiment = create(
        own,
        name,
        "",
        searchSpace=space,
        tuner={"name": "Random", "classArgs": {"seed": seed}},
        trialCommand=f"{sys.executable} -m nni.run member.py:Member",
        trialConcurrency=options.members,
        maxTrialNumber=options.members,
        goal="maximize",
        scheduler={"name": "PBT", "classArgs": {"perturbation_interval": options.interval, "seed": seed}},
        preload=["numpy"],
    )
    look = Look(own, experiment)
    try:
        look.wait_done(LIMIT_S)
        if (succeeded := look.one(_COUNT)) != options.members:
            raise RuntimeError(f"{succeeded} of {options.members} trials succeeded")
        return float(look.one(_BEST))
    finally:
        look.close()


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Measure each task."""
    from scipy.stats import mannwhitneyu

    for task in TASKS:
        with ground.product(task) as own:
            ours = [score(own, task, seed, options) for seed in range(options.seeds)]
        answers = peers.ask(
            "scores",
            of=("ray",),
            limit_s=RAY_LIMIT_S,
            task=task,
            seeds=options.seeds,
            members=options.members,
            interval=options.interval,
            concurrency=options.members,
        )
        theirs = [list(answer.values.values()) for answer in answers]
        found = theirs[0] if theirs else []
        yield Row(
            name=f"{task}, {options.seeds} seeds: probability of our scores if both sides were equally good",
            value=float(mannwhitneyu(ours, found, alternative="less").pvalue) if found else None,
            unit="",
            better=Better.MORE,
            limit=LEAST,
            details={"median": statistics.median(ours), "least": min(ours), "most": max(ours)},
            peers=[
                Figure(f"{a.peer}, median", statistics.median(f) if f else None, a.note)
                for a, f in zip(answers, theirs, strict=True)
            ],
        )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--members", type=int, default=8)
    parser.add_argument("--interval", type=int, default=2, help="steps between two comparisons of a member")


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)

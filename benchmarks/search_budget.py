"""Benefit of early stopping: epochs until ASHA and Hyperband reach the result of Random with full budget.

The training of a network for up to 81 epochs is simulated, with four trainings at a time. A trial gets its
epochs as ``TRIAL_BUDGET`` and is trained from the start, so all of its epochs count.
"""

from __future__ import annotations

import heapq
import json
import math
import statistics
from collections.abc import Iterator
from random import Random
from typing import Any

from benchmarks.report import Better, Row
from benchmarks.search_loops import NotThere, Own, tuner
from benchmarks.search_problems import Parameters, SearchSpace
from benchmarks.search_runs import CONCURRENCY, Runs
from benchmarks.search_statistics import median
from nnimgr.algorithm import Tuner

MOST = 81  # epochs of one trial
TRIALS, QUICK_TRIALS = 100, 20  # of Random, each with all epochs
SHARE = 1 / 3
ADVISORS: dict[str, dict[str, Any]] = {
    "ASHA": {"max_budget": MOST, "min_budget": 1, "eta": 3},
    "Hyperband": {"R": MOST, "eta": 3},
}
BUDGET = "TRIAL_BUDGET"
SPACE: SearchSpace = {
    "lr": {"_type": "loguniform", "_value": [1e-4, 1]},
    "decay": {"_type": "loguniform", "_value": [1e-6, 1e-1]},
    "width": {"_type": "randint", "_value": [8, 129]},
    "dropout": {"_type": "uniform", "_value": [0, 0.8]},
    "optimizer": {"_type": "choice", "_value": ["sgd", "adam", "rmsprop"]},
}


def loss(parameters: Parameters, epochs: float) -> float:
    """Return the loss after this number of epochs.

    Small learning rates are slow, and large ones end with a higher loss. Reports are noisy.
    """
    rate, decay = math.log10(parameters["lr"]), math.log10(parameters["decay"])
    best = {"sgd": -1.0, "adam": -2.5, "rmsprop": -2.2}[parameters["optimizer"]]
    end = 0.1 + 0.12 * (rate - best) ** 2 + 0.03 * (decay + 4) ** 2 + 0.4 * (parameters["dropout"] - 0.2) ** 2
    end += 0.1 * (math.log2(parameters["width"] / 64)) ** 2
    speed = min(1.0, max(0.04, 0.5 * 10 ** (0.5 * (rate - best))))
    noise = Random(json.dumps([dict(sorted(parameters.items())), epochs])).gauss(0, 0.05 / math.sqrt(epochs))
    return float(end + 2.0 * (1 + epochs) ** -(0.5 + speed) + noise)


def rows(runs: Runs) -> Iterator[Row]:
    """Yield the epochs of each advisor, as a share of Random's."""
    trials = TRIALS if runs.seeds > 3 else QUICK_TRIALS
    target = statistics.median(best_of_chance(seed, trials) for seed in range(runs.seeds))
    for name, arguments in ADVISORS.items():
        what = f"epochs of {name} until it has the best of Random's {trials} full trials, over Random's"
        try:
            shares = [
                epochs_to(tuner(name, seed, **arguments), target, most=2 * trials * MOST) / (trials * MOST)
                for seed in range(runs.seeds)
            ]
        except NotThere as error:
            yield Row(name=what, value=None, unit="", better=Better.LESS, note=str(error))
            continue
        yield Row(
            name=what,
            value=statistics.median(shares),
            unit="",
            better=Better.LESS,
            limit=SHARE,
            details={"share": str(median(shares)), "seeds": runs.seeds, "epochs of a trial": MOST},
        )


def best_of_chance(seed: int, trials: int) -> float:
    """Return the best loss of this number of fully trained trials of Random."""
    chance = Own("Random", SPACE, seed)
    return min(loss(chance.ask(number), MOST) for number in range(trials))


def epochs_to(advisor: Tuner, target: float, *, most: int) -> int:
    """Return the epochs until a fully trained trial reaches the target, at most ``most``."""
    advisor.update_search_space(SPACE)
    running: list[tuple[int, int, dict[str, Any]]] = []  # end, parameter id, parameters
    ids = iter(range(2 * most))
    now, trained = 0, 0

    def start(parameter_id: int, parameters: Any) -> None:
        own = json.loads(json.dumps(parameters))
        heapq.heappush(running, (now + int(own[BUDGET]), parameter_id, own))

    def ask(count: int) -> None:
        wanted = [next(ids) for _ in range(count)]
        given = advisor.generate_multiple_parameters(wanted, st_callback=start)
        for parameter_id, parameters in zip(wanted, given, strict=False):
            start(parameter_id, parameters)

    ask(CONCURRENCY)
    while running and trained < most:
        now, parameter_id, parameters = heapq.heappop(running)
        epochs = int(parameters[BUDGET])
        trained += epochs
        settings = {name: value for name, value in parameters.items() if name in SPACE}
        reached = loss(settings, epochs)
        if epochs >= MOST and reached <= target:
            break
        advisor.receive_trial_result(parameter_id, parameters, reached)
        advisor.trial_end(parameter_id, True)
        ask(1)
    return trained

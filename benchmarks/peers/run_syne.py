"""Measurements of Syne Tune in its own interpreter: ``run_syne.py KIND ORDER``. See ``ask``.

It polls its trials: ten times per second here, and every five seconds by default.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from syne_tune import StoppingCriterion, Tuner  # type: ignore[import-not-found]
from syne_tune.backend import LocalBackend  # type: ignore[import-not-found]
from syne_tune.config_space import uniform  # type: ignore[import-not-found]
from syne_tune.optimizer.baselines import RandomSearch  # type: ignore[import-not-found]
from syne_tune.tuner_callback import TunerCallback  # type: ignore[import-not-found]

LOOK_S = 0.1
TRIAL = """import time
began = time.time()
from argparse import ArgumentParser
from syne_tune import Reporter
parser = ArgumentParser()
for name in ("x", "reports", "pause"):
    parser.add_argument("--" + name, type=float)
given, _ = parser.parse_known_args()
report = Reporter()
first = time.time()
for number in range(int(given.reports) + 1):
    report(score=given.x, epoch=number + 1, at=time.time(), began=began, first=first)
    time.sleep(given.pause)
"""


class Seen(TunerCallback):  # type: ignore[misc]
    """Callback that records every result, when it was seen and reported, and the trial's first line."""

    def __init__(self) -> None:
        self.results: list[tuple[float, float, float, float]] = []

    def on_trial_result(self, trial: Any, status: str, result: dict[str, Any], decision: str) -> None:
        self.results.append((time.time(), result["at"], result["began"], result["first"]))


def run(
    order: dict[str, Any], *, trials: int, concurrency: int, reports: int = 0, pause: float = 0.0
) -> tuple[list[tuple[float, float, float, float]], int, float]:
    """Return all results as seen, the number of completed trials, and the moment of the end."""
    os.environ["SYNETUNE_FOLDER"] = order["folder"]
    path = os.path.join(order["folder"], "trial.py")
    with open(path, "w") as file:
        file.write(TRIAL)
    seen = Seen()
    tuner = Tuner(
        trial_backend=LocalBackend(entry_point=path, rotate_gpus=False),
        scheduler=RandomSearch({"x": uniform(0, 1), "reports": reports, "pause": pause}, metrics=["score"]),
        stop_criterion=StoppingCriterion(max_num_trials_completed=trials),
        n_workers=concurrency,
        sleep_time=LOOK_S,
        save_tuner=False,
        callbacks=[seen],
        print_update_interval=1e9,
    )
    tuner.run()
    return seen.results, tuner.tuning_status.num_trials_completed, time.time()


def noop(order: dict[str, Any]) -> dict[str, float]:
    results, completed, ended = run(order, trials=order["trials"], concurrency=order["concurrency"])
    return {"per_s": completed / (ended - min(result[2] for result in results))}


def stream(order: dict[str, Any]) -> dict[str, float]:
    trials, reports = order["trials"], order["reports"]
    results, _, _ = run(order, trials=trials, concurrency=trials, reports=reports)
    seconds = max(result[0] for result in results) - min(result[3] for result in results)
    return {"per_s": len(results) / seconds}


def latency(order: dict[str, Any]) -> dict[str, float]:
    results, _, _ = run(order, trials=2, concurrency=2, reports=order["reports"], pause=order["pause"])
    ages = sorted(1e3 * (result[0] - result[1]) for result in results)
    return {"p50": ages[len(ages) // 2], "p99": ages[min(len(ages) - 1, int(0.99 * len(ages)))]}


def startup(order: dict[str, Any]) -> dict[str, float]:
    results, _, _ = run(order, trials=1, concurrency=1)
    return {"seconds": min(result[2] for result in results) - order["began"]}


def main() -> None:
    order = json.loads(sys.argv[2])
    work = {"noop": noop, "stream": stream, "latency": latency, "startup": startup}[sys.argv[1]]
    with open(order["answer"], "w") as file:
        json.dump([{"values": work(order)}], file)


if __name__ == "__main__":
    main()

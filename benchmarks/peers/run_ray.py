"""Measurements of Ray Tune in its own interpreter: ``run_ray.py KIND ORDER``. See ``ask``."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray  # type: ignore[import-not-found]
from population_tasks import TASKS  # type: ignore[import-not-found]
from ray import tune
from ray.tune.schedulers import FIFOScheduler, PopulationBasedTraining  # type: ignore[import-not-found]

CPUS = 2


def trainable(config: dict[str, Any]) -> None:
    first = time.time()
    for _ in range(config["reports"]):
        tune.report({"score": config["x"], "at": time.time(), "first": first})
        time.sleep(config["pause"])
    tune.report({"score": config["x"], "at": time.time(), "first": first})


class Judge(FIFOScheduler):  # type: ignore[misc]
    """Scheduler that stops no trial, and records the time of each possible decision."""

    def __init__(self) -> None:
        super().__init__()
        self.ages: list[float] = []
        self.firsts: list[float] = []
        self.last = 0.0

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> Any:
        self.last = time.time()
        self.ages.append(1e3 * (self.last - result["at"]))
        self.firsts.append(result["first"])
        return super().on_trial_result(tune_controller, trial, result)


def run(
    order: dict[str, Any], *, trials: int, concurrency: int, reports: int = 0, pause: float = 0
) -> tuple[Judge, float]:
    """Run one experiment with reused workers. Return the scheduler and the moment of the end."""
    judge = Judge()
    results = tune.Tuner(
        tune.with_resources(trainable, {"cpu": CPUS / concurrency}),
        param_space={"x": tune.uniform(0, 1), "reports": reports, "pause": pause},
        tune_config=tune.TuneConfig(
            num_samples=trials, max_concurrent_trials=concurrency, reuse_actors=True, scheduler=judge
        ),
        run_config=tune.RunConfig(storage_path=os.path.join(order["folder"], "results"), verbose=0),
    ).fit()
    ended = time.time()
    if results.num_errors or len(results) != trials:
        raise RuntimeError(f"{results.num_errors} of {trials} trials failed")
    return judge, ended


def noop(order: dict[str, Any]) -> dict[str, float]:
    judge, ended = run(order, trials=order["trials"], concurrency=order["concurrency"])
    return {"per_s": order["trials"] / (ended - min(judge.firsts))}


def stream(order: dict[str, Any]) -> dict[str, float]:
    trials, reports = order["trials"], order["reports"]
    judge, _ = run(order, trials=trials, concurrency=trials, reports=reports)
    return {"per_s": len(judge.ages) / (judge.last - min(judge.firsts))}


def latency(order: dict[str, Any]) -> dict[str, float]:
    judge, _ = run(order, trials=2, concurrency=2, reports=order["reports"], pause=order["pause"])
    ages = sorted(judge.ages)
    return {"p50": ages[len(ages) // 2], "p99": ages[min(len(ages) - 1, int(0.99 * len(ages)))]}


class Member(tune.Trainable):  # type: ignore[misc]
    """Member of a population that saves its state in each step, and does nothing else."""

    def setup(self, config: dict[str, Any]) -> None:
        self.steps, self.body = 0, os.urandom(config["size"])

    def step(self) -> dict[str, Any]:
        self.steps += 1
        return {"score": self.config["x"] * self.steps, "at": time.time()}

    def save_checkpoint(self, folder: str) -> None:
        with open(os.path.join(folder, "body"), "wb") as file:
            file.write(self.steps.to_bytes(8, "big") + self.body[8:])

    def load_checkpoint(self, folder: str) -> None:
        with open(os.path.join(folder, "body"), "rb") as file:
            self.steps = int.from_bytes(file.read(8), "big")

    def reset_config(self, config: dict[str, Any]) -> bool:
        return True


def population(order: dict[str, Any]) -> dict[str, float]:
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        metric="score",
        mode="max",
        perturbation_interval=1,
        hyperparam_mutations={"x": tune.uniform(0, 1)},
        synch=True,
    )
    began, before = time.time(), tree_cpu_s()
    results = tune.Tuner(
        tune.with_resources(Member, {"cpu": CPUS / order["concurrency"]}),
        param_space={"x": tune.uniform(0, 1), "size": order["size"]},
        tune_config=tune.TuneConfig(
            num_samples=order["members"],
            max_concurrent_trials=order["concurrency"],
            reuse_actors=True,
            scheduler=scheduler,
        ),
        run_config=tune.RunConfig(
            storage_path=os.path.join(order["folder"], "results"),
            verbose=0,
            stop={"training_iteration": order["steps"]},
        ),
    ).fit()
    if results.num_errors or len(results) != order["members"]:
        raise RuntimeError(f"{results.num_errors} of {order['members']} trials failed")
    steps = order["steps"]
    return {
        "seconds": (time.time() - began) / steps,
        "cpu_ms": 1e3 * (tree_cpu_s() - before) / (steps * order["members"]),
    }


def scores(order: dict[str, Any]) -> dict[str, float]:
    """Return the best final score of each seed."""
    return {str(seed): _score(order, seed) for seed in range(order["seeds"])}


def _score(order: dict[str, Any], seed: int) -> float:
    space = {name: tune.loguniform(low, high) for name, (low, high) in TASKS[order["task"]].SPACE.items()}
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        metric="score",
        mode="max",
        perturbation_interval=order["interval"],
        hyperparam_mutations=space,
    )
    results = tune.Tuner(
        tune.with_resources(Task, {"cpu": CPUS / order["concurrency"]}),
        param_space={**space, "task": order["task"]},
        tune_config=tune.TuneConfig(
            num_samples=order["members"], reuse_actors=True, scheduler=scheduler, max_concurrent_trials=0
        ),
        run_config=tune.RunConfig(
            storage_path=os.path.join(order["folder"], f"results{seed}"),
            verbose=0,
            stop={"training_iteration": TASKS[order["task"]].steps},
        ),
    ).fit()
    if results.num_errors or len(results) != order["members"]:
        raise RuntimeError(f"{results.num_errors} of {order['members']} trials failed")
    return float(max(result.metrics["score"] for result in results))


class Task(tune.Trainable):  # type: ignore[misc]
    """Member of a population that works on a task."""

    def setup(self, config: dict[str, Any]) -> None:
        self.task = TASKS[config["task"]](config)

    def step(self) -> dict[str, Any]:
        return {"score": self.task.step()}

    def save_checkpoint(self, folder: str) -> None:
        with open(os.path.join(folder, "state"), "wb") as file:
            file.write(self.task.save())

    def load_checkpoint(self, folder: str) -> None:
        with open(os.path.join(folder, "state"), "rb") as file:
            self.task.load(file.read())

    def reset_config(self, config: dict[str, Any]) -> bool:
        self.setup(config)
        return True


def tree_cpu_s() -> float:
    """Return the CPU seconds of all processes that have this run's folder in their environment."""
    mark = ("NNIMGR_BENCHMARK_PEER=" + os.environ["NNIMGR_BENCHMARK_PEER"]).encode()
    ticks = 0
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                ours = mark in file.read().split(b"\0")
            with open(f"/proc/{entry}/stat") as file:
                text = file.read()
        except OSError:
            continue
        if ours:
            ticks += sum(map(int, text[text.rindex(")") + 2 :].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def startup(order: dict[str, Any]) -> dict[str, float]:
    judge, _ = run(order, trials=1, concurrency=1)
    return {"seconds": min(judge.firsts) - order["began"]}


def main() -> None:
    order = json.loads(sys.argv[2])
    ray.init(
        num_cpus=CPUS,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        _temp_dir=os.path.join(order["folder"], "t"),
    )
    works = {
        "noop": noop,
        "stream": stream,
        "latency": latency,
        "startup": startup,
        "population": population,
        "scores": scores,
    }
    work = works[sys.argv[1]]
    with open(order["answer"], "w") as file:
        json.dump([{"variant": "workers used again", "values": work(order)}], file)
    ray.shutdown()


if __name__ == "__main__":
    main()

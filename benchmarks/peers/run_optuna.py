"""Measurements of Optuna in its own interpreter: ``run_optuna.py KIND ORDER``. See ``ask``.

Optuna starts no trial processes itself. The objective starts a bare interpreter, as Optuna's users do if they
want processes. It runs twice, with each of its two storages that survive a crash.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from typing import Any

import optuna
from optuna.storages.journal import JournalFileBackend

STORAGES = ("SQLite", "journal")


def open_storage(folder: str, kind: str) -> Any:
    if kind == "SQLite":
        url = "sqlite:///" + os.path.join(folder, "study.db")
        return optuna.storages.RDBStorage(url, engine_kwargs={"connect_args": {"timeout": 100}})
    return optuna.storages.JournalStorage(JournalFileBackend(os.path.join(folder, "study.log")))


def noop(order: dict[str, Any], kind: str) -> dict[str, float]:
    study = optuna.create_study(
        storage=open_storage(order["folder"], kind), sampler=optuna.samplers.RandomSampler()
    )

    def objective(trial: Any) -> float:
        x = trial.suggest_float("x", 0, 1)
        command = [order["plain"], "-c", f"print({x!r})"]
        return float(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)

    begun = time.time()
    study.optimize(objective, n_trials=order["trials"], n_jobs=order["concurrency"])
    return {"per_s": order["trials"] / (time.time() - begun)}


def report(order: dict[str, Any], kind: str, reports: int, pause: float, go: Any, found: Any) -> None:
    """Run one writer: make each report and its decision, which are two calls in Optuna."""
    study = optuna.load_study(study_name="bench", storage=open_storage(order["folder"], kind))
    trial = study.ask()
    found.put(None)
    go.wait()
    ages, begun = [], time.time()
    for number in range(reports):
        before = time.time()
        trial.report(float(number), number)
        trial.should_prune()
        ages.append(1e3 * (time.time() - before))
        time.sleep(pause)
    found.put((begun, time.time(), ages))


def write(
    order: dict[str, Any], kind: str, *, writers: int, reports: int, pause: float
) -> list[tuple[float, float, list[float]]]:
    """Return begin, end and ages in ms of each writer."""
    optuna.create_study(
        study_name="bench",
        storage=open_storage(order["folder"], kind),
        pruner=optuna.pruners.MedianPruner(),
    )
    context = multiprocessing.get_context("fork")
    found, go = context.Queue(), context.Event()
    processes = [
        context.Process(target=report, args=(order, kind, reports, pause, go, found)) for _ in range(writers)
    ]
    for process in processes:
        process.start()
    for _ in processes:
        found.get()
    go.set()
    results = [found.get() for _ in processes]
    for process in processes:
        process.join()
    return results


def stream(order: dict[str, Any], kind: str) -> dict[str, float]:
    trials, reports = order["trials"], order["reports"]
    if kind == "SQLite":
        reports //= 10  # eight writers share one lock, so this number is enough
    results = write(order, kind, writers=trials, reports=reports, pause=0)
    seconds = max(result[1] for result in results) - min(result[0] for result in results)
    return {"per_s": trials * reports / seconds}


def latency(order: dict[str, Any], kind: str) -> dict[str, float]:
    results = write(order, kind, writers=2, reports=order["reports"], pause=order["pause"])
    ages = sorted(age for result in results for age in result[2])
    return {"p50": ages[len(ages) // 2], "p99": ages[min(len(ages) - 1, int(0.99 * len(ages)))]}


def startup(order: dict[str, Any], kind: str) -> dict[str, float]:
    study = optuna.create_study(storage=open_storage(order["folder"], kind))
    seconds: list[float] = []

    def objective(trial: Any) -> float:
        command = [order["plain"], "-c", "import time; print(time.time())"]
        seconds.append(float(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))
        return float(trial.suggest_float("x", 0, 1))

    study.optimize(objective, n_trials=1)
    return {"seconds": seconds[0] - order["began"]}


def study(order: dict[str, Any], kind: str) -> dict[str, float]:
    """Ask for trials, compute a sphere, and tell the results. One trial comes before the time starts."""
    sampler = {"TPE": optuna.samplers.TPESampler, "Random": optuna.samplers.RandomSampler}[order["sampler"]]
    made = optuna.create_study(storage=open_storage(order["folder"], kind), sampler=sampler())

    def sphere(trial: Any) -> float:
        return float(trial.suggest_float("x", -5, 5) ** 2 + trial.suggest_float("y", -5, 5) ** 2)

    made.optimize(sphere, n_trials=1)
    begun = time.perf_counter()
    made.optimize(sphere, n_trials=order["trials"])
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "per_s": order["trials"] / seconds}


def main() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    order = json.loads(sys.argv[2])
    works = {"noop": noop, "stream": stream, "latency": latency, "startup": startup, "study": study}
    work = works[sys.argv[1]]
    kinds = STORAGES[:1] if sys.argv[1] == "startup" else STORAGES
    answers = [{"variant": kind, "values": work(order, kind)} for kind in kinds]
    with open(order["answer"], "w") as file:
        json.dump(answers, file)


if __name__ == "__main__":
    main()

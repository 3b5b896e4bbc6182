"""Cost of a suggestion: CPU ms of one ask and one tell with 10 parameters, after a number of results."""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from subprocess import PIPE, Popen
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.report import Better, Figure, Row
from benchmarks.search_loops import NNI, OPTUNA, NotThere, Optuna, Own, Searcher
from benchmarks.search_problems import Parameters, SearchSpace
from benchmarks.search_runs import Runs
from nnimgr import search_space as spaces
from nnimgr.dispatcher import messages as m
from nnimgr.testing.record import EXPERIMENT, Record

LIMITS_MS = {100: 3.0, 1_000: 5.0, 10_000: 25.0, 100_000: 150.0}
REBUILT = 100_000
REBUILD_LIMIT_S = 3.0
PEERS_UP_TO = 10_000  # with more results, one suggestion of a peer takes seconds
ROUNDS, FEW_ROUNDS = 60, 6  # rounds for our tuners, and for a peer
SPACE: SearchSpace = {
    **{f"x{number}": {"_type": "uniform", "_value": [-1, 1]} for number in range(4)},
    **{f"rate{number}": {"_type": "loguniform", "_value": [1e-5, 1]} for number in range(2)},
    **{f"size{number}": {"_type": "randint", "_value": [1, 65]} for number in range(2)},
    **{f"kind{number}": {"_type": "choice", "_value": ["a", "b", "c", "d"]} for number in range(2)},
}

Past = list[tuple[Parameters, float]]


def rows(runs: Runs) -> Iterator[Row]:
    """Yield the cost after 100 to 100,000 results, and of learning 100,000 results at once."""
    for count, limit in LIMITS_MS.items():
        past = made_past(count)
        peers = [optuna_ms(past), nni_ms(runs, past)] if count <= PEERS_UP_TO else []
        yield Row(
            name=f"one suggestion of TPE after {count:,} results",
            value=own_ms(past),
            unit="ms CPU",
            better=Better.LESS,
            limit=limit,
            peers=peers,
        )
    past = made_past(REBUILT)
    for what, measure in (("TPE", rebuild_s), ("its process with it, from a database,", child_s)):
        yield Row(
            name=f"{what} rebuilt from {REBUILT:,} results, up to the next suggestion",
            value=measure(past),
            unit="s CPU",
            better=Better.LESS,
            limit=REBUILD_LIMIT_S,
        )


def made_past(count: int) -> Past:
    """Return random parameter sets, converted to JSON and back, and their losses."""
    rng, space = Random(0), spaces.parse(SPACE)
    drawn: list[Parameters] = [json.loads(json.dumps(spaces.sample(space, rng))) for _ in range(count)]
    return [(parameters, loss(parameters)) for parameters in drawn]


def loss(parameters: Parameters) -> float:
    total = sum(parameters[f"x{number}"] ** 2 for number in range(4))
    total += sum((math.log10(parameters[f"rate{number}"]) + 2) ** 2 / 4 for number in range(2))
    total += sum(abs(parameters[f"size{number}"] - 20) / 20 for number in range(2))
    return float(total + sum(parameters[f"kind{number}"] != "b" for number in range(2)))


def cpu_ms(searcher: Searcher, *, first: int, rounds: int) -> float:
    """Return the median CPU ms of one ask and tell with two pending trials, without the loss function."""
    pending = [(number, searcher.ask(number)) for number in (first, first + 1)]
    used = []
    for number in range(first + 2, first + 2 + rounds):
        done, parameters = pending.pop(0)
        value = loss(parameters)
        begun = time.process_time()
        searcher.tell(done, parameters, value)
        pending.append((number, searcher.ask(number)))
        used.append(time.process_time() - begun)
    return 1e3 * statistics.median(used)


def own_ms(past: Past) -> float:
    own = Own("TPE", SPACE, 0)
    own.tuner.import_data([{"parameter": parameters, "value": value} for parameters, value in past])
    return cpu_ms(own, first=0, rounds=ROUNDS)


def rebuild_s(past: Past) -> float:
    """Return the seconds in which a restarted tuner processes the past, without reading it."""
    begun = time.process_time()
    own = Own("TPE", SPACE, 0)
    for number, (parameters, value) in enumerate(past):
        own.tell(number, parameters, value)
    own.ask(len(past))
    return time.process_time() - begun


def child_s(past: Past) -> float:
    """Return the seconds of a whole restarted process, which reads the experiment's database."""
    with TemporaryDirectory() as directory:
        record = Record(Path(directory, "record.sqlite"), SPACE)
        for number, (parameters, value) in enumerate(past):
            trial_id = record.suggested(number, json.dumps(parameters))
            record.ended(trial_id, json.dumps(value), success=True)
        record.close()
        start = m.Start(
            role="tuner",
            name="TPE",
            class_name=None,
            code_directory=None,
            class_args={},
            search_space=SPACE,
            experiment_id=EXPERIMENT,
            database=str(record.path),
            rebuild_to=record.number,
            checkpoint_directory="",
            seed=0,
        )
        ask = m.Ask(parameter_ids=(len(past),), fed_to=record.number)
        child = Popen(
            [sys.executable, "-m", "nnimgr.dispatcher.worker"], stdin=PIPE, stdout=PIPE, cwd=directory
        )
        assert child.stdin is not None and child.stdout is not None
        with child.stdin, child.stdout:
            child.stdin.write(m.to_line(start) + m.to_line(ask))
            child.stdin.flush()
            while not isinstance(answer := m.from_child(child.stdout.readline()), m.Suggestion):
                if isinstance(answer, m.Failed):
                    raise RuntimeError(answer.sentence)
            child.stdin.write(m.to_line(m.Leave()))
            child.stdin.flush()
            _, child.returncode, used = os.wait4(child.pid, 0)
    return used.ru_utime + used.ru_stime


def optuna_ms(past: Past) -> Figure:
    import optuna

    peer = Optuna(SPACE, 0)
    peer.tell(0, peer.ask(0), 9.0)
    distributions = peer.study.trials[0].distributions
    peer.study.add_trials(
        [
            optuna.trial.create_trial(params=dict(parameters), distributions=distributions, value=value)
            for parameters, value in past
        ]
    )
    return Figure(OPTUNA, cpu_ms(peer, first=1, rounds=FEW_ROUNDS))


def nni_ms(runs: Runs, past: Past) -> Figure:
    records = [{"parameter": parameters, "value": value} for parameters, value in past]
    order: dict[str, Any] = {"space": SPACE, "past": records, "rounds": FEW_ROUNDS}
    try:
        return Figure(NNI, float(runs.nni().send({"cost": order})))
    except NotThere as error:
        return Figure(NNI, None, str(error))

"""Time from the start of a killed server to the first new trial's own code, with a long past and without.

    python -m benchmarks.restores [--ended 10000] [--paused 100] [--running 8] [--runs 3]
                                  [--past-trials 1000] [--past-reports 100]

The experiment has ended trials, paused trials and running ones. The server is killed. Meanwhile a running
trial ends, so that the new server has a free slot. It has to read the database, to hear of the end from the
keeper, and to start the next trial. The same is done, in turn, with an experiment that has only the running
trials.

The second row is the CPU of a scheduler's process that is rebuilt from many reports, less that of one that
has none.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import program
from benchmarks.ground import Ground, Look, create, looks, server_pid
from benchmarks.peers.ask import Peers
from benchmarks.report import Better, Row
from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher.process import DispatcherChild
from nnimgr.testing.record import EXPERIMENT, Record
from tests.e2e.product import Product

RATIO = 1.2
REBUILD_S = 1.0
LIMIT_S = 300.0  # 10,000 trials take half of this
SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}}
CODE = """
import os, time

def train(parameters, trial):
    with open("began", "a") as file:
        file.write(f"{trial.number} {time.time()}\\n")
    if trial.number < int(os.environ["BENCH_ENDED"]):
        return parameters["x"]
    while True:
        trial.report(parameters["x"], save={"x": parameters["x"]})
        try:
            os.rename("end", f"ended-{trial.id}")
            return parameters["x"]
        except FileNotFoundError:
            time.sleep(0.05)
"""


class Restored:
    """Experiment whose server is killed and started again."""

    def __init__(self, own: Product, name: str, *, ended: int, paused: int, running: int) -> None:
        self._own, self._code = own, own.directory / name
        own.environ |= {"BENCH_ENDED": str(ended)}
        self._id = create(
            own,
            name,
            "",
            trialCommand="python3 -m nni.run mine.py:train",
            trialConcurrency=running,
            maxTrialNumber=1_000_000,
            **self._written(),
        )
        self._look = Look(own, self._id)
        self._wait("SUCCEEDED", ended)
        for number in range(1, paused + 1):
            trial = self._saved()
            own.nnictl("trial", "pause", self._id, "-T", trial)
            self._wait("PAUSED", number)
        self._wait("RUNNING", running)

    def _written(self) -> dict[str, object]:
        """Write the trials' code, and return the fields of the configuration that name it."""
        self._code.mkdir()
        (self._code / "mine.py").write_text(CODE, encoding="utf-8")
        return {"preload": ["decimal"]}

    def close(self) -> None:
        """Stop the experiment."""
        self._look.close()
        self._own.nnictl("stop", self._id)

    def _wait(self, status: str, count: int) -> None:
        query = "SELECT count(*) FROM trials WHERE status = ?"
        for _ in looks(LIMIT_S):
            if self._look.one(query, status) >= count:
                return

    def _saved(self) -> str:
        """Return the id of a running trial that has saved its state."""
        query = (
            "SELECT t.trial_id FROM trials t JOIN checkpoints c ON c.trial_id = t.trial_id "
            "WHERE t.status = 'RUNNING' LIMIT 1"
        )
        for _ in looks(LIMIT_S):
            if found := self._look.rows(query):
                return str(found[0][0])
        raise AssertionError

    def _began(self) -> list[float]:
        """Return when the trials' own code has begun."""
        return [float(line.split()[1]) for line in (self._code / "began").read_text().splitlines()]

    def restore_s(self) -> float:
        """Kill the server, let one trial end, start the server, and return the seconds to the next trial."""
        pid = server_pid(self._own)
        os.kill(pid, signal.SIGKILL)
        count = len(self._began())
        (self._code / "end").touch()
        for _ in looks(LIMIT_S):
            if not (self._code / "end").exists():
                break
        time.sleep(1.0)  # for the shim, which seals the attempt
        began = time.time()
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "nnimgr.server.main", "serve"),
                *("--port", str(self._own.port), "--until-idle"),
            ],
            env=self._own.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for _ in looks(LIMIT_S):
            if len(found := self._began()) > count:
                return max(found) - began
            if server.poll() is not None:
                raise RuntimeError(f"the server has ended with {server.returncode}")
        raise AssertionError


def restores(ground: Ground, options: argparse.Namespace) -> Row:
    """Return the row about restarts of the server."""
    empty, full = [], []
    with contextlib.ExitStack() as stack:
        sizes = {"ended": 0, "paused": 0}, {"ended": options.ended, "paused": options.paused}
        made = []
        for number, size in enumerate(sizes):
            own = stack.enter_context(ground.product(f"restores{number}"))
            own.port += number
            made.append(Restored(own, "restored", running=options.running, **size))
        for _ in range(options.runs):
            empty.append(made[0].restore_s())
            full.append(made[1].restore_s())
        for each in made:
            each.close()
    return Row(
        name=f"restart with {options.ended:,} ended and {options.paused} paused trials to a new trial, over "
        "one without them",
        value=statistics.median(full) / statistics.median(empty),
        unit="times",
        better=Better.LESS,
        limit=RATIO,
        details={
            "full_s": statistics.median(full),
            "empty_s": statistics.median(empty),
            "running": options.running,
            "runs": options.runs,
        },
    )


def fill(path: Path, *, trials: int, reports: int) -> int:
    """Write the past of running trials into a new database. Return the number of its last fact."""
    record = Record(path, SPACE, config={})
    names = [
        record.suggested(number, json.dumps({"x": number / trials}), fed_to=record.number, state=None)
        for number in range(trials)
    ]
    for sequence in range(reports):
        for number, name in enumerate(names):
            record.reported(name, sequence, json.dumps(number + sequence / reports), attempt=1)
    record.close()
    return record.number


def rebuild_s(directory: Path, path: Path, last: int) -> float:
    """Return the CPU seconds of a scheduler's process that is rebuilt up to a fact, and ends."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    asyncio.run(_rebuild(directory, path, last))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


async def _rebuild(directory: Path, path: Path, last: int) -> None:
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    start = m.Start(
        role="scheduler",
        name="ASHA",
        class_name=None,
        code_directory=None,
        class_args={"max_budget": 10_000, "optimize_mode": "maximize"},
        search_space=SPACE,
        experiment_id=EXPERIMENT,
        database=str(path),
        rebuild_to=last,
        checkpoint_directory=str(directory),
        seed=1,
    )

    def take(message: m.FromChild) -> None:
        if isinstance(message, m.Failed) and not ready.done():
            ready.set_exception(RuntimeError(message.sentence))
        if isinstance(message, m.Ready):
            ready.set_result(None)

    child = DispatcherChild(
        start,
        python=sys.executable,
        environ=os.environ,
        cwd=directory,
        log_path=directory / "scheduler.log",
        on_message=take,
        on_exit=lambda sentence: None,
    )
    await child.start()
    await asyncio.wait_for(ready, LIMIT_S)
    await child.close()


def rebuilds(ground: Ground, options: argparse.Namespace) -> Row:
    """Return the row about a scheduler's process."""
    directory = ground.folder("rebuild")
    trials, reports = options.past_trials, options.past_reports
    full = directory / "full.sqlite"
    last = fill(full, trials=trials, reports=reports)
    empty = directory / "empty.sqlite"
    first = fill(empty, trials=0, reports=0)
    times = [
        rebuild_s(directory, full, last) - rebuild_s(directory, empty, first) for _ in range(options.runs)
    ]
    return Row(
        name=f"scheduler ASHA rebuilt from {trials * reports:,} reports",
        value=statistics.median(times),
        unit="s CPU",
        better=Better.LESS,
        limit=REBUILD_S,
        details={"trials": trials, "runs": options.runs},
    )


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Measure restarts of the server, then rebuilt schedulers."""
    yield rebuilds(ground, options)
    yield restores(ground, options)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ended", type=int, default=10_000)
    parser.add_argument("--paused", type=int, default=100)
    parser.add_argument("--running", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--past-trials", type=int, default=1000)
    parser.add_argument("--past-reports", type=int, default=100, help="of each of these trials")


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)

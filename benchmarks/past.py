"""Program that writes a finished experiment into a home, to measure the dashboard and exports.

    python -m benchmarks.past HOME [--trials 100000] [--metrics 10] [--id past] [--seed 1]
    NNIMGR_HOME=HOME nnimgr serve --port 8080

A hundred thousand trials take a minute and a half. The experiment is STOPPED: ``nnictl view past --port
8080`` opens its page, and ``nnictl resume past`` runs more trials on this machine (its other machines do not
exist). It has ten parameters, one of them a nested choice; results that depend on them; a second key in each
result; trials that have succeeded, failed, or were stopped by the assessor, by maxTrialDuration or by a user;
a few trials with a second attempt; and the GPUs of three machines beside this one.

The same arguments make the same experiment. To move a home, copy it and write the new path into
``.experiment``: ``cp -r HOME OTHER && sed -i "s#HOME#OTHER#" OTHER/.experiment``.

Only the facts from outside are invented: the core's own plan decides what follows, and the store's own writer
writes it.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import json
import math
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from nnimgr import search_space
from nnimgr.config import read_canonical
from nnimgr.core.managing.folder import Surroundings, make_folder
from nnimgr.home import Home
from nnimgr.index import Index, IndexEntry
from nnimgr.rules import facts as f
from nnimgr.rules.commands import AskTuner, CancelJob, Command, SubmitJob
from nnimgr.rules.fold import apply
from nnimgr.rules.plan import plan
from nnimgr.rules.state import ExperimentState, Touched, trial_id_of
from nnimgr.store.location import database_path
from nnimgr.store.writer import ExperimentWriter
from nnimgr.traits import traits_of
from training_services.base import Place
from training_services.ssh.config import MachineConfig

BEGUN_AT = datetime(2026, 1, 5, 8, tzinfo=UTC)
TURN = 20_000  # facts per transaction
MACHINES = ("gpu-a", "gpu-b", "gpu-c")
GPUS = 4  # GPUs per machine
HERE = 2  # trials at once on this machine
LONGEST = timedelta(minutes=5)  # maxTrialDuration

SPACE: dict[str, Any] = {
    "lr": {"_type": "loguniform", "_value": [1e-5, 1]},
    "weight_decay": {"_type": "loguniform", "_value": [1e-7, 1e-2]},
    "dropout": {"_type": "uniform", "_value": [0, 0.6]},
    "momentum": {"_type": "quniform", "_value": [0.5, 0.99, 0.01]},
    "label_smoothing": {"_type": "uniform", "_value": [0, 0.2]},
    "layers": {"_type": "randint", "_value": [2, 33]},
    "width": {"_type": "qloguniform", "_value": [16, 1024, 16]},
    "batch_size": {"_type": "choice", "_value": [16, 32, 64, 128, 256, 512]},
    "activation": {"_type": "choice", "_value": ["relu", "gelu", "silu", "tanh"]},
    "optimizer": {
        "_type": "choice",
        "_value": [
            {"_name": "sgd", "nesterov": {"_type": "choice", "_value": [True, False]}},
            {
                "_name": "adam",
                "beta2": {"_type": "uniform", "_value": [0.9, 0.9999]},
                "eps": {"_type": "loguniform", "_value": [1e-9, 1e-4]},
            },
            {"_name": "lamb"},
        ],
    },
}

TRIAL = """\
import time

import nni

nni.get_next_parameter()
for step in range(10):
    time.sleep(0.2)
    nni.report_intermediate_result(0.8 + step / 100)
nni.report_final_result({"default": 0.89, "loss": 0.4})
"""


def config_of(directory: Path, machines: Sequence[str] = MACHINES) -> dict[str, Any]:
    """Return the experiment's configuration as a user would write it, without its search space."""
    local: dict[str, Any] = {"platform": "local"}
    remote: dict[str, Any] = {
        "platform": "remote",
        "trialGpuNumber": 1,
        "machineList": [{"host": host, "user": "train"} for host in machines],
    }
    return {
        "experimentName": "image classifier",
        "trialCommand": f"{sys.executable} trial.py",
        "trialCodeDirectory": str(directory / "code"),
        "experimentWorkingDirectory": str(directory.parent),
        "trialConcurrency": HERE + GPUS * len(machines),
        "maxTrialNumber": 1_000_000,
        "maxTrialDuration": f"{int(LONGEST.total_seconds())}s",
        "tuner": {"name": "TPE", "classArgs": {"optimize_mode": "maximize"}},
        "assessor": {"name": "Medianstop", "classArgs": {"optimize_mode": "maximize", "start_step": 3}},
        "trainingService": [local, remote] if machines else local,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """Course of an attempt: number and length of its steps, and its values."""

    end: str  # succeeded, failed, assessor, user, duration, lost
    steps: int
    step_s: float
    value: float


@dataclass(slots=True)
class Nature:
    """Draws the trials and their results, as a function of the seed and the order of the calls."""

    rng: random.Random
    metrics: int

    def parameters(self) -> dict[str, Any]:
        return search_space.sample(_SPACE, self.rng)

    def fate(self, parameters: dict[str, Any], *, attempt: int) -> Fate:
        draw, value = self.rng.random(), _quality(parameters) + self.rng.gauss(0, 0.006)
        step_s = (2 + parameters["layers"] / 8 + parameters["width"] / 300) * self.rng.lognormvariate(0, 0.25)
        some = self.rng.randrange(self.metrics + 1)
        end, steps = "succeeded", self.metrics
        if value < 0.7 and draw < 0.8 and self.metrics > 3:
            end, steps = "assessor", 3 + self.rng.randrange(self.metrics - 3)
        elif draw > 0.995 and attempt == 1:
            end, steps = "lost", some
        elif draw > 0.97 or (parameters["batch_size"] == 512 and parameters["width"] > 900):
            end, steps = "failed", some
        elif draw > 0.965:
            end, steps = "user", some
        elif draw > 0.962:
            end, steps, step_s = "duration", some, 1.5 * LONGEST.total_seconds() / (some + 1)
        return Fate(end=end, steps=steps, step_s=step_s, value=min(value, 0.999))

    def step(self, fate: Fate, number: int) -> float:
        """Return the value reported at this step, from 0."""
        grown = 1 - math.exp(-4 * (number + 1) / self.metrics)
        return 0.1 + (fate.value - 0.1) * grown + self.rng.gauss(0, 0.01)


_SPACE = search_space.parse(SPACE)


def _quality(p: dict[str, Any]) -> float:
    """Return the accuracy of these parameters. lr matters most, then the optimizer and the width."""
    optimizer = p["optimizer"]["_name"]
    best_lr = -1.5 if optimizer == "sgd" else -3.0
    value = 0.93 - 0.03 * (math.log10(p["lr"]) - best_lr) ** 2
    value -= {"sgd": 0.02, "adam": 0.0, "lamb": 0.04}[optimizer]
    value += 0.02 * math.log2(p["width"] / 128) / 3 - 0.0002 * (p["layers"] - 18) ** 2
    value -= 0.15 * (p["dropout"] - 0.15) ** 2 + 0.004 * abs(math.log2(p["batch_size"] / 64))
    value -= {"relu": 0.005, "gelu": 0.0, "silu": 0.001, "tanh": 0.015}[p["activation"]]
    return float(value + 0.02 * (p["momentum"] - 0.5) * (optimizer == "sgd"))


class Life:
    """The experiment on a simulated clock: events in order, and the plan's reactions to them."""

    def __init__(
        self, created: f.ExperimentCreated, *, trials: int, nature: Nature, hosts: Sequence[str]
    ) -> None:
        self.state = ExperimentState()
        self.turn: list[f.Recorded] = []
        self._trials, self._nature = trials, nature
        self._now, self._orders, self._cmd_seq = BEGUN_AT, 0, 0
        self._events: list[tuple[datetime, int, Callable[[], None]]] = []
        self._fates: dict[str, Fate] = {}  # by job id
        machines = [MachineConfig(host=host, user="train").keeper_id for host in hosts]
        self._free: list[tuple[str, tuple[int, ...]]] = [("local", ())] * HERE
        self._free += [(name, (gpu,)) for gpu in range(GPUS) for name in machines]
        self._places: dict[str, tuple[str, tuple[int, ...]]] = {}
        opening: list[f.Fact] = [created, f.ExperimentOpened(m_epoch=1)]
        for name in ("local", *machines):
            opening.append(f.KeeperEnrolled(keeper_id=name, token_sha256="0" * 64))
            opening.append(f.KeeperBound(keeper_id=name, instance="first", boot_id="first"))
        self._take(*opening)

    def advance(self, facts: int) -> bool:
        """Continue for about this number of facts, which ``turn`` then holds. Return False at the end."""
        while self._events and len(self.turn) < facts:
            self._now, _, happen = heapq.heappop(self._events)
            happen()
        if self._events:
            return True
        if not self.state.stop_requested:
            self._take(f.ExperimentStopRequested())
        return bool(self._events)

    def take_turn(self) -> tuple[list[f.Recorded], Touched]:
        turn, self.turn = self.turn, []
        return turn, self.state.take_touched()

    def _at(self, delay_s: float, happen: Callable[[], None]) -> None:
        self._orders += 1
        heapq.heappush(self._events, (self._now + timedelta(seconds=delay_s), self._orders, happen))

    def _fold(self, fact: f.Fact) -> None:
        recorded = f.Recorded(self.state.number + 1, self._now, fact)
        apply(self.state, recorded)
        self.turn.append(recorded)

    def _take(self, *facts: f.Fact) -> None:
        """Fold the facts and everything that follows from them."""
        fresh = list(facts)
        while True:
            for fact in fresh:
                self._fold(fact)
            todo = plan(self.state, self._now)
            fresh = [*todo.facts, *(fact for command in todo.commands for fact in self._grant(command))]
            if not fresh:
                return

    def _grant(self, command: Command) -> list[f.Fact]:
        match command:
            case SubmitJob():
                return [self._place(command)]
            case CancelJob():
                self._cmd_seq += 1
                self._at(0.3, lambda: self._end(command.job_id, f.EndReason.STOPPED, signal=15))
                return [
                    f.StopOrdered(job_id=command.job_id, cmd_seq=self._cmd_seq, grace=timedelta(seconds=5))
                ]
            case AskTuner():
                left = self._trials - self.state.next_sequence
                return [self._suggestion(offset) for offset in range(min(left, command.count))]
        raise AssertionError(command)

    def _suggestion(self, offset: int) -> f.Fact:
        sequence = self.state.next_sequence + offset
        return f.Suggested(
            trial_id=trial_id_of(self.state.id, sequence),
            sequence=sequence,
            source=f.SuggestionSource.ALGORITHM,
            parameter_id=sequence,
            parameters=json.dumps(self._nature.parameters()),
        )

    def _place(self, wanted: SubmitJob) -> f.Fact:
        self._cmd_seq += 1
        keeper_id, gpus = self._places[wanted.job_id] = self._free.pop()
        place = Place(keeper_id=keeper_id, instance="first", boot_id="first", gpus=gpus)
        trial = self.state.trials[wanted.trial_id]
        fate = self._nature.fate(json.loads(trial.parameters), attempt=trial.attempt)
        self._fates[wanted.job_id] = fate
        self._at(0.4, lambda: self._start(wanted.job_id, wanted.trial_id))
        return f.JobPlaced(job_id=wanted.job_id, place=place, cmd_seq=self._cmd_seq)

    def _start(self, job_id: str, trial_id: str) -> None:
        self._fold(f.JobStarted(job_id=job_id, started_at=self._now, pid=self._orders % 30_000 + 1000))
        fate = self._fates[job_id]
        self._at(fate.step_s, lambda: self._step(job_id, trial_id, 0))
        if fate.end == "duration":
            self._at(LONGEST.total_seconds(), lambda: self._take())

    def _step(self, job_id: str, trial_id: str, number: int) -> None:
        fate = self._fates.get(job_id)
        if fate is None or (job := self.state.jobs[job_id]).stop is not None:
            return  # the trial has ended, or is about to end
        if number < fate.steps:
            self._report(job_id, trial_id, number, repr(round(self._nature.step(fate, number), 6)))
            self._at(fate.step_s, lambda: self._step(job_id, trial_id, number + 1))
            if fate.end == "assessor" and number == fate.steps - 1:
                self._take(f.Verdict(trial_id=trial_id, attempt=job.attempt, position=number))
            return
        match fate.end:
            case "succeeded":
                value = round(fate.value, 6)
                text = json.dumps({"default": value, "loss": round(1.2 * (1 - value) ** 0.8, 6)})
                self._report(job_id, trial_id, 0, text, final=value)
                self._end(job_id, f.EndReason.EXITED, exit_code=0)
            case "failed" if number % 3 == 0:
                self._end(job_id, f.EndReason.EXITED, signal=9)
            case "failed":
                self._end(job_id, f.EndReason.EXITED, exit_code=1)
            case "user":
                self._take(f.StopRequested(trial_id=trial_id))
            case "lost":
                self._let_go(job_id)
                self._take(f.JobLost(job_id=job_id, reason="its machine was restarted"))

    def _report(
        self, job_id: str, trial_id: str, number: int, text: str, *, final: float | None = None
    ) -> None:
        kind = "PERIODICAL" if final is None else "FINAL"
        value = float(text) if final is None else final
        position = self.state.jobs[job_id].recorded
        parameter_id = str(self.state.trials[trial_id].parameter_id)
        self._fold(f.MetricReported(job_id, position, kind, number, parameter_id, value, text))

    def _end(
        self, job_id: str, reason: f.EndReason, *, exit_code: int | None = None, signal: int | None = None
    ) -> None:
        self._let_go(job_id)
        self._take(
            f.JobEnded(
                job_id=job_id,
                reason=reason,
                exit_code=exit_code,
                signal=signal,
                metrics=self.state.jobs[job_id].recorded,
                acked_cmd=self._cmd_seq,
                ended_at=self._now,
            )
        )

    def _let_go(self, job_id: str) -> None:
        del self._fates[job_id]
        self._free.append(self._places.pop(job_id))


async def write(
    home: Home,
    experiment_id: str,
    *,
    trials: int,
    metrics: int,
    seed: int,
    machines: Sequence[str] = MACHINES,
) -> ExperimentState:
    """Write the experiment and return its last state. Raise ValueError if the home has one with this id.

    ``machines``: the hosts beside this one. Without any, all trials ran here.
    """
    directory = home.path / experiment_id
    config = read_canonical({**config_of(directory, machines), "searchSpace": SPACE})
    canonical = config.canonical()
    space = canonical.pop("searchSpace")
    index = Index(home)
    if index.get(experiment_id) is not None or database_path(directory).exists():
        raise ValueError(f"{home.path} has an experiment {experiment_id} already")
    make_folder(directory, Surroundings.of_creator(environ=None, cwd=str(directory), python=None))
    (directory / "code").mkdir()
    (directory / "code" / "trial.py").write_text(TRIAL, encoding="utf-8")
    created = f.ExperimentCreated(
        experiment_id=experiment_id,
        config=canonical,
        search_space=space,
        limits=config.limits(),
        traits=traits_of(canonical["tuner"]),
    )
    life = Life(created, trials=trials, nature=Nature(random.Random(seed), metrics), hosts=machines)
    writer = ExperimentWriter(directory)
    await writer.open()
    more = True
    while more:
        more = life.advance(TURN)
        await writer.append(life.state, *life.take_turn())
    await writer.close(life.state)
    index.add(
        IndexEntry(
            id=experiment_id,
            port=8080,
            started_at=life.state.created_at,
            ended_at=life.state.ended_at,
            status=str(life.state.status),
            platform=config.platform,
            name=config.experiment_name or "",
            log_dir=str(home.path),
        )
    )
    return life.state


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("home", type=Path)
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--metrics", type=int, default=10, help="intermediate ones of a trial that succeeds")
    parser.add_argument("--id", default="past")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    begun = time.monotonic()
    made = write(
        Home(options.home.absolute()),
        options.id,
        trials=options.trials,
        metrics=options.metrics,
        seed=options.seed,
    )
    state = asyncio.run(made)
    counts = ", ".join(f"{number:,} {status}" for status, number in sorted(state.counts.items()))
    print(f"experiment {state.id}: {counts}; {state.number:,} facts in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()

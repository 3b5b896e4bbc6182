"""Trials in a Slurm cluster on this machine, compared with one bare sbatch for each trial.

    python -m benchmarks.slurm [--parts pilots own spill] [--trials 1000] [--bare 60] [--pairs 2]

``pilots``: trials a second in allocations that run many trials, from the request that creates the experiment
to DONE. They are compared, in turn, with bare jobs of Slurm that run a Python file without an SDK, one sbatch
after the other. The calls of Slurm's commands are counted.
``own``: the same with ``perTrial``, an allocation for each trial. Its bare jobs get the environment of the
node, as all our trials do: Slurm runs a login shell for that, once in each allocation.
``spill``: a trial for which this machine has no room: from the end of ``spill.after`` to its sbatch.

The nodes have as many CPUs as this machine, so that as many jobs run at the same time as can. The cluster
(munged, slurmctld and slurmds) is that of Slurm's tests. Requirements: root, and Debian's slurm-wlm and
munge.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import program
from benchmarks.ground import Ground, Look, create, looks, plain_environ
from benchmarks.peers.ask import Peers
from benchmarks.report import Better, Row, rates_row
from benchmarks.throughput import check
from tests.e2e.product import Product
from tests.slurm.cluster import PATH, SlurmCluster, missing

PARTS = ("pilots", "own", "spill")
COMMANDS = ("sbatch", "squeue", "scancel", "scontrol", "sacct")
NODES = 2
CPUS = max(1, len(os.sched_getaffinity(0)) // NODES)
PER_TRIAL_S = 10.0  # limit per trial
TRIAL = """import nni
nni.report_final_result(nni.get_next_parameter()["x"])
"""
# The first one holds this machine until another runs in the cluster.
HOLD = """import pathlib, time
import nni
other = pathlib.Path("{other}")
nni.get_next_parameter()
if nni.get_sequence_id():
    other.touch()
while not other.exists():
    time.sleep(0.02)
nni.report_final_result(1)
"""
SPILL_S = 3
# Notes the end of a job, so that Slurm need not be asked for it.
BARE = """#!/bin/sh
#SBATCH --export={export} --ntasks=1 --cpus-per-task=1 --time=10 --output=/dev/null --no-requeue
{python} -c 'print(0.5)' && touch {ends}/$SLURM_JOB_ID
"""
# Notes each call of a command with its time, and runs it.
COUNTED = """#!/bin/sh
echo {name} $(date +%s.%N) >> {calls}
PATH={path} exec {name} "$@"
"""


@dataclass(frozen=True, slots=True)
class Turn:
    """Result of one experiment. ``seconds``: from its creation to DONE. ``calls``: of Slurm's commands."""

    seconds: float
    calls: Counter[str]


class Field:
    """Our server and a cluster."""

    def __init__(self, ground: Ground, own: Product, cluster: SlurmCluster) -> None:
        self.own, self.cluster = own, cluster
        self._ground = ground
        self._calls = ground.folder("calls") / "calls"
        self._bare: dict[tuple[int, str], float] = {}  # by number of the pair and --export
        own.environ |= {"SLURM_CONF": cluster.environ["SLURM_CONF"]}
        own.environ["PATH"] = f"{self._counting(own.environ['PATH'])}:{own.environ['PATH']}"

    def _counting(self, path: str) -> Path:
        """Return a folder with commands of Slurm that count their calls."""
        folder = self._ground.folder("bin")
        for name in COMMANDS:
            file = folder / name
            file.write_text(COUNTED.format(name=name, calls=self._calls, path=f"{path}:{PATH}"))
            file.chmod(0o755)
        return folder

    def run(self, name: str, *, trials: int, concurrency: int = NODES * CPUS, **service: Any) -> Turn:
        """Run one experiment and check it row by row. Leave nothing of it in the cluster."""
        self._calls.write_text("")
        experiment = create(
            self.own,
            name,
            TRIAL,
            trialCommand=f"{self._ground.python} trial.py",
            trialConcurrency=concurrency,
            trialCpuNumber=1,
            maxTrialNumber=trials,
            trainingService={
                "platform": "slurm",
                "timeLimit": "1h",
                "python": str(self._ground.python),
                "idle": "1s",
                **service,
            },
        )
        look = Look(self.own, experiment)
        look.wait_done(60 + PER_TRIAL_S * trials)
        check(look, trials)
        [(made, ended)] = look.rows("SELECT created_at, ended_at FROM experiments")
        look.close()
        self.own.nnictl("stop", experiment)
        self._settle()
        return Turn((ended - made) / 1e6, Counter(name for name, _ in self._noted()))

    def spill(self, name: str) -> float:
        """Return the seconds from the end of a trial's time on this machine until sbatch is called for it."""
        self._calls.write_text("")
        command = f"{self._ground.python} trial.py"
        experiment = create(
            self.own,
            name,
            HOLD.format(other=self._ground.folder(name) / "other"),
            trialCommand=command,
            trialConcurrency=2,
            maxTrialNumber=2,
            trainingService=[
                {"platform": "local", "trialCommand": command, "trialCpuNumber": NODES * CPUS},
                {"platform": "slurm", "timeLimit": "1h", "idle": "1s", "cpus": 1, "trialCpuNumber": 1}
                | {"trialCommand": command, "python": str(self._ground.python)},
            ],
            spill={"after": f"{SPILL_S}s"},
        )
        look = Look(self.own, experiment)
        look.wait_done(60 + PER_TRIAL_S)
        made = look.one("SELECT created_at FROM trials WHERE sequence = 1") / 1e6
        look.close()
        self.own.nnictl("stop", experiment)
        self._settle()
        submitted = min(at for called, at in self._noted() if called == "sbatch")
        return float(submitted - made - SPILL_S)

    def _noted(self) -> list[tuple[str, float]]:
        """Return the calls of Slurm's commands, and when they were."""
        lines = (line.split() for line in self._calls.read_text().splitlines())
        return [(name, float(at)) for name, at in lines]

    def bare(self, pair: int, *, trials: int, export: str = "ALL") -> float:
        """Return the seconds from the first sbatch to the end of the last of ``trials`` bare jobs.

        All parts share those of a pair. ``export``: that option of sbatch, whose default is ALL.
        """
        if (pair, export) not in self._bare:
            self._bare[pair, export] = self._run_bare(f"bare{pair}{export}", trials, export)
        return self._bare[pair, export]

    def _run_bare(self, name: str, trials: int, export: str) -> float:
        ends = self._ground.folder(name)
        script = ends.with_suffix(".sh")
        script.write_text(BARE.format(python=self._ground.python, ends=ends, export=export))
        environ = {**plain_environ(), **{key: self.cluster.environ[key] for key in ("PATH", "SLURM_CONF")}}
        begun = time.monotonic()
        for _ in range(trials):
            subprocess.run(["sbatch", str(script)], env=environ, check=True, stdout=subprocess.DEVNULL)
        for _ in looks(60 + PER_TRIAL_S * trials):
            if len(list(ends.iterdir())) == trials:
                break
        seconds = time.monotonic() - begun
        self._settle()
        return seconds

    def _settle(self) -> None:
        """Wait until no job of the previous turn is left on the nodes."""
        for _ in looks(120):
            if not self.cluster.run("squeue", "-h").stdout.strip():
                return


@contextlib.contextmanager
def _field(ground: Ground) -> Iterator[Field]:
    """Yield a field with a running server, whose program and whose cluster have run once."""
    with SlurmCluster(nodes=NODES, cpus=CPUS) as cluster, ground.product("slurm") as own:
        found = Field(ground, own, cluster)
        found.run("warm", trials=NODES * CPUS, cpus=CPUS)
        yield found


def pilots(field: Field, options: argparse.Namespace) -> Iterator[Row]:
    turns, bares = [], []
    for number in range(options.pairs):
        bares.append(field.bare(number, trials=options.bare))
        turns.append(field.run(f"pilots{number}", trials=options.trials, cpus=CPUS))
    rates = {
        "ours": [options.trials / turn.seconds for turn in turns],
        "bare": [options.bare / seconds for seconds in bares],
    }
    yield rates_row(
        f"trials a second in {NODES} allocations of {CPUS} CPUs, over one bare sbatch for each",
        rates,
        limit=20,
        details={"trials": options.trials, "bare_jobs": options.bare},
    )
    yield Row(
        name="calls of Slurm's commands per trial, in allocations that run many",
        value=statistics.median(turn.calls.total() for turn in turns) / options.trials,
        unit="",
        better=Better.LESS,
        limit=0.02,
        details=_calls(turns),
    )


def own(field: Field, options: argparse.Namespace) -> Iterator[Row]:
    turns, bares = [], []
    for number in range(options.pairs):
        bares.append(field.bare(number, trials=options.bare, export="NONE"))
        # all at once, as bare jobs: Slurm decides when each starts
        turns.append(field.run(f"own{number}", trials=options.bare, concurrency=options.bare, perTrial=True))
    rates = {
        "ours": [options.bare / turn.seconds for turn in turns],
        "bare": [options.bare / seconds for seconds in bares],
    }
    yield rates_row(
        f"{options.bare} trials a second with an allocation each, over one bare sbatch for each",
        rates,
        limit=0.9,
        details=_calls(turns),
    )


def spill(field: Field, options: argparse.Namespace) -> Iterator[Row]:
    late = [field.spill(f"spill{number}") for number in range(options.pairs)]
    yield Row(
        name="a trial that has waited here for its time, from then to its sbatch",
        value=statistics.median(late),
        unit="s",
        better=Better.LESS,
        limit=2,
        details={"runs": len(late)},
    )


def _calls(turns: list[Turn]) -> dict[str, float]:
    """Return the number of calls of each command, for the details of a row."""
    return {name: statistics.median(turn.calls[name] for turn in turns) for name in COMMANDS}


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    reason = missing()
    if reason is not None:
        yield Row(name="slurm", value=None, unit="", better=Better.MORE, note=reason)
        return
    with _field(ground) as field:
        for name in options.parts:
            yield from {"pilots": pilots, "own": own, "spill": spill}[name](field, options)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--trials", type=int, default=1000, help="in allocations that run many")
    parser.add_argument("--bare", type=int, default=60, help="bare jobs, and trials with an allocation each")
    parser.add_argument("--pairs", type=int, default=2)


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)

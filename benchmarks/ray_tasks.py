"""Trials in a Ray cluster on this machine, compared with bare tasks of Ray that run a command each.

    python -m benchmarks.ray_tasks [--trials 400] [--bare 400] [--pairs 3]

Trials a second in an allocation that runs many, from the first trial's end to the last one's, so that its
keeper is warm. They are compared, in turn, with tasks of Ray on warm workers, of which each runs the same
program, whose SDK then finds no server, and waits for it. The other row is the first trial in a cluster
without an allocation, from the request that creates the experiment to its end, over one bare job of Ray that
runs a program without an SDK.

The cluster is that of Ray's tests. Requirements: Ray, in the folder that NNIMGR_TEST_RAY names.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import program
from benchmarks.ground import Ground, Look, create, looks, plain_environ
from benchmarks.peers.ask import Peers
from benchmarks.report import Better, Row, rates_row
from benchmarks.throughput import check
from tests.e2e.product import Product
from tests.ray.cluster import RayCluster
from tests.ray.cluster import program as ray_program

CPUS = 2
PER_TRIAL_S = 10.0  # limit per trial
COMMAND = "print(0.5)"
TRIAL = """import nni
nni.report_final_result(nni.get_next_parameter(default={"x": 0.5})["x"])
"""
# Runs tasks and prints the seconds that they take. Its workers have run a task before.
BARE = """
import os, subprocess, sys, time
import ray
ray.init(address=sys.argv[4], log_to_driver=False)

@ray.remote(num_cpus=1, max_retries=0)
def run(words, sdk):
    environ = {**os.environ, "PYTHONPATH": sdk}
    return subprocess.run(words, env=environ, capture_output=True, check=True).stdout

how = sys.argv[1:3], sys.argv[5]
ray.get([run.remote(*how) for _ in range(8)])
begun = time.monotonic()
assert all(b"0.5" in said for said in ray.get([run.remote(*how) for _ in range(int(sys.argv[3]))]))
print(time.monotonic() - begun)
"""


class Field:
    """Our server and a cluster."""

    def __init__(self, ground: Ground, own: Product, cluster: RayCluster) -> None:
        self.own, self.cluster = own, cluster
        self._ground = ground

    def run(self, name: str, *, trials: int) -> tuple[float, float]:
        """Run one experiment and check it row by row. Leave nothing of it in the cluster.

        Return the trials a second after the first, and the seconds until the first has ended.
        """
        experiment = create(
            self.own,
            name,
            TRIAL,
            trialCommand=f"{self._ground.python} trial.py",
            trialConcurrency=CPUS,
            trialCpuNumber=1,
            maxTrialNumber=trials,
            trainingService={
                "platform": "ray",
                "address": self.cluster.address,
                "token": self.cluster.token,
                "python": str(self._ground.python),
                "cpus": CPUS,
                "idle": "1s",
            },
        )
        look = Look(self.own, experiment)
        look.wait_done(60 + PER_TRIAL_S * trials)
        check(look, trials)
        [(made,)] = look.rows("SELECT created_at FROM experiments")
        [(first, last)] = look.rows("SELECT MIN(ended_at), MAX(ended_at) FROM trials")
        look.close()
        self.own.nnictl("stop", experiment)
        self._settle()
        return (trials - 1) * 1e6 / max(1, last - first), (first - made) / 1e6

    def tasks(self, number: int) -> float:
        """Return the tasks a second of a driver that runs ``number`` of them on warm workers."""
        folder = self._ground.folder("driver")
        script, trial = folder / "tasks.py", folder / "trial.py"
        script.write_text(BARE)
        trial.write_text(TRIAL)
        command = ray_program()
        assert command is not None
        words = [str(command.with_name("python")), str(script), str(self._ground.python), str(trial)]
        environ = {**plain_environ(), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": str(self.cluster.token)}
        words += [str(number), self.cluster.gcs, str(Path(__file__).parent.parent)]
        done = subprocess.run(words, env=environ, check=True, stdout=subprocess.PIPE, text=True)
        return number / float(done.stdout.split()[-1])

    def job(self, name: str) -> float:
        """Return the seconds from the submission of a bare job to its end."""
        begun = time.monotonic()
        entry = f"exec {self._ground.python} -c '{COMMAND}'"
        body = {"submission_id": name, "entrypoint": entry, "entrypoint_num_cpus": 1}
        self.cluster.ask("POST", "/api/jobs/", body)
        for _ in looks(60):
            if self.cluster.jobs()[name] in ("SUCCEEDED", "FAILED"):
                break
        return time.monotonic() - begun

    def _settle(self) -> None:
        """Wait until no job of the previous turn is left in the cluster."""
        for _ in looks(120):
            if not {"RUNNING", "PENDING"} & set(self.cluster.jobs().values()):
                return


@contextlib.contextmanager
def _field(ground: Ground) -> Iterator[Field]:
    """Yield a field with a running server, whose program and whose cluster have run once."""
    with RayCluster(cpus=CPUS) as cluster, ground.product("ray") as own:
        found = Field(ground, own, cluster)
        found.run("warm", trials=CPUS)
        found.job("warm")
        yield found


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    if ray_program() is None:
        note = "no Ray here: NNIMGR_TEST_RAY names no folder with bin/ray"
        yield Row(name="ray", value=None, unit="", better=Better.MORE, note=note)
        return
    with _field(ground) as field:
        turns, bares, jobs = [], [], []
        for number in range(options.pairs):
            bares.append(field.tasks(options.bare))
            turns.append(field.run(f"many{number}", trials=options.trials))
            jobs.append(field.job(f"bare{number}"))
        yield rates_row(
            f"trials a second in a warm allocation of Ray with {CPUS} CPUs, over bare tasks on warm workers",
            {"ours": [rate for rate, _ in turns], "bare": bares},
            limit=1,
            details={"trials": options.trials, "bare_tasks": options.bare},
        )
        yield Row(
            name="seconds to the end of the first trial without an allocation, over a bare job of Ray",
            value=statistics.median(first / job for (_, first), job in zip(turns, jobs, strict=True)),
            unit="times",
            better=Better.LESS,
            limit=2,
            details={
                "pairs": options.pairs,
                "ours_s": statistics.median(first for _, first in turns),
                "bare_s": statistics.median(jobs),
            },
        )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=400, help="in an allocation")
    parser.add_argument("--bare", type=int, default=400, help="bare tasks")
    parser.add_argument("--pairs", type=int, default=3)


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)

"""Resident trials under kill -9: every trial shows one uninterrupted run, and no attempt runs twice.

The state of a trial is a chain of hashes, as in ``test_checkpoints``. Trials are short, so that many kills
hit the moments between two trials of a process.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.kill import Victim
from tests.processes import of_home
from trial_keeper.machine import procs

STEPS = 12
TRIALS = 40
KILLS = 40

CODE = f"""
import os, time
import nni


class Chain:
    steps = {STEPS}
    save_every = 4

    def setup(self, parameters):
        self.reset(parameters)

    def reset(self, parameters):
        self.state = {{"step": 0, "chain": parameters["seed"]}}
        path = os.path.join(os.environ["KILL_RECORDS"], os.environ["NNIMGR_JOB_ID"])
        with open(path, "a") as file:
            file.write(f"{{os.getpid()}}\\n")
        print("begin", os.environ["NNIMGR_JOB_ID"])

    def load(self, state):
        self.state = state

    def save(self):
        return self.state

    def step(self):
        time.sleep(0.01)
        step = self.state["step"]
        self.state = {{"step": step + 1, "chain": (self.state["chain"] * 6364136223846793005 + step) % 2**53}}
        return self.state["chain"]
"""


def curve(seed: int) -> list[tuple[str, int, float]]:
    """Return the metrics of an uninterrupted run: type, sequence number and value."""
    found = []
    for step in range(STEPS):
        seed = (seed * 6364136223846793005 + step) % 2**53
        found.append(("PERIODICAL", step, float(seed)))
    return [*found, ("FINAL", 0, float(seed))]


class Residents(Victim):
    """Experiment with resident trials that save checkpoints."""

    def begin(self, *, trials: int = TRIALS, concurrency: int = 2) -> None:
        code = self.directory / "code"
        code.mkdir()
        (code / "chain.py").write_text(CODE)
        self.experiment = self.create(
            "code",
            {
                "searchSpace": {"seed": {"_type": "randint", "_value": [1, 1_000_000]}},
                "trialCommand": "python3 -m nni.run chain.py:Chain",
                "trialCodeDirectory": str(code),
                "trialConcurrency": concurrency,
                "maxTrialNumber": trials,
                "preload": ["colorsys"],
                "resident": True,
                "maxRetries": {"userError": 100, "infrastructure": 100},
                "tuner": {"name": "Random"},
            },
        )

    def pids(self, kind: str) -> list[int]:
        if kind not in ("spawner", "shim", "worker"):
            return super().pids(kind)
        found = {process.pid for process in of_home(self.home) if " resident " in process.command}
        depths = {pid: len(found.intersection(procs.ancestors(pid))) for pid in found}
        wanted = ("spawner", "shim", "worker").index(kind)
        pids = [pid for pid, depth in depths.items() if depth == wanted]
        return [self.draw.choice(pids)] if pids else []

    def strike(self, kind: str) -> int:
        """Kill -9 a process of this kind as soon as there is one, and return how many were killed."""
        deadline = time.monotonic() + 20
        while not (pids := self.pids(kind)) and not self.ended() and time.monotonic() < deadline:
            self.serve()
            time.sleep(0.02)
        procs.signal_all(pids, signal.SIGKILL)
        return len(pids)

    def finish(self, *, limit_s: float) -> None:
        """Wait until the experiment is done."""
        deadline = time.monotonic() + limit_s
        while not self.ended():
            assert time.monotonic() < deadline, self.status()
            self.serve()
            time.sleep(0.1)

    def check(self) -> None:
        """Compare the curve and the output of each trial with an uninterrupted run."""
        with contextlib.closing(self._database()) as database:
            trials = database.execute("SELECT trial_id, attempt, parameters, status FROM trials").fetchall()
            assert len(trials) == TRIALS and {status for *_, status in trials} == {"SUCCEEDED"}
            for trial_id, attempt, parameters, _ in trials:
                rows = database.execute(
                    "SELECT type, sequence, value FROM metrics WHERE trial_id = ? AND attempt = ? "
                    "ORDER BY position",
                    (trial_id, attempt),
                ).fetchall()
                assert rows == curve(json.loads(parameters)["seed"]), (trial_id, attempt)
                folder = self.folder / "trials" / trial_id
                output = (folder if attempt == 1 else folder / f"attempt-{attempt}") / "stdout"
                assert output.read_text() == f"begin {self.experiment}-{trial_id}-{attempt}\n"
        starts = {path.name: path.read_text().split() for path in self.records.iterdir()}
        starts = {job: pids for job, pids in starts.items() if pids}  # others were killed before their word
        twice = {job: pids for job, pids in starts.items() if len(pids) != 1}
        assert not twice, "an attempt was started twice"
        assert len({pids[0] for pids in starts.values()}) < len(starts), "no process has run two trials"


@contextlib.contextmanager
def residents(seed: int) -> Iterator[Residents]:
    with tempfile.TemporaryDirectory(prefix="nnimgr-resident-") as directory:
        made = Residents(Path(directory), random.Random(seed))
        made.begin()
        try:
            yield made
        finally:
            made.end()


@pytest.mark.kill
@pytest.mark.parametrize("seed", [1, 2])
def test_every_trial_shows_one_run_whoever_is_killed(seed: int) -> None:
    with residents(seed) as victim:
        struck = dict.fromkeys(("worker", "shim", "spawner"), 0)
        for _ in range(KILLS):
            time.sleep(victim.draw.uniform(0.02, 0.3))
            match victim.draw.choice(["worker", "shim", "worker", "shim", "spawner", "keeper", "server"]):
                case "worker" | "shim" | "spawner" as kind:
                    struck[kind] += victim.strike(kind)
                case kind:
                    victim.kill(kind)
                    victim.serve()
        victim.finish(limit_s=180)
        victim.check()
        assert min(struck.values()) > 0, struck
        assert victim.leftovers() == []

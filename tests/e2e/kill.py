"""Kills server, keeper, dispatcher children and their zygote, and compares what is left row by row.

    python -m tests.e2e.kill --server 100 --keeper 100 --dispatcher 30 --zygote 30 --all 30 [--seed 1]

Trials of one to three seconds report 20 metrics each, and write what they do to files of their own that
the product knows nothing of. Only kills while a trial runs count. Some come within 50 ms after a start, some
two in a row. Afterwards each attempt must have started once, every metric must be in the database once and in
order, and no process may be left.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.product import Product
from tests.processes import dispatchers, holders, kill, of_home, zygotes

METRICS = 20
KINDS = ("server", "keeper", "dispatcher", "zygote", "all")

TRIAL = """
import os, random, time
import nni
nni.get_next_parameter()
job = os.environ["NNIMGR_JOB_ID"]
started = time.time()
own = os.open(os.path.join(os.environ["KILL_RECORDS"], job), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(own, b"start %s %d %.6f\\n" % (job.encode(), os.getpid(), started))
draw = random.Random(job)
pause = draw.uniform(1.0, 3.0) / 20
for number in range(20):
    time.sleep(pause)
    value = draw.random()
    os.write(own, b"metric %d %r\\n".replace(b"%r", repr(value).encode()) % number)
    if number < 19:
        nni.report_intermediate_result(value)
    else:
        nni.report_final_result(value)
os.write(own, b"end\\n")
"""


@dataclass(slots=True)
class Tally:
    """Kills that count, by kind, and what the comparison found."""

    kills: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    experiments: int = 0
    attempts: int = 0
    metrics: int = 0

    def __str__(self) -> str:
        return json.dumps(
            {
                "experiments": self.experiments,
                "kills": self.kills,
                "attempts": self.attempts,
                "metrics": self.metrics,
            }
        )


class Disagreement(AssertionError):
    """Files and database tell different stories."""


class Victim(Product):
    """One experiment under attack."""

    def __init__(self, directory: Path, draw: random.Random) -> None:
        super().__init__(directory)
        self.draw = draw
        self.records = directory / "records"
        self.records.mkdir()
        self.environ["KILL_RECORDS"] = str(self.records)
        self.experiment = ""
        self.starts_seen = 0
        self.servers: list[subprocess.Popen[bytes]] = []  # those that we have started ourselves

    @property
    def folder(self) -> Path:
        return self.home / self.experiment

    def begin(self, *, trials: int, concurrency: int) -> None:
        code = self.directory / "code"
        code.mkdir()
        (code / "trial.py").write_text(TRIAL)
        self.experiment = self.create(
            "code",
            {
                "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
                "trialCommand": "python3 trial.py",
                "trialCodeDirectory": str(code),
                "trialConcurrency": concurrency,
                "maxTrialNumber": trials,
                "tuner": {"name": "Random"},
                "assessor": {"name": "Medianstop", "classArgs": {"start_step": 1000}},
            },
        )

    # ---- killing ------------------------------------------------------------------------------------------

    def pids(self, kind: str) -> list[int]:
        if kind == "server":
            return [p.pid for p in of_home(self.home) if "nnimgr.server" in p.command]
        if kind == "keeper":
            return holders(self.folder / "keeper" / "lock")
        if kind == "dispatcher":
            return [process.pid for process in dispatchers(self.home)]
        if kind == "zygote":
            return [process.pid for process in zygotes(self.home)]
        return [pid for each in KINDS[:-1] for pid in self.pids(each)]

    def trial_runs(self) -> bool:
        for path in self.records.iterdir():
            lines = path.read_bytes().splitlines()
            if lines and lines[-1] != b"end":
                return True
        return False

    def wait_for_start(self, deadline: float) -> None:
        """Return as soon as another attempt has started."""
        while time.monotonic() < deadline:
            seen = len(os.listdir(self.records))
            if seen > self.starts_seen:
                self.starts_seen = seen
                return
            time.sleep(0.002)

    def kill(self, kind: str) -> bool:
        """kill -9; whether it counts. Returns when the processes have ended and their ports are free."""
        counts = self.trial_runs()
        pids = self.pids(kind)
        killed = []
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                killed.append(os.pidfd_open(pid))
                signal.pidfd_send_signal(killed[-1], signal.SIGKILL)
        for process in killed:
            select.select([process], [], [])
            os.close(process)
        return counts and bool(pids)

    def serve(self) -> None:
        """Start the server again if it is gone, as nnictl would; wait until it listens."""
        if self.pids("server"):
            return
        ready, said = os.pipe()
        log = open(self.directory / "server.log", "ab")
        with log:
            server = subprocess.Popen(
                [
                    *(sys.executable, "-m", "nnimgr.server.main", "serve", "--port", str(self.port)),
                    *("--until-idle", "--ready-fd", str(said)),
                ],
                env=self.environ,
                pass_fds=[said],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.servers.append(server)
        os.close(said)
        if os.read(ready, 1) == b"":
            raise RuntimeError((self.directory / "server.log").read_text()[-3000:])
        os.close(ready)

    def end(self) -> None:
        """Stop all experiments, and end the servers that were started here."""
        self.stop_all()
        for server in self.servers:
            server.kill()
            server.wait()

    # ---- comparing ----------------------------------------------------------------------------------------

    def status(self, experiment_id: str = "") -> str:  # type: ignore[override]
        with contextlib.closing(self._database()) as database:
            return str(database.execute("SELECT status FROM experiments").fetchone()[0])

    def ended(self) -> bool:
        try:
            return self.status() in ("DONE", "ERROR")
        except sqlite3.Error:
            return False

    def _database(self) -> sqlite3.Connection:
        return sqlite3.connect(f"file:{self.folder}/db/nnimgr.sqlite?mode=ro", uri=True)

    def compare(self, tally: Tally, *, trials: int) -> None:
        """Raise Disagreement unless files and database agree row by row."""
        with contextlib.closing(self._database()) as database:
            status = database.execute("SELECT status, reason FROM experiments").fetchone()
            if status[0] != "DONE":
                raise Disagreement(f"the experiment is {status}")
            rows = database.execute(
                "SELECT trial_id, attempt, position, type, text FROM metrics ORDER BY number"
            ).fetchall()
            jobs = database.execute("SELECT job_id, end_reason, exit_code, frames FROM jobs").fetchall()
            ends = database.execute("SELECT trial_id, status FROM trials").fetchall()
        stored: dict[str, list[tuple[int, str, str]]] = {}
        for trial_id, attempt, position, kind, text in rows:
            job_id = f"{self.experiment}-{trial_id}-{attempt}"
            stored.setdefault(job_id, []).append((position, kind, text))
        written = {}
        for path in self.records.iterdir():
            lines = path.read_text().splitlines()
            if [line.split()[0] for line in lines] != ["start", *["metric"] * METRICS, "end"]:
                raise Disagreement(f"{path.name} did not run once, from its start to its end: {lines}")
            written[path.name] = [
                (number, "FINAL" if number == METRICS - 1 else "PERIODICAL", line.split()[2])
                for number, line in enumerate(lines[1:-1])
            ]
        if written != stored:
            different = {
                job: (written.get(job), stored.get(job))
                for job in {*written, *stored}
                if written.get(job) != stored.get(job)
            }
            raise Disagreement(f"metrics differ: {different}")
        if sorted(jobs) != sorted((job, "exited", 0, METRICS) for job in written):
            raise Disagreement(f"jobs differ from what ran: {jobs}")
        if len(ends) != trials or {status for _, status in ends} != {"SUCCEEDED"}:
            raise Disagreement(f"trials ended otherwise: {ends}")
        tally.attempts += len(jobs)
        tally.metrics += len(rows)

    def leftovers(self, *, limit_s: float = 15.0) -> list[str]:
        """What still runs of this home after everything was stopped."""
        self.serve()  # the last one may have died before it had ended everything
        self.nnictl("stop", self.experiment)
        # one without experiments would linger for those to come
        kill(*self.pids("server"), by=signal.SIGTERM)
        deadline = time.monotonic() + limit_s
        while (left := of_home(self.home)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return [process.command for process in left]


def attack(
    tally: Tally,
    *,
    wanted: dict[str, int],
    draw: random.Random,
    trials: int = 12,
    concurrency: int = 3,
    limit_s: float = 180.0,
) -> None:
    """One experiment under kills until it ends; raises Disagreement."""
    with victim(draw) as target:
        target.begin(trials=trials, concurrency=concurrency)
        tally.experiments += 1
        deadline = time.monotonic() + limit_s
        while not target.ended():
            if time.monotonic() > deadline:
                raise Disagreement(f"not done after {limit_s} s: {target.status()}")
            left = [kind for kind in KINDS if tally.kills[kind] < wanted.get(kind, 0)]
            if left:
                strike(target, tally, draw.choice(left), draw=draw)
            else:
                time.sleep(0.2)
            target.serve()
        target.compare(tally, trials=trials)
        if left_over := target.leftovers():
            raise Disagreement(f"left running: {left_over}")


def strike(target: Victim, tally: Tally, kind: str, *, draw: random.Random) -> None:
    """One kill (or two in a row) at a random instant, sometimes within 50 ms after a start."""
    if draw.random() < 0.4:
        target.wait_for_start(time.monotonic() + 1.5)
        time.sleep(draw.uniform(0, 0.05))
    else:
        time.sleep(draw.uniform(0.05, 0.7))
    tally.kills[kind] += target.kill(kind)
    if draw.random() < 0.25:
        time.sleep(draw.uniform(0, 0.2))
        if kind in ("server", "all"):
            target.serve()
        tally.kills[kind] += target.kill(kind)


@contextlib.contextmanager
def victim(draw: random.Random) -> Iterator[Victim]:
    directory = Path(tempfile.mkdtemp(prefix="nnimgr-kill-"))
    target = Victim(directory, draw)
    try:
        yield target
    except BaseException:
        sys.stderr.write(f"what is left of it: {directory}\n")
        _kill_all(target)
        raise
    _kill_all(target)
    shutil.rmtree(directory)


def _kill_all(target: Victim) -> None:
    kill(*(process.pid for process in of_home(target.home)))
    for server in target.servers:
        server.wait()


def campaign(wanted: dict[str, int], *, seed: int, say: Callable[[str], object]) -> Tally:
    """Experiments until all wanted kills are counted."""
    tally, draw = Tally(), random.Random(seed)
    while any(tally.kills[kind] < number for kind, number in wanted.items()):
        attack(tally, wanted=wanted, draw=draw)
        say(str(tally))
    return tally


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    wanted = {kind: getattr(options, kind) for kind in KINDS}
    campaign(wanted, seed=options.seed, say=lambda line: sys.stdout.write(line + "\n") and sys.stdout.flush())


if __name__ == "__main__":
    main()

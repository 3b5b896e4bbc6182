"""Kills what belongs to gangs on machines in namespaces (needs root), and compares what is left row by row.

    python -m tests.e2e.gang_kill --gangs 100 [--at-once 8] [--seed 1]

A gang is a trial with members on two of three machines. Its leader reports 10 metrics, and each member writes
what it does to a file of its own that the product knows nothing of. Meanwhile workers, shims, keepers and the
server are killed, machines are restarted, and links are cut for a moment. Afterwards no member may have
started twice, the metrics of each attempt must be in the database once and in order, and no process may be
left.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.remote import Field
from tests.e2e.remote import field as field_of
from tests.e2e.scene import eventually
from tests.machines.bed import Bed, bed
from tests.machines.machine import Machine, kill
from tests.processes import Process

METRICS = 10
KINDS = ("worker", "shim", "keeper", "server", "host", "link")
LAST_KINDS = ("worker", "shim", "keeper")  # of the last gang of an experiment
OF_ONE_EXPERIMENT = 10  # gangs, for each that runs at the same time
AT_ONCE = 2
CUT_S = (0.3, 4.0)
LIMIT_S = 600.0
MOST_STRIKES = 8  # for each gang: on a slow machine, no gang would ever end between two strikes

TRIAL = """
import os, random, select
import nni

nni.get_next_parameter()
rank, job = os.environ["NNIMGR_GANG_RANK"], os.environ["NNIMGR_JOB_ID"].partition(".")[0]
own = os.open(f"{os.environ['RECORDS']}/{job}.{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(own, b"start\\n")
draw = random.Random(job)
for number in range(10):
    select.select([], [], [], draw.uniform(0.1, 0.3))
    value = draw.random()
    if rank == "0":
        os.write(own, f"metric {value!r}\\n".encode())
        (nni.report_final_result if number == 9 else nni.report_intermediate_result)(value)
os.write(own, b"end\\n")
"""


@dataclass(slots=True)
class Tally:
    """Gangs that have ended, their attempts and metrics, and what was struck."""

    gangs: int = 0
    attempts: int = 0
    metrics: int = 0
    strikes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))

    def __str__(self) -> str:
        return json.dumps(
            {
                "gangs": self.gangs,
                "attempts": self.attempts,
                "metrics": self.metrics,
                "strikes": self.strikes,
            }
        )


class Target(Field):
    """One experiment under attack."""

    def begin_gangs(self, number: int, *, at_once: int) -> None:
        code = self.directory / "code"
        code.mkdir()
        (code / "trial.py").write_text(TRIAL)
        retries = {"userError": 1000, "infrastructure": 1000}
        self.create(
            "python3 trial.py",
            gang={"nodes": 2, "exitBarrier": "5s"},
            trialCodeDirectory=str(code),
            trialConcurrency=at_once,
            maxTrialNumber=number,
            maxRetries=retries,
            failFast=0,
            silentAfter="2s",
            trainingService={
                "platform": "remote",
                "keepAliveInterval": 1,
                "machineList": [machine.entry() for machine in self.machines],
            },
        )

    # ---- harm ----------------------------------------------------------------------------------------------

    def strike(self, kind: str, draw: random.Random) -> bool:
        """Do harm of this kind to a machine or to the server. Return False if there was nothing to harm."""
        machine = draw.choice(self.machines)
        match kind:
            case "server":
                self.restart()
                return True
            case "host":
                machine.reboot()
                return True
            case "link":
                machine.link.cut()
                time.sleep(draw.uniform(*CUT_S))
                machine.link.restore()
                return True
            case "keeper":
                return bool(machine.kill_keepers())
        victims = self.trials_on(machine) if kind == "worker" else self.shims_on(machine)
        return bool(kill([draw.choice(victims)])) if victims else False

    def trials_on(self, machine: Machine) -> list[Process]:
        return [each for each in machine.processes() if each.command.endswith("trial.py")]

    def shims_on(self, machine: Machine) -> list[Process]:
        """Return the shims of the members on a machine, which are the parents of the crews."""
        every = {each.pid: each for each in machine.processes()}
        crews = [every.get(each.parent) for each in self.trials_on(machine)]
        return [every[crew.parent] for crew in crews if crew is not None and crew.parent in every]

    # ---- what is left --------------------------------------------------------------------------------------

    def compare_gangs(self, tally: Tally, number: int) -> None:
        """Check what has run, and what is recorded."""
        written: dict[str, list[str]] = {}
        ended: set[str] = set()
        for machine in self.machines:
            for path in machine.records.iterdir():
                lines = path.read_text().splitlines()
                if not lines:  # it was killed before its first word
                    continue
                assert path.name not in ended, f"{path.name} has run on two machines"
                assert lines.count("start") == 1, f"{path.name} has started twice: {lines}"
                job, _, rank = path.name.rpartition(".")
                if rank == "0":
                    assert job not in written, f"{job} has run on two machines"
                    written[job] = [line.split()[1] for line in lines if line.startswith("metric")]
                    if lines[-1] == "end":
                        ended.add(job)
        lost = {job for job, reason in self.rows("SELECT job_id, end_reason FROM jobs") if reason == "lost"}
        recorded: dict[str, list[str]] = {}
        for trial_id, attempt, position, text in self.rows(
            "SELECT trial_id, attempt, position, text FROM metrics ORDER BY number"
        ):
            found = recorded.setdefault(f"exp-{trial_id}-{attempt}", [])
            assert position == len(found), f"metric {position} of {trial_id} attempt {attempt}"
            found.append(text)
        for job, texts in written.items():
            known = recorded.pop(job, [])
            assert known == texts[: len(known)], f"{job} has reported {texts}, and {known} is recorded"
            unfinished = 0 if job in ended else 1  # it was killed before it has reported what it has written
            missing = len(texts) - len(known)
            assert job in lost or missing <= unfinished, f"{missing} metrics of {job} are lost"
        assert not recorded, f"metrics of attempts that have not run: {recorded}"
        statuses = [row[0] for row in self.rows("SELECT status FROM trials")]
        assert statuses == ["SUCCEEDED"] * number, statuses
        tally.gangs += number
        tally.attempts += len(written)
        tally.metrics += sum(map(len, written.values()))

    def left(self) -> list[str]:
        """Return the commands of the keepers and trials that still run."""
        every = [each for machine in self.machines for each in (*self.trials_on(machine), *machine.keepers())]
        return [each.command for each in every if "attendant" not in each.command]


def attack(
    tally: Tally, found: Bed, directory: Path, draw: random.Random, number: int, *, at_once: int
) -> None:
    """Let one experiment with so many gangs run to its end, while what belongs to it is struck."""
    machines = [found.machine() for _ in range(3)]
    with field_of(directory, found, machines, kind=Target) as target:
        assert isinstance(target, Target)
        target.begin_gangs(number, at_once=at_once)
        target.running()
        strikes_of_last = 0
        for _ in range(MOST_STRIKES * number):
            time.sleep(draw.uniform(0.0, 0.7))
            if _is_done(target):
                break
            # a keeper that misses the end, because the server is killed then, leaves only minutes later
            is_last = len(target.rows("SELECT 1 FROM trials WHERE ended_at IS NULL")) <= at_once // 2
            strikes_of_last += is_last
            if strikes_of_last > MOST_STRIKES:  # each failure makes the pause before the next attempt longer
                break
            kind = draw.choice(LAST_KINDS if is_last else KINDS)
            tally.strikes[kind] += target.strike(kind, draw)
        eventually(lambda: _is_done(target), "the end of all gangs", LIMIT_S)
        target.compare_gangs(tally, number)
        target.server.call("POST", f"{target.url}/stop")  # until then, a keeper that missed the end may start
        with contextlib.suppress(AssertionError):
            eventually(lambda: not target.left(), "the end of all keepers and trials", 60)
        assert not (left := target.left()), left


def _is_done(target: Target) -> bool:
    return bool(target.rows("SELECT 1 FROM experiments WHERE status = 'DONE'"))


def campaign(gangs: int, *, seed: int, say: Callable[[str], object], at_once: int = AT_ONCE) -> Tally:
    """Run experiments until so many gangs have ended. ``at_once``: gangs that run at the same time."""
    tally, draw = Tally(), random.Random(seed)
    while tally.gangs < gangs:
        number = min(OF_ONE_EXPERIMENT * at_once, gangs - tally.gangs)
        with bed() as found, tempfile.TemporaryDirectory(prefix="nnimgr-gangs-") as directory:
            attack(tally, found, Path(directory), draw, number, at_once=at_once)
        say(str(tally))
    return tally


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--gangs", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    campaign(
        options.gangs,
        seed=options.seed,
        at_once=options.at_once,
        say=lambda line: sys.stdout.write(line + "\n") and sys.stdout.flush(),
    )


if __name__ == "__main__":
    main()

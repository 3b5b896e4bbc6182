"""Trials on machines over SSH. The machines are simulated on this one, in network namespaces (needs root).

    python -m benchmarks.remote [--parts throughput first cut many] [--pairs 3] [--runs 5] [--cut 60] ...

``throughput``: trials of 0.2 s on four machines, in turn with the same trials on this machine's own keeper.
``first``: the time from the request that creates an experiment to its first trial's start, on a new machine
and on a known one, compared with a bare ``ssh host python3 -c pass`` and ``scp`` of the bytes that are sent.
``cut``: one of three links is cut in the middle; the trials and the stored rows are compared.
``many``: 100 machines with 10 trials each that report every 2 s: the server's CPU per metric, relative to one
such machine, and to one machine with all trials.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import proc, program
from benchmarks.ground import Ground, Look, create, looks, server_pid
from benchmarks.peers.ask import Peers
from benchmarks.report import Better, Row, rates_row
from benchmarks.throughput import check
from tests.e2e.product import Product
from tests.e2e.remote import METRICS, field
from tests.e2e.scene import eventually
from tests.machines.bed import Bed, bed
from tests.machines.machine import Machine
from training_services.ssh.bootstrap import program as keeper_program

PARTS = ("throughput", "first", "cut", "many")
TRIAL = """import select
import nni
value = nni.get_next_parameter()["x"]
select.select([], [], [], 0.2)
nni.report_final_result(value)
"""
# Only one process, the shell, so that a thousand trials fit on the machine.
REPORTER = """exec 7<> <(:)
for n in {0..9999}; do
  v='{"parameter_id": 0, "trial_job_id": "'$NNI_TRIAL_JOB_ID'", "type": "PERIODICAL", '
  v+='"sequence": '$n', "value": "1"}'
  printf 'ME%06d%s' ${#v} "$v" >> "$NNI_OUTPUT_DIR/.nni/metrics"
  read -r -t 2 -u 7
done
"""
UP_S = 240.0
STEADY_S = 5.0
TRIALS_EACH = 10  # trials on each of many machines


@contextlib.contextmanager
def served(ground: Ground, name: str, found: Bed) -> Iterator[Product]:
    """Yield a product that logs in as the bed's client."""
    with ground.product(name) as own:
        own.environ = {**own.environ, "HOME": str(found.client), "SSH_AUTH_SOCK": ""}
        yield own


def remote(machines: Sequence[Machine]) -> dict[str, Any]:
    return {"platform": "remote", "machineList": [machine.entry() for machine in machines]}


def python() -> str:
    """Return an interpreter that exists on this machine and on the others."""
    return shutil.which("python3", path="/usr/bin:/bin") or "python3"


# ---- throughput --------------------------------------------------------------------------------------------


def throughput(ground: Ground, options: argparse.Namespace) -> Iterator[Row]:
    with bed() as found, served(ground, "remote", found) as own:
        machines = [found.machine() for _ in range(4)]
        places: dict[str, dict[str, Any]] = {"local": {"platform": "local"}, "remote": remote(machines)}
        for name, service in places.items():
            _rate(own, f"warm-{name}", service, trials=32, concurrency=8)
        rates: dict[str, list[float]] = {name: [] for name in places}
        logins, sessions = [], []
        for number in range(options.pairs):
            for name, service in places.items():
                before = [(machine.logins(), machine.sessions()) for machine in machines]
                rate = _rate(own, f"{name}{number}", service, trials=options.trials, concurrency=32)
                rates[name].append(rate)
                if name == "remote":
                    logins += [m.logins() - was[0] for m, was in zip(machines, before, strict=True)]
                    sessions += [m.sessions() - was[1] for m, was in zip(machines, before, strict=True)]
    yield rates_row(
        "trials of 0.2 s on 4 machines at concurrency 32, share of this machine's own keeper",
        {"remote": rates["remote"], "local": rates["local"]},
        limit=0.7,
        details={"trials": options.trials},
    )
    for what, counts in (("connections", logins), ("sessions", sessions)):
        yield Row(
            name=f"SSH {what} of an experiment to one machine",
            value=float(max(counts)),
            unit="",
            better=Better.LESS,
            limit=1,
        )


def _rate(own: Product, name: str, service: dict[str, Any], *, trials: int, concurrency: int) -> float:
    """Return the trials per second, from the first trial's start to DONE. Check the rows."""
    experiment = create(
        own,
        name,
        TRIAL,
        trialCommand=f"{python()} trial.py",
        trialConcurrency=concurrency,
        maxTrialNumber=trials,
        trainingService=service,
    )
    look = Look(own, experiment)
    look.wait_done(60 + trials)
    check(look, trials)
    begun, ended = look.rows("SELECT (SELECT min(started_at) FROM trials), ended_at FROM experiments")[0]
    look.close()
    return float(1e6 * trials / (ended - begun))


# ---- the first trial ---------------------------------------------------------------------------------------


def first(ground: Ground, options: argparse.Namespace) -> Iterator[Row]:
    with bed() as found, served(ground, "first", found) as own:
        machine, idle = found.machine(), found.machine()
        create(  # so that a server runs
            own,
            "idle",
            TRIAL,
            trialCommand="sleep 100000",
            trialConcurrency=1,
            maxTrialNumber=1,
            trainingService=remote([idle]),
        )
        new, seen, ssh, scp, sent = [], [], [], [], 0
        for number in range(options.runs):
            shutil.rmtree(machine.home / "nni-experiments", ignore_errors=True)
            new.append(_to_first_start(own, f"new{number}", machine))
            program_file = _keeper_file(machine)
            mark = program_file.stat().st_ino
            seen.append(_to_first_start(own, f"seen{number}", machine))
            sent += _keeper_file(machine).stat().st_ino != mark  # a keeper file that was sent is a new file
            ssh.append(_bare_ssh(found, machine))
            scp.append(_bare_scp(found, machine, ground.directory))
    bare = statistics.median(ssh) + statistics.median(scp)
    yield Row(
        name="request to the first trial's start on a machine never seen",
        value=statistics.median(new),
        unit="s",
        better=Better.LESS,
        limit=2 * bare + 1,
        details={"runs": options.runs, "ssh_s": statistics.median(ssh), "scp_s": statistics.median(scp)},
    )
    yield Row(
        name="request to the first trial's start on a machine seen before",
        value=statistics.median(seen),
        unit="s",
        better=Better.LESS,
        limit=2 * statistics.median(ssh) + 1,
        details={"runs": options.runs},
    )
    yield Row(
        name="uploads of the keeper to a machine seen before",
        value=float(sent),
        unit="",
        better=Better.LESS,
        limit=0,
    )


def _to_first_start(own: Product, name: str, machine: Machine) -> float:
    """Return the seconds from the experiment's creation to its first trial's start.

    All hosts share a clock.
    """
    experiment = create(
        own,
        name,
        TRIAL,
        trialCommand=f"{python()} trial.py",
        trialConcurrency=1,
        maxTrialNumber=1,
        trainingService=remote([machine]),
    )
    look = Look(own, experiment)
    look.wait_done(60)
    made, started = look.rows("SELECT created_at, (SELECT min(started_at) FROM trials) FROM experiments")[0]
    look.close()
    own.nnictl("stop", experiment)
    return float((started - made) / 1e6)


def _keeper_file(machine: Machine) -> Path:
    (path,) = (machine.home / "nni-experiments" / ".nnimgr" / "keeper").glob("*.pyz")
    return path


def _bare_ssh(found: Bed, machine: Machine) -> float:
    return _timed([*found.ssh_command(machine), f"{machine.user}@{machine.host}", "python3 -c pass"], found)


def _bare_scp(found: Bed, machine: Machine, directory: Path) -> float:
    file = directory / "program"
    file.write_bytes(keeper_program().packed)
    target = f"{machine.user}@{machine.host}:copied"
    return _timed(["scp", "-q", "-F", str(found.config), str(file), target], found)


def _timed(command: list[str], found: Bed) -> float:
    began = time.perf_counter()
    subprocess.run(command, env=found.environ, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return time.perf_counter() - began


# ---- a link that is cut ------------------------------------------------------------------------------------


def cut(ground: Ground, options: argparse.Namespace) -> Iterator[Row]:
    trials = 24
    with bed() as found:
        machines = [found.machine() for _ in range(3)]
        with field(ground.folder("cut"), found, machines) as running:
            long = max(2.0, options.cut / 2)
            running.begin(trials=trials, seconds=(long / 2, long))
            running.await_running(machines[0])
            machines[0].link.cut()
            eventually(lambda: "UNKNOWN" in _statuses(running.trials()), "a silent machine")
            time.sleep(options.cut)
            machines[0].link.restore()
            began = time.monotonic()
            eventually(lambda: "UNKNOWN" not in _statuses(running.trials()), "its return", 60.0)
            back_s = time.monotonic() - began
            running.compare(trials=trials)  # raises if a row is missing, doubled or out of order
            again = running.rows("SELECT count(*) FROM jobs WHERE attempt > 1")[0][0]
    yield Row(
        name=f"trials restarted, with one of 3 links cut for {options.cut:g} s and every row compared",
        value=float(again),
        unit="",
        better=Better.LESS,
        limit=0,
        details={"trials": trials, "metrics": trials * METRICS, "back_s": back_s},
    )


def _statuses(trials: Sequence[dict[str, Any]]) -> set[str]:
    return {trial["status"] for trial in trials}


# ---- many machines -----------------------------------------------------------------------------------------


def many(ground: Ground, options: argparse.Namespace) -> Iterator[Row]:
    count = options.machines

    def measured(machines: int, each: int) -> float:
        return _cpu_us(ground, machines=machines, each=each, seconds=options.seconds)

    alone, crowded, spread = (
        measured(1, TRIALS_EACH),
        measured(1, TRIALS_EACH * count),
        measured(count, TRIALS_EACH),
    )
    details = {"alone_us": alone, "crowded_us": crowded, "spread_us": spread, "seconds": options.seconds}
    for what, one in ((f"one with {TRIALS_EACH} trials", alone), ("one with as many trials", crowded)):
        yield Row(
            name=f"the server's CPU per metric with {count} machines of {TRIALS_EACH} trials, over {what}",
            value=spread / one,
            unit="",
            better=Better.LESS,
            limit=1.5,
            details=details,
        )


def _cpu_us(ground: Ground, *, machines: int, each: int, seconds: float) -> float:
    """Return the server's CPU microseconds per metric while ``each`` trials on each machine report."""
    trials = machines * each
    with bed() as found, served(ground, f"many{machines}", found) as own:
        made = [found.machine() for _ in range(machines)]
        experiment = create(
            own,
            "many",
            "",
            trialCommand=REPORTER,
            trialConcurrency=trials,
            maxTrialNumber=trials,
            trainingService=remote(made),
        )
        look = Look(own, experiment)
        count = "SELECT count(*) FROM trials WHERE status = 'RUNNING'"
        for _ in looks(UP_S, 1.0):
            if look.one(count) == trials:
                break
        time.sleep(STEADY_S)
        server = server_pid(own)
        before = proc.run_ns(server), look.one("SELECT count(*) FROM metrics")
        time.sleep(seconds)
        after = proc.run_ns(server), look.one("SELECT count(*) FROM metrics")
        look.close()
        if after[1] == before[1]:
            raise RuntimeError("no metric arrived")
        return float((after[0] - before[0]) / 1e3 / (after[1] - before[1]))


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    parts: dict[str, Callable[[Ground, argparse.Namespace], Iterator[Row]]] = {
        "throughput": throughput,
        "first": first,
        "cut": cut,
        "many": many,
    }
    if os.geteuid() != 0:
        raise RuntimeError("network namespaces need root")
    try:
        for name in options.parts:
            yield from parts[name](ground, options)
    except pytest.skip.Exception as skipped:
        raise RuntimeError(str(skipped)) from None


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cut", type=float, default=60.0, help="seconds")
    parser.add_argument("--machines", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=30.0, help="that the CPU is counted for")


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)

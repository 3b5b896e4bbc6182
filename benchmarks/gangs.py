"""Trials with members on four machines, which are simulated in namespaces (needs root), beside torchrun.

    python -m benchmarks.gangs --torch PYTHON [--parts launch growth ... one] [--runs 5]

PYTHON has torch, and exists on all machines: outside of /tmp, /run, /home and /root. Without it, only ``one``
is measured.

``launch``: from a trial's creation to the first collective operation of the last of four workers; and the CPU
of all processes, from a start to the end. torchrun is started over ssh, on all machines at once.
``recovery``: a worker is killed, until all four are in a collective operation again; and the memory of what
runs beside the workers.
``loss``: a machine is switched off for a moment, the leader's too, until all that are left, or all, are in a
collective operation again. The trial may run with three members.
``growth``: a fourth machine comes to three workers, from the trial's checkpoint, after which it is stopped,
until all four are in a collective operation; with torchrun, from the start of the fourth agent.
``failure``: one worker exits with code 3 while the others wait outside of a collective operation, until all
are gone.
``meeting``: the leader cannot be reached, until the trial says so.
``one``: no-op trials of one member a second, as a share of plain trials.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from benchmarks import proc, program, throughput
from benchmarks.ground import Ground, Look, create, looks
from benchmarks.peers.ask import Peers
from benchmarks.remote import remote, served
from benchmarks.report import Better, Figure, Row, rates_row
from benchmarks.torchrun import Torchrun
from tests.e2e.product import Product
from tests.machines.bed import Bed, bed
from tests.machines.machine import Machine, kill
from tests.processes import Process

PARTS = ("launch", "recovery", "loss", "growth", "failure", "meeting", "one")
MEMBERS = 4
LIMIT_S = 120.0
PEER = "torchrun"
T = TypeVar("T")
PRELOAD: dict[str, Any] = {"preload": ["torch", "torch.distributed"]}
PRELOADED = ", with preload"

# Writes a line when it has been in a first collective operation. Then RUN_AS: "once" ends; "forever" is in
# more of them until there is a file ``end``; "fail" waits, and fails as rank 1 when there is a file ``fail``.
WORKER = """import os, sys, time
import torch
import torch.distributed as dist

def there(name):
    return os.path.exists(os.path.join("RECORDS", name))

def save(rank):
    if rank == 0 and "nni" in sys.modules:  # torchrun's workers save nothing
        sys.modules["nni"].save_checkpoint(b"")

def train(parameters):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    dist.all_reduce(torch.ones(1))
    file = os.open(os.path.join("RECORDS", "marks"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    trial = os.environ.get("NNI_TRIAL_JOB_ID", "torchrun")
    os.write(file, f"{trial} {os.uname().nodename} {os.getpid()} {time.time()}\\n".encode())
    if "RUN_AS" == "forever":
        ended = torch.zeros(1)
        save(rank)
        while not ended:
            time.sleep(0.02)
            if "nni" in sys.modules and sys.modules["nni"].should_checkpoint():
                save(rank)
            ended = torch.tensor([float(there("end"))])
            dist.all_reduce(ended)
    elif "RUN_AS" == "fail":
        while not (rank == 1 and there("fail")):
            time.sleep(0.02)
        os._exit(3)
    dist.destroy_process_group()
    return 1

if __name__ == "__main__":
    train({})
"""


class Mark(NamedTuple):
    """A worker has been in its first collective operation. ``at``: seconds since 1970."""

    trial: str
    machine: str
    pid: int  # on its machine
    at: float


class Place:
    """Four machines with what the workers write, and a product with a server that knows the machines."""

    def __init__(self, ground: Ground, own: Product, found: Bed, python: str) -> None:
        self.own = own
        self.found = found
        self.python = python
        self.machines = [found.machine() for _ in range(MEMBERS)]
        self.records = found.directory / "records"  # all machines have this folder
        self.records.mkdir()
        self.worker = self.records / "worker.py"
        self._number = 0

    def marks(self) -> list[Mark]:
        try:
            lines = (self.records / "marks").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [
            Mark(trial, machine, int(pid), float(at)) for trial, machine, pid, at in map(str.split, lines)
        ]

    def after(self, at: float, count: int, limit_s: float = LIMIT_S) -> float:
        """Wait until ``count`` workers have begun after ``at``. Return the seconds to the last one."""
        for _ in looks(limit_s, 0.01):
            begun = sorted(mark.at for mark in self.marks() if mark.at > at)
            if len(begun) >= count:
                return begun[count - 1] - at
        raise AssertionError

    def create(self, run_as: str, *, service: dict[str, Any] | None = None, **config: Any) -> str:
        """Start an experiment whose trials run the worker with four members, or as ``config`` says."""
        self._number += 1
        defaults: dict[str, Any] = {
            "trialCommand": f"{self.python} -m nni.run trial.py:train",
            "trialConcurrency": 1,
            "maxTrialNumber": 1,
            "gang": {"nodes": MEMBERS, "processes": 1},
            "trainingService": service or remote(self.machines) | {"keepAliveInterval": 1},
        }
        return create(self.own, f"gang{self._number}", self._code(run_as), **defaults | config)

    def torchrun(self, run_as: str, *, agents: int = MEMBERS, **how: Any) -> Torchrun:
        self._number += 1
        self.worker.write_text(self._code(run_as), encoding="utf-8")
        return Torchrun(
            self.found,
            self.machines[:agents],
            self.python,
            self.worker,
            name=f"torchrun{self._number}",
            **how,
        )

    def end(self, run: Torchrun) -> None:
        """End all processes of a run of torchrun."""
        run.end()
        for machine in self.machines:
            kill([each for each in machine.processes() if self.python in each.command])

    def set(self, name: str) -> None:
        (self.records / name).touch()

    def clear(self) -> None:
        for name in ("end", "fail", "marks"):
            (self.records / name).unlink(missing_ok=True)

    def _code(self, run_as: str) -> str:
        return WORKER.replace("RECORDS", str(self.records)).replace("RUN_AS", run_as)

    def workers(self, machine: Machine) -> list[Process]:
        """Return the workers on a machine that have been in a collective operation."""
        pids = {mark.pid for mark in self.marks() if mark.machine == machine.name}
        return [each for each in machine.processes() if _own_pid(each) in pids]

    def all_workers(self) -> list[Process]:
        return [each for machine in self.machines for each in self.workers(machine)]

    def beside_workers_mib(self) -> float:
        """Return the memory of all processes beside the workers, those for logins left out."""
        workers = {each.pid for each in self.all_workers()}
        total = 0
        for machine in self.machines:
            for each in machine.processes():
                if each.pid not in workers and "sshd" not in each.command:
                    total += proc.pss_kib(each.pid)
        return total / 1024


def _own_pid(process: Process) -> int | None:
    """Return the pid of a process on its machine."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return None


def row(name: str, ours: list[float], theirs: list[float] | str, limit: float, unit: str = "s") -> Row:
    """Return a row of a median as a share of torchrun's. ``theirs`` is text if torchrun has no figure."""
    value = statistics.median(ours)
    if isinstance(theirs, str):
        figure = Figure(PEER, None, theirs)
        return Row(name=name, value=value, unit=unit, better=Better.LESS, limit=limit, peers=[figure])
    beside = statistics.median(theirs)
    return Row(
        name=f"{name}, share of torchrun's",
        value=value / beside,
        unit="",
        better=Better.LESS,
        limit=limit,
        details={f"ours_{unit}": value, f"torchrun_{unit}": beside, "runs": len(ours)},
    )


# ---- launch ------------------------------------------------------------------------------------------------


def launch(place: Place, options: argparse.Namespace) -> Iterator[Row]:
    times, cpus = [], []
    look = Look(place.own, place.create("once"))  # a first trial, which finds the machines
    look.wait_done(LIMIT_S)
    look.close()
    for _ in range(options.runs):
        place.clear()
        before, began = proc.machine_cpu_s(), time.time()
        run = place.torchrun("once")
        run.wait(LIMIT_S)
        cpus.append(proc.machine_cpu_s() - before)
        times.append(place.after(began, MEMBERS))
    for kind, more, limits in (("", {}, (0.6, 0.6)), (PRELOADED, PRELOAD, (0.2, 0.6))):
        place.clear()
        before = proc.machine_cpu_s()
        look = Look(place.own, place.create("once", maxTrialNumber=options.runs, **more))
        look.wait_done(LIMIT_S * options.runs)
        cpu = (proc.machine_cpu_s() - before) / options.runs
        created = dict(look.rows("SELECT trial_id, created_at / 1e6 FROM trials"))
        look.close()
        ours = [
            max(mark.at for mark in place.marks() if mark.trial == trial) - at
            for trial, at in created.items()
        ]
        yield row(f"four members to their first collective{kind}", ours, times, limits[0])
        yield row(f"CPU of a start of four members until their end{kind}", [cpu], cpus, limits[1])


# ---- faults ------------------------------------------------------------------------------------------------


def recovery(place: Place, options: argparse.Namespace) -> Iterator[Row]:
    def kill_one() -> float:
        at = time.time()
        assert kill(place.workers(place.machines[2])[:1])
        return at

    def fault() -> tuple[float, float]:
        place.after(0, MEMBERS)
        memory = place.beside_workers_mib()
        found = place.after(kill_one(), MEMBERS)
        place.set("end")
        return found, memory

    # One fault in each trial: before the second and later retries of a trial there is a pause.
    pairs = [_both(place, fault, restarts=1) for _ in range(options.runs)]
    ours, theirs = ([pair[side] for pair in pairs] for side in (0, 1))
    torchruns = [seconds for seconds, _ in theirs]
    name = "a killed worker to the next collective of all"
    yield row(name, [seconds for seconds, _ in ours], torchruns, 0.75)
    yield row("memory beside four workers", [mib for _, mib in ours], [mib for _, mib in theirs], 0.15, "MiB")
    warm = [_ours(place, fault, restarts=1, **PRELOAD)[0] for _ in range(options.runs)]
    yield row(f"{name}{PRELOADED}", warm, torchruns, 0.1)


def loss(place: Place, options: argparse.Namespace) -> Iterator[Row]:
    for which, number in (("a machine", MEMBERS - 1), ("the leader's machine", 0)):

        def fault(lost: int = number) -> float | None:
            place.after(0, MEMBERS)
            at = time.time()
            place.machines[lost].reboot()
            try:
                return place.after(at, MEMBERS - 1, 60)
            except TimeoutError:
                return None
            finally:
                place.set("end")

        nodes = f"{MEMBERS - 1}:{MEMBERS}"
        gang = {"nodes": nodes, "processes": 1}
        ours, theirs = _both(place, fault, restarts=3, gang=gang, nodes=nodes)
        assert ours is not None
        said: list[float] | str = "did not recover in 60 s" if theirs is None else [theirs]
        limit = 20.0 if isinstance(said, str) else 1.1
        yield row(f"{which} restarted to the next collective of those left", [ours], said, limit)


def growth(place: Place, options: argparse.Namespace) -> Iterator[Row]:
    theirs = []
    for _ in range(options.runs):
        place.clear()
        run = place.torchrun("forever", agents=MEMBERS - 1, nodes=f"{MEMBERS - 1}:{MEMBERS}")
        try:
            place.after(0, MEMBERS - 1)
            at = time.time()
            run.join(place.machines[-1])
            theirs.append(place.after(at, MEMBERS))
        finally:
            place.end(run)
    for kind, more, limit in (("", {}, 1.0), (PRELOADED, PRELOAD, 1.0)):
        ours = [_growth(place, **more) for _ in range(options.runs)]
        yield row(f"a member more to the next collective of all{kind}", ours, theirs, limit)


def _growth(place: Place, **config: Any) -> float:
    """Return the seconds from the checkpoint with which a trial of three members is stopped."""
    place.clear()
    experiment = place.create(
        "forever",
        gang={"nodes": f"{MEMBERS - 1}:{MEMBERS}", "processes": 1, "growAfter": "1s"},
        service=remote(place.machines[:-1]) | {"keepAliveInterval": 1},
        **config,
    )
    place.after(0, MEMBERS - 1)
    more = place.records / "machine.yml"
    more.write_text(json.dumps(place.machines[-1].entry()), encoding="utf-8")
    place.own.nnictl("machine", "add", experiment, "--filename", str(more))
    look = Look(place.own, experiment)
    for _ in looks(LIMIT_S, 0.05):
        asked = look.rows("SELECT at / 1e6 FROM checkpoints WHERE attempt = 1 AND number > 1")
        if asked:
            break
    [(at,)] = asked
    found = place.after(at, MEMBERS)
    place.set("end")
    look.wait_done(LIMIT_S)
    look.close()
    place.own.nnictl("stop", experiment)
    return found


def failure(place: Place, options: argparse.Namespace) -> Iterator[Row]:
    def fault() -> float | None:
        place.after(0, MEMBERS)
        assert len(place.all_workers()) == MEMBERS
        began = time.monotonic()
        place.set("fail")
        try:
            for _ in looks(30, 0.01):
                if not place.all_workers():
                    return time.monotonic() - began  # with the time of the look
        except TimeoutError:
            return None
        raise AssertionError

    ours, theirs = _both(place, fault, run_as="fail")
    assert ours is not None
    note = "the others still waited after 30 s" if theirs is None else f"{theirs:.1f} s"
    yield row("a worker that fails to the end of all", [ours], note, 6.0)


def _both(
    place: Place,
    measure: Callable[[], T],
    *,
    run_as: str = "forever",
    restarts: int = 0,
    nodes: str | None = None,
    **config: Any,
) -> tuple[T, T]:
    """Measure in a trial, and then with torchrun. ``restarts`` are allowed in both."""
    ours = _ours(place, measure, run_as=run_as, restarts=restarts, **config)
    place.clear()
    run = place.torchrun(run_as, restarts=restarts, nodes=nodes)
    try:
        theirs = measure()
    finally:
        place.end(run)
    return ours, theirs


def _ours(
    place: Place, measure: Callable[[], T], *, run_as: str = "forever", restarts: int, **config: Any
) -> T:
    """Measure in a trial."""
    place.clear()
    retries = {"userError": restarts, "infrastructure": restarts}
    experiment = place.create(run_as, maxRetries=retries, **config)
    found = measure()
    look = Look(place.own, experiment)
    for _ in looks(LIMIT_S):
        if look.rows("SELECT 1 FROM experiments WHERE ended_at IS NOT NULL"):
            break
    look.close()
    place.own.nnictl("stop", experiment)
    return found


def meeting(place: Place, options: argparse.Namespace) -> Iterator[Row]:
    """The leader is said to be at an address that leads nowhere (one of those for documentation)."""
    place.clear()
    entries = [machine.entry(gangAddress="192.0.2.1") for machine in place.machines]
    service = {"platform": "remote", "machineList": entries}
    experiment = place.create("once", service=service, failFast=0)
    look = Look(place.own, experiment)
    for _ in looks(LIMIT_S):
        ended = look.rows("SELECT started_at, ended_at, message FROM jobs WHERE ended_at IS NOT NULL")
        if ended:
            break
    look.close()
    place.own.nnictl("stop", experiment)
    started, at, reason = ended[0]
    yield Row(
        name="members that cannot reach the leader to the sentence about it",
        value=(at - started) / 1e6,
        unit="s",
        better=Better.LESS,
        limit=5.0,
        details={"sentence": reason},
    )


# ---- one member --------------------------------------------------------------------------------------------


def one(ground: Ground, options: argparse.Namespace) -> Iterator[Row]:
    rates: dict[str, list[float]] = {"plain": [], "gang": []}
    with ground.product("one") as own:
        for number in range(options.pairs):
            gang: dict[str, Any] = {"gang": {"processes": 1}}
            for kind, more in ("plain", {}), ("gang", gang):
                rate, _ = throughput.our_rate(
                    own,
                    f"{kind}{number}",
                    command=f"{ground.python} trial.py",
                    trials=options.trials,
                    concurrency=8,
                    **more,
                )
                rates[kind].append(rate)
    yield rates_row(
        "no-op trials of one member, share of plain trials",
        {"gang": rates["gang"], "plain": rates["plain"]},
        limit=0.95,
        details={"trials": options.trials},
    )


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of the parts that were asked for."""
    with_machines = [part for part in options.parts if part != "one"]
    if with_machines and _has_torch(options.torch):
        with bed() as found, served(ground, "gangs", found) as own:
            place = Place(ground, own, found, options.torch)
            for part in with_machines:
                yield from globals()[part](place, options)
    if "one" in options.parts:
        yield from one(ground, options)


def _has_torch(python: str | None) -> bool:
    return bool(python) and subprocess.run([str(python), "-c", "import torch"], check=False).returncode == 0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--torch", metavar="PYTHON", default=os.environ.get("NNIMGR_TEST_TORCH"))
    parser.add_argument("--runs", type=int, default=5, help="number of measurements of each kind")
    parser.add_argument("--trials", type=int, default=300, help="number of no-op trials")
    parser.add_argument("--pairs", type=int, default=3)


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)

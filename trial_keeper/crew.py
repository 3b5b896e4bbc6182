"""The crew: runs the command of an attempt as several worker processes, as ``torchrun --standalone`` does.

With a job, it is the crew of one member of a gang. The members meet first (``gang_line``), and their workers
have common ranks.

It takes the place of the attempt's command below its shim, which forks it. Each worker gets the environment
of a worker of torchrun (https://docs.pytorch.org/docs/stable/elastic/run.html). The output of rank 0 is that
of the trial. The output of rank N is in ``ranks/N`` of the trial's folder.

The first worker that fails ends all others. The crew then ends like that worker, and its last line says which
one it was. If a trial saves checkpoints, the next attempt continues all workers from the newest one.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import sys
import time

from trial_keeper import gang_line
from trial_keeper.attempt import claim
from trial_keeper.gang_variables import HOSTFILE, Group, environment
from trial_keeper.log import CappedLog
from trial_keeper.machine import procs
from trial_keeper.shim import LAST_WORDS, RESET, SHELL, SHOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    Execute = Callable[[str, dict[str, str], tuple[int, int]], int]

USAGE = 2
_HINT = "nni: "  # beginning of the lines in which the SDK gives hints
GRACE_S = 5.0  # between SIGTERM and SIGKILL for the workers that are left after a failure
LOG_BYTES = 1 << 27


class CrewError(Exception):
    """Error: the workers cannot be started. The message is a sentence for users."""


def run(
    execute: Execute,
    processes: str,
    command: str,
    job: str = "",
    member: str = "0",
    hosts: str = "",
    key_file: str = "",
) -> int:
    """Run the workers. Return the exit status of a shell whose command was the first one that fails, or 0.

    ``execute``: starts the command of one worker, see ``shell``. ``processes``: the number of workers, see
    ``count_of``; "": the command runs once on each host. ``job``: the gang of which this is a ``member`` on
    one of the ``hosts``. ``key_file``: file with the common secret by which the members prove who they are.
    """
    directory = os.environ.get("NNI_SYS_DIR") or os.getcwd()
    try:
        if job:
            group = _meet(job, int(member), hosts.split(","), processes, directory, key_file)
        else:
            group = _alone(_count(processes))
        crew = _Crew(execute, command, group, directory, once=not processes)
    except (CrewError, OSError) as error:
        sys.stderr.write(f"gang: {error}\n")
        return USAGE
    status = crew.run()
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def shell(command: str, environ: dict[str, str], outputs: tuple[int, int]) -> int:
    """Start a shell command, and return its pid. ``outputs``: its standard output and standard error.

    Raise OSError, CrewError.
    """
    if SHELL is None:
        raise CrewError("there is no shell here to run the command")
    return os.posix_spawn(
        SHELL, [SHELL, "-c", command], environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(outputs, 1)],
        setpgroup=0, setsigmask=[], setsigdef=RESET,
    )  # fmt: skip


def _alone(count: int) -> Group:
    """Return the only member of a gang on one host."""
    try:
        return Group(0, [count], ["127.0.0.1"], gang_line.free_port("127.0.0.1"))
    except gang_line.LineError as error:
        raise CrewError(str(error)) from error


def _meet(job: str, member: int, hosts: list[str], processes: str, directory: str, key_file: str) -> Group:
    """Wait until all members have met. Until then, SIGTERM ends the crew at once."""
    count = _count(processes)
    with open(key_file, encoding="ascii") as file:
        key = file.read()
    if not key:
        raise CrewError("the server that has started this trial is too old: it gives its members no key")
    try:
        if member == 0:
            met = gang_line.lead(job, hosts, count, key)
        else:
            gang_line.await_go(directory)
            met = gang_line.join(job, member, hosts, count, key)
    except gang_line.LineError as error:
        if isinstance(error, gang_line.Unreached):  # the server hears of it, and chooses other hosts
            with open(f"{directory}/{claim.UNREACHED}", "w", encoding="ascii"):
                pass
        raise CrewError(str(error)) from error
    path = f"{directory}/{HOSTFILE}"
    # Without ``processes``, mpirun starts one for each GPU, of which all members have the same number.
    slots = met.counts if processes else [max(1, len(_gpus()))] * len(hosts)
    with open(path, "w", encoding="ascii") as file:
        file.writelines(f"{host} slots={number}\n" for host, number in zip(hosts, slots))
    interface, environ = gang_line.interface_of(met.address), os.environ
    roles, in_pods = environ.get("NNIMGR_GANG_ROLES", ""), environ.get("NNIMGR_PLATFORM") == "kubernetes"
    return Group(member, met.counts, hosts, met.port, interface, path, roles, in_pods)


def _count(processes: str) -> int:
    return count_of(processes) if processes else 1


def count_of(processes: str) -> int:
    """Return the number of workers that ``processes`` means: a number, "cpu", "gpu" or "auto".

    "gpu" counts the GPUs that the trial has; "auto" counts GPUs if it has any, and CPUs otherwise. Raise
    CrewError.
    """
    if processes.isdigit() and int(processes) > 0:
        return int(processes)
    gpus = _gpus()
    if processes == "cpu" or (processes == "auto" and not gpus):
        return len(os.sched_getaffinity(0))
    if processes not in ("gpu", "auto"):
        raise CrewError(
            f'the number of processes must be a number, "auto", "cpu" or "gpu", not {processes!r}'
        )
    if not gpus:
        raise CrewError("there is one process for each GPU of the trial, but it has none: set trialGpuNumber")
    return len(gpus)


def _gpus() -> list[str]:
    return [each for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each.strip()]


def alone(directory: str) -> dict[str, str]:
    """Return the variables of the only process of an attempt in this folder, which needs no crew.

    Raise OSError.
    """
    folder = f"{directory}/ranks/0"
    os.makedirs(folder, exist_ok=True)
    try:
        return environment(_alone(1), 0, folder)
    except CrewError as error:
        raise OSError(errno.EADDRINUSE, str(error)) from error


class _Worker:
    """One worker. ``log``: what it writes to standard error; None for the first one, whose output is the
    trial's.
    """

    def __init__(self, rank: int, pid: int, folder: str) -> None:
        self.rank = rank
        self.pid = pid
        self.folder = folder
        self.status: int | None = None
        self.log: CappedLog | None = None

    def last_words(self) -> str:
        """Return what the worker says about its failure, or ""."""
        text = _message(f"{self.folder}/error.json")
        if not text and self.log is not None:
            text = self.log.last_line(LAST_WORDS).decode(errors="replace")
        return " ".join(text.split())[:SHOWN]


class _Crew:
    def __init__(self, execute: Execute, command: str, group: Group, directory: str, *, once: bool) -> None:
        self._execute = execute
        self._poll = select.poll()
        self._logs: dict[int, CappedLog] = {}
        self._pulse, beat = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stopping = False
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda number, frame: None)
        signal.set_wakeup_fd(beat, warn_on_full_buffer=False)
        self._poll.register(self._pulse, select.POLLIN)
        self._kill_at: float | None = None
        self._first: _Worker | None = None  # the first worker that failed
        self._group = group
        self._workers: dict[int, _Worker] = {}
        for local in range(group.counts[group.member]):
            folder = f"{directory}/ranks/{group.first + local}"
            worker = self._start(local, command, folder, environment(group, local, folder, once=once))
            self._workers[worker.pid] = worker

    def _start(self, local: int, command: str, folder: str, variables: dict[str, str]) -> _Worker:
        os.makedirs(folder, exist_ok=True)
        environ = {**os.environ, **variables}
        ends: list[int] = []
        logs: list[CappedLog] = []
        for name in ("stdout", "stderr") if local else ():
            reader, writer = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(reader, False)
            logs.append(CappedLog(f"{folder}/{name}", LOG_BYTES))
            self._logs[reader] = logs[-1]
            self._poll.register(reader, select.POLLIN)
            ends.append(writer)
        try:
            pid = self._execute(command, environ, (ends[0], ends[1]) if local else (1, 2))
        finally:
            for fd in ends:
                os.close(fd)
        worker = _Worker(self._group.first + local, pid, folder)
        worker.log = logs[1] if logs else None
        return worker

    def run(self) -> int:
        """Wait until all workers have ended; return the wait status of the first failure, or 0."""
        while not self._reap():
            now = time.monotonic()
            if self._kill_at is not None and now >= self._kill_at:
                self._signal(signal.SIGKILL)
                self._kill_at = now + GRACE_S
            wait = None if self._kill_at is None else 1000 * (self._kill_at - now) + 1
            for fd, _ in self._poll.poll(wait):
                if fd == self._pulse:
                    self._stopping = self._stopping or signal.SIGTERM in os.read(fd, 512)
                else:
                    self._drain(fd)
        for fd in list(self._logs):
            while fd in self._logs and self._drain(fd):
                continue
        if self._first is None:
            return 0
        self._report(self._first)
        assert self._first.status is not None
        return self._first.status

    def _reap(self) -> bool:
        """Note which workers have ended; return whether all have. The first failure stops the others."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            worker = self._workers[pid]
            worker.status = status
            if status != 0 and self._first is None:
                self._first = worker
                if not self._stopping:
                    self._signal(signal.SIGTERM)
                    self._kill_at = time.monotonic() + GRACE_S

    def _drain(self, fd: int) -> bool:
        """Read a worker's output from this pipe once; return whether there was any."""
        read = self._logs[fd].read_from(fd)
        if read is None:
            self._poll.unregister(fd)
            os.close(fd)
            del self._logs[fd]
        return bool(read)

    def _signal(self, number: int) -> None:
        left = [worker.pid for worker in self._workers.values() if worker.status is None]
        procs.signal_all([*left, *(pid for each in left for pid in procs.descendants(each))], number)

    def _report(self, worker: _Worker) -> None:
        """Say which worker has failed first. The output of the first one is the trial's own, which has its
        last words already.
        """
        others = len(self._workers) - 1
        has_spoken = worker.log is None and not worker.last_words()
        killed = len(self._group.counts) > 1 and os.WIFSIGNALED(worker.status or 0)
        if self._stopping or (has_spoken and not killed):
            return
        status, words = worker.status or 0, worker.last_words()
        if not words or words.startswith(_HINT):  # a hint explains no failure
            words = _how(status)
        elif os.WIFSIGNALED(status):  # the line may be older than the signal, and not its cause
            words = f"{_how(status)} (its last line: {words})"
        stopped = f"; {others} others were stopped" if others > 1 else "; the other one was stopped"
        sys.stderr.write(f"rank {worker.rank} failed first: {words}{stopped if others else ''}\n")


def _how(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"killed by signal {os.WTERMSIG(status)}"
    return f"exit code {os.WEXITSTATUS(status)}"


def _message(path: str) -> str:
    """Return the message in an error file of torch's format; "" if there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = json.load(file)["message"]
        return str(found["message"] if isinstance(found, dict) else found)
    except (OSError, ValueError, KeyError, TypeError):
        return ""

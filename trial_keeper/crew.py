"""The crew: runs the command of an attempt as several worker processes, as ``torchrun --standalone`` does.

    trial-keeper crew PROCESSES COMMAND

It is the attempt's own command, below its shim. Each worker gets the environment of a worker of torchrun
(https://docs.pytorch.org/docs/stable/elastic/run.html). The output of rank 0 is that of the trial. The output
of rank N is in ``ranks/N`` of the trial's folder.

The first worker that fails ends all others. The crew then ends like that worker, and its last line says which
one it was. If a trial saves checkpoints, the next attempt continues all workers from the newest one.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

from trial_keeper.log import CappedLog
from trial_keeper.machine import procs
from trial_keeper.shim import LAST_WORDS, RESET, SHELL, SHOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

USAGE = 2
GRACE_S = 5.0  # between SIGTERM and SIGKILL for the workers that are left after a failure
LOG_BYTES = 1 << 27
FIRST_PORT, PORTS = 20000, 10000  # below the ports that Linux gives to outgoing connections


class CrewError(Exception):
    """Error: the workers cannot be started. The message is a sentence for users."""


def run(processes: str, command: str) -> NoReturn:
    """Run the workers, and exit like a shell whose command was the first one that fails.

    The exit status is 0 if none fails.
    """
    try:
        crew = _Crew(command, count_of(processes), os.environ.get("NNI_SYS_DIR") or os.getcwd())
    except (CrewError, OSError) as error:
        sys.stderr.write(f"gang: {error}\n")
        sys.exit(USAGE)
    status = crew.run()
    sys.stderr.flush()
    os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def count_of(processes: str) -> int:
    """Return the number of workers that ``processes`` means: a number, "cpu", "gpu" or "auto".

    "gpu" counts the GPUs that the trial has; "auto" counts GPUs if it has any, and CPUs otherwise. Raise
    CrewError.
    """
    if processes.isdigit() and int(processes) > 0:
        return int(processes)
    gpus = [each for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each.strip()]
    if processes == "cpu" or (processes == "auto" and not gpus):
        return len(os.sched_getaffinity(0))
    if processes not in ("gpu", "auto"):
        raise CrewError(
            f'the number of processes must be a number, "auto", "cpu" or "gpu", not {processes!r}'
        )
    if not gpus:
        raise CrewError("there is one process for each GPU of the trial, but it has none: set trialGpuNumber")
    return len(gpus)


def environment(rank: int, count: int, port: int, folder: str) -> dict[str, str]:
    """Return the variables of one worker. ``folder``: where it may write how it has failed."""
    found: dict[str, object] = {
        "RANK": rank, "LOCAL_RANK": rank, "ROLE_RANK": rank, "GROUP_RANK": 0,
        "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "ROLE_WORLD_SIZE": count, "GROUP_WORLD_SIZE": 1,
        "ROLE_NAME": "default", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
        "TORCHELASTIC_USE_AGENT_STORE": "False", "TORCHELASTIC_ERROR_FILE": f"{folder}/error.json",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": 1,
    }  # fmt: skip
    if count > 1 and "OMP_NUM_THREADS" not in os.environ:
        found["OMP_NUM_THREADS"] = 1
    return {name: str(value) for name, value in found.items()}


class _Worker:
    """One worker. ``log``: what it writes to standard error; None for rank 0, whose output is the trial's."""

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
    def __init__(self, command: str, count: int, directory: str) -> None:
        if SHELL is None:
            raise CrewError("there is no shell here to run the command")
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
        port = _free_port()
        self._workers: dict[int, _Worker] = {}
        for rank in range(count):
            worker = self._start(rank, count, command, port, f"{directory}/ranks/{rank}")
            self._workers[worker.pid] = worker

    def _start(self, rank: int, count: int, command: str, port: int, folder: str) -> _Worker:
        os.makedirs(folder, exist_ok=True)
        environ = {**os.environ, **environment(rank, count, port, folder)}
        actions: list[tuple[int, int, int]] = []
        ends: list[int] = []
        logs: list[CappedLog] = []
        for number, name in ((1, "stdout"), (2, "stderr")) if rank else ():
            reader, writer = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(reader, False)
            logs.append(CappedLog(f"{folder}/{name}", LOG_BYTES))
            self._logs[reader] = logs[-1]
            self._poll.register(reader, select.POLLIN)
            actions.append((os.POSIX_SPAWN_DUP2, writer, number))
            ends.append(writer)
        try:
            pid = os.posix_spawn(
                str(SHELL), [str(SHELL), "-c", command], environ,
                file_actions=actions, setpgroup=0, setsigmask=[], setsigdef=RESET,
            )  # fmt: skip
        finally:
            for fd in ends:
                os.close(fd)
        worker = _Worker(rank, pid, folder)
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
        """Say which worker has failed first. The trial's own output has the last words of rank 0 already."""
        others = len(self._workers) - 1
        if self._stopping or (worker.rank == 0 and not worker.last_words()):
            return
        words = worker.last_words() or _how(worker.status or 0)
        stopped = f"; {others} others were stopped" if others > 1 else "; the other one was stopped"
        sys.stderr.write(f"rank {worker.rank} failed first: {words}{stopped if others else ''}\n")


def _how(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"killed by signal {os.WTERMSIG(status)}"
    return f"exit code {os.WEXITSTATUS(status)}"


def _message(path: str) -> str:
    """Return the message in an error file of torch's format; "" if there is none."""
    import json

    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = json.load(file)["message"]
        return str(found["message"] if isinstance(found, dict) else found)
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _free_port() -> int:
    """Return a port on which nobody listens. Attempts of one machine begin to look at different ports."""
    import socket

    begin = int.from_bytes(os.urandom(4), "big")
    for offset in range(PORTS):
        port = FIRST_PORT + (begin + offset) % PORTS
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise CrewError(f"all ports from {FIRST_PORT} to {FIRST_PORT + PORTS - 1} are in use")

"""The crew: runs the command of an attempt as several worker processes, as ``torchrun --standalone`` does.

    trial-keeper crew PROCESSES COMMAND [JOB MEMBER HOSTS KEYFILE]

With JOB, it is the crew of one member of a gang, whose members are on these hosts; PROCESSES "" then means
that the command runs once. The members meet first (``gang_line``), and their workers have common ranks.
KEYFILE has the common secret by which the members prove who they are.

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

from trial_keeper.lean import NamedTuple
from trial_keeper.log import CappedLog
from trial_keeper.machine import procs
from trial_keeper.shim import LAST_WORDS, RESET, SHELL, SHOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

USAGE = 2
GRACE_S = 5.0  # between SIGTERM and SIGKILL for the workers that are left after a failure
LOG_BYTES = 1 << 27
# roles that TensorFlow knows, and the port of each member, as tf-operator has them
_TF_ROLES = {"chief", "master", "worker", "ps", "evaluator"}
_TF_PORT = 2222
_FC_FIRST_PORT = 4000  # port of the first role, as NNI has given ports to roles in FrameworkController
# interface that communication libraries take, where they would guess a wrong one
_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


class CrewError(Exception):
    """Error: the workers cannot be started. The message is a sentence for users."""


class Group(NamedTuple):
    """The member of a gang that this crew is. ``counts``: number of workers of each member.

    ``roles``: each role and the number of its members, in the order of the members, such as "ps:1,worker:3";
    "" if all members are alike. ``in_pods``: each member has a pod, with an address and all ports of its own.
    """

    member: int
    counts: list[int]
    hosts: list[str]
    port: int  # where rank 0 listens
    interface: str | None = None  # network interface to the other members
    roles: str = ""
    in_pods: bool = False

    @property
    def first(self) -> int:
        """Rank of the first worker of this member."""
        return sum(self.counts[: self.member])


def run(
    processes: str, command: str, job: str = "", member: str = "0", hosts: str = "", key_file: str = ""
) -> NoReturn:
    """Run the workers, and exit like a shell whose command was the first one that fails.

    The exit status is 0 if none fails.
    """
    directory = os.environ.get("NNI_SYS_DIR") or os.getcwd()
    try:
        count = count_of(processes) if processes else 1
        if job:
            group = _meet(job, int(member), hosts.split(","), count, directory, key_file)
        else:
            group = _alone(count)
        crew = _Crew(command, group, directory, once=not processes)
    except (CrewError, OSError) as error:
        sys.stderr.write(f"gang: {error}\n")
        sys.exit(USAGE)
    status = crew.run()
    sys.stderr.flush()
    os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def _alone(count: int) -> Group:
    """Return the only member of a gang on one host."""
    from trial_keeper.gang_line import LineError, free_port

    try:
        return Group(0, [count], ["127.0.0.1"], free_port("127.0.0.1"))
    except LineError as error:
        raise CrewError(str(error)) from error


def _meet(job: str, member: int, hosts: list[str], count: int, directory: str, key_file: str) -> Group:
    """Wait until all members have met. Until then, SIGTERM ends the crew at once."""
    from trial_keeper import gang_line

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
        raise CrewError(str(error)) from error
    interface, environ = gang_line.interface_of(met.address), os.environ
    roles, in_pods = environ.get("NNIMGR_GANG_ROLES", ""), environ.get("NNIMGR_PLATFORM") == "kubernetes"
    return Group(member, met.counts, hosts, met.port, interface, roles, in_pods)


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


def environment(group: Group, local: int, folder: str, *, once: bool = False) -> dict[str, str]:
    """Return the variables of one worker. ``folder``: where it may write how it has failed.

    ``once``: the command runs once on each host, so that it may be torchrun itself.
    """
    rank, count, world = group.first + local, group.counts[group.member], sum(group.counts)
    nodes, leader = len(group.counts), group.hosts[0]
    found: dict[str, object] = {
        "RANK": rank, "LOCAL_RANK": local, "ROLE_RANK": rank, "GROUP_RANK": group.member,
        "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": count, "ROLE_WORLD_SIZE": world, "GROUP_WORLD_SIZE": nodes,
        "ROLE_NAME": "default", "MASTER_ADDR": leader, "MASTER_PORT": group.port,
        "TORCHELASTIC_USE_AGENT_STORE": "False", "TORCHELASTIC_ERROR_FILE": f"{folder}/error.json",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": 1,
    }  # fmt: skip
    if nodes > 1:
        found.update({
            "NNIMGR_GANG_RANK": group.member, "NNIMGR_GANG_SIZE": nodes,
            "NNIMGR_GANG_HOSTS": ",".join(group.hosts), "NNIMGR_GANG_ENDPOINT": f"{leader}:{group.port}",
            "NNIMGR_GANG_ROUND": 1 + int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
        })  # fmt: skip
    if group.roles:
        found.update(_variables_of_roles(group, local))
    if once:
        found.update({
            "PET_NNODES": nodes, "PET_NODE_RANK": group.member, "PET_MASTER_ADDR": leader,
            "PET_MASTER_PORT": group.port, "PET_RDZV_BACKEND": "static", "PET_MAX_RESTARTS": 0,
        })  # fmt: skip
    if group.interface is not None:
        for name in _INTERFACES:
            if name not in os.environ:
                found[name] = group.interface
    if count > 1 and "OMP_NUM_THREADS" not in os.environ:
        found["OMP_NUM_THREADS"] = 1
    return {name: str(value) for name, value in found.items()}


def _variables_of_roles(group: Group, local: int) -> dict[str, object]:
    """Return the variables about the roles of the members, in particular those of Kubernetes' operators."""
    found: dict[str, object] = {}
    cluster: dict[str, list[str]] = {}
    own, first = ("", 0), 0
    for number, role in enumerate(group.roles.split(",")):
        name, _, size = role.partition(":")
        hosts = group.hosts[first : first + int(size)]
        index = group.member - first
        if 0 <= index < len(hosts):
            own = (name, index)
            counts = group.counts[first : first + len(hosts)]
            found.update({
                "ROLE_NAME": name, "ROLE_RANK": sum(counts[:index]) + local, "ROLE_WORLD_SIZE": sum(counts),
                "FC_TASKROLE_NAME": name, "FC_TASK_INDEX": index,
            })  # fmt: skip
        cluster[name] = [f"{host}:{_TF_PORT}" for host in hosts]
        if group.in_pods:
            label, port = name.upper().replace("-", "_"), _FC_FIRST_PORT + number
            addresses = ",".join(f"{host}:{port}" for host in hosts)
            found.update({f"FB_{label}_IPS": ",".join(hosts), f"FB_{label}_PORT": port})
            found[f"FB_{label}_ADDRESSES"] = addresses
        first += len(hosts)
    if group.in_pods and cluster.keys() <= _TF_ROLES:
        import json

        task = {"type": own[0], "index": own[1]}
        found["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task, "environment": "cloud"})
    return found


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
    def __init__(self, command: str, group: Group, directory: str, *, once: bool) -> None:
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
        self._group = group
        self._workers: dict[int, _Worker] = {}
        for local in range(group.counts[group.member]):
            folder = f"{directory}/ranks/{group.first + local}"
            worker = self._start(local, command, folder, environment(group, local, folder, once=once))
            self._workers[worker.pid] = worker

    def _start(self, local: int, command: str, folder: str, variables: dict[str, str]) -> _Worker:
        os.makedirs(folder, exist_ok=True)
        environ = {**os.environ, **variables}
        actions: list[tuple[int, int, int]] = []
        ends: list[int] = []
        logs: list[CappedLog] = []
        for number, name in ((1, "stdout"), (2, "stderr")) if local else ():
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

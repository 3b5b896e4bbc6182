"""A namespace of a test's own in the cluster that KUBECONFIG names, and that cluster's processes."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.conftest import PREFIX, PYTHON, REAL
from trial_keeper.machine import procs

SDK = Path(__file__).parents[2] / "nni"
SHARED = "/shared"  # in the pods: a folder of this machine
END_S = 30.0  # for a killed process
KINDS = "jobs,pods,secrets,configmaps"


def kubectl(*arguments: str, given: Any = None, check: bool = True) -> str:
    """What the command prints. ``given``: an object, as its input.

    It is repeated while the API server is being started again, as another test may have wanted.
    """
    text = None if given is None else json.dumps(given)
    for pause in (0.5, 1, 2, 4, 8, 0):
        done = subprocess.run(
            ["kubectl", *arguments], input=text, capture_output=True, text=True, timeout=60, check=False
        )
        if not done.returncode or not pause or "was refused" not in done.stderr:
            break
        time.sleep(pause)
    if check and done.returncode:
        raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr}")
    return done.stdout


class Ground:
    """A namespace, and how pods in it reach this machine."""

    def __init__(self, namespace: str, address: str, shared: Path) -> None:
        self.namespace, self.address, self.shared = namespace, address, shared

    def kubectl(self, *arguments: str, given: Any = None) -> str:
        return kubectl("-n", self.namespace, *arguments, given=given)

    def pods(self) -> list[dict[str, Any]]:
        return list(json.loads(self.kubectl("get", "pods", "-o", "json"))["items"])

    def left(self) -> list[str]:
        """All that an experiment may have here."""
        label = ("-l", "app.kubernetes.io/managed-by=nnimgr")
        return self.kubectl("get", KINDS, *label, "-o", "name").split()

    def config(self, **more: Any) -> dict[str, Any]:
        """Fields of an experiment's configuration; ``more``: of its trainingService."""
        service = {
            "platform": "kubernetes",
            "image": PYTHON,
            "imagePullPolicy": "IfNotPresent",
            "namespace": self.namespace,
            "volumes": [{"name": "shared", "mountPath": SHARED, "hostPath": str(self.shared)}],
            **more,
        }
        return {"trainingService": service, "nniManagerIp": self.address}


@contextlib.contextmanager
def ground(shared: Path) -> Iterator[Ground]:
    """Skips where there is no cluster whose only node is this machine."""
    if not os.environ.get(REAL):
        pytest.skip(f"no cluster: {REAL} is not set")
    try:
        nodes = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
    except (OSError, RuntimeError) as error:
        pytest.skip(f"no cluster: {error}")
    addresses = [each["address"] for node in nodes for each in node["status"]["addresses"]]
    ours = [address for address in addresses if _is_ours(address)]
    if len(nodes) != 1 or not ours:
        pytest.skip("the cluster's node is another machine")
    with namespace() as name:
        yield Ground(name, ours[0], shared)


@contextlib.contextmanager
def namespace() -> Iterator[str]:
    """One that is removed without waiting for its end."""
    name = PREFIX + secrets.token_hex(4)
    kubectl("create", "namespace", name)
    try:
        kubectl("create", "serviceaccount", "default", "-n", name, check=False)  # it may be there already
        yield name
    finally:
        kubectl("delete", "namespace", name, "--wait=false")


def _is_ours(address: str) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
        return True


class Killed:
    """A process of the cluster that was killed, and can be started as it was."""

    def __init__(self, pid: int) -> None:
        self._arguments = procs.strings(pid, "cmdline")
        self._environ = dict(text.partition("=")[::2] for text in procs.strings(pid, "environ"))
        self._log = os.readlink(f"/proc/{pid}/fd/1")
        handle = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            select.select([handle], [], [], END_S)
        finally:
            os.close(handle)

    def start(self) -> None:
        appended = (os.POSIX_SPAWN_OPEN, 1, self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        quiet = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        actions = [quiet, appended, (os.POSIX_SPAWN_DUP2, 1, 2)]
        pid = os.posix_spawn(
            self._arguments[0], self._arguments, self._environ, file_actions=actions, setsid=True
        )
        name = os.path.basename(self._arguments[0])
        noted = Path(self._environ.get("HOME", "/"), "run", f"{name}.pid")
        if noted.exists():  # by which whoever has brought the cluster up ends it
            noted.write_text(f"{pid} {procs.start_time(pid)}\n")


@contextlib.contextmanager
def without(program: str) -> Iterator[None]:
    """Kill this process of the cluster, and start it again afterwards. Skips if it is not to be found."""
    pids = [pid for pid in procs.all_pids() if _program(pid) == program]
    if len(pids) != 1 or os.geteuid() != 0:
        pytest.skip(f"{program} of the cluster is not a process of this machine")
    killed = Killed(pids[0])
    try:
        yield
    finally:
        killed.start()


def answers(limit_s: float = 60.0) -> None:
    """Wait until the API server answers."""
    end = time.monotonic() + limit_s
    while subprocess.run(["kubectl", "version"], capture_output=True, check=False).returncode:
        assert time.monotonic() < end, "the API server does not answer"


def _program(pid: int) -> str:
    arguments: Sequence[str] = procs.strings(pid, "cmdline")
    return os.path.basename(arguments[0]) if arguments else ""

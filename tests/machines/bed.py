"""Makes machines, logs in to them with plain ssh, and leaves nothing of them behind.

    with bed() as found:
        one, two = found.machine(), found.machine(account=Account(user="ann"))
        found.ssh(one, "hostname")

As root each machine is a host of its own (namespaces, an address on a bridge); else it is an sshd on a
loopback address, and what needs more raises ``Unable``. What a killed run left is removed at the start of the
next.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import pytest

from tests.e2e.disks import Disk, disk
from tests.machines.machine import Account, Machine, Traits, Unable
from tests.machines.network import Network, run, sweep
from tests.processes import processes

_ROOM = Path("/var/tmp")  # not /tmp, which machines have of their own
_PREFIX = "nnbed-"
_NEEDED = {"ssh": "openssh-client", "sshd": "openssh-server", "ssh-keygen": "openssh-client"}
_NEEDED_BY_ROOT = {"ip": "iproute2", "tc": "iproute2", "iptables": "iptables", "nsenter": "util-linux"}


class Bed:
    """``client``: the home directory of whoever logs in; ``key``: the private key that machines admit."""

    def __init__(self, directory: Path, network: Network | None) -> None:
        self.directory = directory
        self.network = network
        self.machines: list[Machine] = []
        self.disks: dict[str, Disk] = {}
        self.client = directory / "client"
        ssh = self.client / ".ssh"
        ssh.mkdir(mode=0o700, parents=True)
        self.key = self.make_key("id_ed25519")
        self.config = ssh / "config"
        self.config.write_text(
            f"Host *\n  IdentityFile {self.key}\n  UserKnownHostsFile {self.known_hosts}\n"
            "  IdentitiesOnly yes\n"
        )
        self.exits = ExitStack()

    @property
    def known_hosts(self) -> Path:
        return self.client / ".ssh" / "known_hosts"

    @property
    def environ(self) -> dict[str, str]:
        """For whoever is to log in as this client: ``os.environ`` with its home."""
        environ = {**os.environ, "HOME": str(self.client)}
        environ.pop("SSH_AUTH_SOCK", None)
        return environ

    def make_key(self, name: str, *, passphrase: str = "") -> Path:
        """The path of a new private key of the client; ``.pub`` lies beside it."""
        path = self.client / ".ssh" / name
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", name, "-f", str(path))
        return path

    def machine(
        self,
        *,
        account: Account | None = None,
        environ: Mapping[str, str] | None = None,
        clock: bool = False,
        size: str | None = None,
        key: Path | None = None,
    ) -> Machine:
        """A machine that runs, known to the client, that admits ``key`` (the client's own unless given)."""
        number = len(self.machines) + 2
        directory = self.directory / f"m{number}"
        directory.mkdir()
        traits = Traits(account=account or Account(), environ=environ or {}, clock=clock)
        if self.network is None and traits.account != Account():
            raise Unable("accounts of their own need root")
        if size is not None:
            self.disks[f"m{number}"] = self.exits.enter_context(disk(directory / "home", size=size))
        public = Path(f"{key or self.key}.pub").read_text()
        made = Machine(directory, number, traits=traits, network=self.network, authorized=[public])
        self.machines.append(made)  # first, so that it is ended whatever comes of it
        made.boot()
        with open(self.known_hosts, "a") as file:
            file.write(made.host_keys)
        return made

    def public_key(self) -> str:
        """The line of the client's key."""
        return Path(f"{self.key}.pub").read_text()

    def ssh(
        self, machine: Machine, *command: str, options: tuple[str, ...] = (), limit_s: float = 30.0
    ) -> str:
        """What a command prints there; raises CalledProcessError, subprocess.TimeoutExpired."""
        return subprocess.run(
            [*self.ssh_command(machine), *options, f"{machine.user}@{machine.host}", *command],
            stdin=subprocess.DEVNULL,
            env=self.environ,
            capture_output=True,
            text=True,
            check=True,
            timeout=limit_s,
        ).stdout

    def ssh_command(self, machine: Machine) -> list[str]:
        """``ssh`` to its port, as the client: options, then ``user@host`` and a command are to follow."""
        return ["ssh", "-F", str(self.config), "-o", "BatchMode=yes", "-p", str(machine.port)]

    def close(self) -> None:
        for machine in self.machines:
            machine.power_off()
        self.exits.close()
        if self.network is not None:
            self.network.remove()


@contextlib.contextmanager
def bed() -> Iterator[Bed]:
    """A client and, once made, its machines. Skips the test where a program is missing."""
    root = os.geteuid() == 0
    needed = _NEEDED | (_NEEDED_BY_ROOT if root else {})
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    if missing := sorted(
        {package for name, package in needed.items() if shutil.which(name, path=path) is None}
    ):
        pytest.skip(f"not installed: {', '.join(missing)}")
    _sweep()
    network = Network() if root else None
    directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{network.tag if network else 'none'}-", dir=_ROOM))
    directory.chmod(0o755)
    with _locked(directory / "lock"):
        made = Bed(directory, network)
        try:
            yield made
        finally:
            made.close()
            shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[IO[bytes]]:
    """Hold the lock that says that this bed is in use."""
    with open(path, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _sweep() -> None:
    """Remove what runs that were killed have left."""
    for directory in _ROOM.glob(f"{_PREFIX}*"):
        try:
            with open(directory / "lock", "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # in use, just being made, or another user's
            continue
        _remove(directory)


def _remove(directory: Path) -> None:
    mark = f"{directory}/".encode()
    for process in processes():
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(process.pid)
            try:
                if mark in Path(f"/proc/{process.pid}/cmdline").read_bytes():
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)
    for line in Path("/proc/self/mounts").read_text().splitlines():
        target = line.split()[1]
        if target.startswith(f"{directory}/"):
            run("umount", "--lazy", target, check=False)
    tag = directory.name.removeprefix(_PREFIX).partition("-")[0]
    if tag != "none":
        sweep(tag)
    shutil.rmtree(directory, ignore_errors=True)

"""Real OpenSSH servers on addresses of the loopback, each with a home of its own: machines for tests."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.processes import environ, holds_lock, kill

__all__ = ["NEEDS_SSHD", "Machine", "Site"]

_SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
NEEDS_SSHD = _SSHD is None
UP_S = 10.0

_CONFIG = """
ListenAddress {address}
Port {port}
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin yes
MaxSessions {sessions}
AllowTcpForwarding {forwarding}
SetEnv HOME={home} PATH={path}
"""


class Machine:
    """One sshd. ``home`` is that of its user there; it runs until ``stop``."""

    def __init__(
        self,
        directory: Path,
        address: str,
        *,
        sessions: int = 1,
        forwarding: str = "yes",
        path: str | None = None,
        more: str = "",
    ) -> None:
        self.directory = directory
        self.address = address
        self.port = free_port(address)
        self.home = directory / "home"
        self.home.mkdir(parents=True)
        make_key(directory / "host_key")
        self._process: subprocess.Popen[bytes] | None = None
        (directory / "sshd_config").write_text(
            _CONFIG.format(
                address=address,
                port=self.port,
                directory=directory,
                sessions=sessions,
                forwarding=forwarding,
                home=self.home,
                path=path or os.environ["PATH"],
            )
            + more
        )

    @property
    def host_key(self) -> str:
        """As a line of known_hosts."""
        kind, key = (self.directory / "host_key.pub").read_text().split()[:2]
        return f"[{self.address}]:{self.port} {kind} {key}\n"

    def start(self) -> None:
        """Start sshd; return when it listens."""
        assert _SSHD is not None
        if os.getuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        with open(self.directory / "sshd.log", "ab") as log:
            self._process = subprocess.Popen(
                [_SSHD, "-D", "-e", "-f", str(self.directory / "sshd_config")], stderr=log, stdin=log
            )
        deadline = time.monotonic() + UP_S
        while not _listens(self.address, self.port):
            assert self._process.poll() is None, (self.directory / "sshd.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def stop(self) -> None:
        """End sshd and every connection of its; what it has started lives on, as with the real one."""
        if self._process is None:
            return
        connections = self.connections()
        self._process.kill()
        self._process.wait()
        self._process = None
        kill(*connections)

    def connections(self) -> list[int]:
        """The sshd processes that serve a connection each."""
        assert self._process is not None
        return _children(self._process.pid)

    def attendants(self) -> list[int]:
        """The attendants that run in this home."""
        return [pid for pid in self._processes() if b"-c" in _read(pid, "cmdline").split(b"\0")]

    def keepers(self) -> list[int]:
        """The keepers of this home, without what they have forked."""
        return [pid for pid in self.keeper_processes() if holds_lock(pid)]

    def keeper_processes(self) -> list[int]:
        """Everything that keepers of this home are made of: keepers, spawners, shims."""
        mark = b"-E\0%b/" % os.fsencode(self.home)
        return [pid for pid in self._processes() if mark in _read(pid, "cmdline")]

    def _processes(self) -> list[int]:
        """Python processes of the keeper's program."""
        mark = f"HOME={self.home}".encode()
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [
            pid
            for pid in pids
            if mark in environ(pid)
            and b"/trial-keeper-" in _read(pid, "cmdline")
            and b"-S" in _read(pid, "cmdline").split(b"\0")
        ]

    def kill_all(self) -> None:
        """Kill everything that was started in this home."""
        mark = f"HOME={self.home}".encode()
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        kill(*(pid for pid in pids if mark in environ(pid)))


class Site:
    """Machines, and the user who may log in: ``home`` holds the ~/.ssh of the server's side."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.user = getpass.getuser()
        self.home = directory / "user"
        self.key = self.home / ".ssh" / "id_ed25519"
        self.key.parent.mkdir(mode=0o700, parents=True)
        make_key(self.key)
        self.known_hosts = self.home / ".ssh" / "known_hosts"
        self.machines: list[Machine] = []
        self._made = 0

    def machine(self, *, known: bool = True, address: str | None = None, **options: object) -> Machine:
        """A further machine, which lets the user in and runs."""
        self._made += 1
        folder = self.directory / f"machine-{self._made}"
        machine = Machine(folder, address or f"127.0.0.{self._made + 1}", **options)  # type: ignore[arg-type]
        shutil.copy(f"{self.key}.pub", machine.directory / "authorized_keys")
        self.machines.append(machine)
        machine.start()
        if known:
            with open(self.known_hosts, "a") as file:
                file.write(machine.host_key)
        return machine

    def close(self) -> None:
        for machine in self.machines:
            machine.stop()
            machine.kill_all()


@contextlib.contextmanager
def site(directory: Path) -> Iterator[Site]:
    made = Site(directory)
    try:
        yield made
    finally:
        made.close()


def make_key(path: Path) -> None:
    """A key pair without a passphrase."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)


def free_port(address: str) -> int:
    with socket.socket(_family(address)) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _listens(address: str, port: int) -> bool:
    with socket.socket(_family(address)) as probe:
        return probe.connect_ex((address, port)) == 0


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""

"""One machine with an sshd: a host in namespaces of its own, or else a loopback address."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pwd
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.machines.network import Cable, Network, run
from tests.processes import Process, holds_lock, processes

DEADLINE_S = 30.0
GONE_S = 30.0
USER_ID = 61_234  # of an account that only a machine knows
_INSIDE = Path(__file__).with_name("inside.py")


class Unable(Exception):
    """This box cannot do that to a machine; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Who logs in. ``user``: "root", or a name of its own; ``password``: None leaves keys only."""

    user: str = "root"
    password: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a machine is made with.

    ``environ``: of its sessions, on top of sshd's. ``clock``: its clock can be set (``jump``);
    Python's ``time.sleep`` does not work there.
    """

    account: Account = field(default_factory=Account)
    environ: Mapping[str, str] = field(default_factory=dict)
    clock: bool = False


class Machine:
    """``home``: its user's home, as it is seen from outside. ``number``: of its address.

    ``records``: a directory that everybody may write to, there too; ``$RECORDS`` names it.
    """

    def __init__(
        self,
        directory: Path,
        number: int,
        *,
        traits: Traits,
        network: Network | None,
        authorized: Sequence[str],
    ) -> None:
        self.name = f"m{number}"
        self.directory = directory
        self.number = number
        self.traits = traits
        self.user = traits.account.user if network else pwd.getpwuid(os.getuid()).pw_name
        self.home = directory / "home"
        self.records = directory / "records"
        self.log = directory / "sshd.log"
        self.port = 22 if network else 30_000 + os.getpid() % 10_000 + number
        self.host = network.v4(number) if network else f"127.0.0.{number}"
        self.host6 = network.v6(number) if network else None
        self.boot_id = directory / "boot_id"
        self.cable: Cable | None = None
        self._network = network
        self._inside: subprocess.Popen[bytes] | None = None
        self._enter: tuple[str, ...] = ()
        self._clock = directory / "clock"
        self._lay_out(authorized)

    # ---- making --------------------------------------------------------------------------------------------

    def _lay_out(self, authorized: Sequence[str]) -> None:
        self.home.mkdir(exist_ok=True)
        self.home.chmod(0o755)
        self.records.mkdir()
        self.records.chmod(0o777)
        ssh = self.home / ".ssh"
        ssh.mkdir(mode=0o700)
        (ssh / "authorized_keys").write_text("".join(authorized))
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.name, "-f", str(self._host_key))
        (self.directory / "sshd_config").write_text("".join(f"{line}\n" for line in self._sshd_config()))
        self._clock.write_text("+0")
        if self._network and self.user != "root":
            self._make_account()
            for path in (self.home, ssh, ssh / "authorized_keys"):
                os.chown(path, USER_ID, USER_ID)

    @property
    def _host_key(self) -> Path:
        return self.directory / "host_ed25519"

    @property
    def host_keys(self) -> str:
        """Its lines of a known_hosts."""
        key = " ".join(self._host_key.with_suffix(".pub").read_text().split()[:2])
        at = self.host if self.port == 22 else f"[{self.host}]:{self.port}"
        return "".join(f"{name} {key}\n" for name in (at, self.host6) if name)

    def _sshd_config(self) -> Iterator[str]:
        environ = {"NNIMGR_BOOT_ID_FILE": str(self.boot_id), "RECORDS": str(self.records)}
        environ |= self.traits.environ
        if self.traits.clock:
            environ |= {
                "LD_PRELOAD": faketime(),
                "FAKETIME_TIMESTAMP_FILE": str(self._clock),
                "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
        if self._network is None:
            environ["HOME"] = str(self.home)
            yield f"AuthorizedKeysFile {self.home}/.ssh/authorized_keys"
            yield f"ListenAddress {self.host}"
        yield f"Port {self.port}"
        yield f"HostKey {self._host_key}"
        yield f"PidFile {self.directory}/sshd.pid"
        yield f"PasswordAuthentication {'yes' if self.traits.account.password else 'no'}"
        yield "KbdInteractiveAuthentication no"
        yield "PermitRootLogin yes"
        yield f"StrictModes {'yes' if self._network else 'no'}"
        yield "UsePAM no"
        yield "UseDNS no"
        yield "LogLevel VERBOSE"
        yield "Subsystem sftp internal-sftp"
        yield "SetEnv " + " ".join(f'"{name}={value}"' for name, value in environ.items())

    def _make_account(self) -> None:
        """Files for /etc in which the user is."""
        password = self.traits.account.password
        lines = {
            "passwd": f"{self.user}:x:{USER_ID}:{USER_ID}::/home/{self.user}:/bin/bash",
            "group": f"{self.user}:x:{USER_ID}:",
            "shadow": f"{self.user}:{_crypt(password) if password else '*'}:19000:0:99999:7:::",
        }
        for name, line in lines.items():
            made = self.directory / name
            shutil.copy2(f"/etc/{name}", made)
            with open(made, "a") as file:
                file.write(f"{line}\n")

    # ---- life ----------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Let it come up, with a boot id of its own."""
        self.boot_id.write_text(f"{uuid.uuid4()}\n")
        if self._network is not None:
            self._open_namespaces(self._network)
        self.start_sshd()

    def _open_namespaces(self, network: Network) -> None:
        home = "/root" if self.user == "root" else f"/home/{self.user}"
        checkout = Path(__file__).parents[2]
        scene = {
            "name": self.name,
            "tmpfs": ["/tmp", "/run", "/dev/shm", "/home", "/root"],
            # What this box has and no other machine would.
            "hidden": [str(path) for path in (checkout, Path(sys.prefix)) if not path.is_relative_to("/usr")],
            "directories": [home, "/run/sshd"],
            "binds": [(str(self.home), home)]
            + [
                (str(path), f"/etc/{path.name}")
                for name in _ACCOUNTS
                if (path := self.directory / name).exists()
            ],
        }
        self._inside = subprocess.Popen(
            [
                *("unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child"),
                *("--mount-proc", sys.executable, "-S", "-E", str(_INSIDE), json.dumps(scene)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._inside.stdout is not None
        if self._inside.stdout.read(1) != b"r":
            raise Unable("namespaces cannot be made here")
        pid = int(Path(f"/proc/{self._inside.pid}/task/{self._inside.pid}/children").read_text())
        self._enter = ("nsenter", "--target", str(pid), "--mount", "--uts", "--ipc", "--net", "--pid")
        self.cable = Cable(network, self.number, pid)

    def start_sshd(self) -> None:
        run(*self._enter, _sshd(), "-f", str(self.directory / "sshd_config"), "-E", str(self.log))
        self._await_sshd()

    def _await_sshd(self) -> None:
        end = time.monotonic() + DEADLINE_S
        while "Server listening on" not in self.log.read_text():
            if time.monotonic() > end:
                raise TimeoutError(self.log.read_text())
            time.sleep(0.01)

    def kill_sshd(self) -> None:
        """End it and its processes for logins; their commands notice, or run on."""
        kill([process for process in self.processes() if process.command.startswith(("sshd", _sshd()))])
        self.log.rename(self.log.with_suffix(f".{time.monotonic_ns()}.log"))

    def kill_keepers(self) -> int:
        """kill -9 of the keepers that run; how many."""
        return kill(self.keepers())

    def keepers(self) -> list[Process]:
        return [process for process in self.processes() if holds_lock(process.pid)]

    def power_off(self) -> None:
        """All that runs there is gone at once, and nobody was told."""
        if self.cable is not None:
            self.cable.cut()
            self.cable = None  # the kernel removes it with the machine, soon
        if self._inside is not None:
            self._inside.kill()
            self._inside.wait(DEADLINE_S)
            for pipe in (self._inside.stdin, self._inside.stdout):
                if pipe is not None:
                    pipe.close()
            self._inside = None
        kill(self.processes())
        if self.log.exists():
            self.log.rename(self.log.with_suffix(f".{time.monotonic_ns()}.log"))

    def reboot(self) -> None:
        """Power off; what lies in memory (/tmp, /run) is gone; another boot."""
        self.power_off()
        self.boot()

    # ---- looking -------------------------------------------------------------------------------------------

    def processes(self) -> list[Process]:
        """What runs there, the first process left out."""
        if not self._enter:
            return self._descendants()
        first = int(self._enter[2])
        try:
            space = os.readlink(f"/proc/{first}/ns/pid")
        except OSError:
            return []
        return [each for each in processes() if each.pid != first and _space(each.pid) == space]

    def _descendants(self) -> list[Process]:
        """Those that name this machine's directory, and what they have started."""
        everybody = processes()
        found = {each.pid: each for each in everybody if self._names_us(each.pid)}
        while more := [each for each in everybody if each.parent in found and each.pid not in found]:
            found |= {each.pid: each for each in more}
        return list(found.values())

    def _names_us(self, pid: int) -> bool:
        mark = str(self.directory).encode() + b"/"
        try:
            named = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False
        return mark in named and pid != os.getpid()

    def logins(self) -> int:
        """How many succeeded since sshd was started."""
        return self._logged(r"^Accepted \S+ for ")

    def sessions(self) -> int:
        """How many sessions (commands, subsystems) were opened since sshd was started."""
        return self._logged("^Starting session: ")

    def _logged(self, pattern: str) -> int:
        return len(re.findall(pattern, self.log.read_text(), re.MULTILINE)) if self.log.exists() else 0

    # ---- harm ----------------------------------------------------------------------------------------------

    @property
    def link(self) -> Cable:
        """Its cable. Raises Unable where it has none."""
        if self.cable is None:
            raise Unable("a machine on a loopback address has no cable")
        return self.cable

    def revoke(self, key: str) -> None:
        """Admit this public key no longer; sessions that are open stay."""
        self._rewrite_keys([line for line in self._keys() if line != key])

    def authorize(self, key: str) -> None:
        self._rewrite_keys([*self._keys(), key])

    def _keys(self) -> list[str]:
        return (self.home / ".ssh" / "authorized_keys").read_text().splitlines(keepends=True)

    def _rewrite_keys(self, lines: Sequence[str]) -> None:
        (self.home / ".ssh" / "authorized_keys").write_text("".join(lines))

    def jump(self, by: timedelta) -> None:
        """Set its clock: what is read of it from now on differs so much from this box's."""
        if not self.traits.clock:
            raise Unable("the machine was made without a clock of its own")
        new = self._clock.with_suffix(".new")
        new.write_text(f"{by.total_seconds():+.0f}")
        new.replace(self._clock)

    def entry(self, **more: Any) -> dict[str, Any]:
        """Its element of ``machineList``; ``more``: further fields."""
        fields: dict[str, Any] = {"host": self.host, "user": self.user}
        if self.port != 22:
            fields["port"] = self.port
        return fields | more


def kill(victims: Sequence[Process]) -> int:
    """kill -9 of these, and wait until they are gone. Return how many there were."""
    handles = []
    for process in victims:
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(process.pid)
            handles.append(handle)
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    for handle in handles:
        select.select([handle], [], [], GONE_S)
        os.close(handle)
    return len(handles)


_ACCOUNTS = ("passwd", "group", "shadow")


def _space(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def _sshd() -> str:
    return shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or "sshd"


def faketime() -> str:
    """The library that sets a process's clock. Raises Unable."""
    for path in sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1")):
        return str(path)
    raise Unable("libfaketime is not installed")


def _crypt(password: str) -> str:
    """As /etc/shadow holds it."""
    crypt = ctypes.CDLL("libcrypt.so.1").crypt
    crypt.restype = ctypes.c_char_p
    hashed = crypt(password.encode(), b"$6$machines$")
    return bytes(hashed).decode()

"""Tests of the login to machines and of the attendant there, with real OpenSSH servers and shells."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from tests.sshd import NEEDS_SSHD, Machine, Site, make_key, site
from training_services.base import ServiceUnavailable
from training_services.ssh.bootstrap import HELLO, NO_PYTHON, command, program
from training_services.ssh.config import HostKeyPolicy
from training_services.ssh.connection import Link, SshPool
from training_services.ssh.target import Target, Unreachable

# PATH with a real Python and without a script that replaces it
REAL = f"{Path(sys.executable).resolve().parent}:/usr/bin:/bin"
needs_sshd = pytest.mark.skipif(NEEDS_SSHD, reason="there is no sshd")


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with site(tmp_path) as found:
        monkeypatch.setenv("HOME", str(found.home))
        yield found


def target(hosts: Site, machine: Machine, **fields: Any) -> Target:
    given = {"host": machine.address, "port": machine.port, "user": hosts.user, "title": "it", **fields}
    return Target(**given)


@contextlib.asynccontextmanager
async def linked(wanted: Target) -> AsyncIterator[Link]:
    share = SshPool().share(wanted, lambda: None)
    try:
        yield await share.link()
    finally:
        await share.close()


async def home_of(wanted: Target) -> str:
    """Return the home directory that the attendant there reports."""
    async with linked(wanted) as link:
        return str((await link.attendant.ask("facts"))["home"])


async def refused(wanted: Target) -> str:
    with pytest.raises(Unreachable) as caught:
        async with linked(wanted):
            raise AssertionError("it let us in")
    return str(caught.value)


def lock_key(key: Path, passphrase: str) -> None:
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", passphrase, "-f", str(key)], check=True)


@contextlib.contextmanager
def agent_of(path: str, key: Path) -> Iterator[None]:
    """Start an agent at this socket that has the key."""
    with subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.PIPE) as agent:
        try:
            assert agent.stdout is not None
            agent.stdout.readline()  # the agent prints where it listens
            environ = {**os.environ, "SSH_AUTH_SOCK": path}
            subprocess.run(["ssh-add", "-q", str(key)], env=environ, check=True)
            yield
        finally:
            agent.kill()


@needs_sshd
async def test_a_key_with_a_passphrase(hosts: Site) -> None:
    machine = hosts.machine()
    key = hosts.directory / "locked"
    shutil.move(hosts.key, key)
    lock_key(key, "open")
    assert await home_of(target(hosts, machine, key_file=key, passphrase="open")) == str(machine.home)
    assert "sshPassphrase does not open" in await refused(
        target(hosts, machine, key_file=key, passphrase="no")
    )
    assert "give sshPassphrase, or add the key to ssh-agent: ssh-add" in await refused(
        target(hosts, machine, key_file=key)
    )
    missing = target(hosts, machine, key_file=hosts.directory / "none")
    assert "cannot be read: No such file" in await refused(missing)
    plain = hosts.directory / "plain"
    plain.write_text("no key")
    assert "is not a private key that can be used" in await refused(target(hosts, machine, key_file=plain))


@needs_sshd
async def test_an_agent_is_asked(hosts: Site) -> None:
    machine = hosts.machine()
    agent_socket = str(hosts.directory / "agent")
    with agent_of(agent_socket, hosts.key):
        hosts.key.unlink()
        assert "with the keys in ~/.ssh; it accepts another key" in await refused(target(hosts, machine))
        assert await home_of(target(hosts, machine, agent=agent_socket)) == str(machine.home)


@needs_sshd
async def test_what_the_users_own_configuration_says_counts(hosts: Site) -> None:
    jump, machine = hosts.machine(), hosts.machine()
    key = hosts.directory / "elsewhere"
    shutil.move(hosts.key, key)
    (hosts.home / ".ssh" / "config").write_text(
        f"Host box\n  HostName {machine.address}\n  Port {machine.port}\n  User {hosts.user}\n"
        f"  ProxyJump hop\nHost hop\n  HostName {jump.address}\n  Port {jump.port}\n"
        f"Host *\n  IdentityFile {key}\n"
    )
    assert await home_of(Target(host="box", title="box")) == str(machine.home)
    jump.stop()
    assert "nothing listens on port" in await refused(Target(host="box", title="box"))


@needs_sshd
async def test_a_machine_behind_others(hosts: Site) -> None:
    jump, other, machine = (hosts.machine() for _ in range(3))
    way = ",".join(f"{hosts.user}@{hop.address}:{hop.port}" for hop in (jump, other))
    assert await home_of(target(hosts, machine, proxy_jump=way)) == str(machine.home)
    hosts.known_hosts.write_text(jump.host_key + machine.host_key)
    assert f"the host key of [{other.address}]:{other.port} is not known" in await refused(
        target(hosts, machine, proxy_jump=way)
    )
    accepting = target(hosts, machine, proxy_jump=way, policy=HostKeyPolicy.ACCEPT_NEW)
    assert await home_of(accepting) == str(machine.home)
    machine.stop()
    assert "the jump host cannot connect to" in await refused(target(hosts, machine, proxy_jump=way))


@needs_sshd
async def test_ipv6(hosts: Site) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("there is no IPv6")
    machine = hosts.machine(address="::1")
    assert await home_of(target(hosts, machine)) == str(machine.home)


@needs_sshd
async def test_too_many_logins_at_once(hosts: Site) -> None:
    machine = hosts.machine(more="MaxStartups 1:100:1\n")
    with contextlib.ExitStack() as stack:
        while True:  # a connection that only tests the port counts until it has ended
            idle = stack.enter_context(socket.create_connection((machine.address, machine.port)))
            if idle.recv(4) == b"SSH-":
                break
        assert "MaxStartups" in await refused(target(hosts, machine))


async def test_names_and_ports_that_lead_nowhere(hosts: Site) -> None:
    assert "the name nowhere.invalid cannot be resolved" in await refused(
        Target(host="nowhere.invalid", title="it", port=1)
    )

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as web:
        port = web.sockets[0].getsockname()[1]
        assert "it" in (said := await refused(Target(host="127.0.0.1", port=port, title="it")))
        assert "no usable SSH server" in said or "has closed the connection during the login" in said


class _Passwords(asyncssh.SSHServer):
    def begin_auth(self, username: str) -> bool:
        return True

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == ("bob", "right")


async def test_a_password_is_shown_to_none_but_the_machine_that_is_known(hosts: Site) -> None:
    make_key(hosts.directory / "host")

    def run(process: asyncssh.SSHServerProcess[bytes]) -> None:
        process.stdout.write(b"Motd\nThis account is not available\n")  # as nologin does
        process.exit(3)

    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[str(hosts.directory / "host")],
        server_factory=_Passwords,
        process_factory=run,
        encoding=None,
    )
    async with server:
        port = server.get_port()

        def bob(password: str | None) -> Target:
            return Target(host="127.0.0.1", port=port, user="bob", title="bob@it", password=password)

        assert "is not known" in await refused(bob("right"))
        kind, key = (hosts.directory / "host.pub").read_text().split()[:2]
        hosts.known_hosts.write_text(f"[127.0.0.1]:{port} {kind} {key}\n")
        assert (await refused(bob("right"))).startswith(
            "no program can be run on bob@it: its login shell ends with code 3 and prints: This account is "
            "not available (check its startup files, "
        )
        assert "rejects the login with the password" in await refused(bob("wrong"))
        assert "it accepts a password" in await refused(bob(None))


@needs_sshd
async def test_the_program_is_sent_once_and_again_if_it_is_damaged(hosts: Site) -> None:
    machine = hosts.machine()
    wanted = target(hosts, machine)
    sent = []
    for turn in range(3):
        async with linked(wanted) as link:
            sent.append(link.attendant.uploaded)
            await link.attendant.ask("facts")  # the answer shows that the program has arrived
        if turn == 1:
            (machine.home / program().path).write_bytes(b"half of it")
    assert sent == [len(program().packed), 0, len(program().packed)]


@needs_sshd
async def test_an_attendant_does_what_it_is_asked_and_nothing_outside(hosts: Site) -> None:
    machine = hosts.machine()
    async with linked(target(hosts, machine)) as link:
        ask = link.attendant.ask
        there = "nni-experiments/exp/environments/here"
        await ask("write", directory=there, manager={"token": "secret"})
        file = machine.home / there / "keeper" / "manager.json"
        assert json.loads(file.read_text()) == {"token": "secret"}
        assert file.stat().st_mode & 0o777 == 0o600
        for bad in ("nni-experiments", "nni-experiments/exp", "nni-experiments/../../x/y", "/etc/passwd/x"):
            with pytest.raises(ServiceUnavailable, match="is not the directory of an experiment"):
                await ask("remove", directory=bad)
        await ask("remove", directory=there)
        assert not (machine.home / "nni-experiments" / "exp").exists()
        (machine.home / "nni-experiments" / "exp").write_text("in the way")
        with pytest.raises(ServiceUnavailable, match=r"on it, .*exp.*: Not a directory"):
            await ask("write", directory=there, manager={})
        with pytest.raises(ServiceUnavailable, match="cannot dance"):
            await ask("dance")


@needs_sshd
async def test_a_machine_that_hears_nothing_ends_the_connection(hosts: Site) -> None:
    machine = hosts.machine()
    options = ["-o", f"UserKnownHostsFile={hosts.known_hosts}", "-i", str(hosts.key), "-p", str(machine.port)]
    client = await asyncio.create_subprocess_exec(
        *("ssh", *options, f"{hosts.user}@{machine.address}", command(program())),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert client.stdin is not None
    client.stdin.write(program().packed + b'{"do": "silence", "seconds": 0.3}\n')
    async with asyncio.timeout(10):
        complaint = await _rest(client)
    # ssh reports 255 for a lost connection, which is not the command's exit code
    assert client.returncode == 255, complaint
    async with asyncio.timeout(5):
        while True:
            if not machine.connections():
                break
            await asyncio.sleep(0.01)


async def _rest(client: asyncio.subprocess.Process) -> bytes:
    """Return its error output until it ends; its standard input stays open."""
    assert client.stdout is not None and client.stderr is not None
    await client.stdout.read()
    complaint = await client.stderr.read()
    await client.wait()
    assert client.stdin is not None
    client.stdin.close()
    return complaint


@pytest.mark.parametrize("shell", ["bash", "dash", "fish", "csh", "tcsh", "zsh", "ksh"])
def test_any_login_shell_will_do(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    noisy = tmp_path / "noise"
    noisy.write_text("echo welcome; printf 'to this machine'")
    environ = {**os.environ, "HOME": str(tmp_path), "BASH_ENV": str(noisy), "PATH": REAL}
    text = command(program(), python_path="~/a directory/bin")
    for needed in (True, False):
        content = program().packed if needed else b""
        request = b'{"no": 1, "do": "facts"}\n'
        shown, answer = _converse([shell, "-c", text], environ, content + request)
        assert shown["need"] is needed
        assert answer["answer"]["home"] == str(tmp_path)


def _converse(
    arguments: list[str], environ: dict[str, str], said: bytes
) -> tuple[dict[str, Any], dict[str, Any]]:
    with subprocess.Popen(
        arguments, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as shell:
        assert shell.stdin is not None and shell.stdout is not None
        shell.stdin.write(said)
        shell.stdin.flush()
        line = b""
        while not line.startswith(HELLO):
            line = shell.stdout.readline()
            assert line, shell.stderr.read() if shell.stderr is not None else b""
        return json.loads(line[len(HELLO) :]), json.loads(shell.stdout.readline())


def test_without_a_python_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to("/bin/sh")
    done = subprocess.run(
        ["/bin/sh", "-c", command(program())], env={"PATH": str(tmp_path)}, capture_output=True, check=False
    )
    assert done.returncode == NO_PYTHON


def test_a_home_that_takes_no_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "nni-experiments").write_text("in the way")
    environ = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(
        ["sh", "-c", command(program())],
        env=environ,
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert b"nni-experiments" in done.stdout and b'"error"' in done.stdout

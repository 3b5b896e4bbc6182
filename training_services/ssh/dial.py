"""Function that opens one SSH connection, with the user's configuration, ~/.ssh/config and jump hosts.

Only this module opens connections. It is imported for the first connection, because its library is large.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import asyncssh

from training_services.ssh.hostkeys import HostKeys
from training_services.ssh.target import UNANSWERED, Target, Unreachable

__all__ = ["CONNECT_S", "Dialled", "dial"]

CONNECT_S = 15.0
HANG_UP_S = 1.0


class _Client(asyncssh.SSHClient):
    """Callbacks that the SSH library calls during the login and at the end of the connection."""

    def __init__(
        self, host_keys: HostKeys, alias: str | None, lost: Callable[[Exception | None], None]
    ) -> None:
        self._host_keys = host_keys
        self._alias = alias
        self._lost = lost
        self.refusal: str | None = None  # reason why the machine's host key was refused
        # login methods that the machine would accept, but for which no credentials are given
        self.would_take: list[str] = []

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.refusal = self._host_keys.judge(self._alias or host, addr, port, key)
        return self.refusal is None

    def public_key_auth_requested(self) -> None:
        self.would_take.append("another key")

    def password_auth_requested(self) -> None:
        self.would_take.append("a password")

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(exc)


class Dialled(NamedTuple):
    """Connection to a machine. ``hops``: connections to its jump hosts, the first one first."""

    connection: asyncssh.SSHClientConnection
    hops: tuple[asyncssh.SSHClientConnection, ...] = ()

    async def close(self) -> None:
        """Close all connections, from the machine back to the first jump host."""
        for connection in (self.connection, *reversed(self.hops)):
            connection.close()
            try:
                async with asyncio.timeout(HANG_UP_S):
                    await connection.wait_closed()
            except TimeoutError:
                connection.abort()


async def dial(target: Target, *, lost: Callable[[Exception | None], None]) -> Dialled:
    """Connect to the machine and log in. ``lost`` is called when the connection ends. Raises Unreachable."""
    try:
        async with asyncio.timeout(CONNECT_S):
            return await _dial(target, lost)
    except TimeoutError:
        raise Unreachable(
            f"{target.title} has not answered for {CONNECT_S:g} s: check whether the machine is up, and "
            "whether a firewall blocks SSH"
        ) from None


async def _dial(target: Target, lost: Callable[[Exception | None], None]) -> Dialled:
    client: _Client | None = None
    jump: Dialled | None = None
    options: dict[str, Any] = {}
    try:
        options, keys, found = await asyncio.to_thread(_options, target)
        way = target.proxy_jump or (found.tunnel if isinstance(found.tunnel, str) else None)
        if way and way.lower() != "none":
            jump = await _dial_jumps(way, target)
        client = _Client(keys, found.host_key_alias, lost)
        connection = await asyncssh.connect(
            target.host,
            known_hosts=keys.known,
            tunnel=None if jump is None else jump.connection,
            client_factory=lambda: client,
            **options,
        )
        return Dialled(connection, () if jump is None else (*jump.hops, jump.connection))
    except BaseException as error:
        if jump is not None:
            await jump.close()
        if isinstance(error, Unreachable | asyncio.CancelledError):
            raise
        if not isinstance(error, OSError | asyncssh.Error | ValueError):
            raise
        raise _explain(error, target, client, options) from error


async def _dial_jumps(way: str, target: Target) -> Dialled:
    """Connect to each jump host through the previous one. Return the connection to the last one."""
    before, _, last = way.strip().rpartition(",")
    user, _, address = last.strip().rpartition("@")
    host, port = address, ""
    if address.startswith("["):
        host, _, port = address[1:].partition("]")
        port = port.removeprefix(":")
    elif address.count(":") == 1:
        host, port = address.split(":")
    if not host or (port and not port.isdecimal()):
        raise Unreachable(f"the jump host {last!r} must have the form user@host:port", lasting=True)
    hop = replace(
        target,
        host=host,
        title=f"the jump host {last.strip()}",
        port=int(port) if port else None,
        user=user or None,
        password=None,
        proxy_jump=before or None,
    )
    return await _dial(hop, lambda error: None)


def _options(target: Target) -> tuple[dict[str, Any], HostKeys, asyncssh.SSHClientConnectionOptions]:
    """Return the options for the connection, the known host keys, and the options from ~/.ssh/config.

    This reads files, so call it in a thread.
    """
    options: dict[str, Any] = {
        "keepalive_interval": target.keep_alive,
        "keepalive_count_max": UNANSWERED - 1,  # the library does not count the last unanswered check
        "gss_host": None,
        "agent_forwarding": False,  # even if the user's own configuration enables it
        "x509_trusted_certs": [],
        "x509_trusted_cert_paths": [],
    }
    if target.port is not None:
        options["port"] = target.port
    if target.user is not None:
        options["username"] = target.user
    found = asyncssh.SSHClientConnectionOptions(host=target.host, client_keys=None, config=(), **options)
    files = found.known_hosts
    keys = HostKeys([str(file) for file in files] if isinstance(files, list) else None, target.policy)
    agent = found.config.get("IdentityAgent") or target.agent or os.environ.get("SSH_AUTH_SOCK") or ""
    agent = str(Path(str(agent)).expanduser()) if agent and str(agent).lower() != "none" else ""
    options["agent_path"] = agent if os.path.exists(agent) else None
    if target.passphrase is not None:
        options["passphrase"] = target.passphrase
    if target.key_file is not None:
        options |= _named_key(target, has_agent=options["agent_path"] is not None)
    elif target.password is not None:
        options["client_keys"] = None
    if target.password is not None:
        options["password"] = target.password
    return options, keys, found


def _named_key(target: Target, *, has_agent: bool) -> dict[str, Any]:
    """Return the options that make the SSH library use the key in ``sshKeyFile``. Raises Unreachable."""
    file = target.key_file
    try:
        pairs = asyncssh.load_keypairs(str(file), target.passphrase)
    except OSError as error:
        raise Unreachable(f"the key {file} cannot be read: {error.strerror}", lasting=True) from error
    except ValueError as error:
        if "passphrase" not in str(error).lower():
            raise Unreachable(
                f"{file} is not a private key that can be used: {error}", lasting=True
            ) from error
        if target.passphrase is not None:
            raise Unreachable(f"sshPassphrase does not open the key {file}", lasting=True) from error
        if not has_agent:
            raise Unreachable(
                f"the key {file} is encrypted: give sshPassphrase, or add the key to ssh-agent: ssh-add",
                lasting=True,
            ) from error
        return {"client_keys": [str(file)], "ignore_encrypted": True}
    return {"client_keys": pairs, "agent_path": None}


def _explain(
    error: Exception, target: Target, client: _Client | None, options: dict[str, Any]
) -> Unreachable:
    """Convert an error of the SSH library to one whose sentence says what failed and what to do."""
    title = target.title
    match error:
        case asyncssh.HostKeyNotVerifiable():
            why = client.refusal if client is not None else None
            return Unreachable(why or f"the host key of {title} is refused: {error.reason}", lasting=True)
        case asyncssh.PermissionDenied():
            return Unreachable(_denied(target, client, options), lasting=True)
        case asyncssh.KeyExchangeFailed():
            return Unreachable(
                f"{title} and this server have no common SSH algorithm: {error.reason} (if the machine was "
                "reinstalled, its type of host key may have changed: see ssh-keygen -R)",
                lasting=True,
            )
        case asyncssh.ProtocolNotSupported() | asyncssh.ProtocolError():
            return Unreachable(f"no usable SSH server answers at {title}: {error.reason}")
        case asyncssh.ConnectionLost() | ConnectionResetError() | asyncssh.DisconnectError():
            return Unreachable(
                f"{title} has closed the connection during the login ({error}): it may have too many logins "
                "in progress (MaxStartups in its sshd_config), or block this address"
            )
        case asyncssh.ChannelOpenError():
            return Unreachable(f"the jump host cannot connect to {title}: {error.reason}")
        case ConnectionRefusedError():
            port = target.port or 22
            return Unreachable(
                f"nothing listens on port {port} of {target.host}: check whether sshd runs there"
            )
        case socket.gaierror():
            return Unreachable(f"the name {target.host} cannot be resolved: check its spelling and the DNS")
        case OSError():
            reason = os.strerror(error.errno) if error.errno else str(error)
            return Unreachable(f"{title} does not answer: {reason}; check whether it is up, and the network")
    return Unreachable(
        f"~/.ssh/config, or a key that it names, cannot be used for {title}: {error}", lasting=True
    )


def _denied(target: Target, client: _Client | None, options: dict[str, Any]) -> str:
    shown = []
    if target.key_file is not None:
        shown.append(f"the key {target.key_file}")
    elif options.get("client_keys", ()) is not None:
        shown.append("the keys in ~/.ssh")
    if options.get("agent_path") and options.get("client_keys", ()) is not None:
        shown.append("the keys in ssh-agent")
    if target.password is not None:
        shown.append("the password")
    took = dict.fromkeys(client.would_take if client is not None else ())
    more = f"; it accepts {' or '.join(took)}" if took else ""
    return (
        f"{target.title} rejects the login with {' or '.join(shown)}{more}: check user, sshKeyFile and "
        "password of the machine"
    )

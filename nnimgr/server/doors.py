"""The keepers' doors beside the server's own address: a private socket for tunnels, and a network address.

Both speak TLS, and serve the keepers' routes and nothing else: API and dashboard stay where they were.
Nothing of the certificate is ever checked but its fingerprint, which keepers are given with their token.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import ipaddress
import json
import logging
import os
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from nnimgr.api.asgi import ASGIApp
from nnimgr.server.http import http_config
from training_services.base import ServiceUnavailable
from training_services.doors import PrivateDoor
from training_services.keeper_host import Reach

__all__ = ["Doors"]

logger = logging.getLogger(__name__)

HANDSHAKE_S = 10.0
FIRST_REQUEST_S = 20.0  # for its headers: anybody may connect at the network's door
LAST_ANSWERS_S = 2.0
_LONGEST_PATH = 107  # of a socket, in bytes: the kernel's


class Address(NamedTuple):
    """``nniManagerIp`` taken apart."""

    host: str
    port: int | None

    @classmethod
    def parse(cls, text: str) -> Address:
        """Of "10.0.0.5", "10.0.0.5:9000", "fe80::1", "[fe80::1]:9000", "name", "name:9000".

        Raises ServiceUnavailable.
        """
        host, port = text.strip(), ""
        if host.startswith("["):
            host, closed, port = host[1:].partition("]")
            if not closed or (port and not port.startswith(":")):
                raise ServiceUnavailable(f"nniManagerIp {text!r} is neither an address nor [address]:port")
            port = port[1:]
        elif host.count(":") == 1:
            host, _, port = host.partition(":")
            if not port:
                raise ServiceUnavailable(f"nniManagerIp {text!r} has no port after its colon")
        if not host or any(character in host for character in " /@?#[]"):
            raise ServiceUnavailable(f"nniManagerIp {text!r} is no address, name, address:port or name:port")
        if not port:
            return cls(host, None)
        if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
            raise ServiceUnavailable(f"nniManagerIp {text!r} has no port from 1 to 65535")
        return cls(host, int(port))

    @property
    def key(self) -> str:
        return self.host if self.port is None else f"{self.host} {self.port}"

    def url(self, port: int) -> str:
        return f"https://{f'[{self.host}]' if ':' in self.host else self.host}:{port}"


@dataclass(slots=True)
class _Listening:
    """What is served at one or more sockets."""

    servers: list[asyncio.Server]
    state: ServerState

    async def close(self) -> None:
        """Listen no more; what is being answered gets some time."""
        for server in self.servers:
            server.close()
        for connection in list(self.state.connections):
            connection.shutdown()
        if self.state.tasks:
            await asyncio.wait(set(self.state.tasks), timeout=LAST_ANSWERS_S)
        for task in self.state.tasks:
            task.cancel()
        for connection in list(self.state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                with contextlib.suppress(AttributeError):  # Python 3.11.2: closed twice, TLS has let go of it
                    transport.abort()


class _Connection(HttpToolsProtocol):
    """A caller that says nothing is not waited for."""

    _patience: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._patience = self.loop.call_later(FIRST_REQUEST_S, transport.close)

    def on_headers_complete(self) -> None:
        self._patience.cancel()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._patience.cancel()
        super().connection_lost(exc)


class Doors:
    """``KeeperDoors`` of a server.

    ``app`` answers the keepers; ``folder`` (0700) keeps certificate, ports and socket, the last two under
    ``name``, which no other server of this folder has at the same time.
    """

    def __init__(self, app: ASGIApp, *, folder: Path, name: str) -> None:
        self._app = app
        self._folder = folder
        self._socket = f"door-{name}.sock"
        self._ports_path = folder / f"door-{name}.json"
        self._directory: int | None = None  # the folder, open, if the socket's path is too long
        self._private: PrivateDoor | None = None
        self._network: dict[str, Reach] = {}
        self._open: list[_Listening] = []
        self._opening = asyncio.Lock()

    async def private(self) -> PrivateDoor:
        async with self._opening:
            if self._private is None:
                self._private = await self._open_private()
            return self._private

    async def network(self, address: str) -> Reach:
        wanted = Address.parse(address)
        async with self._opening:
            found = self._network.get(wanted.key) or self._shared(wanted)
            if found is None:
                found = await self._open_network(wanted)
            self._network[wanted.key] = found
            return found

    def _shared(self, wanted: Address) -> Reach | None:
        """What listens at this very port already, because it was free when none was named."""
        urls = () if wanted.port is None else (wanted.url(wanted.port),)
        return next((reach for reach in self._network.values() if tuple(reach.urls) == urls), None)

    async def close(self) -> None:
        """Shut all of them; the calls that are held were answered before."""
        async with self._opening:
            await asyncio.gather(*(listening.close() for listening in self._open))
            self._open.clear()
            self._network.clear()
            if self._private is not None:
                self._private.path.unlink(missing_ok=True)
                self._private = None
            if self._directory is not None:
                os.close(self._directory)
                self._directory = None

    async def _open_private(self) -> PrivateDoor:
        tls, fingerprint = await asyncio.to_thread(self._identity)
        path = self._folder / self._socket
        listener = socket.socket(socket.AF_UNIX)
        try:
            if len(os.fsencode(path)) > _LONGEST_PATH:
                if self._directory is None:
                    self._directory = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                path = Path(f"/proc/self/fd/{self._directory}/{self._socket}")
            path.unlink(missing_ok=True)  # of a server that was killed: its name is ours now
            listener.bind(str(path))
            path.chmod(0o600)
            await self._serve([listener], tls=tls)
        except OSError as error:
            listener.close()
            raise ServiceUnavailable(
                f"the socket {self._folder / self._socket} for tunnels cannot be made: {error.strerror}"
            ) from error
        return PrivateDoor(path, fingerprint)

    async def _open_network(self, wanted: Address) -> Reach:
        hosts = await _resolve(wanted.host)
        tls, fingerprint = await asyncio.to_thread(self._identity)
        kept = self._kept_ports().get(wanted.host)
        port, sockets = _listen(wanted, hosts, kept=kept)
        try:
            if wanted.port is None and port != kept:
                self._keep_port(wanted.host, port)
            await self._serve(sockets, tls=tls)
        except OSError as error:
            for listener in sockets:
                listener.close()
            raise ServiceUnavailable(f"the keepers' door cannot be opened: {error}") from error
        logger.info("the keepers' door is open at %s", wanted.url(port))
        return Reach([wanted.url(port)], fingerprint)

    def _identity(self) -> tuple[ssl.SSLContext, str]:
        from nnimgr.server.certificate import keep_certificate  # slow to import, and few need it

        path = self._folder / "door.pem"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.num_tickets = 0  # a word from the server is an answer: keepers that stream look for that
        try:
            certificate = keep_certificate(path)
            context.load_cert_chain(path)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ServiceUnavailable(f"the certificate {path} of the keepers' door: {reason}") from error
        except ValueError as error:
            raise ServiceUnavailable(
                f"{path} is not a key with its certificate any more; delete it to get a new one"
            ) from error
        return context, hashlib.sha256(certificate).hexdigest()

    async def _serve(self, sockets: list[socket.socket], *, tls: ssl.SSLContext) -> None:
        config = http_config(self._app, date_header=False)
        config.load()
        listening = _Listening([], ServerState())
        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            return _Connection(config=config, server_state=listening.state, app_state={}, _loop=loop)

        try:
            for listener in sockets:
                is_local = listener.family == socket.AF_UNIX
                create: Any = loop.create_unix_server if is_local else loop.create_server
                server = await create(
                    protocol,
                    sock=listener,
                    ssl=tls,
                    ssl_handshake_timeout=HANDSHAKE_S,
                    backlog=config.backlog,
                )
                listening.servers.append(server)
        except BaseException:
            await listening.close()
            raise
        self._open.append(listening)

    def _kept_ports(self) -> dict[str, int]:
        try:
            ports = json.loads(self._ports_path.read_bytes())
            return {str(host): int(port) for host, port in ports.items() if 0 < int(port) < 65536}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def _keep_port(self, host: str, port: int) -> None:
        fresh = self._ports_path.with_suffix(".new")
        fresh.write_text(json.dumps({**self._kept_ports(), host: port}), encoding="utf-8")
        fresh.replace(self._ports_path)


async def _resolve(host: str) -> list[tuple[socket.AddressFamily, str]]:
    """What to listen at. Raises ServiceUnavailable."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ServiceUnavailable(f"nniManagerIp {host} is not known here: {reason}") from error
    hosts: list[tuple[socket.AddressFamily, str]]
    hosts = list(dict.fromkeys((family, _numeric(address)) for family, _, _, _, address in found))
    named = host != "localhost" and not _is_numeric(host)
    if named and all(ipaddress.ip_address(number.partition("%")[0]).is_loopback for _, number in hosts):
        numbers = ", ".join(number for _, number in hosts)
        raise ServiceUnavailable(
            f"nniManagerIp {host} means {numbers} here, where no other machine can call; "
            "give the address by which this machine is reached"
        )
    return hosts


def _numeric(address: tuple[object, ...]) -> str:
    host, scope = str(address[0]), address[3] if len(address) == 4 else 0
    return f"{host}%{scope}" if scope and "%" not in host else host


def _is_numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _listen(
    wanted: Address, hosts: list[tuple[socket.AddressFamily, str]], *, kept: int | None
) -> tuple[int, list[socket.socket]]:
    """Sockets of one port at those of the hosts that this machine has. Raises ServiceUnavailable."""
    if wanted.port is not None:
        choices = [wanted.port]
    else:
        choices = [0] if kept is None else [kept, 0]
    trouble: OSError | None = None
    for choice in choices:
        port, sockets = choice, []
        for family, host in hosts:
            try:
                listener = _bind(family, host, port)
            except OSError as error:
                trouble = error
                continue
            sockets.append(listener)
            port = listener.getsockname()[1]
        if sockets:
            return port, sockets
    assert trouble is not None
    raise ServiceUnavailable(_why(wanted, trouble)) from trouble


def _bind(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        listener.bind(found[0][4])
        with contextlib.suppress(OSError):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        listener.close()
        raise
    return listener


def _why(wanted: Address, error: OSError) -> str:
    if error.errno == errno.EADDRNOTAVAIL:
        return f"this machine does not have the address {wanted.host} that nniManagerIp names"
    if error.errno == errno.EADDRINUSE:
        return f"port {wanted.port} of {wanted.host}, which nniManagerIp names, is used by something else"
    if error.errno == errno.EINVAL and ":" in wanted.host and "%" not in wanted.host:
        return f"nniManagerIp {wanted.host} needs its interface after it, as in {wanted.host}%eth0"
    return f"nniManagerIp {wanted.host} cannot be listened at: {error.strerror or error}"

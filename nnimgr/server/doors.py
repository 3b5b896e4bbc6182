"""Doors: addresses of the server that serve only keepers, the agents beside the trials on each machine.

A door is a Unix socket for keepers on this machine, a Unix socket for SSH tunnels, or a TCP port. The
keepers' routes are served by doors only, and doors serve nothing else.

The socket for keepers on this machine uses plain HTTP, because the kernel tells each side the user of the
other side. All other doors use TLS. Keepers get the certificate's fingerprint together with their token, and
check it.

A proxy in front of a door, such as a Kubernetes ingress, is not part of this server. If the proxy ends TLS,
keepers check its certificate with their own certificate authorities.
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
from typing import Any

from uvicorn.server import ServerState

from nnimgr.api.asgi import ASGIApp, Receive, Scope, Send
from nnimgr.server.addresses import Address, check_url, is_url
from nnimgr.server.http import BoundedHTTP, http_config
from nnimgr.server.local_socket import bind_private, is_own_user
from training_services.addresses import PrivateDoor, Reach
from training_services.base import ServiceUnavailable
from training_services.private import open_private
from trial_keeper.calls import local_http

__all__ = ["Doors"]

logger = logging.getLogger(__name__)

HANDSHAKE_S = 10.0
RESOLVE_S = 10.0  # limit for the resolution of a name
# Limit in seconds for the headers of the first request, because anyone can connect to a network door.
FIRST_REQUEST_S = 20.0
LAST_ANSWERS_S = 2.0
_ROUTES = "/keepers/v1/"
_GIVEN = "nniManagerIp"
_LISTEN = "--keepers-listen"


_Host = tuple[socket.AddressFamily, str]
_Hosts = list[_Host]
_ANY = {socket.AF_INET: "0.0.0.0", socket.AF_INET6: "::"}


@dataclass(slots=True)
class _Listening:
    """Listening sockets of one door, with the state that their connections share."""

    servers: list[asyncio.Server]
    state: ServerState

    async def close(self) -> None:
        """Stop listening. Requests in progress get a short time to finish."""
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
                # Python 3.11.2 raises this error if TLS has closed the transport already.
                with contextlib.suppress(AttributeError):
                    transport.abort()


class _Connection(BoundedHTTP):
    """Connection to a door that is closed if its first request does not arrive in time."""

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


class _LocalConnection(_Connection):
    """Connection to the socket for keepers on this machine. Users who may not use the server are rejected."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not is_own_user(transport):
            transport.abort()


@dataclass(frozen=True, slots=True)
class _Standing:
    """Network door that was opened when the server started, before any training service needed it."""

    port: int
    hosts: frozenset[_Host]

    def serves(self, wanted: Address, hosts: _Hosts) -> bool:
        """Return True if a keeper that is given one of these addresses reaches this door.

        ``hosts``: the IP addresses of the host in ``wanted``.
        """
        return wanted.port in (None, self.port) and any(
            host in self.hosts or ((host[0], _ANY[host[0]]) in self.hosts and _is_ours(host))
            for host in hosts
        )


class Doors:
    """All doors of a server: its addresses for keepers. Implements ``KeeperDoors``.

    ``app``: application that answers keepers. ``folder`` (mode 0700): contains the certificate, and the
    sockets and remembered ports. ``name`` is part of their file names, and belongs to one server at a time.

    ``url``: URL through which other machines reach this server, for example at a proxy. ``authorities``: PEM
    of the certificate authorities for this URL; None if the keepers' machines know them.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        folder: Path,
        name: str,
        url: str | None = None,
        authorities: str | None = None,
    ) -> None:
        self.url = url
        self._authorities = authorities or ""
        self._app = _without_prefix(app)
        self._folder = folder
        self._path = folder / f"door-{name}.sock"
        self._local_path = folder / f"keepers-{name}.sock"
        self._ports_path = folder / f"door-{name}.json"
        self._directory: int | None = None  # open descriptor of the folder, if the socket's path is too long
        self._private: PrivateDoor | None = None
        self._local: Reach | None = None
        self._network: dict[str, Reach] = {}
        self._standing: _Standing | None = None
        self._open: list[_Listening] = []
        self._opening = asyncio.Lock()

    async def local(self) -> Reach:
        async with self._opening:
            if self._local is None:
                await self._open_socket(self._local_path, tls=None)
                self._local = Reach([local_http.url_of(str(self._local_path))])
            return self._local

    async def private(self) -> PrivateDoor:
        async with self._opening:
            if self._private is None:
                self._private = await self._open_private()
            return self._private

    async def listen(self, address: str) -> None:
        """Open a network door at "address:port" of this machine when the server starts.

        The address may be a wildcard such as 0.0.0.0. Raise ServiceUnavailable if the door cannot be opened.
        """
        wanted = _parse(address, said=_LISTEN)
        if wanted.port is None:
            raise ServiceUnavailable(f"{_LISTEN} {address!r} needs a port, as in 0.0.0.0:8081")
        hosts = await _resolve(wanted.host, said=_LISTEN)
        async with self._opening:
            await self._open_network(wanted, hosts, said=_LISTEN)
            self._standing = _Standing(wanted.port, frozenset(hosts))

    async def network(self, address: str) -> Reach:
        if is_url(address):
            return await self._behind(address)
        wanted = _parse(address, said=_GIVEN)
        if (found := self._opened(wanted)) is not None:
            return found
        # Resolve the name before taking the lock, so that no other experiment waits for a slow name server.
        hosts = await _resolve(wanted.host, said=_GIVEN)
        async with self._opening:
            found = self._opened(wanted)
            if found is None:
                if self._standing is not None and self._standing.serves(wanted, hosts):
                    _, fingerprint = await asyncio.to_thread(self._identity)
                    found = Reach([wanted.url(self._standing.port)], fingerprint)
                else:
                    found = await self._open_network(wanted, hosts, said=_GIVEN)
            self._network[wanted.key] = found
            return found

    async def _behind(self, address: str) -> Reach:
        try:
            url = check_url(address)
        except ValueError as error:
            raise ServiceUnavailable(f"{_GIVEN} {error}") from error
        _, fingerprint = await asyncio.to_thread(self._identity)
        return Reach([url], fingerprint, self._authorities)

    def _opened(self, wanted: Address) -> Reach | None:
        """Return the open door that already has the wanted host and port, or None.

        It was opened for an address without a port, so its port was chosen by the server.
        """
        if wanted.key in self._network:
            return self._network[wanted.key]
        urls = () if wanted.port is None else (wanted.url(wanted.port),)
        return next((reach for reach in self._network.values() if tuple(reach.urls) == urls), None)

    async def close(self) -> None:
        """Close all doors. Waiting requests of keepers must be answered before this call."""
        async with self._opening:
            await asyncio.gather(*(listening.close() for listening in self._open))
            self._open.clear()
            self._network.clear()
            self._standing = None
            if self._local is not None:
                self._local_path.unlink(missing_ok=True)
                self._local = None
            if self._private is not None:
                self._path.unlink(missing_ok=True)
                self._private = None
            if self._directory is not None:
                os.close(self._directory)
                self._directory = None

    async def _open_private(self) -> PrivateDoor:
        tls, fingerprint = await asyncio.to_thread(self._identity)
        await self._open_socket(self._path, tls=tls)
        path = self._path
        if len(os.fsencode(path)) > local_http.LONGEST_PATH:
            self._directory = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            path = Path(f"/proc/self/fd/{self._directory}/{path.name}")
        return PrivateDoor(path, fingerprint)

    async def _open_socket(self, path: Path, *, tls: ssl.SSLContext | None) -> None:
        try:
            listener = bind_private(path)
        except OSError as error:
            raise ServiceUnavailable(
                f"the socket {path} for keepers cannot be created: {error.strerror}"
            ) from error
        try:
            await self._serve([listener], tls=tls)
        except OSError as error:
            listener.close()
            raise ServiceUnavailable(f"the socket {path} for keepers cannot be served: {error}") from error

    async def _open_network(self, wanted: Address, hosts: _Hosts, *, said: str) -> Reach:
        tls, fingerprint = await asyncio.to_thread(self._identity)
        kept = self._kept_ports().get(wanted.host)
        port, sockets = _listen(wanted, hosts, kept=kept, said=said)
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
        # Import this module only here, because its import is slow and few servers need it.
        from nnimgr.server.certificate import keep_certificate

        path = self._folder / "door.pem"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A TLS session ticket would look to keepers that are still sending as if the answer had begun.
        context.num_tickets = 0
        try:
            certificate = keep_certificate(path)
            context.load_cert_chain(path)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ServiceUnavailable(
                f"the certificate {path} of the keepers' door cannot be used: {reason}"
            ) from error
        except ValueError as error:
            raise ServiceUnavailable(
                f"{path} no longer contains a key and its certificate; delete the file to get a new one"
            ) from error
        return context, hashlib.sha256(certificate).hexdigest()

    async def _serve(self, sockets: list[socket.socket], *, tls: ssl.SSLContext | None) -> None:
        """Serve keepers at these sockets.

        Without TLS, the socket must be the Unix socket for this machine, whose callers are identified by
        their user.
        """
        config = http_config(self._app, date_header=False)
        config.load()
        listening = _Listening([], ServerState())
        loop = asyncio.get_running_loop()

        kind = _LocalConnection if tls is None else _Connection

        def protocol() -> asyncio.Protocol:
            return kind(config=config, server_state=listening.state, app_state={}, _loop=loop)

        try:
            for listener in sockets:
                is_local = listener.family == socket.AF_UNIX
                create: Any = loop.create_unix_server if is_local else loop.create_server
                server = await create(
                    protocol,
                    sock=listener,
                    ssl=tls,
                    ssl_handshake_timeout=None if tls is None else HANDSHAKE_S,
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
        with open(fresh, "w", encoding="utf-8", opener=open_private) as file:
            json.dump({**self._kept_ports(), host: port}, file)
        fresh.replace(self._ports_path)


def _without_prefix(app: ASGIApp) -> ASGIApp:
    """Return an application that removes the path prefix that a proxy puts before the keepers' routes."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        at = scope.get("path", "").find(_ROUTES)
        await app({**scope, "path": scope["path"][at:]} if at > 0 else scope, receive, send)

    return application


def _parse(address: str, *, said: str) -> Address:
    try:
        return Address.parse(address)
    except ValueError as error:
        raise ServiceUnavailable(f"{said} {error}") from error


async def _resolve(host: str, *, said: str) -> _Hosts:
    """Return the IP addresses of a host name, at which the server can listen.

    Raise ServiceUnavailable if the name has none, or none that other machines can reach.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(RESOLVE_S):
            found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except TimeoutError as error:
        raise ServiceUnavailable(
            f"{said} {host} cannot be resolved: the name server has not answered within {RESOLVE_S:g} s"
        ) from error
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ServiceUnavailable(f"{said} {host} cannot be resolved: {reason}") from error
    hosts: _Hosts = list(dict.fromkeys((family, _numeric(address)) for family, _, _, _, address in found))
    named = host != "localhost" and not _is_numeric(host)
    if named and all(ipaddress.ip_address(number.partition("%")[0]).is_loopback for _, number in hosts):
        numbers = ", ".join(number for _, number in hosts)
        raise ServiceUnavailable(
            f"{said} {host} is {numbers} here, which other machines cannot reach; "
            "give an address of this machine that they can reach"
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
    wanted: Address, hosts: _Hosts, *, kept: int | None, said: str
) -> tuple[int, list[socket.socket]]:
    """Listen on one port, at all addresses in ``hosts`` that belong to this machine.

    Return the port and the sockets. Raise ServiceUnavailable if no socket can be opened.
    """
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
    raise ServiceUnavailable(_why(wanted, trouble, said=said)) from trouble


def _is_ours(host: _Host) -> bool:
    """Return True if the IP address belongs to this machine."""
    try:
        _bind(*host, 0).close()
    except OSError:
        return False
    return True


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


def _why(wanted: Address, error: OSError, *, said: str) -> str:
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{said} {wanted.host} is not an address of this machine"
    if error.errno == errno.EADDRINUSE:
        return f"{said}: port {wanted.port} of {wanted.host} is already in use"
    if error.errno == errno.EINVAL and ":" in wanted.host and "%" not in wanted.host:
        return f"{said} {wanted.host} needs an interface, for example {wanted.host}%eth0"
    return f"cannot listen at {said} {wanted.host}: {error.strerror or error}"

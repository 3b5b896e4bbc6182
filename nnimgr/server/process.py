"""The server process itself: builds its parts, serves them, and lets go of them in order.

Leaving, for whatever reason, leaves the experiments running: their trials go on and are adopted by the next
start of a server on this port.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from nnimgr import __version__
from nnimgr.api.app import create_app
from nnimgr.api.asgi import ASGIApp
from nnimgr.api.auth import AllowedHosts, Credentials
from nnimgr.api.dependencies import ApiParts
from nnimgr.api.life import ServerLife
from nnimgr.api.sessions import Sessions
from nnimgr.core.managing.assembly import Assembly
from nnimgr.core.managing.manager import NNIManager
from nnimgr.home import Home, ServerClaim
from nnimgr.server.doors import Doors
from nnimgr.server.http import http_config
from nnimgr.server.local_socket import is_own_user
from nnimgr.server.options import CannotServe, ServeOptions
from nnimgr.server.watchdog import Watchdog
from training_services.base import ServiceUnavailable
from training_services.keeper_door import KeeperDoor
from training_services.keeper_hub import KeeperHub
from training_services.keeper_service import ServiceTools
from training_services.placement import HostLedger

__all__ = ["Listeners", "run"]

_FIRST_EXPERIMENT_S = 30.0  # how long a server that should leave when idle waits for its first experiment
_LAST_ANSWERS_S = 2
_DATE_S = 1.0  # the resolution of the Date header

# Writers' threads run Python too: the loop must not wait 5 ms, the default, for each of them.
SWITCH_INTERVAL_S = 0.0005

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Listeners:
    """Where requests arrive: the port, and the Unix socket at which commands of the server's user call."""

    port: socket.socket
    local: socket.socket


def run(options: ServeOptions, *, home: Home, claim: ServerClaim, listeners: Listeners) -> None:
    """Serve until a signal, or until idle if so wanted."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(options, home=home, claim=claim, listeners=listeners))


async def _serve(options: ServeOptions, *, home: Home, claim: ServerClaim, listeners: Listeners) -> None:
    token = home.token()
    hub = KeeperHub()
    keepers = options.keepers
    doors = Doors(
        KeeperDoor(hub),
        folder=home.private_path,
        name=str(options.port),
        url=keepers.url,
        authorities=keepers.authorities,
    )
    if keepers.listen is not None:
        try:
            await doors.listen(keepers.listen)
        except ServiceUnavailable as error:
            raise CannotServe(f"The keepers' door: {error}.") from error
    tools = ServiceTools(hub=hub, ledger=HostLedger(), doors=doors)
    assembly = Assembly(tools)
    sessions = Sessions()
    parts = ApiParts(
        manager=NNIManager(
            home=home, port=options.port, assembly=assembly, url_prefix=options.url_prefix or None
        ),
        credentials=Credentials(token, sessions=sessions, port=options.port, needed=not options.no_token),
        url=options.url,
        port=options.port,
        url_prefix=options.url_prefix,
        version=__version__,
        started_at=datetime.now(UTC),
        life=ServerLife(until_idle=options.until_idle),
    )
    hosts = AllowedHosts(options.host, extra=options.allowed_hosts)
    app = create_app(parts, hosts=hosts)

    def ready() -> None:
        claim.publish(url=options.local_url, version=__version__)
        _tell_ready(options.ready_fd)
        logger.info("nnimgr %s serves %s (pid %d)", __version__, options.url, os.getpid())

    server = _HTTPServer(app, local=listeners.local, on_ready=ready)
    with Watchdog():
        async with parts.manager:
            serving = asyncio.create_task(server.serve(sockets=[listeners.port]), name="server:http")
            await _until_told(options, parts, serving)
        # Keepers are served until here: those that are not needed any more had to be told so.
        hub.close()
        await assembly.close()
        await doors.close()
        await parts.analyst.close()
        server.leave()
        await serving


async def _until_told(options: ServeOptions, parts: ApiParts, serving: asyncio.Task[None]) -> None:
    """Return when the server has to leave; from then on it refuses requests."""
    closing = parts.life.closing
    loop = asyncio.get_running_loop()

    def leave(why: str) -> None:
        logger.info("the server leaves: %s", why)
        closing.set()

    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, leave, signal_number.name)
    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(closing.wait(), name="server:closing")]
    if options.until_idle:
        tasks.append(asyncio.create_task(_leave_when_idle(parts, leave), name="server:idle"))
    try:
        await asyncio.wait({serving, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        closing.set()
        for task in tasks:
            task.cancel()


async def _leave_when_idle(parts: ApiParts, leave: Callable[[str], None]) -> None:
    manager = parts.manager
    first = asyncio.create_task(manager.wait_idle(), name="server:first-experiment")
    await asyncio.wait({first}, timeout=_FIRST_EXPERIMENT_S)
    first.cancel()
    await parts.life.quiet()
    if not manager.used:
        leave("no experiment was created")
        return
    while not manager.idle:
        await manager.wait_idle()
        await parts.life.quiet()  # one that creates an experiment may be among them
    leave("no experiment is left but stopped ones")


class _HTTPServer(uvicorn.Server):
    """uvicorn, with signals left to us and a word when it is ready."""

    def __init__(self, app: ASGIApp, *, local: socket.socket, on_ready: Callable[[], None]) -> None:
        super().__init__(
            http_config(app, loop="uvloop", timeout_graceful_shutdown=_LAST_ANSWERS_S),
        )
        self._local = local
        self._on_ready = on_ready
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        """Listen no more, and have ``serve`` return once the last answers are given."""
        self.should_exit = True
        self._leaving.set()

    async def main_loop(self) -> None:
        """Keep the Date header current until the server leaves.

        uvicorn's own loop wakes up ten times a second for that, which is half of what an idle server does.
        """
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DATE_S):
                    await self._leaving.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        loop = asyncio.get_running_loop()

        def connection() -> asyncio.Protocol:
            return _LocalConnection(
                config=self.config, server_state=self.server_state, app_state={}, _loop=loop
            )

        server: Any = await loop.create_unix_server(connection, sock=self._local, backlog=self.config.backlog)
        self.servers.append(server)
        self._on_ready()


class _LocalConnection(HttpToolsProtocol):
    """A caller at the Unix socket, who has to be of the server's own user."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not is_own_user(transport):
            transport.abort()


def _tell_ready(descriptor: int | None) -> None:
    if descriptor is None:
        return
    with contextlib.suppress(BrokenPipeError):  # whoever started us is gone: we serve all the same
        os.write(descriptor, b"\n")
    os.close(descriptor)

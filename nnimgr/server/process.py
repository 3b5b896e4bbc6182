"""The server process: it builds its parts, serves requests, and closes the parts in order.

If the server ends for any reason, trials continue. The next server on this port adopts them.
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
from nnimgr.api.sessions import Sessions
from nnimgr.api.shutdown import Shutdown
from nnimgr.core.managing.assembly import Assembly
from nnimgr.core.managing.manager import NNIManager
from nnimgr.home import Home, ServerClaim
from nnimgr.server.doors import Doors
from nnimgr.server.http import http_config
from nnimgr.server.local_socket import is_own_user
from nnimgr.server.options import CannotServe, ServeOptions
from nnimgr.server.token import ServerToken
from nnimgr.server.watchdog import Watchdog
from training_services.base import ServiceUnavailable
from training_services.keepers.http_door import KeeperDoor
from training_services.keepers.hub import KeeperHub
from training_services.placement.ledger import HostLedger
from training_services.tools import ServiceTools

__all__ = ["Listeners", "run"]

_FIRST_EXPERIMENT_S = 30.0  # seconds to wait for the first experiment before an idle server exits
_LAST_ANSWERS_S = 2
_SHUTDOWN_S = 60.0  # limit for a shutdown, after which the process ends as a second signal would end it
_CUT_SHORT = 1  # exit code after a shutdown that was cut short
_DATE_S = 1.0  # seconds; resolution of the Date header

# Threads that write to databases run Python code as well. With Python's default switch interval of 5 ms, the
# event loop would wait too long for these threads.
SWITCH_INTERVAL_S = 0.0005

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Listeners:
    """Sockets at which the server listens: its port, and the Unix socket for the commands of its user."""

    port: socket.socket
    local: socket.socket


def run(
    options: ServeOptions, *, home: Home, claim: ServerClaim, listeners: Listeners, token: ServerToken
) -> None:
    """Serve until a signal arrives. With the option ``until_idle``, also end when no experiment is active."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(options, home=home, claim=claim, listeners=listeners, token=token))


async def _serve(
    options: ServeOptions, *, home: Home, claim: ServerClaim, listeners: Listeners, token: ServerToken
) -> None:
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
            home=home,
            port=options.port,
            assembly=assembly,
            url_prefix=options.url_prefix or None,
            stand_ins=True,
        ),
        credentials=Credentials(
            token.read,
            sessions=sessions,
            port=options.port,
            needed=not options.no_token,
            trusts_own_programs=not options.require_token,
        ),
        url=options.url,
        port=options.port,
        url_prefix=options.url_prefix,
        version=__version__,
        started_at=datetime.now(UTC),
        shutdown=Shutdown(until_idle=options.until_idle),
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
        # Keepers are served until here, because idle keepers must still be told to exit.
        hub.close()
        await assembly.close()
        await doors.close()
        await parts.analyst.close()
        await parts.tensorboards.close()
        server.leave()
        await serving


async def _until_told(options: ServeOptions, parts: ApiParts, serving: asyncio.Task[None]) -> None:
    """Wait until the server has to exit: a signal, or no active experiment with ``until_idle``.

    From then on, the server rejects new requests.
    """
    closing = parts.shutdown.closing
    loop = asyncio.get_running_loop()

    def leave(why: str) -> None:
        logger.info("the server is shutting down: %s", why)
        closing.set()

    signals: list[str] = []

    def take(name: str) -> None:
        signals.append(name)
        if len(signals) == 1:
            leave(name)
        else:
            _cut_short(parts, f"by a second signal, {name}")

    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, take, signal_number.name)
    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(closing.wait(), name="server:closing")]
    if options.until_idle:
        tasks.append(asyncio.create_task(_leave_when_idle(parts, leave), name="server:idle"))
    try:
        await asyncio.wait({serving, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        closing.set()
        loop.call_later(_SHUTDOWN_S, _cut_short, parts, f"after {_SHUTDOWN_S:g} s")
        for task in tasks:
            task.cancel()


def _cut_short(parts: ApiParts, how: str) -> None:
    """End the process now, even if threads hang. Nothing is lost, because the logs are durable."""
    unclosed = parts.manager.unclosed
    waited = f" while it waited for experiment {', '.join(unclosed)} to close" if unclosed else ""
    logger.warning(
        "the shutdown was cut short %s%s; trials continue, and the next server adopts them", how, waited
    )
    logging.shutdown()
    os._exit(_CUT_SHORT)


async def _leave_when_idle(parts: ApiParts, leave: Callable[[str], None]) -> None:
    manager = parts.manager
    first = asyncio.create_task(manager.wait_idle(), name="server:first-experiment")
    await asyncio.wait({first}, timeout=_FIRST_EXPERIMENT_S)
    first.cancel()
    await parts.shutdown.quiet()
    if not manager.used and parts.tensorboards.idle:
        leave("no experiment was created")
        return
    while not (manager.idle and parts.tensorboards.idle):
        if not manager.idle:
            await manager.wait_idle()
        await parts.tensorboards.wait_idle()
        await parts.shutdown.quiet()  # wait for requests in progress, which may create an experiment
    leave("no active experiment is left")


class _HTTPServer(uvicorn.Server):
    """uvicorn's server without its signal handlers. It calls ``on_ready`` when it listens."""

    def __init__(self, app: ASGIApp, *, local: socket.socket, on_ready: Callable[[], None]) -> None:
        super().__init__(
            http_config(app, loop="uvloop", timeout_graceful_shutdown=_LAST_ANSWERS_S),
        )
        self._local = local
        self._on_ready = on_ready
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        """Stop listening. The call of ``serve`` returns after the last answers were sent."""
        self.should_exit = True
        self._leaving.set()

    async def main_loop(self) -> None:
        """Update the Date header until the server exits.

        uvicorn's own loop wakes up ten times a second for this, which is half of an idle server's work.
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
    """Connection at the Unix socket for commands. Users other than the server's own are rejected."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not is_own_user(transport):
            transport.abort()


def _tell_ready(descriptor: int | None) -> None:
    if descriptor is None:
        return
    with contextlib.suppress(BrokenPipeError):  # the process that started the server may have ended
        os.write(descriptor, b"\n")
    os.close(descriptor)

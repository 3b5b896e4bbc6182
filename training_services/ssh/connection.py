"""SSH connection to a machine. The experiments that use the machine share it.

It is opened again after it has broken.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from training_services.addresses import KeeperDoors, Reach
from training_services.base import ServiceUnavailable
from training_services.ssh.attendant import AttendantClient
from training_services.ssh.target import Target, Unreachable

if TYPE_CHECKING:
    from training_services.ssh.dial import Dialled

__all__ = ["Link", "Share", "SshConnection", "SshPool"]

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.5  # pause after a failure; doubled by each further failure
LAST_PAUSE_S = 15.0
# longest pause after an error that a person must fix; machines lock out clients that retry too often
LASTING_PAUSE_S = 60.0
STEADY_S = 10.0  # after a connection that lasted longer, the first new attempt is made without a pause
LOOPBACK = "127.0.0.1"

Key = tuple[str | None, str, int | None]  # user, host, port


class Link:
    """Open SSH connection to a machine, with the attendant that was started over it.

    It has a tunnel if one was requested.
    """

    def __init__(self, dialled: Dialled, title: str, port: int) -> None:
        self.attendant: AttendantClient
        self._dialled = dialled
        self._title = title
        self._wanted = port
        self._tunnel: asyncio.Future[Reach] | None = None
        self.port = 0  # port of the tunnel; 0: there is no tunnel

    async def tunnel(self, doors: KeeperDoors) -> Reach:
        """Open a tunnel to this server if there is none, and return its address on the machine.

        Keepers on the machine call the server at this address. Raises ServiceUnavailable.
        """
        if self._tunnel is None or (self._tunnel.done() and self._failed(self._tunnel)):
            self._tunnel = asyncio.ensure_future(self._open(doors))
        return await asyncio.shield(self._tunnel)

    @staticmethod
    def _failed(tunnel: asyncio.Future[Reach]) -> bool:
        return tunnel.cancelled() or tunnel.exception() is not None

    async def _open(self, doors: KeeperDoors) -> Reach:
        import asyncssh

        door = await doors.private()
        # Try the previous tunnel's port first, because the keepers on the machine call there.
        for port in dict.fromkeys((self._wanted, 0)):
            try:
                listener = await self._dialled.connection.forward_remote_port_to_path(
                    LOOPBACK, port, str(door.path)
                )
            except asyncssh.ChannelListenError:
                continue
            except (asyncssh.Error, OSError) as error:
                raise ServiceUnavailable(f"the connection to {self._title} broke: {error}") from error
            self.port = listener.get_port()
            return Reach([f"https://{LOOPBACK}:{self.port}"], door.fingerprint)
        raise ServiceUnavailable(
            f"{self._title} forbids the tunnel through which keepers call this server (AllowTcpForwarding in "
            "its "
            "sshd_config): allow it, or set nniManagerIp to an address of this server that it can reach"
        )

    async def close(self) -> None:
        self.attendant.close()
        if self._tunnel is not None:
            self._tunnel.cancel()
            await asyncio.gather(self._tunnel, return_exceptions=True)
        await self._dialled.close()


class Share:
    """Right of one experiment to use the connection to a machine, which several experiments share.

    ``changed`` is called when the connection opens or breaks.
    """

    def __init__(self, connection: SshConnection, target: Target, changed: Callable[[], None]) -> None:
        self.target = target
        self._changed = changed
        self._connection = connection
        self._over = False

    async def link(self) -> Link:
        """Connect if necessary, and return the open connection. Raises Unreachable if this attempt fails."""
        return await self._connection.link(self)

    @property
    def obstacle(self) -> str | None:
        """Sentence that says why the connection is not open, or None if it is open."""
        return self._connection.obstacle

    def hurry(self) -> None:
        """End the pause after a failed attempt, so that the next attempt to connect begins at once."""
        self._connection.hurry()

    def tell(self) -> None:
        """Call ``changed``, because the connection was opened or has broken."""
        if not self._over:
            self._changed()

    async def close(self) -> None:
        """End this experiment's use of the connection.

        The last experiment's ``close`` closes the connection.
        """
        self._over = True
        await self._connection.release(self)


class SshConnection:
    """Connection to one machine as one user, which is opened again when it breaks."""

    def __init__(self, title: str, forget: Callable[[], None]) -> None:
        self._title = title
        self._forget = forget
        self._shares: list[Share] = []
        self._link: Link | None = None
        self._attempt: asyncio.Task[Link] | None = None
        self._hurry = asyncio.Event()
        self._failures = 0
        self._lasting = False
        self._up_at = 0.0
        self._port = 0  # port of the last tunnel on the machine
        self._trouble: str | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def share(self, target: Target, changed: Callable[[], None]) -> Share:
        share = Share(self, target, changed)
        self._shares.append(share)
        return share

    async def release(self, share: Share) -> None:
        if share not in self._shares:
            return
        self._shares.remove(share)
        if self._shares:
            return
        self._forget()
        if self._attempt is not None:
            self._attempt.cancel()
            await asyncio.gather(self._attempt, return_exceptions=True)
        link, self._link = self._link, None
        if link is not None:
            await link.close()
        await asyncio.gather(*self._closing)

    @property
    def obstacle(self) -> str | None:
        if self._link is not None:
            return None
        waits = f"waits for a connection to {self._title}"
        return f"{waits} ({self._trouble})" if self._trouble else waits

    def hurry(self) -> None:
        self._hurry.set()

    async def link(self, share: Share) -> Link:
        if self._link is not None:
            return self._link
        if self._attempt is None:
            self._attempt = asyncio.create_task(self._connect(share), name=f"ssh:{self._title}")
            self._attempt.add_done_callback(self._attempted)
        return await asyncio.shield(self._attempt)

    def _attempted(self, attempt: asyncio.Task[Link]) -> None:
        self._attempt = None
        if not attempt.cancelled() and (error := attempt.exception()) is not None:
            self._trouble = str(error)
            self._failures += 1
            self._lasting = isinstance(error, Unreachable) and error.lasting

    async def _connect(self, first: Share) -> Link:
        """Pause after failures, then connect.

        Try the credentials of each experiment until a login succeeds.
        """
        self._hurry.clear()
        if pause := self._pause():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._hurry.wait()
        targets = list(dict.fromkeys([first.target, *(share.target for share in self._shares)]))
        for number, target in enumerate(targets, start=1):
            try:
                link = await self._dial(target)
            except Unreachable as error:
                if not error.lasting or number == len(targets):
                    raise
                logger.info("%s; trying another experiment's credentials", error)
                continue
            break
        self._link, self._trouble = link, None
        self._up_at = asyncio.get_running_loop().time()
        logger.info("connected to %s", self._title)
        for share in list(self._shares):
            asyncio.get_running_loop().call_soon(share.tell)
        return link

    def _pause(self) -> float:
        if not self._failures:
            return 0.0
        longest = LASTING_PAUSE_S if self._lasting else LAST_PAUSE_S
        return min(longest, FIRST_PAUSE_S * 2.0 ** min(self._failures - 1, 16)) * random.uniform(0.5, 1.0)

    async def _dial(self, target: Target) -> Link:
        dial = await asyncio.to_thread(_dialler)
        made: list[Link] = []
        early: list[str] = []

        def lost(error: Exception | None) -> None:
            self._lost(made, early, target.broke(error))

        dialled = await dial(target, lost=lost)
        link = Link(dialled, self._title, self._port)
        try:
            link.attendant = await AttendantClient.start(
                dialled.connection, target, ended=lambda why: self._lost(made, early, why)
            )
        except BaseException as error:
            await dialled.close()
            if isinstance(error, Unreachable) or not isinstance(error, Exception):
                raise
            raise Unreachable(target.broke(error)) from error  # the connection broke in the meantime
        if early:
            raise Unreachable(early[0])
        made.append(link)
        return link

    def _lost(self, made: list[Link], early: list[str], why: str) -> None:
        """Discard the connection, because it has broken or the attendant on the machine has ended."""
        early.append(why)
        if not made or self._link is not made[0]:
            return
        link, self._link = made[0], None
        link.attendant.fail(why)
        self._trouble = why
        self._port = link.port or self._port
        lived = asyncio.get_running_loop().time() - self._up_at
        self._failures, self._lasting = (0 if lived >= STEADY_S else self._failures + 1), False
        logger.warning("%s", why)
        closing = asyncio.create_task(link.close(), name=f"ssh:{self._title}:close")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        for share in list(self._shares):
            share.tell()


class SshPool:
    """Table of all SSH connections of the server: (user, host, port) -> connection."""

    def __init__(self) -> None:
        self._connections: dict[Key, SshConnection] = {}

    def share(self, target: Target, changed: Callable[[], None]) -> Share:
        """Return the right to use the connection to this machine.

        The first call of ``Share.link`` connects.
        """
        key = target.key
        connection = self._connections.get(key)
        if connection is None:
            connection = self._connections[key] = SshConnection(target.title, lambda: self._forget(key))
        return connection.share(target, changed)

    def _forget(self, key: Key) -> None:
        self._connections.pop(key, None)

    def __len__(self) -> int:
        return len(self._connections)


def _dialler() -> Callable[..., Awaitable[Dialled]]:
    """Return the function ``dial``. Call this in a thread, because the import takes a long time."""
    from training_services.ssh.dial import dial

    return dial

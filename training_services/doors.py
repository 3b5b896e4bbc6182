"""Where keepers reach the server: what a server gives to the services for that."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

from training_services.base import ServiceUnavailable
from training_services.keeper_host import Reach

__all__ = ["KeeperDoors", "NoDoors", "PrivateDoor"]


class PrivateDoor(NamedTuple):
    """``path`` may be good in this process only; ``fingerprint`` is as in ``Reach``."""

    path: Path
    fingerprint: str


class KeeperDoors(Protocol):
    """The places at which a server serves the keepers' routes, and nothing else of it.

    Each is opened when it is first asked for, stays open for the server's life, and is shared by all
    experiments. ``url``: what leads to the server from other machines, if it was told of something: an
    address for ``network``.
    """

    url: str | None

    async def local(self) -> Reach:
        """Return the Unix socket for keepers of the server's own machine and user, opened if need be.

        Both ends check the user of the other one. Raises ServiceUnavailable.
        """

    async def private(self) -> PrivateDoor:
        """A Unix socket that only this user can reach: for a tunnel, which leads to it from elsewhere.

        It speaks TLS: at its other end a tunnel has a port that, once the tunnel has died, another user of
        that machine may listen at. Raises ServiceUnavailable.
        """

    async def network(self, address: str) -> Reach:
        """A TLS listener at ``nniManagerIp``: an IPv4 or IPv6 address, or a name, perhaps with a port.

        Without one a free port is taken, the same after a restart of the server if it is still free. An
        "https://host[:port][/prefix]" is a service or an ingress that leads to the server, which opens
        nothing for it. Raises ServiceUnavailable, whose sentence says what is wrong with the address.
        """


class NoDoors:
    """The doors of a server that takes no keepers."""

    url: str | None = None

    async def local(self) -> Reach:
        raise ServiceUnavailable("this server takes no keepers")

    async def private(self) -> PrivateDoor:
        raise ServiceUnavailable("this server takes no keepers of other machines")

    async def network(self, address: str) -> Reach:
        raise ServiceUnavailable("this server takes no keepers of other machines")

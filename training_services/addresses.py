"""Addresses of the server that training services hand to their keepers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from training_services.base import ServiceUnavailable

__all__ = ["KeeperDoors", "NoDoors", "PrivateDoor", "Reach"]


class Reach(NamedTuple):
    """Addresses of the server for a keeper, as "https://host:port". The keeper tries them in turn.

    On the server's own machine an address is a Unix socket (``trial_keeper.calls.local_http``).
    ``fingerprint``: SHA-256 (hex) of the certificate at an https address. ``authorities``: certificate
    authorities, as PEM, that the keeper also accepts for the address's name, because a proxy may end TLS; "":
    the authorities that the keeper's machine knows; None: no authority.
    """

    urls: Sequence[str]
    fingerprint: str | None = None
    authorities: str | None = None


class PrivateDoor(NamedTuple):
    """Unix socket where a tunnel ends.

    ``path`` may be valid in this process only. For ``fingerprint``, see ``Reach``.
    """

    path: Path
    fingerprint: str


class KeeperDoors(Protocol):
    """Addresses at which a server serves the keepers' routes, and no other routes.

    Each address is opened on first use, stays open for the server's life, and is shared by all experiments.
    ``url``: configured address that leads to the server from other machines, for ``network``; None: not
    configured.
    """

    url: str | None

    async def local(self) -> Reach:
        """Return the Unix socket for keepers of the server's own machine and user, opened if necessary.

        Both ends check the user of the other end. Raises ServiceUnavailable.
        """

    async def private(self) -> PrivateDoor:
        """Return a Unix socket that only this user can reach. A tunnel from another machine ends there.

        The socket speaks TLS, because another user of the remote machine may listen at the tunnel's port
        after the tunnel has ended. Raises ServiceUnavailable.
        """

    async def network(self, address: str) -> Reach:
        """Open a TLS listener at ``nniManagerIp``: an IP address or a name, optionally with a port.

        Without a port, a free port is chosen; after a restart of the server the same port is used if it is
        still free. An "https://host[:port][/prefix]" is a service or an ingress that leads to the server;
        then nothing is opened. Raises ServiceUnavailable, with a sentence about what is wrong with the
        address.
        """


class NoDoors:
    """Doors of a server that accepts no keepers."""

    url: str | None = None

    async def local(self) -> Reach:
        raise ServiceUnavailable("this server takes no keepers")

    async def private(self) -> PrivateDoor:
        raise ServiceUnavailable("this server takes no keepers of other machines")

    async def network(self, address: str) -> Reach:
        raise ServiceUnavailable("this server takes no keepers of other machines")

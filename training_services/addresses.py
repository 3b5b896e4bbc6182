"""Addresses of the server that training services hand to their keepers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from training_services.base import ServiceUnavailable

__all__ = ["KeeperDoors", "NoDoors", "PrivateDoor", "Reach"]


class Reach(NamedTuple):
    """Addresses at which a keeper reaches the server, as "https://host:port". The keeper tries them in turn.

    For a keeper on the server's own machine, the address is a Unix socket (see
    ``trial_keeper.calls.local_http``). ``fingerprint``: SHA-256 (hex) of the server's certificate.
    ``authorities``: certificates (PEM) of authorities that the keeper also accepts, because a proxy may end
    TLS; "": the authorities that the keeper's machine trusts; None: no authority.
    """

    urls: Sequence[str]
    fingerprint: str | None = None
    authorities: str | None = None


class PrivateDoor(NamedTuple):
    """Unix socket of the server at which an SSH tunnel from a keeper's machine ends.

    ``path``: path of the socket for this process; other processes may be unable to use it, because it may
    begin with ``/proc/self``. ``fingerprint``: SHA-256 (hex) of the server's certificate.
    """

    path: Path
    fingerprint: str


class KeeperDoors(Protocol):
    """Addresses at which a server answers keepers, and nothing else.

    Each address is opened on first use, stays open for the server's life, and is shared by all experiments.
    ``url``: configured address at which other machines reach the server, to be passed to ``network``; None:
    not configured.
    """

    url: str | None

    async def local(self) -> Reach:
        """Return the Unix socket for keepers of the server's own machine and user. Open it if necessary.

        The server and the keeper check that the other side runs as the same user. Raises ServiceUnavailable.
        """

    async def private(self) -> PrivateDoor:
        """Return a Unix socket that only this user can reach. An SSH tunnel from another machine ends there.

        The socket speaks TLS, because another user of the remote machine may listen at the tunnel's port
        after the tunnel has ended. Raises ServiceUnavailable.
        """

    async def network(self, address: str) -> Reach:
        """Open a TLS listener at ``address`` (``nniManagerIp``) and return its URL for keepers.

        ``address`` is an IP address or a name, optionally with a port. Without a port, a free port is chosen;
        a restarted server takes the same port again if it is still free. If ``address`` is a URL
        "https://host[:port][/prefix]", a proxy there leads to the server, and no listener is opened. Raises
        ServiceUnavailable with a sentence that says what is wrong with the address.
        """


class NoDoors:
    """Replacement for ``KeeperDoors`` in a server that accepts no keepers: each method raises an error."""

    url: str | None = None

    async def local(self) -> Reach:
        raise ServiceUnavailable("this server takes no keepers")

    async def private(self) -> PrivateDoor:
        raise ServiceUnavailable("this server takes no keepers of other machines")

    async def network(self, address: str) -> Reach:
        raise ServiceUnavailable("this server takes no keepers of other machines")

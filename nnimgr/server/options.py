"""Options of a server."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

__all__ = ["CannotServe", "KeeperOptions", "ServeOptions"]

_ANY = ("0.0.0.0", "::")


class CannotServe(Exception):
    """Error: the server cannot start. The message is one sentence for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperOptions:
    """Options of the addresses at which keepers on other machines reach the server.

    ``listen``: "address:port" where the server listens for keepers from its start. ``url``: URL through which
    other machines reach this server, for example at a proxy. ``authorities``: PEM of the certificate
    authorities for this URL; None if the keepers' machines know them.
    """

    listen: str | None = None
    url: str | None = None
    authorities: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Options of ``nnimgr serve``.

    ``ready_fd``: file descriptor to which the server writes one byte when it is ready for requests.
    """

    port: int
    host: str = "127.0.0.1"
    until_idle: bool = False
    ready_fd: int | None = None
    allowed_hosts: tuple[str, ...] = field(default=())
    url_prefix: str = ""  # prefix of NNI's routes, without slashes around it
    no_token: bool = False  # True: everyone who can connect has full access
    require_token: bool = False  # True: even programs of this user on this machine need the token
    keepers: KeeperOptions = KeeperOptions()

    @property
    def url(self) -> str:
        """Address of the server to show to people. A wildcard address is shown as this machine's name."""
        return self._address(socket.gethostname())

    @property
    def local_url(self) -> str:
        """Address of the server for programs on this machine."""
        return self._address("[::1]" if self.host == "::" else "127.0.0.1")

    def _address(self, wildcard: str) -> str:
        if self.host in _ANY:
            return f"http://{wildcard}:{self.port}"
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

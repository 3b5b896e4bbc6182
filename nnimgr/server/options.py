"""How a server serves."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

__all__ = ["CannotServe", "KeeperOptions", "ServeOptions"]

_ANY = ("0.0.0.0", "::")


class CannotServe(Exception):
    """The server cannot start; the message is one sentence for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperOptions:
    """Where keepers of other machines find the server.

    ``listen``: "address:port" of a door that is opened at once. ``url``: what leads here from elsewhere;
    ``authorities``: PEM of those that sign what ends TLS there, None: those that the keepers' machines know.
    """

    listen: str | None = None
    url: str | None = None
    authorities: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """How to serve. ``ready_fd`` gets one byte once requests are answered."""

    port: int
    host: str = "127.0.0.1"
    until_idle: bool = False
    ready_fd: int | None = None
    allowed_hosts: tuple[str, ...] = field(default=())
    url_prefix: str = ""  # of NNI's routes, without slashes around it
    no_token: bool = False  # whoever can connect may do everything
    keepers: KeeperOptions = KeeperOptions()

    @property
    def url(self) -> str:
        """The address to show to people. A wildcard is shown as this machine's name."""
        return self._address(socket.gethostname())

    @property
    def local_url(self) -> str:
        """Where programs of this machine find the server."""
        return self._address("[::1]" if self.host == "::" else "127.0.0.1")

    def _address(self, wildcard: str) -> str:
        if self.host in _ANY:
            return f"http://{wildcard}:{self.port}"
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

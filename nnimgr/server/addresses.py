"""Addresses of the server for keepers on other machines, as users write them in options and
configurations.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

__all__ = ["Address", "check_url", "is_url"]


class Address(NamedTuple):
    """Host with an optional port."""

    host: str
    port: int | None

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse "10.0.0.5", "10.0.0.5:9000", "fe80::1", "[fe80::1]:9000", "name" or "name:9000".

        Raise ValueError with a sentence without its subject, because the caller adds the name of the option.
        """
        host, port = text.strip(), ""
        if host.startswith("["):
            host, closed, port = host[1:].partition("]")
            if not closed or (port and not port.startswith(":")):
                raise ValueError(f"{text!r} is neither an address nor [address]:port")
            port = port[1:]
        elif host.count(":") == 1:
            host, _, port = host.partition(":")
            if not port:
                raise ValueError(f"{text!r} has no port after its colon")
        if not host or any(character in host for character in " /@?#[]"):
            raise ValueError(f"{text!r} is not an address, name, address:port or name:port")
        if not port:
            return cls(host, None)
        if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
            raise ValueError(f"{text!r} has no port from 1 to 65535")
        return cls(host, int(port))

    @property
    def key(self) -> str:
        return self.host if self.port is None else f"{self.host} {self.port}"

    def url(self, port: int) -> str:
        return f"https://{f'[{self.host}]' if ':' in self.host else self.host}:{port}"


def is_url(text: str) -> bool:
    """Return True if the text is a URL that leads to the server, instead of an address of this machine."""
    return "://" in text


def check_url(text: str) -> str:
    """Return ``text``, an address "https://host[:port][/prefix]", without a slash at its end.

    Raise ValueError as ``Address.parse`` does.
    """
    said = text.strip()
    if not said.lower().startswith("https://"):
        raise ValueError(f"{text!r} must begin with https://, because keepers send their tokens there")
    try:
        parts = urlsplit(said)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:
        named = False
    if not named or "@" in parts.netloc or parts.query or parts.fragment or any(c.isspace() for c in said):
        raise ValueError(f"{text!r} must be an address like https://host[:port][/prefix]")
    return said.rstrip("/")

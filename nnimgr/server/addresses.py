"""Addresses at which keepers on other machines reach the server, as users write them."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

__all__ = ["Address", "check_url", "is_url"]


class Address(NamedTuple):
    """Host name or IP address, with an optional port."""

    host: str
    port: int | None

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse "10.0.0.5", "10.0.0.5:9000", "fe80::1", "[fe80::1]:9000", "name" or "name:9000".

        Raise ValueError. Its message has no subject, because the caller puts the name of the option before
        it.
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
    """Return True if the text is a URL of the server, rather than an address of this machine."""
    return "://" in text


def check_url(text: str) -> str:
    """Check the URL ``text``, as in "https://host[:port][/prefix]". Return it without a slash at its end.

    Raise ValueError. Its message has no subject, because the caller puts the name of the option before it.
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

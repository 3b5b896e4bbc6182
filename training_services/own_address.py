"""Finds an address at which hosts of an engine may reach this machine, if the configuration gives none."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

__all__ = ["own_address"]

_HTTPS = 443


def own_address(server_url: str, *, loopback: bool = False) -> str | None:
    """Return the address of this machine from which it reaches the engine's server at ``server_url``.

    The engine's hosts can probably reach this machine there. Return None if there is no such address: the
    server's name is unknown, no route leads to it, or it runs on this machine. ``loopback``: the hosts of a
    server on this machine run here, too, so its loopback address is one. This looks up the name, and sends
    nothing else.
    """
    url = urlsplit(server_url)
    if not url.hostname:
        return None
    try:
        found = socket.getaddrinfo(url.hostname, url.port or _HTTPS, type=socket.SOCK_DGRAM)
    except (OSError, ValueError):
        return None
    for family, kind, _, _, address in found:
        with socket.socket(family, kind) as probe:
            try:
                probe.connect(address)
            except OSError:
                continue
            ours = ipaddress.ip_address(str(probe.getsockname()[0]).partition("%")[0])
        if ours.is_loopback:
            if loopback:
                return str(ours)
        elif not (ours.is_link_local or ours.is_unspecified):
            return str(ours)
    return None

"""Where pods may reach this machine, if nobody has said."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

__all__ = ["own_address"]

_HTTPS = 443


def own_address(server_url: str) -> str | None:
    """The address of this machine from which it reaches the API server, which pods may reach in turn.

    None if there is no such address: the server's name is not known, no way leads there, or it is this
    machine's own loopback. Looks up the name, which may take its time; sends nothing else.
    """
    url = urlsplit(server_url)
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
        if not (ours.is_loopback or ours.is_link_local or ours.is_unspecified):
            return str(ours)
    return None

"""Recognition of requests from programs of the server's own user, which need no credential over loopback.

NNI's clients send such requests. The kernel knows which user owns the client's end of a connection (Linux:
/proc/net/tcp). A request that a browser or a proxy may have sent is not trusted: the process belongs to the
user, but another person may have caused the request.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from pathlib import Path

from nnimgr.api.asgi import Scope
from trial_keeper.calls.local_http import is_trusted

__all__ = ["comes_from_own_program"]

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED = b"01"  # a closed socket has another state, and root is shown as its owner
_UNKNOWN_USER = 65534  # user id that the kernel shows for users of other containers
_MAPPED = b"0000000000000000FFFF0000"  # an IPv4 address in an IPv6 socket
_OF_BROWSERS = frozenset({b"origin", b"referer", b"cookie"})
_OF_PROXIES = frozenset({b"forwarded", b"via", b"x-real-ip"})


def comes_from_own_program(scope: Scope) -> bool:
    """Return whether the server's own user, or root, sent the request with a program other than a browser."""
    client, server = scope.get("client"), scope.get("server")
    if not client or not server or not _is_loopback(client[0]) or not _is_loopback(server[0]):
        return False
    for name, value in scope["headers"]:
        if name in _OF_BROWSERS or name in _OF_PROXIES or name.startswith((b"sec-", b"x-forwarded-")):
            return False
        if name == b"user-agent" and value.startswith(b"Mozilla/"):
            return False
    owner = _owner((client[0], client[1]), (server[0], server[1]))
    return owner is not None and owner != _UNKNOWN_USER and is_trusted(owner)


def _owner(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """Return the id of the user who owns the client's end of a connection; None if the kernel does not report
    it.
    """
    for table in _TABLES:
        try:
            content = table.read_bytes()
        except OSError:
            continue
        for ends in _rows(client, server):
            start = content.find(ends)
            if start < 0:
                continue
            fields = content[start : content.find(b"\n", start)].split()
            state, owner, inode = fields[2], fields[6], fields[8]
            if state == _ESTABLISHED and inode != b"0":
                return int(owner)
    return None


def _rows(client: tuple[str, int], server: tuple[str, int]) -> Iterator[bytes]:
    """Yield the texts with which the client's end of a connection may appear in the kernel's tables of
    sockets.
    """
    local, remote = (ipaddress.ip_address(address) for address, _ in (client, server))
    for prefix in (b"", _MAPPED) if local.version == remote.version == 4 else (b"",):
        yield b" %s%s:%04X %s%s:%04X " % (
            *(prefix, _hexadecimal(local.packed), client[1]),
            *(prefix, _hexadecimal(remote.packed), server[1]),
        )


def _hexadecimal(packed: bytes) -> bytes:
    """Return an IP address as the kernel's tables show it: words of 32 bits in this machine's byte order."""
    return b"".join(b"%08X" % word for word in struct.unpack(f"={len(packed) // 4}I", packed))


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False

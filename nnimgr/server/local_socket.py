"""Unix sockets of the server in the private folder of its home directory, for the server's own user only."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

from trial_keeper.calls.local_http import LONGEST_PATH, is_trusted, peer_uid

__all__ = ["bind_private", "is_own_user"]


def bind_private(path: Path) -> socket.socket:
    """Bind a Unix socket at ``path``. A socket file that an ended server has left there is replaced.

    No running server may use this path. Raise OSError.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = -1
    try:
        os.fchmod(listener.fileno(), 0o600)  # ``bind`` creates a file of the same mode
        path.unlink(missing_ok=True)
        address = str(path)
        if len(os.fsencode(path)) > LONGEST_PATH:
            folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            address = f"/proc/self/fd/{folder}/{path.name}"
        listener.bind(address)
    except BaseException:
        listener.close()
        raise
    finally:
        if folder >= 0:
            os.close(folder)
    return listener


def is_own_user(transport: asyncio.BaseTransport) -> bool:
    """Return True if the process at the other end of a Unix socket runs as a user that may use the server."""
    connected = transport.get_extra_info("socket")
    with socket.socket(fileno=os.dup(connected.fileno())) as peer:  # uvloop's socket object has no getsockopt
        return is_trusted(peer_uid(peer))

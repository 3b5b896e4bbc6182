"""HTTP client for a server on this machine, which listens at a Unix socket.

The client checks the server's user before any request. The address of a server is ``http+unix://<path of its
socket, percent-encoded>/<path of the call>``. A port on the loopback address would be unsafe: any account can
take the port after the server has ended. For a Unix socket, the kernel reports the listening user, which must
be the caller's own user or root.

Every experiment on the server's machine has a keeper that makes these calls. ``http.client`` and ``socket``
would cost each keeper 3 MiB of memory, mostly for mail headers and TLS. So this module implements only the
part of HTTP that the server uses for keepers: the body of an answer either has a Content-Length, or ends when
the server closes the connection.
"""

from __future__ import annotations

import _socket
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SCHEME = "http+unix"
LONGEST_PATH = 107  # most bytes that the kernel allows in a socket's path
_CREDENTIALS = struct.Struct("iII")  # result of SO_PEERCRED: pid, uid, gid
_PIECE = 1 << 18
_LONGEST_HEAD = 1 << 16  # most bytes in an answer's status line and headers


class ForeignPeer(OSError):
    """Error: the other end of a Unix socket belongs to another user."""


class BadAnswer(OSError):
    """Error: the server's answer is not HTTP, is incomplete, or uses a feature that this module lacks."""


class LocalAnswer:
    """Answer to a call, with the status and a body that is read from the connection on demand."""

    def __init__(self, connection: LocalConnection) -> None:
        head = connection.receive_head()
        line, *fields = head.decode("latin-1").split("\r\n")
        version, _, rest = line.partition(" ")
        number, _, self.reason = rest.partition(" ")
        if not version.startswith("HTTP/1.") or not number.isdigit():
            raise BadAnswer(f"the server answers {line[:80]!r}, which is not HTTP")
        self.status = int(number)
        headers = {
            name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)
        }
        if "transfer-encoding" in headers:
            raise BadAnswer("the server's answer has no length")
        length = headers.get("content-length")
        self._left = None if length is None else int(length)  # None: the body ends with the connection
        self._connection = connection
        self._last = length is None or headers.get("connection", "").lower() == "close"
        self._finish()

    def read(self, amount: int | None = None) -> bytes:
        """Return the next ``amount`` bytes of the body, or the rest of the body if ``amount`` is None.

        At the end of the body, fewer bytes are returned. Raises BadAnswer if the connection ends too early.
        """
        parts = []
        while amount != 0 and self._left != 0:
            most = min(n for n in (_PIECE, amount, self._left) if n is not None)
            part = self._connection.receive(most)
            if not part:
                if self._left is not None:
                    raise BadAnswer(f"the server's answer ends {self._left} bytes before its end")
                self._left = 0
                break
            parts.append(part)
            amount = None if amount is None else amount - len(part)
            self._left = None if self._left is None else self._left - len(part)
        self._finish()
        return b"".join(parts)

    def _finish(self) -> None:
        if self._last and self._left == 0:
            self._connection.close()


class LocalConnection:
    """Connection to the HTTP server that listens at the Unix socket ``path``.

    The constructor raises OSError, and ForeignPeer if another user listens at the socket. ``timeout_s`` is
    the longest time without a byte after the connection is made.
    """

    def __init__(self, path: str, *, connect_s: float | None, timeout_s: float | None) -> None:
        self.sock = connected(path, connect_s)
        self.sock.settimeout(timeout_s)
        self._buffer = b""
        self._is_open = True

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: Iterable[bytes] = (),
        *,
        chunked: bool = False,
    ) -> LocalAnswer:
        """Send one request and return the answer. Read the answer's body before the next request.

        The headers must contain the length of the body, or declare a chunked body. Raises ConnectionError if
        the server has closed the connection, BadAnswer, and other OSErrors.
        """
        if not self._is_open:
            raise ConnectionError("the connection is closed")
        fields = {"Host": "localhost", "Accept-Encoding": "identity", **headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        head = f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")
        if chunked:
            self.sock.sendall(head)  # at once, because the first piece may take long
            for piece in filter(None, body):
                self.sock.sendall(b"%X\r\n%s\r\n" % (len(piece), piece))
            self.sock.sendall(b"0\r\n\r\n")
        else:
            for piece in body:
                self.sock.sendall(head + piece)
                head = b""
            self.sock.sendall(head)
        return LocalAnswer(self)

    def has_spoken(self) -> bool:
        """Return whether the server has sent data or closed the connection; discards one byte of the data."""
        timeout = self.sock.gettimeout()
        self.sock.settimeout(0)
        try:
            self.sock.recv(1)
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            self.sock.settimeout(timeout)
        return True

    def close(self) -> None:
        """Close the connection permanently: only a new connection checks the listening user again."""
        self._is_open = False
        self.sock.close()

    def receive_head(self) -> bytes:
        """Return the status line and the headers of the next answer."""
        while b"\r\n\r\n" not in self._buffer:
            if len(self._buffer) > _LONGEST_HEAD:
                raise BadAnswer("the server's answer begins with too many headers")
            part = self.sock.recv(_PIECE)
            if not part:
                raise ConnectionResetError("the server has closed the connection without an answer")
            self._buffer += part
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        return head

    def receive(self, most: int) -> bytes:
        """Return at least one and at most ``most`` bytes of the body; b"" at the end of the connection."""
        if not self._buffer:
            return self.sock.recv(most)
        part, self._buffer = self._buffer[:most], self._buffer[most:]
        return part


def connected(path: str, timeout_s: float | None) -> _socket.socket:
    """Connect to the Unix socket ``path`` and check which user listens. Raises OSError, ForeignPeer."""
    caller = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        caller.settimeout(timeout_s)
        _connect(caller, path)
        uid = peer_uid(caller)
        if not is_trusted(uid):
            raise ForeignPeer(
                f"{path} is not the server's: user {uid} listens there, not user {os.geteuid()}"
            )
    except BaseException:
        caller.close()
        raise
    return caller


def url_of(path: str) -> str:
    """Return the address of the server that listens at the socket ``path``, without a trailing slash."""
    from urllib.parse import quote_from_bytes  # only servers build addresses

    return f"{SCHEME}://{quote_from_bytes(os.fsencode(path), safe='')}"


def path_of(netloc: str) -> str:
    """Return the path of the socket from the host part of an address. Raises ValueError."""
    first, *rest = netloc.encode("ascii").split(b"%")
    return os.fsdecode(first + b"".join(bytes.fromhex(part[:2].decode()) + part[2:] for part in rest))


def peer_uid(connected: _socket.socket) -> int:
    """Return the id of the user at the other end of a Unix socket."""
    found = connected.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[1])


def is_trusted(uid: int) -> bool:
    """Return whether the user ``uid`` is root or the user of this process."""
    return uid in (os.geteuid(), 0)


def _connect(caller: _socket.socket, path: str) -> None:
    if len(os.fsencode(path)) <= LONGEST_PATH:
        caller.connect(path)
        return
    folder, name = os.path.split(path)
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        caller.connect(f"/proc/self/fd/{descriptor}/{name}")
    finally:
        os.close(descriptor)

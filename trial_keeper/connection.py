"""Connections to the server: where it is, what it is told, and how it is known."""

from __future__ import annotations

import http.client
import json
import socket
from typing import TYPE_CHECKING, Iterable, NamedTuple
from urllib.parse import SplitResult, urlsplit

if TYPE_CHECKING:
    import ssl

CONNECT_S = 5.0
REFUSED = 409
_PIECE = 1 << 16  # what a slow link takes within one timeout
_ERROR_TEXT = 300


class CallFailed(Exception):
    """The server cannot be asked, or did not answer as it should. ``reason``: of a refusal."""

    def __init__(self, sentence: str, reason: str | None = None) -> None:
        super().__init__(sentence)
        self.reason = reason


FAILURES = (OSError, ValueError, KeyError, http.client.HTTPException, CallFailed)


class Server(NamedTuple):
    """A connection. ``path``: of the sync call; ``headers`` are those of every call."""

    connection: http.client.HTTPConnection
    path: str
    headers: dict[str, str]

    def beside(self, tail: str) -> str:
        """The path of another call of this keeper."""
        return self.path[: self.path.rindex("/") + 1] + tail


def connect(manager: str, *, turn: int, timeout_s: float) -> Server:
    """Connect to the address whose turn it is, as the file ``manager`` names it now.

    ``timeout_s``: without a byte, once it is connected. Raises what is in FAILURES.
    """
    with open(manager, "rb") as file:  # the server's address may have changed
        said = json.load(file)
    urls = said["urls"]
    if not urls:
        raise CallFailed(f"{manager} names no server")
    url = urlsplit(urls[turn % len(urls)])
    if url.scheme not in ("http", "https") or url.hostname is None:
        raise CallFailed(f"{manager} names an address that is neither http:// nor https://host:port/...")
    if url.scheme == "http":
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=CONNECT_S)
        connection.connect()
    else:
        connection = _connect_known(url, said.get("fingerprint"), said.get("authorities"))
    connection.sock.settimeout(timeout_s)
    return Server(connection, url.path, {"Authorization": f"Bearer {said['token']}"})


def _connect_known(
    url: SplitResult, fingerprint: str | None, authorities: str | None
) -> http.client.HTTPConnection:
    """Connect to the server whose certificate has this fingerprint, or one that the authorities vouch for.

    For the fingerprint no authority and no clock is asked. The token is sent only over what this returns.
    """
    import hashlib  # neither is needed where the server is on this machine
    import ssl

    if not fingerprint:
        raise CallFailed("the server's address is https, but there is no fingerprint to know it by")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connection = _connect_tls(url, context)
    certificate = connection.sock.getpeercert(binary_form=True) or b""
    shown = hashlib.sha256(certificate).hexdigest()
    if shown == fingerprint.lower():
        return connection
    connection.close()
    other = (
        f"{url.netloc} is not the server that this keeper belongs to: its certificate's fingerprint is "
        f"{shown[:16]}..., not {fingerprint[:16].lower()}..."
    )
    if authorities is None:
        raise CallFailed(other)
    try:
        return _connect_tls(url, ssl.create_default_context(cadata=authorities or None))
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", "") or error.reason or str(error)
        raise CallFailed(f"{other}, and no authority known here vouches for it: {why}") from error


def _connect_tls(url: SplitResult, context: ssl.SSLContext) -> http.client.HTTPSConnection:
    import ssl

    context.minimum_version = ssl.TLSVersion.TLSv1_2
    connection = http.client.HTTPSConnection(str(url.hostname), url.port, timeout=CONNECT_S, context=context)
    try:
        connection.connect()
    except BaseException:
        connection.close()
        raise
    return connection


def has_spoken(sock: socket.socket) -> bool:
    """Whether the other end of a readable socket has said something or closed it, which is then taken.

    What TLS says for itself, such as a session ticket, is nothing.
    """
    import ssl

    patience = sock.gettimeout()
    sock.settimeout(0)
    try:
        sock.recv(1)
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return False
    except OSError:
        return True
    finally:
        sock.settimeout(patience)
    return True


def pieces(body: bytes) -> bytes | Iterable[bytes]:
    """A body for ``request`` whose Content-Length is given: each piece of it has a timeout of its own."""
    if len(body) <= _PIECE:
        return body
    return (body[at : at + _PIECE] for at in range(0, len(body), _PIECE))


def refusal(response: http.client.HTTPResponse) -> CallFailed:
    """What an answer that is not 200 means."""
    content = response.read()
    text = content[:_ERROR_TEXT].decode(errors="replace")
    sentence = f"the server answers {response.status} {response.reason}: {text}"
    return CallFailed(sentence, _reason(content) if response.status == REFUSED else None)


def _reason(content: bytes) -> str | None:
    """Why the server refuses this keeper, if its answer says so."""
    try:
        reason = json.loads(content)["reason"]
    except (ValueError, KeyError, TypeError):
        return None
    return reason if isinstance(reason, str) else None

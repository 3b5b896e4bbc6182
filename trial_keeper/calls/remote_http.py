"""HTTPS to a server on another machine. The client checks the certificate before any request."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import socket
import ssl
from typing import TYPE_CHECKING, Iterable, Iterator, Mapping
from urllib.parse import SplitResult, urlsplit

from trial_keeper.calls.local_http import BadAnswer

if TYPE_CHECKING:
    from trial_keeper.calls.connection import Answer


class UnknownServer(OSError):
    """Error: the server at the address is not the keeper's own server."""


class RemoteConnection:
    """Connection to the server at ``url``.

    Its certificate must have the ``fingerprint`` or a trusted authority. ``authorities``: the trusted
    certificate authorities as PEM; "": those of this machine; None: none. A certificate with the right
    fingerprint needs no authority and may have expired. The constructor raises OSError. ``timeout_s`` is the
    longest time without a byte from the server after the connection is made.
    """

    def __init__(
        self,
        url: str,
        fingerprint: str | None,
        authorities: str | None,
        *,
        connect_s: float,
        timeout_s: float,
    ) -> None:
        with _translated():
            self._http = _connect_known(urlsplit(url), fingerprint, authorities, connect_s)
        self._http.auto_open = 0  # never reopen a closed connection without these checks
        self._http.sock.settimeout(timeout_s)

    @property
    def sock(self) -> socket.socket:
        """Return the connection's socket, for polling."""
        found: socket.socket = self._http.sock
        return found

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: Iterable[bytes] = (),
        *,
        chunked: bool = False,
    ) -> Answer:
        """Send one request and return its answer, like ``LocalConnection.request``."""
        with _translated():
            self._http.request(method, path, body or None, dict(headers), encode_chunked=chunked)
            return RemoteAnswer(self._http.getresponse())

    def has_spoken(self) -> bool:
        """Return whether the server has sent data, not only TLS records, or closed the connection."""
        sock = self.sock
        timeout = sock.gettimeout()
        sock.settimeout(0)
        try:
            sock.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError:
            return True
        finally:
            sock.settimeout(timeout)
        return True

    def close(self) -> None:
        """Close the connection."""
        self._http.close()


class RemoteAnswer:
    """Answer of the server to a call, with the same methods as ``LocalAnswer``."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.reason = response.reason
        self._response = response

    def read(self, amount: int | None = None) -> bytes:
        """Return the next ``amount`` bytes of the body, like ``LocalAnswer.read``."""
        with _translated():
            return self._response.read(amount)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Turn the exceptions of ``http.client`` into the OSErrors that a local connection raises."""
    try:
        yield
    except ConnectionError:
        raise
    except (http.client.BadStatusLine, http.client.NotConnected) as error:
        raise ConnectionError(str(error) or type(error).__name__) from error
    except http.client.HTTPException as error:
        raise BadAnswer(str(error) or type(error).__name__) from error


def _connect_known(
    url: SplitResult, fingerprint: str | None, authorities: str | None, connect_s: float
) -> http.client.HTTPSConnection:
    """Connect to a server whose certificate has this fingerprint or is signed by the authorities."""
    if url.hostname is None:
        raise UnknownServer(f"the server's address {url.geturl()} names no host")
    if not fingerprint:
        raise UnknownServer("the server's address is https, but manager.json has no fingerprint for it")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connection = _connect_tls(url, context, connect_s)
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
        raise UnknownServer(other)
    try:
        return _connect_tls(url, ssl.create_default_context(cadata=authorities or None), connect_s)
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", "") or error.reason or str(error)
        raise UnknownServer(
            f"{other}, and no authority known here vouches for the certificate: {why}"
        ) from error


def _connect_tls(url: SplitResult, context: ssl.SSLContext, connect_s: float) -> http.client.HTTPSConnection:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    connection = http.client.HTTPSConnection(str(url.hostname), url.port, timeout=connect_s, context=context)
    try:
        connection.connect()
    except BaseException:
        connection.close()
        raise
    return connection

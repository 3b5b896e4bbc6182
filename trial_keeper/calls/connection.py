"""Connections to the server: reads its address and token from manager.json, and connects to it."""

from __future__ import annotations

import json

from trial_keeper.calls import local_http
from trial_keeper.lean import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import _socket
    from typing import Any, Iterable, Mapping, Protocol

    class Answer(Protocol):
        """Answer to a call (``LocalAnswer``, ``RemoteAnswer``)."""

        status: int
        reason: str

        def read(self, amount: int | None = None) -> bytes: ...

    class Connection(Protocol):
        """Open connection to the server (``LocalConnection``, ``RemoteConnection``)."""

        @property
        def sock(self) -> _socket.socket: ...

        def request(
            self,
            method: str,
            path: str,
            headers: Mapping[str, str],
            body: Iterable[bytes] = (),
            *,
            chunked: bool = False,
        ) -> Answer: ...

        def has_spoken(self) -> bool: ...

        def close(self) -> None: ...


CONNECT_S = 5.0
REFUSED = 409
_PIECE = 1 << 16  # number of bytes that even a slow link transfers within one timeout
_ERROR_TEXT = 300


class CallFailed(Exception):
    """Error of a call: no connection, or an error in the answer. ``reason``: the server's refusal, if any."""

    def __init__(self, sentence: str, reason: str | None = None) -> None:
        super().__init__(sentence)
        self.reason = reason


FAILURES = (OSError, ValueError, KeyError, CallFailed)


class Server(NamedTuple):
    """Connection to the server, with the ``path`` of the sync call and the ``headers`` of every call."""

    connection: Connection
    path: str
    headers: dict[str, str]

    def beside(self, tail: str) -> str:
        """Return the path of another call of this keeper, with ``tail`` as its last part."""
        return self.path[: self.path.rindex("/") + 1] + tail


def connect(manager: str, *, turn: int, timeout_s: float) -> Server:
    """Connect to one of the server's addresses in the file ``manager`` (manager.json).

    ``turn``: number of tries that have failed, which selects the address. ``timeout_s``: longest time without
    a byte from the server after the connection is made. Raises the exceptions in FAILURES.
    """
    with open(manager, "rb") as file:  # the server's address may have changed
        said = json.load(file)
    urls = said["urls"]
    if not urls:
        raise CallFailed(f"{manager} names no server")
    url = urls[turn % len(urls)]
    scheme, _, rest = url.partition("://")
    netloc, slash, path = rest.partition("/")
    if scheme == local_http.SCHEME:
        connection: Connection = local_http.LocalConnection(
            local_http.path_of(netloc), connect_s=CONNECT_S, timeout_s=timeout_s
        )
    elif scheme == "https" and netloc:
        connection = _connect_remote(url, said, timeout_s)
    else:
        raise CallFailed(
            f"{manager} has an address that does not begin with {local_http.SCHEME}:// or https://, the only "
            "kinds at which a server proves who it is"
        )
    return Server(connection, slash + path, {"Authorization": f"Bearer {said['token']}"})


def _connect_remote(url: str, said: dict[str, Any], timeout_s: float) -> Connection:
    from trial_keeper.calls import remote_http  # large, and unused by keepers on the server's machine

    fingerprint, authorities = said.get("fingerprint"), said.get("authorities")
    try:
        return remote_http.RemoteConnection(
            url, fingerprint, authorities, connect_s=CONNECT_S, timeout_s=timeout_s
        )
    except remote_http.UnknownServer as error:
        raise CallFailed(str(error)) from error


def pieces(body: bytes) -> Iterable[bytes]:
    """Split the body of a request, so that a timeout applies to each piece instead of the whole body."""
    return (body[at : at + _PIECE] for at in range(0, len(body), _PIECE))


def refusal(answer: Answer) -> CallFailed:
    """Return the error to raise for an answer whose status is not 200."""
    content = answer.read()
    text = content[:_ERROR_TEXT].decode(errors="replace")
    sentence = f"the server answers {answer.status} {answer.reason}: {text}"
    return CallFailed(sentence, _reason(content) if answer.status == REFUSED else None)


def _reason(content: bytes) -> str | None:
    """Return the reason in the server's refusal; None without a reason."""
    try:
        reason = json.loads(content)["reason"]
    except (ValueError, KeyError, TypeError):
        return None
    return reason if isinstance(reason, str) else None

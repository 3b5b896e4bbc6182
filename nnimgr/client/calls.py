"""Client of the server's REST API: one connection per call, JSON in both directions, errors as sentences.

Calls contain the user's token, so they go to the server's Unix socket, whose owner is checked. The server's
TCP port is not used: after the server has ended, another account could listen there.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from nnimgr.client.errors import ApiError, ServerGone, other_version
from nnimgr.client.lines import names_command
from nnimgr.spelling import capital
from trial_keeper.calls import local_http
from trial_keeper.machine.untrusted_files import shown_name

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["Client", "Event"]

_CALL_TIMEOUT_S = 20.0
_LEAVING = "The server is leaving."
_REPEAT = "Repeat the command, which starts the server again if it has ended: {command}"
_CUT_OFF = "The output is incomplete: the server exits, or the trial's machine cannot be reached."
_STREAM_TIMEOUT_S = 60.0  # longer than the server's interval of 15 s between heartbeats


class Event:
    """Event that the server sends in an experiment's event stream."""

    __slots__ = ("fields", "kind", "number")

    def __init__(self, kind: str, number: int | None, fields: dict[str, Any]) -> None:
        self.kind = kind
        self.number = number
        self.fields = fields

    def __repr__(self) -> str:
        return f"<Event {self.number} {self.kind}: {self.fields}>"


class Client:
    """Client of a server. ``path``: the server's Unix socket. ``url``: the server's address for people.

    ``mends``: HTTP status -> last line of the error, which suggests a command to the user. ``pid``: the
    server's process.

    A call without a time limit waits for as long as the server answers other calls.
    """

    def __init__(self, url: str, *, path: Path, token: str, pid: int | None = None) -> None:
        self.url = url
        self.mends: Mapping[int, str] = {}
        self.port = urlsplit(url).port or 80
        self._path = str(path)
        self._token = token
        self._pid = pid
        self._root = "/api/v1/"
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}

    def for_nni(self, experiment_id: str | None, *, prefix: str | None = None) -> Client:
        """Return a client that calls NNI's routes for one experiment.

        ``experiment_id``: if None, the server chooses the experiment. ``prefix``: path before NNI's routes in
        the server's URLs.
        """
        client = Client(self.url, path=Path(self._path), token=self._token, pid=self._pid)
        below = f"/e/{quote(experiment_id, safe='')}" if experiment_id is not None else ""
        client._root = f"{'/' + prefix if prefix else ''}{below}/api/v1/nni/"
        return client

    def get(self, *path: str, **query: Any) -> Any:
        return self.call("GET", *path, **query)

    def post(
        self,
        *path: str,
        body: Any = None,
        timeout_s: float | None = _CALL_TIMEOUT_S,
        sent: Callable[[], None] | None = None,
        key: str | None = None,
    ) -> Any:
        """Send a POST request and return the JSON answer.

        ``sent`` is called when the request was sent, before the server answers. ``key``: the request's
        ``Idempotency-Key``, with which it can be repeated.
        """
        return self._exchange("POST", path, body=body, timeout_s=timeout_s, query={}, sent=sent, key=key)[1]

    def put_new(self, *path: str, body: Any) -> tuple[bool, Any]:
        """Send a POST request that creates an object. Return whether it was created now, and the answer."""
        status, answer = self._exchange("POST", path, body=body, timeout_s=None, query={})
        return status == http.client.CREATED, answer

    def call(
        self,
        method: str,
        *path: str,
        body: Any = None,
        timeout_s: float | None = _CALL_TIMEOUT_S,
        **query: Any,
    ) -> Any:
        """Send a request and return the JSON answer. Raise ApiError or ServerGone."""
        return self._exchange(method, path, body=body, timeout_s=timeout_s, query=query)[1]

    def _exchange(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        body: Any,
        timeout_s: float | None,
        query: Mapping[str, Any],
        sent: Callable[[], None] | None = None,
        key: str | None = None,
    ) -> tuple[int, Any]:
        headers = None if key is None else {"Idempotency-Key": key}
        with closing(self._connection(timeout_s)) as connection:
            response = self._send(
                connection, method, path, query=query, body=body, headers=headers, sent=sent
            )
            try:
                text = response.read()
            except (OSError, http.client.HTTPException) as error:
                raise self._gone(error) from error
        if response.status >= 300:
            raise self._refusal(response.status, text)
        return response.status, json.loads(text) if text else None

    def events(self, *path: str, after: int) -> Iterator[Event | None]:
        """Yield the events after the number ``after`` until the server ends the stream. None is a heartbeat.

        Raise ApiError. Raise ServerGone if the server cannot be reached or the connection breaks.
        """
        kind, number, data = "", None, ""
        for line in self._lines(path, headers={"Last-Event-ID": str(after)}, query={}):
            name, _, value = line.rstrip("\r\n").partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                kind = value
            elif name == "id":
                number = int(value)
            elif name == "data":
                data += value
            elif name == "" and data:
                yield Event(kind, number, json.loads(data))
                kind, number, data = "", None, ""
            elif name == "":
                yield None

    def stream(self, *path: str, **query: Any) -> Iterator[bytes]:
        """Yield the bytes of a file from the server as they arrive, without a time limit.

        Raise ApiError or ServerGone.
        """
        with closing(self._connection(None)) as connection:
            response = self._send(connection, "GET", path, query=query, body=None)
            if response.status >= 300:
                raise self._refusal(response.status, response.read())
            try:
                while chunk := response.read1(1 << 18):
                    yield chunk
            except http.client.IncompleteRead as error:
                raise ServerGone(
                    _CUT_OFF, mend="See the server's log: nnictl log stdout --tail 20"
                ) from error
            except (OSError, http.client.HTTPException) as error:
                raise self._gone(error) from error

    def _lines(
        self, path: tuple[str, ...], *, headers: Mapping[str, str], query: Mapping[str, Any]
    ) -> Iterator[str]:
        with closing(self._connection(_STREAM_TIMEOUT_S)) as connection:
            response = self._send(connection, "GET", path, query=query, body=None, headers=headers)
            if response.status >= 300:
                raise self._refusal(response.status, response.read())
            try:
                while line := response.readline():
                    yield line.decode("utf-8")
            except (OSError, http.client.HTTPException) as error:
                raise self._gone(error) from error

    def _connection(self, timeout_s: float | None) -> http.client.HTTPConnection:
        if timeout_s is None:
            return _LocalConnection(self._path, _CALL_TIMEOUT_S, idle=self._check_alive)
        return _LocalConnection(self._path, timeout_s)

    def _check_alive(self) -> None:
        """Raise ServerGone if the server does not answer another call."""
        try:
            with closing(self._connection(_CALL_TIMEOUT_S)) as connection:
                connection.request("GET", "/healthz")
                connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise self._gone(error) from error

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: tuple[str, ...],
        *,
        query: Mapping[str, Any],
        body: Any,
        headers: Mapping[str, str] | None = None,
        sent: Callable[[], None] | None = None,
    ) -> http.client.HTTPResponse:
        target = self._root + "/".join(quote(shown_name(part), safe="") for part in path)
        if query:
            target += "?" + urlencode(query, doseq=True)
        fields = {**self._headers, **(headers or {})}
        text = None
        if body is not None:
            text = json.dumps(body, allow_nan=False).encode()
            fields["Content-Type"] = "application/json"
        try:
            connection.request(method, target, body=text, headers=fields)
            if sent is not None:
                sent()
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise self._gone(error) from error

    def _refusal(self, status: int, text: bytes) -> ApiError | ServerGone:
        mend = self.mends.get(status)
        try:
            error = json.loads(text)["error"]
            if isinstance(error, str):  # NNI's routes return errors in this form
                return ApiError(status, error, [], mend=mend)
            if status == http.client.SERVICE_UNAVAILABLE and error["message"] == _LEAVING:
                return ServerGone(_LEAVING, mend=_REPEAT)
            message = capital(str(error["message"]))
            if status == http.client.NOT_FOUND and message.startswith(f"There is no {self._root}"):
                return self._unknown_route(message)
            mend = "" if names_command(message) else mend
            return ApiError(status, message, list(error.get("problems") or ()), mend=mend)
        except (ValueError, KeyError, TypeError):
            shown = text[:200].decode("utf-8", "replace").strip()
            return ApiError(status, f"The server answered {status}: {shown or 'no message'}.", [], mend=mend)

    def _unknown_route(self, message: str) -> ApiError:
        """Return the error for a request that the server does not know. ``message``: the server's."""
        route = message.removeprefix("There is no ").removesuffix(" here.")
        told = other_version(f"The server has no {route}", () if self._pid is None else (self._pid,))
        error = ApiError(http.client.NOT_FOUND, route, [], mend=told.mend)
        error.lines = told.lines
        return error

    def _gone(self, error: Exception) -> ServerGone:
        from nnimgr.child import is_stopped

        if self._pid is not None and is_stopped(self._pid):
            return ServerGone(
                f"The server (pid {self._pid}) does not answer: it is stopped, by SIGSTOP or a debugger.",
                mend=f"Let it continue: kill -CONT {self._pid}",
            )
        reason = str(error) or type(error).__name__
        return ServerGone(f"The server at {self.url} does not answer: {reason}.", mend=_REPEAT)


class _LocalConnection(http.client.HTTPConnection):
    """HTTP connection to the server's Unix socket ``path``, at which a trusted user must listen."""

    def __init__(self, path: str, timeout_s: float, *, idle: Callable[[], None] | None = None) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path
        self._idle = idle

    def connect(self) -> None:
        """Connect to the socket. Raise OSError, or ForeignPeer if an untrusted user listens at the socket."""
        caller = local_http.connected(self._path, self.timeout)
        self.sock = _LocalSocket(caller.detach(), self._idle)
        self.sock.settimeout(self.timeout)


class _LocalSocket(socket.socket):
    """Socket whose reads call ``idle`` at each timeout, and continue unless it raises an error."""

    def __init__(self, descriptor: int, idle: Callable[[], None] | None) -> None:
        super().__init__(fileno=descriptor)
        self._idle = idle

    def recv_into(self, buffer: WriteableBuffer, nbytes: int = 0, flags: int = 0) -> int:
        while True:
            try:
                return super().recv_into(buffer, nbytes, flags)
            except TimeoutError:
                if self._idle is None:
                    raise
                self._idle()

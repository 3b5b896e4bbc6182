"""Types for a request to the cluster's API server and for its answer, and sentences for its errors."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from training_services.base import ServiceError, ServiceUnavailable

if TYPE_CHECKING:
    import urllib3

__all__ = ["Answer", "ApiError", "Request", "refusal", "status_error", "unreachable"]

READ_S = 30.0
LONGEST = 500  # characters of a message that are shown


class Request(NamedTuple):
    """Request to the API server. ``doing`` names the request in error messages, such as "listing pods".

    ``stream``: do not read the body of a successful answer.
    """

    doing: str
    method: str
    path: str
    query: dict[str, str | int]
    body: Mapping[str, Any] | None = None
    content_type: str = "application/json"
    read_s: float = READ_S
    stream: bool = False


class Answer(NamedTuple):
    """Answer of the API server. ``pause_s``: seconds to wait before a retry, if the server demands a
    pause.
    """

    status: int
    pause_s: float | None
    body: bytes
    value: Any = None  # the body, parsed, if it is JSON
    stream: urllib3.HTTPResponse | None = None


class ApiError(ServiceError):
    """Error: the API server has refused a request.

    ``status``: HTTP status; ``reason``: one word, such as AlreadyExists; ``message``: the server's own text.
    """

    def __init__(self, status: int, reason: str, message: str, sentence: str | None = None) -> None:
        super().__init__(sentence or message)
        self.status = status
        self.reason = reason
        self.message = message


def refusal(answer: Answer, doing: str, server: str) -> ApiError | ServiceUnavailable:
    """Return the exception for an answer with an error status. ``doing`` says what was requested."""
    status, said = answer.status, answer.value
    told = said if isinstance(said, dict) and said.get("kind") == "Status" else {}
    error = status_error({**told, "code": status}, doing)
    if status == 429 or status >= 500:
        return ServiceUnavailable(f"{_title(server)} cannot answer now ({status}): {error.message}")
    return error


def status_error(told: Mapping[str, Any], doing: str) -> ApiError:
    """Return the exception for a ``Status`` object of Kubernetes. ``doing`` says what was requested."""
    code = told.get("code")
    status = code if isinstance(code, int) else 500
    reason, message = _text(told.get("reason")), _text(told.get("message"))
    message = message or reason or f"status {status}"
    if status == 401:
        sentence = f"the cluster does not accept our login for {doing}: log in again ({message})"
    elif status == 403:
        sentence = f"the cluster does not allow {doing}: {message}"
    else:
        sentence = f"the cluster has refused {doing}: {message}"
    return ApiError(status, reason, message, sentence)


def unreachable(server: str, error: BaseException) -> str:
    """Return a sentence that says why the API server did not answer. ``error``: error of the connection."""
    return f"{_title(server)} cannot be reached: {_why(error)}"


def _title(server: str) -> str:
    return f"the Kubernetes API server at {server}"


def _why(error: BaseException) -> str:
    names = {type(each).__name__ for each in _chain(error)}
    if "ConnectTimeoutError" in names:
        return "the server does not answer"
    if names & {"ReadTimeoutError", "TimeoutError"}:
        return "the server has not answered in time"
    for each in _chain(error):
        if isinstance(each, socket.gaierror):
            return "the server's name cannot be resolved"
        if isinstance(each, ssl.SSLCertVerificationError):
            return f"the server's certificate is not trusted ({each.verify_message})"
        if isinstance(each, ssl.SSLError):
            return f"the TLS connection failed ({each.reason or 'no reason given'})"
        if isinstance(each, OSError) and each.strerror:
            return each.strerror[:1].lower() + each.strerror[1:]
    if names & {"ProtocolError", "RemoteDisconnected", "IncompleteRead"}:
        return "the server has closed the connection"
    return type(error).__name__


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, its causes, and the errors among its arguments, each only once."""
    seen: set[int] = set()
    todo = [error]
    while todo:
        each = todo.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        inner = (each.__cause__, each.__context__, *each.args)
        todo += [item for item in inner if isinstance(item, BaseException)]


def _text(value: object) -> str:
    return " ".join(value.split())[:LONGEST] if isinstance(value, str) else ""

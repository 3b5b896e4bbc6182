"""The HTTP face of the scripted API server: requests parsed, answers written, watches in chunks."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, urlsplit

Object = dict[str, Any]

RESOURCES = {"jobs": "Job", "pods": "Pod", "secrets": "Secret", "configmaps": "ConfigMap", "events": "Event"}
API = {"jobs": "/apis/batch/v1/"}
CORE = "/api/v1/"


class Asked(NamedTuple):
    """One request. ``verb``: as authorization has it: get, list, watch, create, patch, delete, log."""

    verb: str
    resource: str
    namespace: str
    name: str | None
    query: Mapping[str, str]
    body: Any
    headers: Mapping[str, str]


class Reply(NamedTuple):
    """What is answered in place of the truth. ``status`` 0: the connection is closed without an answer."""

    status: int
    reason: str = ""
    message: str = ""
    retry_after: str | None = None


class Refused(Exception):
    """Answered as a Status."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


class Api(Protocol):
    """What the face asks."""

    logs: dict[str, bytes]

    def reply_to(self, asked: Asked) -> Reply | None: ...

    def answer(self, asked: Asked) -> Object: ...

    def follow(self, asked: Asked) -> Iterator[bytes]: ...


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], api: Api) -> None:
        self.api = api
        self.open: set[socket.socket] = set()
        super().__init__(address, Handler)

    def hang_up(self) -> None:
        for connection in list(self.open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is no news."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def setup(self) -> None:
        super().setup()
        self.server.open.add(self.connection)

    def finish(self) -> None:
        self.server.open.discard(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._handle("get")

    def do_POST(self) -> None:
        self._handle("create")

    def do_PATCH(self) -> None:
        self._handle("patch")

    def do_DELETE(self) -> None:
        self._handle("delete")

    def _handle(self, verb: str) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query))
        for prefix in (CORE, *API.values()):
            if url.path.startswith(f"{prefix}namespaces/"):
                parts = url.path.removeprefix(f"{prefix}namespaces/").split("/")
                break
        else:
            return self._say(
                404, status_of(404, "NotFound", "the server could not find the requested resource")
            )
        namespace, resource, name, more = (*parts, *[None] * 4)[:4]
        if namespace is None or resource not in RESOURCES or API.get(resource, CORE) != prefix:
            return self._say(
                404, status_of(404, "NotFound", "the server could not find the requested resource")
            )
        if verb == "get":
            verb = "watch" if "watch" in query else "log" if more == "log" else "get" if name else "list"
        headers = {key.lower(): value for key, value in self.headers.items()}
        asked = Asked(verb, resource, namespace, name, query, body, headers)
        reply = self.server.api.reply_to(asked)
        if reply is not None:
            return self._instead(reply)
        try:
            if verb == "watch":
                return self._stream(asked)
            if verb == "log":
                return self._text(self.server.api.logs.get(name or "", b""), query)
            self._say(201 if verb == "create" else 200, self.server.api.answer(asked))
        except Refused as refused:
            self._say(refused.status, status_of(refused.status, refused.reason, refused.message))

    def _instead(self, reply: Reply) -> None:
        if reply.status == 0:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        headers = {} if reply.retry_after is None else {"Retry-After": reply.retry_after}
        self._say(reply.status, status_of(reply.status, reply.reason, reply.message), headers)

    def _stream(self, asked: Asked) -> None:
        lines = self.server.api.follow(asked)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for line in lines:
                self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

    def _text(self, data: bytes, query: Mapping[str, str]) -> None:
        if "tailLines" in query:
            data = b"".join(data.splitlines(keepends=True)[-int(query["tailLines"]) :])
        self._write(200, "text/plain", data, {})

    def _say(self, status: int, value: Object, headers: Mapping[str, str] | None = None) -> None:
        self._write(status, "application/json", json.dumps(value).encode(), headers or {})

    def _write(self, status: int, kind: str, data: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for key, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)


def status_of(code: int, reason: str, message: str) -> Object:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}

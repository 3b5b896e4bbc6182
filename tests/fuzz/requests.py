"""One request as the bytes that are sent, made from a route of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.parse import quote

from tests.fuzz.values import Bodies, hostile_text, json_text

__all__ = ["Known", "Route", "Sent", "make", "routes_of"]

_TYPES = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "a/b;c")
_METHODS = ("HEAD", "OPTIONS", "PUT", "TRACE", "POST", "DELETE", "GET", "PATCH")
_ODD_HEADERS = (
    *(
        "Range: bytes=5-1",
        "Accept-Encoding: gzip;q=x",
        "Accept: \xff",
        "Last-Event-ID: -1",
        "Last-Event-ID: x",
    ),
    *(
        "Cookie: ;;=;\x7f",
        "Cookie: nnimgr-1=x",
        "Origin: null",
        "Origin: http://evil.example",
        "X: " + "y" * 60_000,
    ),
    *("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "If-None-Match: *", "Idempotency-Key: \xe9"),
    *(
        "Idempotency-Key: one",
        "Authorization: Basic !!!",
        "Authorization: Bearer \xff\x00",
        "Host: evil.example",
    ),
    *(
        "Transfer-Encoding: gzip",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Expect: 200-ok",
        "TE: trailers",
    ),
)


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    parameters: Sequence[Mapping[str, Any]]
    body: Mapping[str, Any] | None  # its schema


@dataclass(frozen=True, slots=True)
class Known:
    """Real ids on the server. ``by_name``: values of path and query parameters."""

    port: int
    token: str
    by_name: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Sent:
    """A request. ``streams``: its answer need not end."""

    route: Route
    method: str
    data: bytes
    streams: bool

    def __str__(self) -> str:
        text = self.data[:600].decode("latin-1").encode("unicode_escape").decode()
        return f"{text}{'...' if len(self.data) > 600 else ''} ({len(self.data)} bytes)"


def routes_of(document: Mapping[str, Any]) -> list[Route]:
    found = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {})
            schema = content["application/json"]["schema"] if content else None
            found.append(Route(method.upper(), path, operation.get("parameters", ()), schema))
    return found


def make(route: Route, known: Known, bodies: Bodies, draw: Random, *, tame: Any) -> Sent:
    """A request of this route. ``tame`` changes a body where it would do harm to this machine."""
    method = route.method if draw.random() < 0.97 else draw.choice(_METHODS)
    headers = [f"Host: 127.0.0.1:{known.port}", "Connection: close"]
    if draw.random() < 0.93:
        headers.append(f"Authorization: Bearer {known.token}")
    elif draw.random() < 0.5:
        headers.append(f"Authorization: Bearer {quote(hostile_text(draw)[:200], errors='replace')}")
    target = _path(route, known, draw)
    query = _query(route, known, draw, headers)
    body = b""
    if route.body is not None or draw.random() < 0.03:
        value = tame(route, bodies.make(route.body or {}, draw))
        body = json_text(value, draw)
        kind = "application/json" if draw.random() < 0.93 else draw.choice(_TYPES)
        headers.append(f"Content-Type: {kind}")
    while draw.random() < 0.08:
        headers.append(draw.choice(_ODD_HEADERS))
    streams = "/events" in route.path or "follow" in query
    if body and draw.random() < 0.1:
        headers.append("Transfer-Encoding: chunked")
        body = (
            b"".join(
                b"%x\r\n%b\r\n" % (len(piece), piece)
                for piece in (body[at : at + 1000] for at in range(0, len(body), 1000))
            )
            + b"0\r\n\r\n"
        )
    elif body or method not in ("GET", "HEAD"):
        headers.append(f"Content-Length: {len(body)}")
    if draw.random() < 0.02:
        headers.append("Expect: 100-continue")
    head = "\r\n".join([f"{method} {target}{'?' if query else ''}{query} HTTP/1.1", *headers, "", ""])
    return Sent(route, method, head.encode("latin-1", errors="replace") + body, streams)


def _path(route: Route, known: Known, draw: Random) -> str:
    target = route.path
    for parameter in route.parameters:
        if parameter["in"] == "path":
            name = parameter["name"]
            target = target.replace(f"{{{name}}}", _part(known.by_name.get(name, ()), draw))
    return target


def _part(real: Sequence[str], draw: Random) -> str:
    if real and draw.random() < 0.85:
        return quote(draw.choice(real))
    text = hostile_text(draw)
    return quote(text, safe="/." if draw.random() < 0.3 else "", errors="surrogatepass")


def _query(route: Route, known: Known, draw: Random, headers: list[str]) -> str:
    parts = []
    for parameter in route.parameters:
        if parameter["in"] == "path" or (not parameter.get("required") and draw.random() < 0.6):
            continue
        for _ in range(draw.choice((1, 1, 1, 2, 30))):
            value = _query_value(parameter, known, draw)
            if parameter["in"] == "header":
                if value.isprintable() and value.isascii():
                    headers.append(f"{parameter['name']}: {value}")
                break
            parts.append(f"{parameter['name']}={quote(value, errors='surrogatepass')}")
    if draw.random() < 0.02:
        parts.append(draw.choice(("&&&", "%", "%zz=%", "=", "a[b]=c", "x=%ff%fe", "x=" + "y" * 200_000)))
    return "&".join(parts)


def _query_value(parameter: Mapping[str, Any], known: Known, draw: Random) -> str:
    real = known.by_name.get(parameter["name"], ())
    if real and draw.random() < 0.7:
        return draw.choice(real)
    schema = parameter.get("schema", {})
    kinds = {schema.get("type")} | {each.get("type") for each in schema.get("anyOf", ())}
    if draw.random() < 0.5 and kinds & {"integer", "number"}:
        return draw.choice(("0", "1", "2", "10", "200", "10000", "1000000", "9007199254740991", "-1", "1.5"))
    if draw.random() < 0.5 and "boolean" in kinds:
        return draw.choice(("true", "false", "1", "yes", "2"))
    return hostile_text(draw)

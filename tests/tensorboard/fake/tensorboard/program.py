"""The fake's program. Its pages show the files of the runs, and the requests that reach it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

Start = Callable[[str, list[tuple[str, str]]], object]


class TensorBoard:
    def __init__(self, *, server_class: Callable[[Any, Any], Any]) -> None:
        self._server_class = server_class
        self._logdir, self._prefix = Path(), ""

    def configure(self, argv: tuple[str, ...]) -> None:
        options = dict(argument.split("=", 1) for argument in argv[1:])
        assert options["--load_fast"] == "false"
        self._logdir, self._prefix = Path(options["--logdir"]), options["--path_prefix"]

    def main(self) -> int:
        server = self._server_class(self._answer, None)
        server.print_serving_message()
        server.serve_forever()
        return 0

    def _answer(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        path = environ["PATH_INFO"].removeprefix(self._prefix)
        if path == "/runs":
            return _json(start, dict(self._runs()))
        if path == "/request":
            headers = {key: value for key, value in environ.items() if key.startswith("HTTP_")}
            size = int(environ.get("CONTENT_LENGTH") or 0)
            body = environ["wsgi.input"].read(size).decode()
            query, environment = environ["QUERY_STRING"], dict(os.environ)
            return _json(start, {"headers": headers, "body": body, "query": query, "environ": environment})
        if path == "/moved":
            start("302 Found", [("Location", f"http://elsewhere:80{self._prefix}/runs?x=1")])
            return []
        if path == "/":
            start("200 OK", [("Content-Type", "text/html")])
            return [b"<!doctype html><title>A board</title>"]
        if path == "/page":
            policy = "default-src 'self';frame-ancestors *"
            start("200 OK", [("Content-Security-Policy", policy), ("Set-Cookie", "its=own")])
            return [b"<p>"]
        if path == "/endless":
            start("200 OK", [("Content-Type", "text/plain")])
            return _endless()
        if path == "/crash":
            sys.stderr.write("the disk is on fire\n")
            sys.stderr.flush()
            os._exit(3)
        start("404 Not Found", [("Content-Type", "text/plain")])
        return [b"nothing here"]

    def _runs(self) -> Iterator[tuple[str, str]]:
        for folder, _, names in os.walk(self._logdir, followlinks=True):
            for path in (Path(folder, name) for name in names):
                if path.is_file():  # some links lead to folders that do not exist yet
                    yield str(path.relative_to(self._logdir)), path.read_text()


def _json(start: Start, value: Any) -> list[bytes]:
    body = json.dumps(value).encode()
    start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


def _endless() -> Iterator[bytes]:
    while True:
        yield b"x" * 65_536

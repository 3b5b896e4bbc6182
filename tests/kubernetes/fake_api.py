"""A scripted Kubernetes API server: a cluster in memory behind real HTTP on a loopback port.

A test orders the faults: ``fail`` (any answer), ``cut`` (the connection), ``hold`` (answer later),
``compact`` (410), ``freeze`` (watches that stay open and send nothing), ``drop_watches``, ``stop`` and
``start``.
"""

from __future__ import annotations

import contextlib
import json
import queue
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.kubernetes.fake_cluster import NAMESPACE, FakeCluster
from tests.kubernetes.fake_http import Asked, Object, Reply, Server, status_of

__all__ = ["NAMESPACE", "FakeApi", "Reply"]

TICK_S = 0.05  # interval in which a watch looks for changes and for the end of its time


class FakeApi(FakeCluster):
    """Server of a cluster. Its methods may be called from any thread.

    ``token``: token that requests must carry, or None. ``tls``: file with a key and a certificate.
    """

    def __init__(self, *, token: str | None = None, makes_pods: bool = True, tls: Path | None = None) -> None:
        super().__init__(makes_pods=makes_pods)
        self.requests: list[Asked] = []
        self.token = token
        self._tls = tls
        self._replies: list[tuple[str, str, Reply]] = []
        self._holds: list[tuple[str, str, threading.Event]] = []
        self._watches: list[queue.SimpleQueue[bytes | None]] = []
        self._server: Server | None = None
        self.port = 0
        self.start()

    # The server itself.

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}"

    def kubeconfig(self, folder: Path) -> str:
        """Write a kubeconfig for this server into the folder. Return its path."""
        path = folder / "kubeconfig"
        user = {} if self.token is None else {"token": self.token}
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "fake",
                    "contexts": [
                        {"name": "fake", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}
                    ],
                    "clusters": [{"name": "c", "cluster": {"server": self.url}}],
                    "users": [{"name": "u", "user": user}],
                }
            ),
            encoding="utf-8",
        )
        return str(path)

    def start(self) -> None:
        """Listen on the same port as before, with the same objects."""
        self._server = Server(("127.0.0.1", self.port), self)
        self.port = self._server.server_address[1]
        if self._tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._tls)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Refuse connections, and end open connections."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            self.drop_watches()
            server.hang_up()

    def __enter__(self) -> FakeApi:
        return self

    def __exit__(self, *_: object) -> None:
        for _verb, _resource, gate in self._holds:
            gate.set()
        self.stop()

    # Faults.

    def fail(self, verb: str, resource: str, reply: Reply, *, times: int = 1) -> None:
        """Answer the next requests of this kind with this reply."""
        self._replies += [(verb, resource, reply)] * times

    def cut(self, verb: str, resource: str, *, times: int = 1) -> None:
        """Close the connection instead of answering."""
        self.fail(verb, resource, Reply(0), times=times)

    @contextlib.contextmanager
    def hold(self, verb: str, resource: str) -> Iterator[None]:
        """Answer requests of this kind only after the block."""
        gate = (verb, resource, threading.Event())
        self._holds.append(gate)
        try:
            yield
        finally:
            self._holds.remove(gate)
            gate[2].set()

    def freeze(self) -> None:
        """Send no more changes to the open watches, without closing them. New watches work."""
        with self.cond:
            self._watches.clear()

    def drop_watches(self) -> None:
        """End the connections of all watches."""
        with self.cond:
            watches, self._watches = self._watches, []
        for watch in watches:
            watch.put(None)

    def send(self, event: Object) -> None:
        """Send this event to all open watches."""
        line = json.dumps(event).encode() + b"\n"
        with self.cond:
            for watch in self._watches:
                watch.put(line)

    def expire_watches(self) -> None:
        """Send all watches the error that their version is too old, as after a compaction."""
        status = status_of(410, "Expired", "too old resource version: 1 (2)")
        self.send({"type": "ERROR", "object": status})
        self.drop_watches()

    def wait_for(self, verb: str, resource: str, *, count: int = 1, limit_s: float = 10.0) -> list[Asked]:
        """Wait for this number of requests of this kind, and return them. Raises TimeoutError."""
        with self.cond:
            if not self.cond.wait_for(lambda: len(self.asked(verb, resource)) >= count, limit_s):
                raise TimeoutError(
                    f"{len(self.asked(verb, resource))} of {count} requests: {verb} {resource}"
                )
            return self.asked(verb, resource)

    def asked(self, verb: str, resource: str) -> list[Asked]:
        return [each for each in list(self.requests) if (each.verb, each.resource) == (verb, resource)]

    # Requests.

    def reply_to(self, asked: Asked) -> Reply | None:
        """Record the request and wait while it is held. Return the reply that a test has ordered, or None."""
        with self.cond:
            self.requests.append(asked)
            self.cond.notify_all()
        for verb, resource, gate in list(self._holds):
            if (verb, resource) == (asked.verb, asked.resource):
                gate.wait(60)
        for reply in list(self._replies):
            if reply[:2] == (asked.verb, asked.resource):
                self._replies.remove(reply)
                return reply[2]
        scheme, _, token = asked.headers.get("authorization", "").partition(" ")
        if self.token is not None and (scheme.lower(), token) != ("bearer", self.token):
            return Reply(401, "Unauthorized", "Unauthorized")
        return None

    def follow(self, asked: Asked) -> Iterator[bytes]:
        """Return the lines of a watch until its time has elapsed.

        Raise Refused (410), or ConnectionAbortedError if a test ends the watch.
        """
        version = int(asked.query["resourceVersion"])
        lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        with self.cond:
            self._seen_from(version)
            self._watches.append(lines)
        return self._lines(asked, version, lines)

    def _lines(self, asked: Asked, version: int, lines: queue.SimpleQueue[bytes | None]) -> Iterator[bytes]:
        end = time.monotonic() + float(asked.query.get("timeoutSeconds", 3600))
        while True:
            news = []
            with self.cond:
                if lines in self._watches:
                    news = self._news(version, asked)
                    if not news and lines.empty():
                        self.cond.wait(TICK_S)
                        news = self._news(version, asked)
                    if not news and lines.empty() and time.monotonic() > end:
                        self._watches.remove(lines)
                        return
                elif self._server is None:
                    raise ConnectionAbortedError
                elif lines.empty():
                    self.cond.wait(TICK_S)  # frozen
            for change in news:
                version = change.version
                yield json.dumps({"type": change.type, "object": change.object}).encode() + b"\n"
            while not lines.empty():
                line = lines.get()
                if line is None:
                    raise ConnectionAbortedError
                yield line

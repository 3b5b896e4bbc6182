"""Connection of the Python API to one experiment: requests to its server, which is started if necessary."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from nnimgr.client.errors import ClientError, ServerGone
from nnimgr.client.experiments import runs
from nnimgr.client.servers import DEFAULT_PORT, answering, connect, usable_port
from nnimgr.home import Home, HomeError
from nnimgr.index import Index, IndexEntry
from nnimgr.python.errors import Error, translated

if TYPE_CHECKING:
    from nnimgr.client.calls import Client

__all__ = ["Connection", "chosen_port"]

_MOST_PORTS = 100
_MOST_TRIES = 3


class Connection:
    """Requests about one experiment. Each method raises Error if the server refuses the request."""

    def __init__(self, home: Home, experiment_id: str) -> None:
        self.home = home
        self.id = experiment_id

    def entry(self) -> IndexEntry:
        """Return the experiment's entry in the index of experiments."""
        with translated():
            entry = Index(self.home).get(self.id)
        if entry is None:
            raise Error(f"There is no experiment {self.id}.", hint="See all: nnictl experiment list --all")
        return entry

    def client(self) -> Client:
        """Return a client of the experiment's server. Start the server if it does not run."""
        port = self.port()
        with translated():
            return connect(self.home, port)

    def port(self) -> int:
        """Return the port of the experiment's server. An ended experiment may have another one, if a program
        uses its port now.
        """
        entry = self.entry()
        with translated():
            if entry.port is None:
                return chosen_port(self.home)
            return entry.port if runs(entry) else usable_port(self.home, entry.port)

    def get(self, *path: str, **query: Any) -> Any:
        """Return the JSON answer to a GET request. ``path``: the path below the experiment."""
        client = self.client()
        with translated():
            return client.call("GET", "experiments", self.id, *path, timeout_s=None, **query)

    def get_now(self, *path: str, **query: Any) -> Any:
        """Return the JSON answer to a GET request, or None if no server answers it. No server is started."""
        try:
            port = self.entry().port
            client = None if port is None else answering(self.home, port)
            return None if client is None else client.get("experiments", self.id, *path, **query)
        except (ClientError, Error, HomeError):
            return None

    def read(self, *path: str, **query: Any) -> bytes:
        """Return the bytes of the answer to a GET request."""
        client = self.client()
        with translated():
            return b"".join(client.stream("experiments", self.id, *path, **query))

    def post(self, *path: str, body: Any = None) -> Any:
        client = self.client()
        with translated():
            return client.post("experiments", self.id, *path, body=body, timeout_s=None)

    def add(self, *path: str, body: Any) -> Any:
        """Return the JSON answer to a POST request that adds something.

        If the server ends before it answers, the request is repeated at the next server, with the same key.
        So nothing is added twice.
        """
        key = os.urandom(16).hex()
        for tries_left in reversed(range(_MOST_TRIES)):
            client = self.client()
            with translated():
                try:
                    return client.post("experiments", self.id, *path, body=body, timeout_s=None, key=key)
                except ServerGone:
                    if not tries_left:
                        raise
        raise AssertionError("unreachable")

    def change(self, changes: dict[str, Any]) -> Any:
        """Change fields of the experiment's configuration. Return the experiment's profile."""
        client = self.client()
        with translated():
            return client.call("PATCH", "experiments", self.id, body=changes, timeout_s=None)

    def pages(self, **query: Any) -> Iterator[dict[str, Any]]:
        """Yield the experiment's trials, in the server's form. They are read page by page."""
        offset, limit = 0, 1000
        while True:
            page = self.get("trials", offset=offset, limit=limit, **query)["trials"]
            yield from page
            offset += limit
            if len(page) < limit:
                return


def chosen_port(home: Home) -> int:
    """Return the port of a running server, or else a free port at which a server can be started."""
    running = [server.port for server in home.servers()]
    if running:
        return DEFAULT_PORT if DEFAULT_PORT in running else running[0]
    for port in range(DEFAULT_PORT, DEFAULT_PORT + _MOST_PORTS):
        with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    return DEFAULT_PORT

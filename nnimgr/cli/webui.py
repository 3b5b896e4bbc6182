"""``nnictl webui``: prints the address of the dashboard."""

from __future__ import annotations

import argparse

from nnimgr.cli.selection import client_of, entries_of, select
from nnimgr.cli.terminal import Terminal
from nnimgr.client.calls import Client
from nnimgr.client.errors import ClientError
from nnimgr.client.experiments import dashboard_address, runs
from nnimgr.client.servers import connect
from nnimgr.home import Home

__all__ = ["url"]


def url(args: argparse.Namespace, terminal: Terminal) -> int:
    """Print a new address of the dashboard. It logs in one browser, and works only once."""
    experiment_id, client = _server(Home.find(), args)
    address = dashboard_address(client, experiment_id)["url"]
    if terminal.as_json:
        terminal.json({"id": experiment_id, "url": address})
    terminal.say(address)
    if client.get("server").get("leaves"):  # a server of an earlier version does not say it
        longer = f"nnictl view {'ID' if experiment_id is None else experiment_id}"
        terminal.warn(
            "No experiment is active there, so the server ends after about half a minute. "
            f"To look at a stopped experiment for longer: {longer}"
        )
    return 0


def _server(home: Home, args: argparse.Namespace) -> tuple[str | None, Client]:
    """Return the id of the named experiment and a client of its server. Raise ClientError.

    If no experiment is named, return None and a client of the only running server, which shows all of its
    experiments.
    """
    if args.id is not None:
        entry = select(home, args.id, port=args.port)
        return entry.id, client_of(home, entry, port=args.port)
    ports = [server.port for server in home.servers() if args.port in (None, server.port)]
    if len(ports) > 1:  # prefer the server of running experiments
        used = {entry.port for entry in entries_of(home).values() if runs(entry)}
        ports = [port for port in ports if port in used] if len(used.intersection(ports)) == 1 else ports
    if len(ports) == 1:
        return None, connect(home, ports[0])
    if ports:
        raise ClientError(
            f"Several servers run, on the ports {', '.join(map(str, ports))}.",
            mend=f"Choose one: {{prog}} --port {ports[0]}",
        )
    if any(entry.status != "STOPPED" for entry in entries_of(home).values()):
        entry = select(home, None, port=args.port)  # its server opens it when started now
        return entry.id, client_of(home, entry, port=args.port)
    where = "" if args.port is None else f" on port {args.port}"
    raise ClientError(
        f"No server runs{where}.",
        mend="Start one: nnictl create --config exp.yml\n  Or without an experiment: nnimgr serve",
    )

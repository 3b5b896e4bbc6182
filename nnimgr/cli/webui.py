"""``nnictl webui``: the web page."""

from __future__ import annotations

import argparse

from nnimgr.cli.selection import client_of, select
from nnimgr.cli.terminal import Terminal
from nnimgr.home import Home

__all__ = ["url"]


def url(args: argparse.Namespace, terminal: Terminal) -> int:
    """Print a new address of the web page. Each address signs a browser in once."""
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    address = client_of(home, entry, port=args.port).post("server", "login-code")["url"]
    if terminal.as_json:
        terminal.json({"id": entry.id, "url": address})
    terminal.say(address)
    return 0

"""``nnictl experiment pareto``: the best trials for several objectives."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from nnimgr.cli.progress import number
from nnimgr.cli.selection import client_of, select
from nnimgr.cli.terminal import Terminal
from nnimgr.home import Home

__all__ = ["pareto"]

_MOST = 10_000  # the server's limit


def pareto(args: argparse.Namespace, terminal: Terminal) -> int:
    """List the trials of the Pareto set, the best one in the main objective first."""
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    client = client_of(home, entry, port=args.port)
    found = client.get("experiments", entry.id, "analysis", "pareto", filter=args.filter, limit=_MOST)
    if terminal.as_json:
        terminal.json(found)
        return 0
    names = [objective["name"] for objective in found["objectives"]]
    titles = [f"{objective['name']} ({objective['mode']})" for objective in found["objectives"]]
    rows = [["TRIAL", "NO.", *titles]]
    for trial in found["trials"]:
        values = [number(trial["values"][name]) for name in names]
        rows.append([trial["trialId"], str(trial["sequence"]), *values])
    terminal.say(_table(rows))
    if len(found["trials"]) < found["total"]:
        terminal.warn(f"These are {len(found['trials'])} of {found['total']} trials, spread evenly.")
    terminal.info(f"{found['total']} of {found['results']} trials with a result are in the Pareto set.")
    return 0


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Align names to the left and numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )

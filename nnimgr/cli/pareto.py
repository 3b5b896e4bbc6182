"""``nnictl experiment pareto``: the best trials of an experiment with several objectives."""

from __future__ import annotations

import argparse

from nnimgr.cli.progress import number
from nnimgr.cli.selection import client_of, select
from nnimgr.cli.table import Column, show_table
from nnimgr.cli.terminal import Terminal
from nnimgr.client.waits import waiting
from nnimgr.home import Home

__all__ = ["pareto"]

_MOST = 10_000  # largest number of trials that the server returns


def pareto(args: argparse.Namespace, terminal: Terminal) -> int:
    """List the Pareto set: no other trial is better in one objective and as good in all others.

    The trial with the best value of the main objective comes first.
    """
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    client = client_of(home, entry, port=args.port)
    path = ("experiments", entry.id, "analysis", "pareto")
    with waiting(f"computing the Pareto set of experiment {entry.id}"):
        found = client.call("GET", *path, timeout_s=None, filter=args.filter, limit=_MOST)
    if terminal.as_json:
        terminal.json(found)
        return 0
    names = [objective["name"] for objective in found["objectives"]]
    columns = [Column("TRIAL"), Column("NO.", "right")]
    for objective in found["objectives"]:
        title = f"{objective['name']} ({objective['mode']})"
        columns.append(Column(title, "right", gives_way=True, least=10))
    rows = [
        [trial["trialId"], str(trial["sequence"]), *(number(trial["values"][name]) for name in names)]
        for trial in found["trials"]
    ]
    if rows:
        show_table(terminal, columns, rows)
    if len(found["trials"]) < found["total"]:
        terminal.warn(f"The table shows {len(found['trials'])} of {found['total']} trials, spread evenly.")
    verb = "is" if found["total"] == 1 else "are"
    told = f"{found['total']} of {found['results']} trials with a result {verb} in the Pareto set."
    terminal.info(
        told if found["results"] or args.filter else "No trial has a usable result in all objectives yet."
    )
    return 0

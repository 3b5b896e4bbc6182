"""``nnictl top`` for several running experiments, refreshed repeatedly."""

from __future__ import annotations

import argparse
import time
from typing import Any

from nnimgr.cli.progress import number
from nnimgr.cli.selection import client_of, experiment_line, running_entries
from nnimgr.cli.terminal import CliError, Terminal
from nnimgr.cli.trials import all_trials
from nnimgr.home import Home
from nnimgr.index import IndexEntry

__all__ = ["overview"]

_CLEAR = "\x1b[H\x1b[2J"
_RUNNING = ["RUNNING", "UNKNOWN"]
_EVERY_S = 3.0


def overview(args: argparse.Namespace, terminal: Terminal) -> int:
    """Show the running experiments and their trials every ``--time`` seconds until none is left.

    If standard output is not a terminal, they are shown once.
    """
    home = Home.find()
    while entries := running_entries(home, port=args.port):
        seen = [_look(home, entry) for entry in entries]
        if terminal.as_json:
            terminal.json({"experiments": seen})
            return 0
        lines = [line for entry, found in zip(entries, seen, strict=True) for line in _lines(entry, found)]
        terminal.say((_CLEAR if terminal.live else "") + "\n".join(lines))
        if not terminal.live:
            return 0
        time.sleep(args.time or _EVERY_S)
    return 0


def _look(home: Home, entry: IndexEntry) -> dict[str, Any]:
    try:
        client = client_of(home, entry)
        profile = client.get("experiments", entry.id)
        return {"experiment": profile, "running": list(all_trials(client, entry.id, status=_RUNNING))}
    except CliError as error:  # the experiment may end at any moment
        return {"id": entry.id, "error": " ".join(error.lines)}


def _lines(entry: IndexEntry, found: dict[str, Any]) -> list[str]:
    lines = [experiment_line(entry)]
    if "error" in found:
        return [*lines, f"    {found['error']}"]
    profile = found["experiment"]
    counts = profile["counts"]
    by_status = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    lines.append(f"    Trials: {by_status or 'none'}")
    if profile["feasibleShare"] is not None:
        constraints = "; ".join(profile["config"]["searchSpaceConstraints"])
        share = f"{100 * profile['feasibleShare']:.3g} % of the search space"
        lines.append(f"    Constraints: {constraints} ({share})")
    return lines + [
        f"    Trial: {trial['id']}    No.: {trial['sequence']}    Status: {trial['status']}    "
        f"Latest: {number(trial['latestValue'])}"
        for trial in found["running"]
    ]

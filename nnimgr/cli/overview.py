"""``nnictl top`` if several experiments are open: a table of them, refreshed repeatedly while they run."""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime
from typing import Any

from nnimgr.cli.progress import finished_text, number, parameters_text
from nnimgr.cli.selection import (
    client_of,
    current_entries,
    ending_of,
    experiment_line,
    newest_first,
    running_entries,
    status_of,
)
from nnimgr.cli.table import Column, show_table
from nnimgr.cli.terminal import Terminal
from nnimgr.cli.times import duration_text, when
from nnimgr.cli.trials import all_trials
from nnimgr.client.errors import ClientError
from nnimgr.client.experiments import runs
from nnimgr.home import Home
from nnimgr.index import IndexEntry

__all__ = ["overview"]

_CLEAR = "\x1b[H\x1b[2J"
_RUNNING = ["RUNNING", "UNKNOWN"]
_EVERY_S = 3.0
_EXPERIMENTS = (
    Column("ID", gives_way=True, least=12),
    Column("NAME", gives_way=True, least=10),
    Column("STATUS"),
    Column("TRIALS", "right"),
    Column("BEST", "right"),
    Column("STARTED"),
)
_TRIALS = (
    Column("EXPERIMENT", gives_way=True, least=12),
    Column("NO.", "right"),
    Column("TRIAL"),
    Column("TIME", "right"),
    Column("LATEST", "right"),
    Column("PARAMETERS", gives_way=True, least=16),
)


def overview(args: argparse.Namespace, terminal: Terminal) -> int:
    """Show the running experiments and their trials every ``--time`` seconds, until no experiment runs.

    If standard output is not a terminal, they are shown only once. If no experiment runs, those that have
    ended and are still open are shown once, and the newest one if it was stopped without a user.
    """
    home = Home.find()
    entries = current_entries(home, port=args.port)
    running = any(map(runs, entries))
    while entries:
        seen = [_look(home, entry) for entry in entries]
        if terminal.as_json:
            terminal.json({"experiments": seen})
            return 0
        if terminal.live and running:
            terminal.out.write(_CLEAR)
        if terminal.for_people:
            _show(entries, seen, terminal)
        else:
            terminal.say(
                "\n".join(line for each in zip(entries, seen, strict=True) for line in _lines(*each))
            )
        if not terminal.live or not running:
            return 0
        time.sleep(args.time or _EVERY_S)
        entries = running_entries(home, port=args.port)
    return 0


def _look(home: Home, entry: IndexEntry) -> dict[str, Any]:
    try:
        client = client_of(home, entry)
        profile = client.get("experiments", entry.id)
        return {"experiment": profile, "running": list(all_trials(client, entry.id, status=_RUNNING))}
    except ClientError as error:  # the experiment may have ended at this moment
        return {"id": entry.id, "error": " ".join(error.lines)}


def _show(entries: list[IndexEntry], seen: list[dict[str, Any]], terminal: Terminal) -> None:
    """Print a table of the running experiments, and a table of their running trials."""
    now = datetime.now(UTC)
    rows, trials, troubles = [], [], []
    for entry, found in zip(entries, seen, strict=True):
        if "error" in found:
            rows.append((entry.id, entry.name, status_of(entry), "-", "-", when(entry.started_at)))
            troubles.append(f"{entry.id}: {found['error']}")
            continue
        if entry.status == "STOPPED":
            troubles.append(f"Experiment {entry.id} is {ending_of(entry)}")
        profile = found["experiment"]
        best = profile["bestTrial"]
        rows.append(
            (
                entry.id,
                entry.name or "-",
                profile["status"],
                finished_text(profile),
                "-" if best is None else number(best["value"]),
                when(entry.started_at),
            )
        )
        for trial in found["running"]:
            since = trial["startedAt"]
            age = None if since is None else (now - datetime.fromisoformat(since)).total_seconds()
            latest, parameters = number(trial["latestValue"]), parameters_text(trial["parameters"])
            trials.append(
                (entry.id, str(trial["sequence"]), trial["id"], duration_text(age), latest, parameters)
            )
    show_table(terminal, _EXPERIMENTS, rows)
    if trials:
        terminal.say("")
        show_table(terminal, _TRIALS, trials)
    for trouble in troubles:
        terminal.warn(trouble)
    terminal.say("")
    watched = [entry for entry in entries if runs(entry)] or entries
    terminal.say(f"Watch one experiment: nnictl top {newest_first(watched)[0].id}")
    if terminal.live and any(map(runs, entries)):
        terminal.say("Leave: Ctrl-C")


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

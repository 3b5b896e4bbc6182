"""``nnictl trial``: ls, kill, rerun."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from nnimgr.cli.client import Client
from nnimgr.cli.selection import client_of, select
from nnimgr.cli.terminal import Terminal, shown_time
from nnimgr.home import Home

__all__ = ["all_trials", "kill", "list_all", "rerun"]

_PAGE = 1000


def list_all(args: argparse.Namespace, terminal: Terminal) -> int:
    """The trials in NNI's form (``--json``: as the server gives them)."""
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    client = client_of(home, entry, port=args.port)
    count = args.head or args.tail
    if count:
        trials = _best(client, entry.id, count, descending=args.head is not None)
    else:
        trials = list(all_trials(client, entry.id))
    if terminal.as_json:
        terminal.json({"trials": trials})
    else:
        terminal.nni_json([_nni_trial(trial, entry.directory) for trial in trials])
    return 0


def kill(args: argparse.Namespace, terminal: Terminal) -> int:
    """Stop a trial; what is stopped ends soon after."""
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    client_of(home, entry, port=args.port).post("experiments", entry.id, "trials", args.trial_id, "stop")
    terminal.info(f"Trial {args.trial_id} is being stopped.")
    if terminal.as_json:
        terminal.json({"id": args.trial_id})
    return 0


def rerun(args: argparse.Namespace, terminal: Terminal) -> int:
    """Run failed trials again, each as a new trial."""
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    body = {} if args.failed else {"trialIds": args.trial_id}
    started = client_of(home, entry, port=args.port).post("experiments", entry.id, "rerun", body=body)
    for trial in started["trials"]:
        terminal.info(f"Trial {trial['retryOf']} is run again as trial {trial['id']}.")
    if not started["trials"]:
        terminal.info("No trial has failed that was not run again already.")
    if terminal.as_json:
        terminal.json(started)
    return 0


def all_trials(client: Client, experiment_id: str, **query: Any) -> Iterator[dict[str, Any]]:
    """All trials of an experiment, page by page."""
    offset = 0
    while True:
        page = client.get("experiments", experiment_id, "trials", offset=offset, limit=_PAGE, **query)
        yield from page["trials"]
        offset += len(page["trials"])
        if not page["trials"] or offset >= page["total"]:
            return


def _best(client: Client, experiment_id: str, count: int, *, descending: bool) -> list[dict[str, Any]]:
    """The ``count`` trials with the largest or smallest results; only those that have one that counts."""
    order = "desc" if descending else "asc"
    found = []
    for trial in all_trials(client, experiment_id, sort="value", order=order, status=["SUCCEEDED"]):
        if trial["finalValue"] is not None:
            found.append(trial)
        if len(found) == count:
            break
    return found


def _nni_trial(trial: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    record = {
        "parameter_id": trial["parameterId"],
        "parameter_source": trial["source"],
        "parameters": trial["parameters"],
        "parameter_index": 0,
    }
    shown = {
        "trialJobId": trial["id"],
        "status": "WAITING" if trial["status"] == "PAUSED" else trial["status"],
        "hyperParameters": [json.dumps(record)],
        "sequenceId": trial["sequence"],
        "startTime": shown_time(trial["startedAt"] or trial["createdAt"]),
        "logPath": str(directory / "trials" / trial["id"]),
    }
    if trial["endedAt"] is not None:
        shown["endTime"] = shown_time(trial["endedAt"])
    if trial["reason"]:
        shown["message"] = trial["reason"]
    if trial["status"] == "SUCCEEDED" and trial["finalText"] is not None:
        parameter_id = trial["parameterId"]
        shown["finalMetricData"] = [
            {
                "timestamp": int(datetime.fromisoformat(trial["endedAt"]).timestamp() * 1000),
                "trialJobId": trial["id"],
                "parameterId": None if parameter_id is None else str(parameter_id),
                "type": "FINAL",
                "sequence": 0,
                "data": json.dumps(trial["finalText"]),
            }
        ]
    return shown

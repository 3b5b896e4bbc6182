"""``nnictl trial``: ls, kill, lost, rerun."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from nnimgr.cli.client import Client
from nnimgr.cli.selection import client_of, select
from nnimgr.cli.terminal import CliError, Terminal, confirmed, shown_time
from nnimgr.home import Home

__all__ = ["all_trials", "kill", "list_all", "lost", "rerun"]

_PAGE = 1000


def list_all(args: argparse.Namespace, terminal: Terminal) -> int:
    """List the trials in NNI's form. With ``--json``, use the server's form."""
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
        terminal.nni_json([_nni_trial(trial) for trial in trials])
    return 0


def kill(args: argparse.Namespace, terminal: Terminal) -> int:
    """Stop a trial. It ends soon afterwards."""
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    client_of(home, entry, port=args.port).post("experiments", entry.id, "trials", args.trial_id, "stop")
    terminal.info(f"Trial {args.trial_id} is being stopped.")
    if terminal.as_json:
        terminal.json({"id": args.trial_id})
    return 0


def lost(args: argparse.Namespace, terminal: Terminal) -> int:
    """Declare the attempt of a trial lost, because its machine is silent."""
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    client = client_of(home, entry, port=args.port)
    if not args.yes:
        question = (
            f"Will the machine of trial {args.trial_id} not come back? If the trial runs there yet, it runs "
            "twice until that machine is heard of, and what that attempt reports is not counted. Count it as "
            "lost?"
        )
        if not confirmed(question):
            raise CliError("The trial is left as it is.")
    client.post("experiments", entry.id, "trials", args.trial_id, "lost")
    terminal.info(f"Trial {args.trial_id} counts as lost; it is tried anew as often as maxRetries allows.")
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
    """Yield all trials of an experiment, page by page."""
    offset = 0
    while True:
        page = client.get("experiments", experiment_id, "trials", offset=offset, limit=_PAGE, **query)
        yield from page["trials"]
        offset += len(page["trials"])
        if not page["trials"] or offset >= page["total"]:
            return


def _best(client: Client, experiment_id: str, count: int, *, descending: bool) -> list[dict[str, Any]]:
    """Return the ``count`` trials with the largest or smallest results.

    Trials without a result are left out.
    """
    order = "desc" if descending else "asc"
    found = []
    for trial in all_trials(client, experiment_id, sort="value", order=order, status=["SUCCEEDED"]):
        if trial["finalValue"] is not None:
            found.append(trial)
        if len(found) == count:
            break
    return found


def _nni_trial(trial: Mapping[str, Any]) -> dict[str, Any]:
    sets = trial["sets"] or [trial]
    shown = {
        "trialJobId": trial["id"],
        "status": "WAITING" if trial["status"] == "PAUSED" else trial["status"],
        "hyperParameters": [_record(trial, index, held) for index, held in enumerate(sets)],
        "sequenceId": trial["sequence"],
        "startTime": shown_time(trial["startedAt"] or trial["createdAt"]),
        "logPath": trial["logPath"],
    }
    if trial["endedAt"] is not None:
        shown["endTime"] = shown_time(trial["endedAt"])
    if trial["reason"]:
        shown["message"] = trial["reason"]
    finals = [held for held in sets if held["finalText"] is not None]
    if trial["status"] == "SUCCEEDED" and finals:
        shown["finalMetricData"] = [_metric(trial, held) for held in finals]
    return shown


def _record(trial: Mapping[str, Any], index: int, held: Mapping[str, Any]) -> str:
    """Return a parameter set of the trial in NNI's form. A single-phase trial stands for its only set."""
    source = "algorithm" if index else trial["source"]
    record = {
        "parameter_id": held["parameterId"],
        "parameter_source": "resumed" if source == "rerun" else source,
        "parameters": held["parameters"],
        "parameter_index": index,
    }
    return json.dumps(record)


def _metric(trial: Mapping[str, Any], held: Mapping[str, Any]) -> dict[str, Any]:
    parameter_id = held["parameterId"]
    return {
        "timestamp": int(datetime.fromisoformat(trial["endedAt"]).timestamp() * 1000),
        "trialJobId": trial["id"],
        "parameterId": None if parameter_id is None else str(parameter_id),
        "type": "FINAL",
        "sequence": 0,
        "data": json.dumps(held["finalText"]),
    }

"""``nnictl log``: show the logs of an experiment, and the output of its trials."""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from nnimgr.cli.selection import client_of, select
from nnimgr.cli.summary import failure_lines
from nnimgr.cli.terminal import Terminal
from nnimgr.cli.trials import all_trials, file_sentence, trial_named
from nnimgr.client.calls import Client
from nnimgr.client.errors import ClientError
from nnimgr.client.waits import awaited
from nnimgr.home import Home
from nnimgr.index import IndexEntry

__all__ = ["stderr", "stdout", "trial"]


def stdout(args: argparse.Namespace, terminal: Terminal) -> int:
    """Show the output of the server that runs the experiment."""
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    return _show(
        entry, [entry.directory / "log" / "nnictl_stdout.log", *_server_log(home, entry)], args, terminal
    )


def stderr(args: argparse.Namespace, terminal: Terminal) -> int:
    """Show the output of the experiment's tuner and assessor."""
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    log = entry.directory / "log"
    return _show(entry, [log / "nnictl_stderr.log", log / "dispatcher.log"], args, terminal)


def trial(args: argparse.Namespace, terminal: Terminal) -> int:
    """Show the output of a trial, or the path of the trial's folder in NNI's format.

    A terminal gets the output, or the folder with ``--path``. A pipe gets the folder, as in NNI, or the
    output with ``--follow``, ``--file`` or ``--tail``. If no trial is named, the folders of all trials are
    shown.
    """
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    client = client_of(home, entry, port=args.port)
    wanted = args.follow or args.file or args.tail is not None
    if wanted and args.trial_id is None:
        raise ClientError("Name the trial whose output you want.", mend=f"{{prog}} {entry.id} -T 0")
    if args.trial_id is None:
        shown = list(all_trials(client, entry.id))
    else:
        shown = [trial_named(client, entry.id, args.trial_id)]
        if wanted or (terminal.for_people and not args.path):
            return _copy(client, entry, shown[0], args, terminal)
    places = {each["id"]: each["logPath"] for each in shown}
    if terminal.as_json:
        terminal.json({"trials": [{"id": key, "path": value} for key, value in places.items()]})
    for trial_id, place in places.items():
        terminal.say(f"id:{trial_id} path:{place}")
    return 0


def _copy(
    client: Client,
    entry: IndexEntry,
    trial: Mapping[str, Any],
    args: argparse.Namespace,
    terminal: Terminal,
) -> int:
    """Print one file of a trial: the file named with ``--file``, or the trial's standard output."""
    name = args.file or "stdout"
    path = ("experiments", entry.id, "trials", trial["id"], "logs", name)
    query: dict[str, object] = {"follow": "true"} if args.follow else {}
    if args.tail is not None:
        query["tail"] = args.tail
    chunks = awaited(client.stream(*path, **query), file_sentence(entry, trial, name))
    if terminal.as_json:
        text = b"".join(chunks).decode("utf-8", "replace")
        terminal.json({"trial": trial["id"], "file": name, "text": text})
        return 0
    size = 0
    for chunk in chunks:
        size += len(chunk)
        terminal.out.buffer.write(chunk)
        terminal.out.buffer.flush()
    if not size and terminal.for_people:
        terminal.warn(f"Trial {trial['sequence']} has printed nothing to {name}.")
    if not args.file and terminal.for_people and trial["status"] == "FAILED":
        terminal.warn("\n".join(failure_lines(trial, entry.id)))
    return 0


def _server_log(home: Home, entry: IndexEntry) -> list[Path]:
    return [] if entry.port is None else [home.server_log_path(entry.port)]


def _show(entry: IndexEntry, paths: list[Path], args: argparse.Namespace, terminal: Terminal) -> int:
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise ClientError(
            f"Experiment {entry.id} has not written this log: {paths[-1]} does not exist.",
            mend=f"See the output of its trials: nnictl log trial {entry.id} -T 0",
        )
    if args.path:
        terminal.say(str(path))
        lines: list[str] = []
    else:
        with open(path, encoding="utf-8", errors="replace") as file:
            if args.tail:
                lines = list(deque(file, maxlen=args.tail))
            else:
                lines = list(islice(file, args.head))
    if terminal.as_json:
        terminal.json({"path": str(path), "lines": [line.rstrip("\n") for line in lines]})
    else:
        terminal.out.writelines(lines)
    return 0

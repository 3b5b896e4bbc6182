"""``nnictl log``: the logs of an experiment, and the output of its trials."""

from __future__ import annotations

import argparse
from collections import deque
from itertools import islice
from pathlib import Path

from nnimgr.cli.selection import client_of, select
from nnimgr.cli.terminal import CliError, Terminal
from nnimgr.cli.trials import all_trials
from nnimgr.home import Home
from nnimgr.index import IndexEntry

__all__ = ["stderr", "stdout", "trial"]


def stdout(args: argparse.Namespace, terminal: Terminal) -> int:
    """Show the output of the experiment's server."""
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
    """Show the folders of trials, or with ``--follow``, ``--file`` or ``--tail`` the output of one trial."""
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    client = client_of(home, entry, port=args.port)
    if args.follow or args.file or args.tail is not None:
        if args.trial_id is None:
            raise CliError("Say whose output is meant: --trial_id TRIAL.")
        path = ("experiments", entry.id, "trials", args.trial_id, "logs", args.file or "stdout")
        query: dict[str, object] = {"follow": "true"} if args.follow else {}
        if args.tail is not None:
            query["tail"] = args.tail
        if terminal.as_json:
            text = b"".join(client.stream(*path, **query)).decode("utf-8", "replace")
            terminal.json({"trial": args.trial_id, "file": args.file or "stdout", "text": text})
            return 0
        for chunk in client.stream(*path, **query):
            terminal.out.buffer.write(chunk)
            terminal.out.buffer.flush()
        return 0
    if args.trial_id is None:
        shown = list(all_trials(client, entry.id))
    else:
        shown = [client.get("experiments", entry.id, "trials", args.trial_id)]
    places = {each["id"]: each["logPath"] for each in shown}
    if terminal.as_json:
        terminal.json({"trials": [{"id": key, "path": value} for key, value in places.items()]})
    for trial_id, place in places.items():
        terminal.say(f"id:{trial_id} path:{place}")
    return 0


def _server_log(home: Home, entry: IndexEntry) -> list[Path]:
    return [] if entry.port is None else [home.server_log_path(entry.port)]


def _show(entry: IndexEntry, paths: list[Path], args: argparse.Namespace, terminal: Terminal) -> int:
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise CliError(f"Experiment {entry.id} has no such log: there is no {paths[-1]}.")
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

"""``nnictl log``: show the logs of an experiment, and the output of its trials."""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from nnimgr.cli.failures import failure_lines, has_output
from nnimgr.cli.selection import client_of, select
from nnimgr.cli.table import Column, show_table
from nnimgr.cli.terminal import Terminal
from nnimgr.cli.trials import all_trials, file_sentence, trial_named
from nnimgr.client.calls import Client
from nnimgr.client.errors import ClientError
from nnimgr.client.waits import awaited
from nnimgr.home import Home
from nnimgr.index import IndexEntry
from training_services.keepers.names import ASK, why_no_files

__all__ = ["stderr", "stdout", "trial"]

_FOLDERS = (Column("NO.", "right"), Column("ID"), Column("FOLDER", gives_way=True, least=20))


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
    """Show the output of an attempt of a trial, or the path of the attempt's folder.

    A terminal gets the output. A pipe gets the path in NNI's format, or the output with ``--follow``,
    ``--file``, ``--tail`` or ``--member``. With ``--path``, both get the path alone. Without a trial, the
    paths of all trials are shown, to a terminal as a table. Without ``--attempt``, it is the latest attempt.
    """
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    client = client_of(home, entry, port=args.port)
    wanted = args.follow or args.file or args.tail is not None or args.member is not None
    if args.trial_id is None:
        if wanted or args.attempt is not None:
            mend = f"For example: {{command {entry.id}}} -T 0"
            raise ClientError("Name the trial whose output you want.", mend=mend)
        trials = list(all_trials(client, entry.id))
        if terminal.for_people and not args.path:
            _show_folders(trials, entry, terminal)
            return 0
        places = {each["id"]: each["logPath"] for each in trials}
    else:
        shown = trial_named(client, entry.id, args.trial_id)
        if not has_output(shown):
            raise _no_output(client, entry, shown)
        if wanted or (terminal.for_people and not args.path):
            return _copy(client, entry, shown, args, terminal)
        places = {shown["id"]: _folder(client, entry, shown, args.attempt)}
    if terminal.as_json:
        terminal.json({"trials": [{"id": key, "path": value} for key, value in places.items()]})
    elif not args.path and terminal.err.isatty():
        folders = "folders of the trials" if args.trial_id is None else "folder of the trial"
        more = "-T TRIAL --follow" if args.trial_id is None else "--follow"
        terminal.warn(f"A pipe gets the {folders}, as in NNI. To get the output, add {more}.")
    for trial_id, place in places.items():
        terminal.say(place if args.path else f"id:{trial_id} path:{place}")
    return 0


def _no_output(client: Client, entry: IndexEntry, trial: Mapping[str, Any]) -> ClientError:
    """Return the error for a trial that no keeper has run, so that nnimgr has no output of it."""
    jobs = client.get("experiments", entry.id, "trials", trial["id"])["jobs"]
    why = why_no_files(jobs[-1]["keeperId"] if jobs else ASK)
    return ClientError(
        f"Trial {trial['sequence']} ({trial['id']}) {why}, so nnimgr has no output and no files of it.",
        mend=f"See how it ended: nnictl trial show {entry.id} -T {trial['sequence']}",
    )


def _show_folders(trials: Sequence[Mapping[str, Any]], entry: IndexEntry, terminal: Terminal) -> None:
    """Print a table of the trials' folders, and the command that prints what a trial has printed."""
    if not trials:
        terminal.say(f"Experiment {entry.id} has no trials.")
        return
    show_table(
        terminal, _FOLDERS, [(str(each["sequence"]), each["id"], each["logPath"] or "-") for each in trials]
    )
    if has_output(trials[-1]):
        terminal.say(f"See what a trial has printed: nnictl log trial {entry.id} -T {trials[-1]['sequence']}")


def _folder(client: Client, entry: IndexEntry, trial: Mapping[str, Any], attempt: int | None) -> str:
    """Return the path of the folder of an attempt. None: the latest attempt. Raise ClientError."""
    if attempt is None:
        return str(trial["logPath"])
    jobs = client.get("experiments", entry.id, "trials", trial["id"])["jobs"]
    found = next((job["logPath"] for job in jobs if job["attempt"] == attempt), None)
    if found is None:
        latest = max((job["attempt"] for job in jobs), default=trial["attempt"])
        raise ClientError(
            f"Trial {trial['sequence']} ({trial['id']}) has no attempt {attempt}; its latest is {latest}.",
            mend=f"See the latest: nnictl log trial {entry.id} -T {trial['sequence']}",
        )
    return str(found)


def _copy(
    client: Client,
    entry: IndexEntry,
    trial: Mapping[str, Any],
    args: argparse.Namespace,
    terminal: Terminal,
) -> int:
    """Print one file of an attempt: the file named with ``--file``, or the standard output.

    Without ``--attempt``, the latest attempt that has started is shown. A warning names it if there are
    others.
    """
    name = args.file or "stdout"
    path = ("experiments", entry.id, "trials", trial["id"], "logs", name)
    attempt, others = args.attempt, ""
    if attempt is None and trial["attempt"] > 1:
        attempt, others = _latest(client, entry, trial, name, member=args.member)
    query: dict[str, object] = {"follow": "true"} if args.follow else {}
    query |= {
        key: value
        for key, value in (("tail", args.tail), ("attempt", attempt), ("member", args.member))
        if value is not None
    }
    page = f"nnictl trial show {entry.id} -T {trial['sequence']}"
    client.mends = {**client.mends, 404: f"See the trial's attempts and files: {page}"}
    chunks = awaited(client.stream(*path, **query), file_sentence(entry, trial, name))
    if terminal.as_json:
        text = b"".join(chunks).decode("utf-8", "replace")
        terminal.json({"trial": trial["id"], "attempt": attempt or 1, "file": name, "text": text})
        return 0
    size = 0
    for chunk in chunks:
        size += len(chunk)
        terminal.out.buffer.write(chunk)
        terminal.out.buffer.flush()
    if not size and terminal.for_people:
        terminal.warn(f"Trial {trial['sequence']} has printed nothing to {name}.")
    if others:
        terminal.warn(others)
    if not args.file and terminal.for_people:
        _say_what_went_wrong(trial, entry, terminal)
    return 0


def _latest(
    client: Client, entry: IndexEntry, trial: Mapping[str, Any], name: str, *, member: int | None
) -> tuple[int | None, str]:
    """Return the number of the trial's latest attempt that has got a place, and a sentence about the others.

    Return None and "" if no attempt has got a place.
    """
    jobs = client.get("experiments", entry.id, "trials", trial["id"])["jobs"]
    latest = max((job["attempt"] for job in jobs if job["keeperId"] is not None), default=None)
    if latest is None:
        return None, ""
    waits = f" Attempt {trial['attempt']} has not started yet." if latest < trial["attempt"] else ""
    which = f"This is attempt {latest} of trial {trial['sequence']} ({trial['id']}), the latest"
    which += f" that has started.{waits}" if waits else "."
    first = f"nnictl log trial {entry.id} -T {trial['sequence']} --file {name} --attempt 1"
    first += "" if member is None else f" --member {member}"
    return latest, which if latest == 1 else f"{which} See the first: {first}"


def _say_what_went_wrong(trial: Mapping[str, Any], entry: IndexEntry, terminal: Terminal) -> None:
    """Warn if the trial has failed or has no usable result, with the command that prints its stderr."""
    if trial["status"] == "FAILED":
        reason, *command = failure_lines(trial, entry.id)
        terminal.warn("\n".join([reason, *(line for line in command if "--file" in line)]))
    elif trial.get("noResult"):
        terminal.warn(f"Trial {trial['sequence']} ({trial['id']}) {trial['status']}: {trial['reason']}")


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
        if not lines and not args.path:
            terminal.warn(f"Nothing has been written to this log: {path}")
    return 0

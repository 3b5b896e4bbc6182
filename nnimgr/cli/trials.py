"""``nnictl trial``: the verbs ls, stop, pause, resume, save, fork, lost and retry."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from nnimgr.cli.failures import cause_lines, reason_lines
from nnimgr.cli.progress import parameters_text
from nnimgr.cli.selection import client_of, select
from nnimgr.cli.summary import LATEST, best_with_time, counts_text, goal_of, result_text
from nnimgr.cli.table import Column, show_table
from nnimgr.cli.terminal import Terminal, confirmed, shown_time
from nnimgr.cli.times import duration_text
from nnimgr.client.calls import Client
from nnimgr.client.errors import ClientError
from nnimgr.client.experiments import ENDED
from nnimgr.home import Home
from nnimgr.index import IndexEntry

__all__ = [
    "all_trials",
    "checkpoint_name",
    "file_sentence",
    "fork",
    "list_all",
    "lost",
    "pause",
    "resume",
    "retry",
    "save",
    "stop",
    "to_change",
    "trial_named",
]

_PAGE = 1000
_MOST_CANDIDATES = 10
_MOST_DIGITS = 18
_COLUMNS = (
    Column("NO.", "right"),
    Column("ID"),
    Column("STATUS"),
    Column("RESULT", "right", gives_way=True, least=10),
    Column("TIME", "right"),
    Column("TAGS", gives_way=True, least=8, optional=True),
    Column("PARAMETERS", gives_way=True, least=16),
)


def list_all(args: argparse.Namespace, terminal: Terminal) -> int:
    """List the trials: as a table on a terminal, in NNI's format in a pipe.

    With ``--json``, the list has the server's format.
    """
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    client = client_of(home, entry, port=args.port)
    for_nni = not terminal.as_json and not terminal.for_people
    if args.head or args.tail:
        trials = _outermost(client, entry.id, args, terminal, for_nni=for_nni)
    else:
        trials = list(all_trials(client, entry.id))
    if for_nni:
        terminal.nni_json([_nni_trial(trial) for trial in trials])
    elif terminal.as_json:
        terminal.json({"trials": trials})
    else:
        _show(trials, client, entry.id, terminal)
    return 0


def _show(trials: list[dict[str, Any]], client: Client, experiment_id: str, terminal: Terminal) -> None:
    """Print trials as a table. Below it, print the number of all trials of the experiment by status."""
    profile, now = client.get("experiments", experiment_id), datetime.now(UTC)
    rows = [
        (
            str(trial["sequence"]),
            trial["id"],
            trial["status"],
            result_text(trial),
            duration_text(_seconds(trial, now)),
            ", ".join(trial["tags"]),
            parameters_text(trial["parameters"]),
        )
        for trial in trials
    ]
    if rows:
        show_table(terminal, _COLUMNS, rows)
    terminal.say(f"Trials: {counts_text(profile)}")
    terminal.say(f"Goal: {goal_of(profile)}")
    if profile["bestTrial"] is not None:
        terminal.say(f"Best: {best_with_time(client, profile)}")
    if any(row[3].startswith(LATEST) for row in rows):
        terminal.say(f"{LATEST}: the latest intermediate result of a trial without a final result")
    for line in (*cause_lines(trials, experiment_id), *reason_lines(trials, experiment_id)):
        terminal.say(line)


def _seconds(trial: Mapping[str, Any], now: datetime) -> float | None:
    if trial["startedAt"] is None or trial["status"] == "PAUSED":
        return None
    end = now if trial["endedAt"] is None else datetime.fromisoformat(trial["endedAt"])
    return max(0.0, (end - datetime.fromisoformat(trial["startedAt"])).total_seconds())


def stop(args: argparse.Namespace, terminal: Terminal) -> int:
    """Stop a trial. The trial ends soon after the command."""
    return _change(args, terminal, "stop", "is being stopped.")


def pause(args: argparse.Namespace, terminal: Terminal) -> int:
    """Pause a trial. Its processes end soon after the command."""
    continued = "To continue it: nnictl trial resume {id} -T {no}"
    return _change(
        args,
        terminal,
        "pause",
        f"is being paused. {continued}",
        already=("PAUSED", f"is paused already. {continued}"),
    )


def save(args: argparse.Namespace, terminal: Terminal) -> int:
    """Ask a running trial to save its state. The trial runs on."""
    return _change(
        args,
        terminal,
        "save",
        "is asked to save its state. If its code does not look for such requests (nni.should_checkpoint), "
        "a notice says so. See the notice and the checkpoints: nnictl trial show {id} -T {no}",
    )


def resume(args: argparse.Namespace, terminal: Terminal) -> int:
    """Continue a paused trial."""
    return _change(args, terminal, "resume", "continues as soon as a slot is free.")


def _change(
    args: argparse.Namespace,
    terminal: Terminal,
    verb: str,
    done: str,
    *,
    already: tuple[str, str] = ("", ""),
) -> int:
    """Ask the server to change a trial. ``done``: the end of the sentence that confirms the change.

    ``already``: a status, and the end of the sentence instead if the trial had this status before.
    """
    client, entry = to_change(args)
    trial = trial_named(client, entry.id, args.trial_id)
    client.post("experiments", entry.id, "trials", trial["id"], verb)
    done = already[1] if trial["status"] == already[0] else done
    sentence = done.format(id=entry.id, no=trial["sequence"])
    terminal.info(f"Trial {trial['sequence']} ({trial['id']}) {sentence}")
    if terminal.as_json:
        terminal.json({"id": trial["id"]})
    return 0


def fork(args: argparse.Namespace, terminal: Terminal) -> int:
    """Add a trial that continues from a checkpoint of another trial."""
    client, entry = to_change(args)
    trial = trial_named(client, entry.id, args.trial_id)
    wanted: dict[str, Any] = {}
    if args.checkpoint is not None:
        wanted["checkpoint"] = checkpoint_name(args.checkpoint)
    if args.changes:
        wanted["parameters"] = _changed(trial["parameters"], args.changes)
    made = client.post("experiments", entry.id, "trials", trial["id"], "fork", body=wanted)
    terminal.info(
        f"Trial {made['sequence']} ({made['id']}) continues from a checkpoint of trial {trial['sequence']} "
        "as soon as a slot is free."
    )
    if terminal.as_json:
        terminal.json(made)
    return 0


def checkpoint_name(text: str) -> dict[str, int]:
    """Return the checkpoint with this name: the number of its attempt, a dot, and its number there."""
    attempt, _, number = text.partition(".")
    if not (attempt.isdigit() and number.isdigit()):
        raise ClientError(
            f"--checkpoint must be the number of an attempt and of its checkpoint, such as 1.8, not {text!r}"
        )
    return {"attempt": int(attempt), "number": int(number)}


def _changed(parameters: Any, changes: Sequence[str]) -> dict[str, Any]:
    """Return the parameters with the changes, each of which is "name=value"."""
    changed = dict(parameters)
    for change in changes:
        name, is_change, text = change.partition("=")
        if not is_change or name not in changed:
            names = ", ".join(changed)
            raise ClientError(
                f"--set must be NAME=VALUE with the name of a parameter ({names}), not {change!r}"
            )
        try:
            changed[name] = json.loads(text)
        except ValueError:
            changed[name] = text
    return changed


def lost(args: argparse.Namespace, terminal: Terminal) -> int:
    """Declare the attempt of a trial lost, because the machine where it ran does not answer."""
    client, entry = to_change(args)
    trial = trial_named(client, entry.id, args.trial_id)
    if trial["status"] != "UNKNOWN":
        raise ClientError(
            f"Trial {trial['sequence']} ({trial['id']}) is {trial['status']}: only an UNKNOWN trial, whose "
            "machine does not answer, can be given up.",
            mend=f"See the trials: nnictl trial ls {entry.id}",
        )
    if not args.yes:
        question = (
            f"Give up trial {trial['sequence']} ({trial['id']}) on its machine, and start it again on "
            "another one? Other trials are not touched. If it still runs there, it runs twice until that "
            "machine answers again; the results of the old attempt are not counted."
        )
        if not confirmed(question):
            mend = f"Skip this question: {{command {entry.id}}} --yes"
            raise ClientError("Nothing was changed.", mend=mend)
    client.post("experiments", entry.id, "trials", trial["id"], "lost")
    terminal.info(
        f"Trial {trial['sequence']} ({trial['id']}) counts as lost; it is started again as often as "
        "maxRetries allows."
    )
    if terminal.as_json:
        terminal.json({"id": trial["id"]})
    return 0


def retry(args: argparse.Namespace, terminal: Terminal) -> int:
    """Retry failed trials. Each retry is a new trial."""
    client, entry = to_change(args)
    if args.failed:
        meant, body = list(all_trials(client, entry.id, status=["FAILED"])), {}
    else:
        meant = [trial_named(client, entry.id, word) for word in args.trial_id]
        body = {"trialIds": [trial["id"] for trial in meant]}
    numbers = {trial["id"]: trial["sequence"] for trial in meant}
    started = client.post("experiments", entry.id, "rerun", body=body)
    for trial in started["trials"]:
        before = trial["retryOf"]
        before = f"{numbers[before]} ({before})" if before in numbers else before  # it may have just failed
        terminal.info(f"Trial {before} is retried as trial {trial['sequence']} ({trial['id']}).")
    if not started["trials"]:
        terminal.info("No failed trial is left to retry.")
    if terminal.as_json:
        terminal.json(started)
    return 0


def to_change(args: argparse.Namespace) -> tuple[Client, IndexEntry]:
    """Return the experiment that is meant, and a client of its server, to change one of its trials."""
    home = Home.find()
    entry = select(home, args.id, port=args.port, to_change=True)
    client = client_of(home, entry, port=args.port)
    client.mends = {**client.mends, **_mends_of_open(client, entry)}
    return client, entry


def _mends_of_open(client: Client, entry: IndexEntry) -> dict[int, str]:
    """Return the command to suggest after an HTTP status that refuses a change of a trial.

    Return nothing if no server has the experiment open, or it is only viewed: then another command helps.
    """
    closed = entry.status in ("STOPPED", "VIEWED")
    if entry.status in ENDED and not closed:
        closed = not client.get("experiments", entry.id).get("served", True)
    return {} if closed else {409: f"See the trials: nnictl trial ls {entry.id}"}


def file_sentence(entry: IndexEntry, trial: Mapping[str, Any], name: str) -> str:
    """Return a sentence for the user while a command waits for the file ``name`` of a trial."""
    how = {"local": "", "kubernetes": ", which the server copies from the trial's pod"}
    where = how.get(entry.platform, ", which the server reads on the trial's machine")
    return f"waiting for {name} of trial {trial['sequence']}{where}"


def trial_named(client: Client, experiment_id: str, word: str) -> dict[str, Any]:
    """Return the trial whose number or id is ``word``, or the only trial whose id begins with ``word``.

    Raise ClientError. Ids of trials begin with a letter, so they differ from numbers.
    """
    path = ("experiments", experiment_id, "trials")
    found: list[dict[str, Any]] = []
    if word.isdecimal() and len(word) < _MOST_DIGITS:
        page = client.get(*path, offset=int(word), limit=1)["trials"]  # numbers begin with 0 and have no gaps
        found = [trial for trial in page if trial["sequence"] == int(word)]
    else:
        for trial in all_trials(client, experiment_id, search=word):
            if trial["id"] == word:
                return trial
            if trial["id"].startswith(word):
                found.append(trial)
    if len(found) == 1:
        return found[0]
    if found:
        lines = [f"  {each['id']}  No. {each['sequence']}  {each['status']}" for each in found]
        raise ClientError(
            f"{word!r} is ambiguous: it fits {len(found)} trials of experiment {experiment_id}.",
            plain="\n".join(lines[:_MOST_CANDIDATES]),
            mend=f"Name one of them by its number or id, such as {found[0]['sequence']}. "
            f"See: nnictl trial ls {experiment_id}",
        )
    raise ClientError(
        f"There is no trial {word!r} in experiment {experiment_id}.",
        mend=f"See: nnictl trial ls {experiment_id}",
    )


def all_trials(client: Client, experiment_id: str, **query: Any) -> Iterator[dict[str, Any]]:
    """Yield all trials of an experiment. The server sends them page by page."""
    offset = 0
    while True:
        page = client.get("experiments", experiment_id, "trials", offset=offset, limit=_PAGE, **query)
        yield from page["trials"]
        offset += len(page["trials"])
        if not page["trials"] or offset >= page["total"]:
            return


def _outermost(
    client: Client, experiment_id: str, args: argparse.Namespace, terminal: Terminal, *, for_nni: bool
) -> list[dict[str, Any]]:
    """Return the best trials for ``--head``, the best first, or the worst trials for ``--tail``.

    ``for_nni``: return the trials with the largest or the smallest results, as NNI does for any goal. Trials
    without a result are left out, and so are runs that only confirm other trials.
    """
    count = args.head or args.tail
    smaller = client.get("experiments", experiment_id)["optimizeMode"] == "minimize"
    if for_nni and smaller:
        option, which, rank = ("--head", "largest", "worst") if args.head else ("--tail", "smallest", "best")
        terminal.warn(
            f"In NNI's format, {option} lists the {which} results, as in NNI. With the goal minimize, these "
            f"are the {rank} ones. --json lists the {'worst' if rank == 'best' else 'best'} ones."
        )
    order = "asc" if (args.tail is not None) != (smaller and not for_nni) else "desc"
    found = []
    for trial in all_trials(client, experiment_id, sort="value", order=order, status=["SUCCEEDED"]):
        if trial["finalValue"] is not None and trial["source"] != "confirmation":
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
    """Return one parameter set of a trial as JSON text, in NNI's format."""
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

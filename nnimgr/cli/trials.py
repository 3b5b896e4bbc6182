"""``nnictl trial``: the verbs ls, stop, pause, resume, save, lost and retry."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from nnimgr.cli.failures import cause_lines, reason_lines
from nnimgr.cli.progress import LIVE, parameters_text
from nnimgr.cli.selection import client_of, select
from nnimgr.cli.summary import LATEST, best_with_time, counts_text, goal_of, result_text
from nnimgr.cli.table import Column, show_table
from nnimgr.cli.terminal import Terminal, confirmed, shown_time
from nnimgr.cli.times import duration_text
from nnimgr.client.calls import Client
from nnimgr.client.errors import ApiError, ClientError
from nnimgr.client.experiments import ENDED, runs
from nnimgr.home import Home
from nnimgr.index import IndexEntry

__all__ = [
    "all_trials",
    "file_sentence",
    "list_all",
    "lost",
    "pause",
    "resume",
    "retry",
    "save",
    "stop",
    "to_change",
    "trial_named",
    "trials_named",
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
    Column("CONFIRMS", "right", optional=True),
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
    query = {"status": args.status} if args.status else {}
    if args.head or args.tail:
        trials = _outermost(client, entry.id, args, terminal, for_nni=for_nni)
    else:
        trials = list(all_trials(client, entry.id, **query))
    if for_nni:
        terminal.nni_json([_nni_trial(trial) for trial in trials])
    elif terminal.as_json:
        terminal.json({"trials": trials})
    else:
        profile = client.get("experiments", entry.id)
        if not trials and (args.head or args.tail):
            option = "--head" if args.head else "--tail"
            yet = "" if profile["status"] in ENDED else " yet"
            terminal.say(f"{option} lists only trials with a usable result, and there are none{yet}.")
        if not trials and args.status:
            terminal.say(f"No trial is {' or '.join(args.status)}.")
        if trials and (args.head or args.tail) and len(trials) < (args.head or args.tail):
            terminal.info("No other trial has SUCCEEDED with a usable result.")
        if not (args.head or args.tail or args.status) and _have_changed(trials, profile):
            trials, profile = list(all_trials(client, entry.id)), client.get("experiments", entry.id)
        _show(trials, profile, client, terminal)
    return 0


def _have_changed(trials: list[dict[str, Any]], profile: Mapping[str, Any]) -> bool:
    """Return whether trials have got another status since they were read.

    In the first moment of a server many trials do, which have ended while no server ran.
    """
    return Counter(trial["status"] for trial in trials) != Counter(profile["counts"])


def _show(
    trials: list[dict[str, Any]], profile: Mapping[str, Any], client: Client, terminal: Terminal
) -> None:
    """Print trials as a table. Below it, print the number of all trials of the experiment by status."""
    experiment_id, now = str(profile["id"]), datetime.now(UTC)
    numbers = {trial["id"]: str(trial["sequence"]) for trial in trials}
    rows = [
        (
            str(trial["sequence"]),
            trial["id"],
            trial["status"],
            result_text(trial),
            duration_text(_seconds(trial, now)),
            numbers.get(trial["retryOf"], "") if trial["source"] == "confirmation" else "",
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
    """Stop trials. They end soon after the command."""
    return _change(args, terminal, "stop", "is being stopped.")


def pause(args: argparse.Namespace, terminal: Terminal) -> int:
    """Pause trials. Their processes end soon after the command."""
    continued = "To continue it: nnictl trial resume {id} -T {no}"
    return _change(
        args,
        terminal,
        "pause",
        "is being paused. Then it waits until you continue it: nnictl trial resume {id} -T {no}",
        already=("PAUSED", f"is paused, and stays so until you continue it. {continued}"),
    )


def save(args: argparse.Namespace, terminal: Terminal) -> int:
    """Ask running trials to save their states. They run on."""
    return _change(
        args,
        terminal,
        "save",
        "is asked to save its state. If its code does not look for such requests (nni.should_checkpoint), "
        "a notice says so. See the notice and the checkpoints: nnictl trial show {id} -T {no}",
    )


def resume(args: argparse.Namespace, terminal: Terminal) -> int:
    """Continue paused trials."""
    return _change(args, terminal, "resume", "continues as soon as a slot is free.")


def _change(
    args: argparse.Namespace,
    terminal: Terminal,
    verb: str,
    done: str,
    *,
    already: tuple[str, str] = ("", ""),
) -> int:
    """Ask the server to change trials. ``done``: the end of the sentence that confirms a change.

    ``already``: a status, and the end of the sentence instead if a trial had this status before.

    If one of several trials cannot be changed, the others are still tried, and the exit code is 1.
    """
    client, entry = to_change(args)
    trials = trials_named(client, entry.id, args.trial_id)
    results: list[dict[str, str]] = []
    for trial in trials:
        try:
            client.post("experiments", entry.id, "trials", trial["id"], verb)
        except ApiError as error:
            if error.status == 409 and trial["status"] not in LIVE:
                # The server may say that the experiment has to be resumed, which does not help here.
                ended = f"has ended already: it is {trial['status']}."
                error.lines = (f"Trial {trial['sequence']} ({trial['id']}) {ended}",)
                error.mend = _see_trials(entry)
            if len(trials) == 1:
                raise
            why = "\n".join(error.lines)
            if not terminal.as_json and all(result.get("error") != why for result in results):
                terminal.fail(error)  # once, if it is about the experiment
            results.append({"id": trial["id"], "error": why})
            continue
        results.append({"id": trial["id"]})
        end = already[1] if trial["status"] == already[0] else done
        sentence = end.format(id=entry.id, no=trial["sequence"])
        terminal.info(f"Trial {trial['sequence']} ({trial['id']}) {sentence}")
    if terminal.as_json:
        terminal.json(results[0] if len(trials) == 1 else {"trials": results})
    return 1 if any("error" in result for result in results) else 0


def lost(args: argparse.Namespace, terminal: Terminal) -> int:
    """Declare the attempt of a trial lost, because the machine where it ran does not answer."""
    client, entry = to_change(args)
    trial = trial_named(client, entry.id, args.trial_id)
    if trial["status"] != "UNKNOWN":
        raise ClientError(
            f"Trial {trial['sequence']} ({trial['id']}) is {trial['status']}: only an UNKNOWN trial, whose "
            "machine does not answer, can be given up.",
            mend=_see_trials(entry),
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
        meant = trials_named(client, entry.id, args.trial_id)
        body = {"trialIds": [trial["id"] for trial in meant]}
    other = next((trial for trial in meant if trial["status"] != "FAILED"), None)
    if other is not None:  # a resume of the experiment does not help
        client.mends = {**client.mends, 409: _instead_of_retry(other, entry)}
    numbers = {trial["id"]: trial["sequence"] for trial in meant}
    started = client.post("experiments", entry.id, "rerun", body=body)
    if any(trial["retryOf"] not in numbers for trial in started["trials"]):  # some have just failed
        numbers = {trial["id"]: trial["sequence"] for trial in all_trials(client, entry.id)}
    for trial in started["trials"]:
        before = trial["retryOf"]
        before = f"{numbers[before]} ({before})" if before in numbers else before  # it may have just failed
        terminal.info(f"Trial {before} is retried as trial {trial['sequence']} ({trial['id']}).")
    if not started["trials"]:
        terminal.info("No failed trial is left to retry.")
    if terminal.as_json:
        terminal.json(started)
    return 0


def _instead_of_retry(trial: Mapping[str, Any], entry: IndexEntry) -> str:
    """Return what to suggest to a user who wants to retry a trial that has not failed."""
    if trial["status"] == "PAUSED":
        return f"Continue it: nnictl trial resume {entry.id} -T {trial['sequence']}"
    if not runs(entry) and entry.status != "DONE":
        return _see_trials(entry)  # no trial can be added
    if trial["status"] in LIVE or trial["source"] == "confirmation":
        return _see_trials(entry)
    return f"Run its parameters again: nnictl trial add {entry.id} -T {trial['sequence']}"


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
    return {} if closed else {409: _see_trials(entry)}


def _see_trials(entry: IndexEntry) -> str:
    return f"See the trials: nnictl trial ls {entry.id}"


def file_sentence(entry: IndexEntry, trial: Mapping[str, Any], name: str) -> str:
    """Return a sentence for the user while a command waits for the file ``name`` of a trial."""
    how = {"local": "", "kubernetes": ", which the server copies from the trial's pod"}
    where = how.get(entry.platform, ", which the server reads on the trial's machine")
    return f"waiting for {name} of trial {trial['sequence']}{where}"


def trials_named(client: Client, experiment_id: str, words: Sequence[str]) -> list[dict[str, Any]]:
    """Return the trials that the words name, each once. A word may name several, with commas between them."""
    single = [part for word in words for part in word.split(",") if part] or words
    try:
        found = [trial_named(client, experiment_id, word) for word in single]
    except ClientError as error:
        if len(single) > 1:
            error.lines = (*error.lines, "Nothing was done for the other trials.")
        raise
    return list({trial["id"]: trial for trial in found}.values())


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
    if "," in word:
        raise ClientError(f"{word!r} names several trials, but this command takes one trial at a time.")
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
        other = "worst" if rank == "best" else "best"
        terminal.warn(
            f"The output goes to no terminal, so {option} means the {which} results, as in NNI. The goal is "
            f"minimize, so these are the {rank} ones. For the {other} ones, add --json."
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

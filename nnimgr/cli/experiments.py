"""``nnictl experiment``: the verbs list, show, status, tag, archive and delete."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from nnimgr.cli.failures import failure_lines, last_failure
from nnimgr.cli.progress import notice_lines, number, parameters_text
from nnimgr.cli.selection import (
    client_of,
    ending_of,
    entries_of,
    experiment_line,
    named,
    newest_if_failed,
    select,
)
from nnimgr.cli.summary import (
    best_with_time,
    confirmed_lines,
    counts_text,
    goal_of,
)
from nnimgr.cli.table import Column, show_lines, show_table
from nnimgr.cli.terminal import Terminal, confirmed, printable, shown_time
from nnimgr.cli.times import duration_text, when
from nnimgr.client.calls import Client
from nnimgr.client.errors import ClientError
from nnimgr.client.experiments import ENDED, RESUMABLE, runs
from nnimgr.client.servers import DEFAULT_PORT, answering
from nnimgr.client.waits import waiting
from nnimgr.home import Home, HomeError
from nnimgr.index import Index, IndexEntry
from nnimgr.rules.phrases import trial_count
from nnimgr.store.location import has_database, is_nnis_own

__all__ = ["archive", "delete", "list_all", "nni_status", "show", "status", "tag"]

_DRAINING = {
    "budget": "NO_MORE_TRIAL",
    "tuner": "TUNER_NO_MORE_TRIAL",
    "user": "STOPPING",
    "failures": "STOPPING",
    "rule": "NO_MORE_TRIAL",
}
_RULE = "-" * 88
_COLUMNS = (
    Column("ID", gives_way=True, least=12),
    Column("NAME", gives_way=True, least=8),
    Column("STATUS", gives_way=True, least=18),
    Column("TRIALS", "right"),
    Column("BEST", "right"),
    Column("STARTED"),
)
LOCAL = "local"  # the platform that uses no other machines


def list_all(args: argparse.Namespace, terminal: Terminal) -> int:
    """List the experiments in the index of experiments. No server is asked."""
    home = Home.find()
    entries = list(entries_of(home).values())
    if not entries:
        raise ClientError(
            "There is no experiment created before.", mend="Write an example to start from: nnictl hello"
        )
    shown = [entry for entry in entries if args.all or not _put_away(entry)]
    if terminal.as_json:
        keys = ("id", "name", "status", "port", "platform")
        rows = [{key: getattr(entry, key) for key in keys} for entry in shown]
        for row, entry in zip(rows, shown, strict=True):
            row["startedAt"] = entry.started_at and entry.started_at.isoformat()
            row["endedAt"] = entry.ended_at and entry.ended_at.isoformat()
            row["directory"] = str(entry.directory)
            row["tags"], row["archived"] = list(entry.tag), entry.archived
        terminal.json({"experiments": rows})
        return 0
    if not shown:
        terminal.warn(
            'There is no experiment running; "nnictl experiment list --all" lists stopped and archived ones.'
        )
    elif terminal.for_people:
        show_table(terminal, _COLUMNS, map(_row, shown))
        if hidden := len(entries) - len(shown):
            more = "1 more experiment is" if hidden == 1 else f"{hidden} more experiments are"
            terminal.say(f"{more} stopped or archived: nnictl experiment list --all")
    else:
        terminal.say("\n".join([_RULE, "Experiment information", *map(experiment_line, shown), _RULE]))
    left: dict[int, list[str]] = {}
    for entry in shown:
        if runs(entry) and entry.port and home.server_running(entry.port) is None:
            left.setdefault(entry.port, []).append(entry.id)
    for port, ids in left.items():
        those = f"Experiment {ids[0]} continues" if len(ids) == 1 else f"Its {len(ids)} experiments continue"
        terminal.warn(
            f"The server on port {port} has ended. {those} when it is started again: nnictl resume {ids[0]}"
        )
    if (failed := newest_if_failed(entries)) is not None and failed not in shown:
        terminal.warn(
            f"Not listed: {failed.id}, the newest experiment, is {ending_of(failed)}. "
            f"See: nnictl experiment status {failed.id}"
        )
    return 0


def _row(entry: IndexEntry) -> tuple[str, ...]:
    """Return the table row of an experiment, with its number of trials and its best result."""
    from nnimgr.store.errors import StoreError
    from nnimgr.store.overview import stored_experiment

    trials, best = "-", "-"
    with contextlib.suppress(OSError, StoreError, ValueError):
        stored = stored_experiment(entry.directory)
        if stored is not None:
            trials, best = str(sum(stored.counts.values())), number(stored.best_value)
    status = ending_of(entry) + (" (archived)" if entry.archived else "")
    return entry.id, entry.name or "-", status, trials, best, when(entry.started_at)


def _put_away(entry: IndexEntry) -> bool:
    """Return whether lists leave the experiment out: it is stopped, or it has ended and is archived."""
    return entry.status == "STOPPED" or (entry.archived and entry.status in ("DONE", "ERROR"))


def _has_advisor(config: Mapping[str, Any]) -> bool:
    from nnimgr.builtins import meant

    tuner = meant("tuner", config.get("tuner") or {})
    return tuner is not None and tuner.advisor


def show(args: argparse.Namespace, terminal: Terminal) -> int:
    """Show an experiment's configuration and state.

    A terminal gets lines, a pipe gets NNI's format, and ``--json`` gives the server's format.
    """
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    client = client_of(home, entry, port=args.port)
    profile = client.get("experiments", entry.id)
    if terminal.as_json:
        terminal.json(profile)
        return 0
    if terminal.for_people:
        show_lines(terminal, [*_status_fields(client, profile), *_more_fields(entry, profile)])
        _show_troubles(terminal, profile)
        return 0
    shown = {
        "id": profile["id"],
        "params": {**profile["config"], "searchSpace": profile["searchSpace"]},
        "status": nni_status(profile),
        "execDuration": int(profile["durationS"]),
        "logDir": str(entry.directory),
        "startTime": shown_time(profile["createdAt"]),
        "nextSequenceId": sum(profile["counts"].values()),
        "revision": profile["lastNumber"],
        "bestTrial": profile["bestTrial"],
        "trialCounts": profile["counts"],
    }
    if profile["endedAt"] is not None:
        shown["endTime"] = shown_time(profile["endedAt"])
    terminal.nni_json(shown | _confirmations(profile))
    return 0


def status(args: argparse.Namespace, terminal: Terminal) -> int:
    """Show an experiment's status and errors. A pipe gets NNI's name of the status."""
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    client = client_of(home, entry, port=args.port)
    profile = client.get("experiments", entry.id)
    errors = [error["sentence"] for error in profile["errors"]]
    notices = [notice["sentence"] for notice in profile["notices"]]
    if terminal.as_json:
        kept = {key: profile[key] for key in ("id", "status", "drain", "reason", "feasibleShare")}
        kept["now"] = profile.get("now")
        terminal.json({**kept, **_confirmations(profile), "errors": errors, "notices": notices})
        return 0
    if terminal.for_people:
        show_lines(terminal, _status_fields(client, profile))
        _show_troubles(terminal, profile)
        return 0
    shown = {"status": nni_status(profile), "errors": errors, "reason": profile["reason"]}
    if profile["feasibleShare"] is not None:
        shown["searchSpaceConstraints"] = profile["config"]["searchSpaceConstraints"]
        shown["feasibleShare"] = profile["feasibleShare"]
    shown |= _confirmations(profile)
    terminal.nni_json({**shown, "notices": notices} if notices else shown)
    return 0


def _confirmations(profile: Mapping[str, Any]) -> dict[str, Any]:
    """Return the field with the confirmed trials; no field without ``confirmBest``."""
    found = profile.get("confirmations")
    return {} if found is None else {"confirmations": found}


def _status_fields(client: Client, profile: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return titles and texts of the lines about an experiment's state, its best result and its last failed
    trial.
    """
    name = f"  {printable(profile['name'])}" if profile["name"] not in ("", profile["id"]) else ""
    why = profile["reason"] if profile["status"] in ENDED else profile.get("now") or profile["reason"]
    fields = [
        ("Experiment", f"{profile['id']}{name}"),
        ("Status", f"{profile['status']}: {why}" if why else profile["status"]),
        ("Trials", counts_text(profile)),
        ("Goal", goal_of(profile)),
    ]
    if profile["bestTrial"] is None:
        yet = "" if profile["status"] in ENDED else " yet"
        fields.append(("Best", f"no trial has a usable result{yet}"))
        if profile.get("withoutResult"):
            fields.append(("", f"see why: nnictl trial ls {profile['id']}"))
    else:
        fields.append(("Best", best_with_time(client, profile)))
        fields.append(("", printable(parameters_text(profile["bestTrial"]["parameters"]))))
    lines = confirmed_lines(profile)
    fields += [("" if at else "Confirmed", line) for at, line in enumerate(lines)]
    failed = last_failure(client, profile)
    if failed is not None:
        reason, *command = failure_lines(failed, profile["id"])
        if (profile.get("retried") or 0) >= profile["counts"]["FAILED"]:
            reason += "; all failed trials were retried"
        fields += [("Failed", reason), *(("", line.strip()) for line in command)]
    if profile["feasibleShare"] is not None:
        share = f"{100 * profile['feasibleShare']:.3g} % of the search space meets the constraints"
        constraints = "; ".join(profile["config"]["searchSpaceConstraints"])
        fields.append(("Constraints", f"{constraints} ({share})"))
    return fields


def _more_fields(entry: IndexEntry, profile: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return titles and texts of the lines about an experiment's configuration and its files."""
    limits, config = profile["limits"], profile["config"]
    most, longest = limits["maxTrialNumber"], limits["maxExperimentDurationS"]
    slots = limits["trialConcurrency"]
    fields = [
        (
            "Limits",
            f"{slots} slot{'' if slots == 1 else 's'}, "
            f"{'any number of trials' if most is None else trial_count(most)}, "
            f"{duration_text(longest) if longest else 'any duration'}",
        ),
        ("Started", f"{when(profile['createdAt'])}, has run for {duration_text(profile['durationS'])}"),
    ]
    if priority := config.get("priority"):
        fields.insert(1, ("Priority", str(priority)))
    if rules := config.get("stopWhen"):
        fields.insert(1, ("Ends when", _rules_text(rules)))
    if rule := config.get("confirmBest"):
        best = "the best trial" if rule["top"] == 1 else f"the {rule['top']} best trials, each"
        fields.insert(1, ("Confirms", f"{best} by {rule['runs']} runs"))
    if profile["endedAt"] is not None:
        fields.append(("Ended", when(profile["endedAt"])))
    for title, key in (("Tuner", "tuner"), ("Assessor", "assessor"), ("Scheduler", "scheduler")):
        algorithm = config.get(key) or {}
        if algorithm:
            name = str(algorithm.get("name") or algorithm.get("className"))
            if key == "assessor" and _has_advisor(config):
                name += " (not used, because the tuner is an advisor)"
            fields.append((title, name))
    fields += [
        ("Command", printable(str(config.get("trialCommand")))),
        ("Platform", str(profile["platform"])),
        ("Folder", str(entry.directory)),
        ("See also", f"nnictl trial ls {entry.id}, nnictl config show {entry.id}"),
    ]
    return fields


def _rules_text(rules: Mapping[str, Any]) -> str:
    """Return the rules that end an experiment (stopWhen) as one line."""
    parts = []
    if (metric := rules.get("metric")) is not None:
        parts.append(f"a result reaches {metric:g}")
    if plateau := rules.get("plateau"):
        least = f" of {plateau['improvement']:g}" if plateau.get("improvement") else ""
        trials = plateau["trials"]
        parts.append(f"{trial_count(trials)} {'brings' if trials == 1 else 'bring'} no improvement{least}")
    if time := rules.get("totalTrialTime"):
        parts.append(f"{time}{' s' if isinstance(time, int) else ''} of trial time are used")
    if failures := rules.get("failures"):
        parts.append("a trial fails" if failures == 1 else f"{failures} trials in a row fail")
    ending = "; running trials are then stopped" if rules.get("runningTrials") == "stop" else ""
    return ", or ".join(parts) + ending


def _show_troubles(terminal: Terminal, profile: Mapping[str, Any]) -> None:
    for sentence, place in notice_lines(profile):
        terminal.warn(f"{sentence} ({place})" if place else sentence)
    errors = profile["errors"]  # the newest first
    for sentence, count in Counter(error["sentence"] for error in errors).items():
        latest = next(error for error in errors if error["sentence"] == sentence)
        again = f" ({count} times, the last one {when(latest['at'])})" if count > 1 else ""
        terminal.warn(f"{sentence}{again}")


def nni_status(profile: Mapping[str, Any]) -> str:
    """Return the name that NNI uses for the status of an experiment."""
    if profile["status"] == "DRAINING":
        return _DRAINING.get(profile["drain"], "RUNNING")
    return str(profile["status"])


def tag(args: argparse.Namespace, terminal: Terminal) -> int:
    """Add tags to an experiment, or remove its tags with ``--clear``. Without tags, show the present ones."""
    entry = select(Home.find(), args.id)
    tags = list(dict.fromkeys([*(() if args.clear else entry.tag), *args.tags]))
    if args.tags or args.clear:
        _label(entry.id, {"tags": tags})
    noted = f"is tagged {', '.join(tags)}" if tags else f"has no tags{' any more' if args.clear else ''}"
    terminal.info(f"Experiment {entry.id} {noted}.")
    if terminal.as_json:
        terminal.json({"id": entry.id, "tags": tags})
    return 0


def archive(args: argparse.Namespace, terminal: Terminal) -> int:
    """Archive an experiment. Lists then leave it out, except with ``--all`` or while it runs."""
    entry = _label(args.id, {"archived": not args.undo})
    later = "" if args.undo or not runs(entry) else " It still runs, so lists show it until its end."
    what = "is not archived any more" if args.undo else "is archived"
    terminal.info(f"Experiment {entry.id} {what}.{later}")
    return 0


def _label(word: str, changes: Mapping[str, Any]) -> IndexEntry:
    """Change an experiment's tags, or whether it is archived. Return the experiment as it was before.

    A running server makes the change, so that it can notify browsers. Otherwise the index is changed
    directly. Raise ClientError.
    """
    home = Home.find()
    entry = select(home, word)
    if entry.port is not None and home.server_running(entry.port) is not None:
        client_of(home, entry).call("PATCH", "experiments", entry.id, "labels", body=changes)
        return entry
    fields = {"tag" if name == "tags" else name: value for name, value in changes.items()}
    try:
        Index(home).update(entry.id, **fields)
    except HomeError as error:
        raise ClientError(str(error)) from error
    return entry


def delete(args: argparse.Namespace, terminal: Terminal) -> int:
    """Delete stopped experiments with all their files. Return 0 only if all of them were deleted.

    If an experiment cannot be deleted, the others are still tried.
    """
    home = Home.find()
    if args.all == (args.id is not None):
        wrong = "both" if args.all else "neither"
        raise ClientError(
            f"Name one experiment, or give --all: you gave {wrong}.", mend="See: nnictl experiment list --all"
        )
    terminal.act_without_reader()
    entries = entries_of(home)
    chosen = list(entries.values()) if args.all else [named(entries, args.id, able=RESUMABLE)]
    refused: dict[str, ClientError] = {}
    if not args.yes:  # with --yes, the deletion itself is refused
        refused = {entry.id: error for entry in chosen if (error := _refused(home, entry)) is not None}
        _confirm([entry for entry in chosen if entry.id not in refused])
    code = 0
    results: list[dict[str, object]] = []
    for place, entry in enumerate(chosen, 1):
        more = "" if entry.platform == LOCAL else " and its files on machines"
        count = f" ({place} of {len(chosen)})" if args.all else ""
        try:
            sentence = f"deleting experiment {entry.id}{more}{count}"
            if entry.id in refused:
                raise refused[entry.id]
            left = _delete_one(home, entry, leave=args.leave_unreachable, sentence=sentence)
        except ClientError as error:
            code = 1
            results.append({"id": entry.id, "error": "\n".join(error.lines)})
            if not terminal.as_json:
                terminal.fail(error)
            continue
        results.append({"id": entry.id, **({"left": left} if left else {})})
        for sentence in left:
            terminal.warn(f"Something was left: {sentence}.")
        done = f"Experiment {entry.id} is deleted."
        terminal.info(done if terminal.for_people else f"Delete experiment {entry.id} success.")
    if terminal.as_json:
        terminal.json({"deleted": results})
    return code


def _refused(home: Home, entry: IndexEntry) -> ClientError | None:
    """Return why an experiment cannot be deleted: it is open, or its trials run. None: it can be deleted."""
    from nnimgr.core.managing.folder import refuse_live
    from nnimgr.core.running.requests import RequestRefused

    status = _status_at_rest(entry)
    deletable = {"STOPPED", "VIEWED"}  # VIEWED: the server that showed the experiment may have ended
    try:
        if status != "STOPPED" and entry.port is not None and home.server_running(entry.port) is not None:
            status = client_of(home, entry).get("experiments", entry.id)["status"]
            deletable = {"STOPPED"}
        if status not in deletable:
            return _refusal(entry.id, status)
        refuse_live(entry)
    except ClientError as error:
        return error
    except RequestRefused as error:
        return ClientError(f"{error}.", mend=_stop_first(entry.id))
    return None


def _status_at_rest(entry: IndexEntry) -> str:
    """Return an experiment's status in the index. Without a database, nothing is left that could run."""
    return entry.status if has_database(entry.directory) else "STOPPED"


def _refusal(experiment_id: str, status: str) -> ClientError:
    """Return the error for an experiment that cannot be deleted because of its status."""
    sentence = f"Experiment {experiment_id} is {status}: only a stopped experiment can be deleted."
    return ClientError(sentence, mend=_stop_first(experiment_id))


def _stop_first(experiment_id: str) -> str:
    return f"Stop it first: nnictl stop {experiment_id}"


def _confirm(chosen: list[IndexEntry]) -> None:
    """Ask the user whether to delete the experiments. Raise ClientError unless the answer is yes."""
    if not chosen:
        return
    for entry in chosen:
        more = "" if entry.platform == LOCAL else ", and its files on machines"
        print(f"{entry.id}: {entry.directory}{more}", file=sys.stderr)
    if not confirmed("Delete all of this for good?"):
        raise ClientError("Nothing was deleted.", mend="Delete without a question: {command} --yes")


def _delete_one(home: Home, entry: IndexEntry, *, leave: bool, sentence: str) -> list[str]:
    """Delete an experiment. Return sentences about files that were not removed.

    ``sentence``: is printed if the deletion takes long.

    A server deletes the experiment if a server may have its files open, also only for reading, or if the
    experiment used other machines. Raise ClientError.
    """
    served = answering(home, entry.port or DEFAULT_PORT) is not None  # one that leaves is not started again
    if not is_nnis_own(entry.directory) and (served or entry.platform != LOCAL):
        query = {"leaveUnreachable": "true"} if leave else {}
        client = client_of(home, entry, without_database=True)
        client.mends = {409: _stop_first(entry.id)}
        with waiting(sentence):
            answer = client.call("DELETE", "experiments", entry.id, timeout_s=None, **query)
        return [str(each) for each in answer.get("left", ())]
    if _status_at_rest(entry) not in ("STOPPED", "VIEWED"):  # the server that showed it has ended
        raise _refusal(entry.id, entry.status)
    from nnimgr.core.managing.folder import delete_experiment
    from nnimgr.core.running.requests import RequestRefused

    try:
        with waiting(sentence):
            return delete_experiment(Index(home), entry)
    except (RequestRefused, HomeError) as error:
        raise ClientError(f"{error}.", mend=_stop_first(entry.id)) from error
    except OSError as error:
        raise ClientError(
            f"{error.filename} cannot be deleted: {error.strerror}.",
            mend=f"Correct this error, then repeat: nnictl experiment delete {entry.id}",
        ) from error

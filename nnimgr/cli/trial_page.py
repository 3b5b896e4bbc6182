"""``nnictl trial show``: all that is known about one trial, on one page."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from nnimgr.cli.attempts import end_of, machine_of
from nnimgr.cli.failures import has_output
from nnimgr.cli.progress import LIVE, number, parameters_text
from nnimgr.cli.selection import client_of, select
from nnimgr.cli.summary import result_text
from nnimgr.cli.table import show_lines
from nnimgr.cli.terminal import Terminal, printable
from nnimgr.cli.times import duration_text, when
from nnimgr.cli.trials import trial_named
from nnimgr.client.calls import Client
from nnimgr.home import Home
from training_services.keepers.names import ASK, IMPORTED, why_no_files

__all__ = ["show"]

_FORKED = ("fork", "rerun")  # sources of trials that may begin with a checkpoint of another trial
_MOST_REPORTS = 5  # latest intermediate results to show
_MOST_READ = 1000  # intermediate results to read; if a trial has more, only its latest one is shown
_MOST_LETTERS = 200  # letters of a result that is a text
_MOST_ATTEMPTS = 5  # latest attempts to show


def show(args: argparse.Namespace, terminal: Terminal) -> int:
    """Show one trial: its status with the reason, parameters, results, attempts, checkpoints and files.

    With ``--json``, print the server's answer about the trial, and its latest intermediate results.
    """
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    client = client_of(home, entry, port=args.port)
    path = ("experiments", entry.id, "trials", trial_named(client, entry.id, args.trial_id)["id"])
    trial = client.get(*path)
    curve = client.get(*path, "curve", points=_MOST_READ)
    whole = curve["total"] <= _MOST_READ
    reports = curve["metrics"][-_MOST_REPORTS if whole else -1 :]
    if terminal.as_json:
        terminal.json({**trial, "latestMetrics": reports})
        return 0
    fields = [
        ("Trial", f"{trial['sequence']} ({trial['id']}) of experiment {entry.id}"),
        ("Status", _status(trial)),
        *_origin(client, entry.id, trial),
        *_retry(client, entry.id, trial),
        *_results(trial, reports, total=curve["total"]),
        *_parameters(trial),
        *_attempts(trial),
        *_checkpoints(trial),
        *_notes(trial),
    ]
    if _has_files(trial):
        fields.append(("Files", trial["logPath"]))
    elif not has_output(trial):
        keeper_id = trial["jobs"][-1]["keeperId"] if trial["jobs"] else ASK
        fields.append(("Files", f"none: it {why_no_files(keeper_id)}"))
    show_lines(terminal, fields)
    terminal.say("Next:")
    for command, purpose in _commands(trial, entry.id):
        line = f"  {command}  # {purpose}"
        terminal.say(line if len(line) <= terminal.width else f"  {command}")
    return 0


def _has_files(trial: Mapping[str, Any]) -> bool:
    """Return whether an attempt of the trial was started by a keeper, which keeps its output and files."""
    return has_output(trial) and any(job["keeperId"] is not None for job in trial["jobs"])


def _status(trial: Mapping[str, Any]) -> str:
    detail = f" ({trial['detail']})" if trial["detail"] else ""
    reason = f": {trial['reason']}" if trial["reason"] else ""
    return f"{trial['status']}{detail}{reason}"


def _origin(client: Client, experiment_id: str, trial: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield where the parameters are from, unless the tuner has suggested them."""
    if trial["source"] != "algorithm":
        yield "Source", trial["source"]
    if trial["retryOf"] is None:
        return
    if trial["source"] != "fork":
        yield "Repeats", _named(client.get("experiments", experiment_id, "trials", trial["retryOf"]))
    if trial["source"] not in _FORKED:
        return
    for fork in client.get("experiments", experiment_id, "lineage")["forks"]:
        if fork["trialId"] == trial["id"]:
            other = client.get("experiments", experiment_id, "trials", fork["originTrialId"])
            step = "" if fork["step"] is None else f" (step {fork['step']})"
            name = f"checkpoint {fork['originAttempt']}.{fork['originNumber']}{step} of {_named(other)}"
            yield "Continues", f"from {name}{_changes(trial['parameters'], other['parameters'])}"


def _retry(client: Client, experiment_id: str, trial: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if trial["retriedAs"] is not None:
        again = client.get("experiments", experiment_id, "trials", trial["retriedAs"])
        yield "Retried", f"as {_named(again)}"


def _named(trial: Mapping[str, Any]) -> str:
    return f"trial {trial['sequence']} ({trial['id']})"


def _changes(parameters: Any, before: Any) -> str:
    """Return how a fork's parameters differ from those before, as the end of a sentence."""
    if not isinstance(parameters, Mapping) or not isinstance(before, Mapping):
        return ""
    changed = {name: value for name, value in parameters.items() if before.get(name) != value}
    if not changed:
        return ""
    earlier = parameters_text({name: before[name] for name in changed if name in before})
    return printable(f", with {parameters_text(changed)}" + (f" instead of {earlier}" if earlier else ""))


def _results(
    trial: Mapping[str, Any], reports: Sequence[Mapping[str, Any]], *, total: int
) -> Iterator[tuple[str, str]]:
    """Yield lines about the final result and the latest intermediate results."""
    final, text = result_text({**trial, "latestValue": None}), trial["finalText"]
    if trial["noResult"] and text is not None:
        yield "Result", f"{_cut(text)}, which is not usable: see Status"
    else:
        yield "Result", "none yet" if final == "-" and trial["status"] in LIVE else final
        if text is not None and text.startswith("{"):
            yield "", _cut(text)
    shown = ", ".join(_report(report) for report in reports) or "no intermediate results"
    if total > len(reports):
        latest = "the latest" if len(reports) == 1 else f"the last {len(reports)}"
        shown = f"{total} in all, {latest}: {shown}"
    before = trial["intermediates"] - total
    if before > 0 and trial["source"] in _FORKED:
        shown += f" (after the {before} of the trial from which it continues)"
    yield "Reports", shown


def _report(report: Mapping[str, Any]) -> str:
    """Return an intermediate result: its number, or its text if it has no number."""
    return number(report["value"]) if report["value"] is not None else _cut(str(report["text"]))


def _cut(text: str) -> str:
    """Return a user's text on one line, cut off if it is long."""
    shown = printable(text)
    return shown if len(shown) <= _MOST_LETTERS else f"{shown[:_MOST_LETTERS]}..."


def _parameters(trial: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    sets = trial["sets"] or [trial]
    for at, held in enumerate(sets):
        result = "" if trial["sets"] is None else f" (result: {number(held['finalValue'])})"
        yield "" if at else "Parameters", f"{printable(parameters_text(held['parameters']))}{result}"


def _attempts(trial: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a line for each of the latest attempts, the newest first."""
    jobs = list(reversed(trial["jobs"]))
    if not jobs:
        yield "Attempts", "none has started"
    begun = {leg["attempt"]: (leg, before) for leg, before in _legs(trial)}
    for job in jobs[:_MOST_ATTEMPTS]:
        about = _imported(job) if job["keeperId"] == IMPORTED else f"{_where(job)}, {_how(job)}"
        yield f"Attempt {job['attempt']}", about
        if job["attempt"] in begun:
            leg, before = begun[job["attempt"]]
            changes = _changes(leg["parameters"], before)
            yield "", f"   begins leg {leg['leg']}{changes}: {printable(leg['reason'])}"
        for member in job["members"]:
            yield "", f"   member {member['member']}: {_where(member)}, {_how(member)}"
    if len(jobs) > _MOST_ATTEMPTS:
        yield "", f"{len(jobs) - _MOST_ATTEMPTS} more"


def _legs(trial: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Any]]:
    """Yield each leg of the trial with the parameters before it."""
    before = trial.get("firstParameters")
    for leg in trial["legs"]:
        yield leg, before
        before = leg["parameters"]


def _imported(job: Mapping[str, Any]) -> str:
    """Return how long an imported attempt ran. How its process ended is not known."""
    begun, ended = job["startedAt"], job["endedAt"]
    return "imported" if begun is None or ended is None else f"imported, ran {_span(begun, ended)} elsewhere"


def _where(job: Mapping[str, Any]) -> str:
    if job["keeperId"] is None:
        return "waits for a place" if job["endedAt"] is None else "never started"
    if job["keeperId"] == ASK:
        return "in a program of your own"
    place = f"on {machine_of(job)}"
    gpus = job["gpus"]
    if gpus:
        place += f", GPU{'s' if len(gpus) > 1 else ''} {', '.join(map(str, gpus))}"
    why = job.get("placeReason")  # members have none of their own
    return f"{place} ({printable(why)})" if why else place


def _how(job: Mapping[str, Any]) -> str:
    """Return how long an attempt has run, and how it has ended."""
    begun, ended = job["startedAt"], job["endedAt"]
    if (end := end_of(job)) is None:
        return "is being started" if begun is None else f"runs for {_span(begun, None)}"
    if job["keeperId"] == ASK and job["exitCode"] is not None:
        end = "its end was told"  # its program may run on
    span = "" if begun is None or ended is None else f"{_span(begun, ended)}, "
    cause = job.get("cause")  # members have none of their own
    addition = "" if cause in (None, "user_error") else f" ({cause.replace('_', ' ')})"
    message = f": {printable(job['message'])}" if job["message"] else ""
    return f"{span}{end}{addition}{message}"


def _span(begun: str, ended: str | None) -> str:
    end = datetime.now(UTC) if ended is None else datetime.fromisoformat(ended)
    return duration_text(max(0.0, (end - datetime.fromisoformat(begun)).total_seconds()))


def _checkpoints(trial: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    saved = trial["checkpoints"]
    if not saved:
        return
    newest = saved[-1]
    step = "" if newest["step"] is None else f" at step {newest['step']}"
    name = f"number {newest['number']} of attempt {newest['attempt']}"
    kept = sum(each["state"] == "saved" for each in saved)
    yield "Checkpoints", f"{len(saved)} saved, {kept} kept; the newest is {name}{step}, {when(newest['at'])}"


def _notes(trial: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if trial["note"]:
        yield "Notice", trial["note"]
    if trial["userNote"]:
        yield "Note", printable(trial["userNote"])
    if trial["tags"]:
        yield "Tags", ", ".join(trial["tags"])


def _commands(trial: Mapping[str, Any], experiment_id: str) -> Iterator[tuple[str, str]]:
    """Yield commands that many users need after this page, each with its purpose."""
    which = f"{experiment_id} -T {trial['sequence']}"
    if _has_files(trial):
        file = " --file stderr" if trial["status"] == "FAILED" else ""
        yield f"nnictl log trial {which}{file}", "what it has printed"
        yield f"nnictl trial files {which}", "its files"
    if trial["jobs"] and trial["jobs"][-1]["members"]:
        yield f"nnictl trial members {which}", "its members on several machines"
    if trial["checkpoints"]:
        yield f"nnictl trial checkpoint ls {which}", "its checkpoints"
    if trial["status"] == "FAILED" and trial["retriedAs"] is None:
        yield f"nnictl trial retry {which}", "try it again"
    elif trial["status"] == "PAUSED":
        yield f"nnictl trial resume {which}", "continue it"
    elif trial["status"] == "UNKNOWN":
        yield f"nnictl trial lost {which}", "give it up on its machine"
    elif trial["status"] in LIVE:
        yield f"nnictl trial stop {which}", "stop it"
    yield f"nnictl trial ls {experiment_id}", "all trials"

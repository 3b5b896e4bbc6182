"""Texts about trials that have failed or have no usable result: why, and the command that shows more."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from nnimgr.client.calls import Client
from nnimgr.rules.phrases import without_own_names

__all__ = ["cause_lines", "failure_lines", "has_output", "last_failure", "reason_lines"]

_EXPLAINED = ("EARLY_STOPPED", "USER_CANCELED", "SYS_CANCELED", "WAITING", "PAUSED", "UNKNOWN")
_MEMBER = re.compile(r"\(member (\d+) on [^()]*\)$")  # the member that has failed, at the end of a reason
_MOST_REASONS = 3  # largest number of reasons to show for each of these statuses
_ABOUT_ONE = ("is ", "waits ")  # beginnings of reasons that speak of one trial
_MOST_CAUSES, _MOST_NAMED = 10, 8  # largest number of causes, and of trials for each cause, to show
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", re.IGNORECASE)


def last_failure(client: Client, profile: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the trial that failed last, or None if no trial failed."""
    if not profile["counts"].get("FAILED"):
        return None
    path = ("experiments", profile["id"], "trials")
    found = client.get(*path, status=["FAILED"], sort="ended", order="desc", offset=0, limit=1)["trials"]
    return dict(found[0]) if found else None


def failure_lines(trial: Mapping[str, Any], experiment_id: str) -> list[str]:
    """Return a line that says why a trial failed, and a line with the command that prints its output.

    The second line is missing if nnimgr does not have the trial's output.
    """
    lines = [f"Trial {trial['sequence']} ({trial['id']}) FAILED{_cause(trial)}: {trial['reason']}"]
    if has_output(trial):
        lines.append(f"  See: {_output_command(trial, experiment_id, failed=True)}")
    return lines


def has_output(trial: Mapping[str, Any]) -> bool:
    """Return False if no keeper ran the trial, so that nnimgr has no output and no files of it.

    For example, a program of the user ran it, or it was imported.
    """
    return trial.get("logPath") != ""


def cause_lines(trials: Sequence[Mapping[str, Any]], experiment_id: str) -> list[str]:
    """Return one line for each cause of failed trials or missing results, with the numbers of its trials.

    The newest trials come first. The line about the latest failed trial is followed by the command that
    prints this trial's output. If no trial has failed, it is the latest trial without a usable result.
    Messages that differ only in numbers, such as the trial's parameters, or in the name of the trial's pod,
    are one cause.
    """
    by_cause: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for trial in reversed(trials):
        if trial["status"] == "FAILED" or trial.get("noResult"):
            how, _, message = without_own_names(trial["reason"], trial["id"]).partition(": ")
            kind = f"{how}: {_NUMBER.sub('0', message)}"
            by_cause.setdefault((f"{trial['status']}{_cause(trial)}", kind), []).append(trial)
    causes = list(by_cause.items())
    explained = next((at for at, (_, found) in enumerate(causes) if found[0]["status"] == "FAILED"), 0)
    lines: list[str] = []
    hidden: list[Mapping[str, Any]] = []
    for at, ((status, _), found) in enumerate(causes):
        if at >= _MOST_CAUSES and at != explained:
            hidden += found
            continue
        lines.append(f"{status}, {_numbers(found)}{_whose(found)}: {found[0]['reason']}")
        if at == explained and has_output(found[0]):
            failed = found[0]["status"] == "FAILED"
            lines.append(f"  See: {_output_command(found[0], experiment_id, failed=failed)}")
    if hidden:
        lines.append(f"Also failed or without a usable result: {_numbers(hidden)}")
        lines.append(f"  See why: nnictl trial show {experiment_id} -T {hidden[0]['sequence']}")
    return lines


def reason_lines(trials: Sequence[Mapping[str, Any]], experiment_id: str) -> list[str]:
    """Return a line for each reason why trials were stopped or canceled, wait, are paused or do not answer.

    The newest trials come first. Of each status, at most three reasons are shown, then the number of other
    trials and the command that shows why.
    """
    lines: list[str] = []
    for status in _EXPLAINED:
        by_reason: dict[str, list[Mapping[str, Any]]] = {}
        for trial in reversed(trials):
            if trial["status"] == status and trial["reason"]:
                reason = without_own_names(trial["reason"], trial["id"])
                by_reason.setdefault(_NUMBER.sub("0", reason), []).append(trial)
        groups = list(by_reason.values())
        for found in groups[:_MOST_REASONS]:
            each = "each " if len(found) > 1 and found[0]["reason"].startswith(_ABOUT_ONE) else ""
            lines.append(f"{status}, {_numbers(found)}{_whose(found)}: {each}{found[0]['reason']}")
        if rest := [trial for found in groups[_MOST_REASONS:] for trial in found]:
            rest.sort(key=lambda trial: -int(trial["sequence"]))
            lines.append(f"Also {status}: {_numbers(rest)}")
            lines.append(f"  See why: nnictl trial show {experiment_id} -T {rest[0]['sequence']}")
    return lines


def _whose(trials: Sequence[Mapping[str, Any]]) -> str:
    """Return whose reason is shown, if the others have other numbers in theirs: that of the newest trial."""
    newest = trials[0]
    alike = all(trial["reason"] == newest["reason"] for trial in trials)
    return "" if alike else f", for example no. {newest['sequence']}"


def _numbers(trials: Sequence[Mapping[str, Any]]) -> str:
    """Return the numbers of trials: "trial no. 4", "trials no. 1, 7 and 9", or "40 trials, the last ones no.
    32, 33 and 39".

    ``trials``: the newest first. If there are many, the newest ones are named.
    """
    *named, last = (str(trial["sequence"]) for trial in reversed(trials[:_MOST_NAMED]))
    if not named:
        return f"trial no. {last}"
    several = "trials" if len(trials) <= _MOST_NAMED else f"{len(trials)} trials, the newest ones"
    return f"{several} no. {', '.join(named)} and {last}"


def _cause(trial: Mapping[str, Any]) -> str:
    """Return the cause of a trial's failure for the text after its status; "" for a user error or none."""
    cause = trial.get("cause")  # a server of an earlier version does not report it
    return "" if cause in (None, "user_error") else f" ({cause.replace('_', ' ')})"


def _output_command(trial: Mapping[str, Any], experiment_id: str, *, failed: bool) -> str:
    """Return the command that prints what a trial has written to stderr, or to stdout if stderr is empty.

    The reason of a failure ends with a line of stderr, if there is one.
    """
    file = " --file stderr" if failed and ": " in trial["reason"] else ""
    member = _MEMBER.search(trial["reason"]) if failed else None
    whose = "" if member is None else f" --member {member[1]}"
    return f"nnictl log trial {experiment_id} -T {trial['sequence']}{file}{whose}"

"""Texts about an experiment that several commands show: counts, goal, best trial, last failed trial."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from nnimgr.cli.progress import number, status_addition
from nnimgr.cli.times import when
from nnimgr.client.calls import Client
from nnimgr.client.errors import ClientError

__all__ = [
    "LATEST",
    "best_line",
    "best_with_time",
    "confirmed_lines",
    "counts_text",
    "goal_of",
    "main_objective",
    "result_text",
]

LATEST = "~"  # mark of an intermediate result that is shown in place of a final result


def counts_text(profile: Mapping[str, Any]) -> str:
    """Return the number of trials by status: "20 SUCCEEDED (2 without a usable result), 1 FAILED"."""
    parts = [
        f"{count} {status}{status_addition(profile, status)}"
        for status, count in profile["counts"].items()
        if count
    ]
    return ", ".join(parts) or "none"


def goal_of(profile: Mapping[str, Any]) -> str:
    """Return "maximize" or "minimize", with a hint if the configuration does not state it.

    For several objectives, return the direction of each.
    """
    objectives: Mapping[str, str] = profile.get("objectives") or {}
    if len(objectives) > 1:
        return ", ".join(f"{mode} {name}" for name, mode in objectives.items())
    mode = str(profile["optimizeMode"])
    return mode if profile.get("goalStated", True) else f'{mode} (NNI\'s default; set "goal:")'


def main_objective(profile: Mapping[str, Any]) -> str:
    """Return the name of the objective that decides which trial is the best.

    Return "" if the experiment does not have several objectives.
    """
    objectives = list(profile.get("objectives") or {})
    return objectives[0] if len(objectives) > 1 else ""


def best_line(profile: Mapping[str, Any], *, ended_at: str | None = None) -> str:
    """Return the best result with its trial, such as "0.964, trial 20 (k3x9z), 1 min ago"."""
    best = profile["bestTrial"]
    main = main_objective(profile)
    by = f" ({main})" if main else ""
    text = f"{number(best['value'])}{by}, trial {best['sequence']} ({best['trialId']})"
    return text if ended_at is None else f"{text}, {when(ended_at)}"


def confirmed_lines(profile: Mapping[str, Any]) -> list[str]:
    """Return a line for each confirmed trial, the best mean first; no line without ``confirmBest``."""
    found = profile.get("confirmations")
    if found is None:
        return []
    return [_confirmed_line(trial, found["runs"]) for trial in found["trials"]]


def _confirmed_line(trial: Mapping[str, Any], planned: int) -> str:
    """Return the mean of a confirmed trial, such as "trial 20 (k3x9z): mean 0.94 (95 % interval: 0.92 to
    0.96), 5 of 5 runs; 0.964 in the search". ``planned``: number of runs of each trial.
    """
    if trial["mean"] is None:
        text = "no result yet" if trial["open"] else "no usable result"
    else:
        text = f"mean {number(trial['mean'])}"
    if trial["low"] is not None:
        text += f" (95 % interval: {number(trial['low'])} to {number(trial['high'])})"
    runs = f"{trial['usable']} of {planned} runs"
    if trial["unusable"]:
        runs += f", {trial['unusable']} without a usable result"
    where = f"trial {trial['sequence']} ({trial['trialId']})"
    return f"{where}: {text}, {runs}; {number(trial['value'])} in the search"


def best_with_time(client: Client, profile: Mapping[str, Any]) -> str:
    """Return the best result with its trial and the time at which this trial ended."""
    ended_at = None
    with contextlib.suppress(ClientError):  # the server may have exited with its last experiment
        best_id = profile["bestTrial"]["trialId"]
        ended_at = client.get("experiments", profile["id"], "trials", best_id)["endedAt"]
    return best_line(profile, ended_at=ended_at)


def result_text(trial: Mapping[str, Any]) -> str:
    """Return a trial's result. Without a result, return the latest intermediate result after ``LATEST``."""
    if trial["finalValue"] is not None:
        return number(trial["finalValue"])
    if trial.get("noResult"):
        return "no result" if trial["finalText"] is None else "not usable"
    if trial["finalText"] is not None:
        return str(trial["finalText"])
    if trial["status"] != "SUCCEEDED" and trial["latestValue"] is not None:
        return f"{LATEST}{number(trial['latestValue'])}"
    return "-"

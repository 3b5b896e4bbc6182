"""Sentences about limits of an experiment that are used up, and the commands that raise them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from nnimgr.cli.progress import LIVE, created_trials
from nnimgr.rules.phrases import TUNER_EXHAUSTED, left_out, trial_count

__all__ = ["after_update", "ended_again", "raised_limit", "used_up"]

_ASIDE = ("duration", "priority")  # updates that lead to no new trials, unless the time was used up
_WITH_QUEUES = ("kubernetes", "slurm", "ray")  # platforms that decide which trial is next
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"))


def ended_again(profile: Mapping[str, Any]) -> str | None:
    """Return why a resumed experiment has ended at once, with the command that lets it continue.

    Return None if it has not ended.
    """
    if profile["status"] != "DONE":
        return None
    failed = profile["counts"].get("FAILED", 0) - (profile.get("retried") or 0)
    remedy = _remedy(profile)
    if failed > 0:
        remedy += "; or repeat" if remedy else " Repeat"
        remedy += f" the failed trials: nnictl trial retry {profile['id']} --failed"
    return f"The experiment ended at once: {profile['reason']}.{remedy}"


def after_update(profile: Mapping[str, Any], title: str, *, was_done: bool) -> str | None:
    """Return why an update has no effect, has not led to new trials, or does not do so yet.

    Return None if nothing prevents new trials. ``title``: what was changed, such as "trialnum". ``was_done``:
    the experiment was DONE before the update.
    """
    counts, limits = profile["counts"], profile["limits"]
    live = sum(counts.get(status, 0) for status in LIVE)
    if title == "priority" and profile["platform"] in _WITH_QUEUES:
        return f'It has no effect: the platform "{profile["platform"]}" has a queue of its own.'
    if title == "trialnum" and used_up(profile) == "trialnum":
        rest = f" {live} of them {'has' if live == 1 else 'have'} not ended yet." if live else ""
        others = left_out(retried=profile.get("retried") or 0, canceled=counts.get("SYS_CANCELED", 0))
        there = f"{trial_count(created_trials(profile))}{others} exist already"
        return f"No more trials are created: {there}, and the limit is {limits['maxTrialNumber']}.{rest}"
    running = sum(counts.get(status, 0) for status in ("RUNNING", "UNKNOWN"))
    slots = limits["trialConcurrency"]
    if title == "concurrency" and profile["status"] == "RUNNING" and running > slots:
        when = "when none of them runs any more" if slots == 1 else f"when fewer than {slots} of them run"
        return f"{running} trials run, and all of them continue. The next trial starts {when}."
    if profile["status"] == "DRAINING" and (title not in _ASIDE or used_up(profile) == title):
        continues = "trial continues" if live == 1 else "trials continue"
        rest = f" {live} {continues} to the end." if live else ""
        return f"No more trials are created: {profile['reason']}.{rest}"
    if profile["status"] in ("STOPPED", "ERROR"):
        return f"The change takes effect when the experiment is resumed: nnictl resume {profile['id']}"
    if profile["status"] == "DONE":
        how = "The experiment is still DONE" if was_done else "This change has ended the experiment"
        return f"{how}: {profile['reason']}.{_remedy(profile)}"
    return None


def _remedy(profile: Mapping[str, Any]) -> str:
    """Return a sentence with the command that doubles the limit that is used up, or changes the rule that
    holds; "" if the experiment has ended for another reason.
    """
    command = raised_limit(profile)
    ruled = profile["config"].get("stopWhen") and not profile["reason"].startswith(TUNER_EXHAUSTED)
    if ruled and (command is None or profile["reason"].startswith("stopWhen")):
        return f" Change or remove stopWhen: nnictl update stopwhen {profile['id']} --filename FILE"
    return "" if command is None else f" Raise the limit: {command}"


def raised_limit(profile: Mapping[str, Any]) -> str | None:
    """Return the command that doubles the limit that is used up, or None without such a limit."""
    limit = used_up(profile)
    if limit is None:
        return None
    if limit == "trialnum":
        value = str(2 * max(profile["limits"]["maxTrialNumber"], created_trials(profile)))
    else:
        value = _duration(2 * math.ceil(profile["durationS"]))
    return f"nnictl update {limit} {profile['id']} --value {value}"


def used_up(profile: Mapping[str, Any]) -> str | None:
    """Return the limit that prevents new trials, as ``nnictl update`` names it, or None."""
    if profile["status"] != "DONE" and profile["drain"] != "budget":
        return None
    limits = profile["limits"]
    longest, most = limits["maxExperimentDurationS"], limits["maxTrialNumber"]
    if longest is not None and profile["durationS"] >= longest:
        return "duration"
    return "trialnum" if most is not None and created_trials(profile) >= most else None


def _duration(seconds: int) -> str:
    size, unit = next((each for each in _UNITS if not seconds % each[0]), (1, "s"))
    return f"{seconds // size}{unit}"

"""Phrases that several sentences of the rules have in common."""

from __future__ import annotations

from datetime import timedelta

__all__ = [
    "ENDED_FIRST",
    "NO_SCRIPT",
    "STOPPED_BY_USER",
    "TUNER_EXHAUSTED",
    "against_limit",
    "best_so_far",
    "in_seconds",
    "left_out",
    "shortened",
    "trial_count",
    "without_own_names",
]

# Reasons of an experiment, as it begins with them.
STOPPED_BY_USER = "a user stopped it"
TUNER_EXHAUSTED = "the tuner has no more parameter sets"

# In the reason of a trial: what Python says about a script that does not exist.
NO_SCRIPT = "can't open file"

# End of the reason of a trial that has succeeded although it was to be stopped.
ENDED_FIRST = "before its stop took effect"

SHOWN = 60  # most characters of a user's text that a sentence shows


def against_limit(number: int, most: int, what: str = "", *, created: int = 0) -> str:
    """Return a number of trials with its limit, for example "4 of 10 finished".

    ``created``: number of trials that exist. A user can set the limit below it: "4 of 19 finished, above the
    limit of 5 trials". If ``number`` is above the limit, too, ``created`` is left out.
    """
    shown = str(number) if number > most else f"{number} of {max(most, created)}"
    above = f", above the limit of {trial_count(most)}" if max(number, created) > most else ""
    return f"{shown} {what}".rstrip() + above


def best_so_far(value: float, sequence: int) -> str:
    return f"best {value:.6g}, trial {sequence}"


def in_seconds(duration: timedelta) -> str:
    """Return the duration in seconds as text for a sentence, for example "60 s"."""
    return f"{duration.total_seconds():g} s"


def left_out(*, retried: int, canceled: int) -> str:
    """Return which trials do not count towards maxTrialNumber, for the end of a phrase; "" if all count.

    ``retried``: number of failed trials that other trials replace. ``canceled``: number of trials that the
    system canceled. Trials that a user canceled count, so the status shows which trials are not counted.
    """
    named = ((retried, "retried"), (canceled, "SYS_CANCELED"))
    parts = [f"{number} {what}" for number, what in named if number]
    return f" (not counted: {', '.join(parts)})" if parts else ""


def shortened(text: str) -> str:
    """Return the first line of a user's text, cut off if it is too long for a sentence."""
    line, _, more = text.strip().partition("\n")
    return line if not more and len(line) <= SHOWN else f"{line[:SHOWN]}..."


def without_own_names(reason: str, trial_id: str) -> str:
    """Return a reason without the names that contain the trial's id, such as that of its pod.

    So the reasons of trials that have ended alike are equal.
    """
    if trial_id not in reason:
        return reason
    return " ".join("..." if trial_id in word else word for word in reason.split(" "))


def trial_count(number: int) -> str:
    return "1 trial" if number == 1 else f"{number} trials"

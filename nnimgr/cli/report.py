"""Summary that is printed after an experiment was watched: its end, its best trial, and the next command."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from nnimgr.cli.failures import failure_lines, last_failure
from nnimgr.cli.progress import Progress, moved, number
from nnimgr.cli.summary import (
    confirmed_lines,
    counts_text,
    goal_of,
    main_objective,
)
from nnimgr.cli.terminal import Terminal
from nnimgr.client.calls import Client
from nnimgr.client.errors import ClientError
from nnimgr.client.experiments import ENDED
from nnimgr.rules.phrases import NO_SCRIPT

__all__ = ["CREATE", "report"]

CREATE = "nnictl create --config FILE"  # how a user starts another experiment, if its file is not known
_NO_COMMAND = (126, 127)  # exit codes: the shell could not execute the command, or did not find it


def report(
    progress: Progress, client: Client, terminal: Terminal, *, again: str = CREATE, still_open: bool = False
) -> None:
    """Print how the experiment ended: the number of trials by status, the best trial and the last failure.

    ``again``: how the user starts another experiment. ``still_open``: the experiment was not stopped after
    its end, so that its failed trials can be retried.
    """
    profile = progress.profile
    sentence = moved(profile["status"], profile["reason"])
    if not progress.recent or progress.recent[-1] != sentence or terminal.live:
        terminal.stamped(sentence)
    terminal.say(f"Trials: {counts_text(profile)}")
    if profile["status"] == "ERROR":
        for error in profile["errors"][:1]:
            terminal.say(f"{error['sentence']}\n{error['traceback']}".rstrip())
    failed = progress.failed
    if failed is None:
        with contextlib.suppress(ClientError):  # the server may have exited with its last experiment
            failed = last_failure(client, profile)
    if failed is not None:
        terminal.say("\n".join(failure_lines(failed, profile["id"])))
    best = profile["bestTrial"]
    if best is None:
        terminal.say("No trial has a usable result.")
    else:
        where = f"{best['sequence']} ({best['trialId']})"
        main = main_objective(profile)
        by = f" for {main}" if main else ""
        terminal.say(f"Best trial{by}: {where} with {number(best['value'])}, goal: {goal_of(profile)}")
        for name, value in _items(best["parameters"]):
            terminal.say(f"  {name}: {value}")
        if confirmed := confirmed_lines(profile):
            terminal.say("Results of runs with other seeds, the best mean first:")
            terminal.say("\n".join(f"  {line}" for line in confirmed), indent="    ")
        if main:
            terminal.say(f"Best for several objectives: nnictl experiment pareto {profile['id']}")
    terminal.say(f"Next: {_next(profile, failed, again, still_open=still_open)}")


def _next(
    profile: Mapping[str, Any],
    failed: Mapping[str, Any] | None,
    again: str,
    *,
    still_open: bool,
) -> str:
    """Return the command that most users need after an experiment with this end."""
    experiment_id = profile["id"]
    retry = f"nnictl trial retry {experiment_id} --failed"
    no_script = failed is not None and NO_SCRIPT in (failed["reason"] or "")
    correct = "add the missing file" if no_script else "correct the trial's code"
    if profile["status"] not in ENDED:
        return f"nnictl top {experiment_id}"
    if profile["status"] == "STOPPED":
        if failed is not None and _has_no_command(failed):
            return f"correct trialCommand, then: {again}"
        if failed is not None and not profile["counts"].get("SUCCEEDED"):
            resume = f"nnictl resume {experiment_id}"
            return f"{correct}, then: {resume}\n  Then repeat the failed trials: {retry}"
        return f"nnictl resume {experiment_id}"
    if profile["status"] == "ERROR":
        return f"correct the error, then: nnictl resume {experiment_id}"
    if profile["bestTrial"] is not None:
        return f"nnictl experiment export {experiment_id} -t csv -f results.csv"
    if failed is not None:
        if _has_no_command(failed):
            return f"correct trialCommand, then: {again}"
        if still_open:
            return f"{correct}, then: {retry}; or start again: {again}"
        return f"{correct}, then: {again}"
    return f"see why no trial has a usable result: nnictl trial ls {experiment_id}"


def _has_no_command(trial: Mapping[str, Any]) -> bool:
    """Return whether the trial has failed because its command cannot be executed."""
    return any(f"(exit code {code})" in (trial["reason"] or "") for code in _NO_COMMAND)


def _items(parameters: Any) -> list[tuple[str, Any]]:
    return list(parameters.items()) if isinstance(parameters, Mapping) else [("value", parameters)]

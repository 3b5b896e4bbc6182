"""``nnictl trial``: the verbs add and fork, which make new trials of others."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from nnimgr.cli.terminal import Terminal
from nnimgr.cli.trials import to_change, trial_named
from nnimgr.client.calls import Client
from nnimgr.client.errors import ApiError, ClientError

__all__ = ["add", "checkpoint_name", "fork"]

_RAISES = "--raise-limit"


def add(args: argparse.Namespace, terminal: Terminal) -> int:
    """Add a trial with the parameters of another trial, or with changed ones."""
    client, entry = to_change(args)
    trial = trial_named(client, entry.id, args.trial_id)
    wanted: dict[str, Any] = {"like": trial["id"], **_limit(args)}
    if args.changes:
        wanted["parameters"] = _changed(trial["parameters"], args.changes)
    made = _post(client, "experiments", entry.id, "trials", body=wanted)
    parameters = "changed parameters" if args.changes else "the parameters"
    return _tell(made, f"starts with {parameters} of trial {trial['sequence']}", terminal)


def fork(args: argparse.Namespace, terminal: Terminal) -> int:
    """Add a trial that continues from a checkpoint of another trial."""
    client, entry = to_change(args)
    trial = trial_named(client, entry.id, args.trial_id)
    wanted = _limit(args)
    if args.checkpoint is not None:
        wanted["checkpoint"] = checkpoint_name(args.checkpoint)
    if args.changes:
        wanted["parameters"] = _changed(trial["parameters"], args.changes)
    made = _post(client, "experiments", entry.id, "trials", trial["id"], "fork", body=wanted)
    return _tell(made, f"continues from a checkpoint of trial {trial['sequence']}", terminal)


def _post(client: Client, *path: str, body: Mapping[str, Any]) -> Any:
    try:
        return client.post(*path, body=body)
    except ApiError as error:
        if _RAISES in error.lines[0]:
            error.mend = f"Repeat: {{command}} {_RAISES}"
        raise


def _limit(args: argparse.Namespace) -> dict[str, Any]:
    """Return the part of the request about maxTrialNumber. Servers of earlier versions do not know it."""
    return {"raiseLimit": True} if args.raise_limit else {}


def _tell(made: Mapping[str, Any], what: str, terminal: Terminal) -> int:
    terminal.info(f"Trial {made['sequence']} ({made['id']}) {what} as soon as a slot is free.")
    for sentence in made.get("warnings", ()):  # a server of an earlier version sends none
        terminal.warn(f"{sentence}.")
    if terminal.as_json:
        terminal.json(dict(made))
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
        names = ", ".join(changed)
        if not is_change:
            raise ClientError(f"--set must be NAME=VALUE, not {change!r}; the parameters are {names}")
        if name not in changed:
            raise ClientError(f"--set {change}: there is no parameter {name}; the parameters are {names}")
        try:
            changed[name] = json.loads(text)
        except ValueError:
            changed[name] = text
        try:
            json.dumps(changed[name], allow_nan=False)
        except ValueError as error:
            raise ClientError(f"--set {change}: the value is not finite, so no trial can get it") from error
    return changed

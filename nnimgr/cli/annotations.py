"""``nnictl trial note`` and ``nnictl trial tag``: show and change the notes and tags of trials."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from nnimgr.cli.selection import client_of, select
from nnimgr.cli.terminal import Terminal
from nnimgr.cli.trials import trial_named, trials_named
from nnimgr.client.errors import ClientError
from nnimgr.home import Home

__all__ = ["note", "tag"]


def note(args: argparse.Namespace, terminal: Terminal) -> int:
    """Show the note of a trial, or replace it."""
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    client = client_of(home, entry, port=args.port)
    trial = trial_named(client, entry.id, args.trial_id)
    client.mends = {**client.mends, 422: "See the limits: nnictl trial note --help"}
    text = "" if args.clear else args.text
    if text is not None:
        path = ("experiments", entry.id, "trials", trial["id"], "annotation")
        trial |= client.call("PATCH", *path, body={"note": text})
        done = "has a new note" if text else "has no note any more"
        terminal.info(f"Trial {trial['sequence']} ({trial['id']}) {done}.")
    elif not terminal.as_json:
        terminal.say(trial["userNote"] or f"Trial {trial['sequence']} ({trial['id']}) has no note.")
    if terminal.as_json:
        terminal.json({"id": trial["id"], "userNote": trial["userNote"]})
    return 0


def tag(args: argparse.Namespace, terminal: Terminal) -> int:
    """Add tags to trials and remove tags from them. Without any tag, show the tags."""
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    client = client_of(home, entry, port=args.port)
    client.mends = {
        **client.mends,
        409: "Remove tags with the same command: nnictl trial tag -T TRIAL --add TAG --remove TAG",
        422: "See the limits: nnictl trial tag --help",
    }
    trials = {trial["id"]: trial for trial in trials_named(client, entry.id, args.trial_id)}
    add, remove = _tags(args.add), _tags(args.remove)
    if both := [tag for tag in add if tag in remove]:
        raise ClientError(
            f"The tag {both[0]!r} is given to both --add and --remove.",
            mend="Give each tag to --add or to --remove. See: nnictl trial tag --help",
        )
    if add or remove:
        for tag in remove:
            if all(tag not in trial["tags"] for trial in trials.values()):
                whose = "The trial has" if len(trials) == 1 else "None of the trials has"
                terminal.warn(f"{whose} {'no' if len(trials) == 1 else 'the'} tag {tag!r}.")
        body = {"trialIds": list(trials), "add": add, "remove": remove}
        changed = client.post("experiments", entry.id, "tags", body=body)
        for tagged in changed["trials"]:
            trials[tagged["id"]]["tags"] = tagged["tags"]
    for trial in trials.values():
        noted = f"is tagged {', '.join(trial['tags'])}" if trial["tags"] else "has no tags"
        terminal.info(f"Trial {trial['sequence']} ({trial['id']}) {noted}.")
    if terminal.as_json:
        terminal.json({"trials": [{"id": each["id"], "tags": each["tags"]} for each in trials.values()]})
    return 0


def _tags(words: Sequence[str]) -> list[str]:
    """Return the tags given as options. One option may have several tags with commas between them."""
    return list(dict.fromkeys(tag.strip() for word in words for tag in word.split(",") if tag.strip()))

"""``nnictl update tuner``: replaces the tuner of an experiment. The new tuner gets all earlier results."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnimgr.cli.selection import client_of, select
from nnimgr.cli.terminal import Terminal
from nnimgr.cli.update import located, read_file
from nnimgr.client.calls import ApiError
from nnimgr.client.errors import ClientError
from nnimgr.client.waits import waiting
from nnimgr.home import Home

if TYPE_CHECKING:
    from nnimgr.config.document import Document, KeyPath

__all__ = ["replace"]


def replace(args: argparse.Namespace, terminal: Terminal) -> int:
    """Replace the tuner of an experiment. Running and waiting trials continue.

    The new tuner gets the results of these trials.
    """
    from nnimgr.config.change_text import anchored_tuner

    file = Path(args.filename)
    document, content = read_file(file)
    path, tuner = _section(document, content)
    tuner = anchored_tuner(tuner, Path(file).absolute().parent)
    home = Home.find()
    entry = select(home, args.id, port=args.port, to_change=True)
    client = client_of(home, entry, port=args.port)
    try:
        before = client.get("experiments", entry.id)
        with waiting(f"waiting until the server has checked and replaced the tuner of {entry.id}"):
            after = client.call("PATCH", "experiments", entry.id, body={"tuner": tuner}, timeout_s=None)
    except ApiError as error:
        problems = [located(document, path, problem, field="tuner") for problem in error.problems]
        lines = [str(problem) for problem in problems] or error.lines
        plain = [problem.plain() for problem in problems]
        mend = f"Correct {args.filename}, then repeat: {{command}}" if problems else error.mend
        raise ClientError(*lines, "Update tuner failed!", problems=plain, mend=mend) from error
    terminal.info("The tuner is replaced." if terminal.for_people else "Update tuner success!")
    terminal.info(_sentence(before, after))
    if terminal.as_json:
        terminal.json(
            {"id": entry.id, "changes": {"tuner": after["config"]["tuner"]}, "history": after["counts"]}
        )
    return 0


def _section(document: Document, content: Any) -> tuple[KeyPath, dict[str, Any]]:
    """Return the path of the tuner's section in the file, and the section. Raise ClientError."""
    from nnimgr.config import ConfigError
    from nnimgr.config.change_text import tuner_section

    try:
        return tuner_section(document, content)
    except ConfigError as error:
        problems = [problem.plain() for problem in error.problems]
        raise ClientError(str(error), problems=problems) from error


def _sentence(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    old, new = (_title(profile["config"]["tuner"]) for profile in (before, after))
    if before["config"]["tuner"] == after["config"]["tuner"]:
        return f"The tuner was {new} with these arguments already: nothing has changed."
    counts = {status: count for status, count in after["counts"].items() if count}
    ended = sum(counts.get(status, 0) for status in ("SUCCEEDED", "EARLY_STOPPED"))
    failed = counts.get("FAILED", 0)
    live = sum(counts.get(status, 0) for status in ("WAITING", "RUNNING", "PAUSED", "UNKNOWN"))
    history = f"The new tuner gets the whole history: {ended} finished and {failed} failed trials."
    history += f" {live} waiting or running trials continue." if live else ""
    match after["status"]:
        case "STOPPED" | "ERROR":
            when = f"The tuner will be {new} instead of {old} when the experiment is resumed."
        case "DONE":
            when = f"The tuner is {new} instead of {old}, but the experiment is done: {after['reason']}."
        case _:
            when = f"The tuner is {new} instead of {old} from now on."
    return f"{when} {history}"


def _title(tuner: Mapping[str, Any]) -> str:
    return str(tuner.get("name") or tuner.get("className"))

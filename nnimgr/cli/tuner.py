"""``nnictl update tuner``: replaces the tuner of an experiment. The new tuner gets all earlier results."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnimgr.cli.progress import LIVE, finished_trials
from nnimgr.cli.selection import client_of, select
from nnimgr.cli.terminal import Terminal
from nnimgr.cli.update import located, read_file
from nnimgr.client.errors import ApiError, ClientError
from nnimgr.client.waits import waiting
from nnimgr.home import Home
from nnimgr.store.overview import imported_results

if TYPE_CHECKING:
    from nnimgr.config.document import Document, KeyPath

__all__ = ["replace"]

_FINISHED = ("SUCCEEDED", "EARLY_STOPPED", "FAILED", "USER_CANCELED")  # statuses of finished trials


def replace(args: argparse.Namespace, terminal: Terminal) -> int:
    """Replace the tuner of an experiment. Running and waiting trials continue.

    The new tuner gets the results of these trials.
    """
    from nnimgr.config.change_text import anchored_tuner

    file = Path(args.filename)
    document, content = read_file(file)
    path, tuner = _section(document, content, file)
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
        failed = () if terminal.for_people else ("Update tuner failed!",)  # as NNI ends this
        raise ClientError(*lines, *failed, problems=plain, mend=mend) from error
    if not terminal.for_people:
        terminal.info("Update tuner success!")
    terminal.info(_sentence(before, after, imported=imported_results(entry.directory)))
    if terminal.as_json:
        terminal.json(
            {"id": entry.id, "changes": {"tuner": after["config"]["tuner"]}, "history": after["counts"]}
        )
    return 0


def _section(document: Document, content: Any, file: Path) -> tuple[KeyPath, dict[str, Any]]:
    """Return the path of the tuner's section in the file, and the section. Raise ClientError."""
    from nnimgr.config import ConfigError
    from nnimgr.config.change_text import tuner_section

    try:
        return tuner_section(document, content)
    except ConfigError as error:
        problems = [problem.plain() for problem in error.problems]
        mend = f"Correct {file}, then repeat: {{command}}"
        raise ClientError(str(error), problems=problems, mend=mend) from error


def _sentence(before: Mapping[str, Any], after: Mapping[str, Any], *, imported: int) -> str:
    """Return what the new tuner is, and which history it gets. ``imported``: number of imported results."""
    old, new = (_title(profile["config"]["tuner"]) for profile in (before, after))
    if before["config"]["tuner"] == after["config"]["tuner"]:
        return f"The tuner was {new} with these arguments already: nothing has changed."
    live = sum(after["counts"].get(status, 0) for status in LIVE)
    finished = finished_trials(after)
    history = f"The new tuner gets the whole history: {finished} finished trial{'' if finished == 1 else 's'}"
    history += _by_status(after)
    history += f", and {imported} imported result{'' if imported == 1 else 's'}." if imported else "."
    continues = "trial continues" if live == 1 else "trials continue"
    history += f" {live} waiting or running {continues}." if live else ""
    change = f"{new} with other arguments" if new == old else f"{new} instead of {old}"
    match after["status"]:
        case "STOPPED" | "ERROR":
            when = f"The tuner will be {change} when the experiment is resumed."
        case "DONE":
            when = f"The tuner is {change}, but the experiment is done: {after['reason']}."
        case _:
            when = f"The tuner is {change} from now on."
    return f"{when} {history}"


def _by_status(profile: Mapping[str, Any]) -> str:
    """Return how many of the finished trials have each status, such as " (5 SUCCEEDED, 1 FAILED)".

    Return "" if all have succeeded.
    """
    counts = {**profile["counts"]}
    counts["FAILED"] = counts.get("FAILED", 0) - (profile.get("retried") or 0)  # the retries count instead
    parts = [f"{counts[status]} {status}" for status in _FINISHED if counts.get(status)]
    return "" if all(part.endswith("SUCCEEDED") for part in parts) else f" ({', '.join(parts)})"


def _title(tuner: Mapping[str, Any]) -> str:
    return str(tuner.get("name") or tuner.get("className"))

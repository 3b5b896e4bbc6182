"""``nnictl update``: change the search space or the limits of a running experiment."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnimgr.cli.configuration import wrong_files
from nnimgr.cli.limits import after_update
from nnimgr.cli.selection import client_of, select
from nnimgr.cli.terminal import Terminal
from nnimgr.cli.times import duration_text
from nnimgr.client.errors import ApiError, ClientError, problem_line
from nnimgr.home import Home
from nnimgr.spelling import nearest

if TYPE_CHECKING:
    from nnimgr.config.document import Document, KeyPath
    from nnimgr.config.problems import Problem

__all__ = [
    "concurrency",
    "constraints",
    "duration",
    "located",
    "priority",
    "read_file",
    "read_plain",
    "searchspace",
    "stopwhen",
    "trialnum",
]


def searchspace(args: argparse.Namespace, terminal: Terminal) -> int:
    """Change the search space of a running experiment. Running trials continue."""
    source = _read_field(Path(args.filename), "searchSpace")
    changes, rules = {"searchSpace": source.value}, None
    if args.constraints is not None:
        rules = _read_field(Path(args.constraints), "searchSpaceConstraints")
        changes["searchSpaceConstraints"] = rules.value
    return _update(
        args, terminal, changes, title="search space", source=source, placed=partial(_placed, rules)
    )


def constraints(args: argparse.Namespace, terminal: Terminal) -> int:
    """Change the constraints on the search space of an experiment. Running trials continue."""
    rules = _read_field(Path(args.filename), "searchSpaceConstraints")
    changes = {"searchSpaceConstraints": rules.value}
    return _update(args, terminal, changes, title="constraints", placed=partial(_placed, rules))


def concurrency(args: argparse.Namespace, terminal: Terminal) -> int:
    """Change the number of trials that run at the same time. No running trial is ended."""
    count = _whole(args.value)
    return _update(args, terminal, {"trialConcurrency": count}, title="concurrency")


def duration(args: argparse.Namespace, terminal: Terminal) -> int:
    """Change the maximum duration of the experiment, such as 30s, 10m, 2h or 1d."""
    from training_services.units import parse_duration

    text: str = args.value
    try:
        seconds = int(parse_duration(int(text) if text.isdecimal() else text).total_seconds())
    except ValueError as error:
        raise ClientError(f"{error}.", mend="For example: {command} --value 2h") from error
    return _update(args, terminal, {"maxExperimentDuration": seconds}, title="duration")


def trialnum(args: argparse.Namespace, terminal: Terminal) -> int:
    """Change the maximum number of trials. A finished experiment continues if the number is larger."""
    count = _whole(args.value)
    return _update(args, terminal, {"maxTrialNumber": count}, title="trialnum")


def priority(args: argparse.Namespace, terminal: Terminal) -> int:
    """Change the priority with which the experiment's trials get free machines."""
    text: str = args.value
    try:
        number = int(text)
    except ValueError as error:
        raise ClientError(
            f"The value must be a whole number, not {text!r}.", mend="For example: {command} --value 10"
        ) from error
    return _update(args, terminal, {"priority": number}, title="priority")


def stopwhen(args: argparse.Namespace, terminal: Terminal) -> int:
    """Change the rules that end an experiment. A finished experiment continues if no rule holds any more."""
    rules = _read_field(Path(args.filename), "stopWhen")

    def placed(told: Mapping[str, Any]) -> dict[str, Any]:
        return located(rules.document, rules.path, told, field="stopWhen").plain()

    return _update(args, terminal, {"stopWhen": rules.value or None}, title="stopWhen", placed=placed)


def read_plain(file: Path) -> Any:
    """Return the content of a JSON or YAML file as plain values. Raise ClientError."""
    return read_file(file)[1]


def read_file(file: Path) -> tuple[Document, Any]:
    """Return a JSON or YAML file as a document, and its content as JSON values. Raise ClientError."""
    from nnimgr.config import ConfigError
    from nnimgr.config.document import read_document
    from nnimgr.config.parsing import Reading, plain

    try:
        document = read_document(file)
        reading = Reading(document=document)
        value = plain(reading, document.value, ())
        if reading.problems:
            raise ConfigError(reading.problems)
        return document, value
    except ConfigError as error:
        lines = [str(problem) for problem in error.problems]
        mend = f"Correct {file}, then repeat: {{command}}" if file.is_file() else None
        problems = [problem.plain() for problem in error.problems]
        raise ClientError(*lines, problems=problems, mend=mend) from error


@dataclass(frozen=True, slots=True)
class _Field:
    """Value of one configuration field, read from a file. ``path``: its place in the file."""

    document: Document
    path: KeyPath
    value: Any


def _read_field(file: Path, name: str) -> _Field:
    """Read the value of a field from a file that holds only this value, or a whole configuration.

    Raise ClientError, also if the configuration does not have the field itself, or the field is misspelled.
    """
    from nnimgr.config.parsing import match_key

    document, content = read_file(file)
    keys = {match_key(str(key)): key for key in content} if isinstance(content, Mapping) else {}
    key = keys.get(match_key(name))
    if key is not None and not (isinstance(content[key], Mapping) and "_type" in content[key]):
        return _Field(document, (key,), content[key])
    if not keys.keys() & {"trialcommand", "trial", "trainingservice", "tuner"} or _has_specs(content):
        _refuse_misspelled(document, content, name, file)
        return _Field(document, (), content)
    elsewhere = keys.get(f"{match_key(name)}file", keys.get(f"{match_key(name)}path"))
    if elsewhere is None:
        raise ClientError(f"{file} is a whole configuration, and it has no {name}.")
    other = shlex.quote(str(file.parent / str(content[elsewhere])))
    raise ClientError(
        f"{file} is a whole configuration, whose {name} is in another file.",
        mend=f"Name that file: {{command}} --filename {other}",
    )


def _refuse_misspelled(document: Document, content: Any, name: str, file: Path) -> None:
    """Raise ClientError if a file holds one section, whose name is similar to ``name``."""
    if not isinstance(content, Mapping) or len(content) != 1:
        return
    ((key, section),) = content.items()
    is_spec = isinstance(section, Mapping) and "_type" in section
    if not isinstance(section, Mapping | list) or is_spec or nearest(str(key), [name]) is None:
        return
    problem = document.problem((key,), "unknown field", nearest=name, field=str(key))
    mend = f"Correct {file}, then repeat: {{command}}"
    raise ClientError(str(problem), problems=[problem.plain()], mend=mend)


def _has_specs(content: Mapping[str, Any]) -> bool:
    """Return whether any value is the description of a parameter of a search space."""
    return any(isinstance(value, Mapping) and "_type" in value for value in content.values())


def _whole(text: str) -> int:
    """Return the whole number in the text. The server refuses a number that is too large."""
    try:
        number = int(text) if text.isdecimal() else 0
    except ValueError:  # thousands of digits
        number = 0
    if number < 1:
        raise ClientError(
            f"The value must be a whole number above 0, not {text!r}.",
            mend="For example: {command} --value 10",
        )
    return number


def _faults_of(space: _Field) -> list[Problem]:
    """Return the errors in a search space, with their lines in the file."""
    from nnimgr.config.document import number_hint_at
    from nnimgr.search_space import SearchSpaceError, validate

    try:
        validate(space.value)
    except SearchSpaceError as error:
        return [
            space.document.problem(
                (*space.path, *each.path), f"{each}{number_hint_at(space.value, each.path)}"
            )
            for each in error.all
        ]
    return []


def located(document: Document, path: KeyPath, problem: Mapping[str, Any], *, field: str) -> Problem:
    """Return a problem that the server reports about a field, with its line in the file.

    ``path``: place of the field in the file.
    """
    inner = re.split(r"[.\[\]]+", str(problem.get("field") or "").removeprefix(field))
    return document.problem(
        (*path, *(int(part) if part.isdigit() else part for part in inner if part)),
        str(problem["message"]),
        valid=tuple(problem.get("valid") or ()),
        nearest=problem.get("nearest"),
        field=str(problem.get("field") or ""),
    )


def _placed(rules: _Field | None, told: dict[str, Any]) -> dict[str, Any]:
    """Return a problem that the server reports. Add the line in the file if it concerns a constraint."""
    constraint = re.fullmatch(r"searchSpaceConstraints(?:\[(\d+)\])?", told.get("field") or "")
    if constraint is None:
        return told
    if rules is None:
        return {**told, "message": f"{told['message']}; --constraints FILE replaces the constraints, too"}
    index = constraint[1]
    inner = () if index is None else (int(index),)
    place = rules.document.problem((*rules.path, *inner), told["message"], field=told["field"])
    return told | place.plain()


def _update(
    args: argparse.Namespace,
    terminal: Terminal,
    changes: dict[str, Any],
    *,
    title: str,
    source: _Field | None = None,
    placed: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> int:
    """Send the changes of an experiment to the server.

    ``source``: file of the search space. ``placed``: function that adds its line to a problem.
    """
    home = Home.find()
    entry = select(home, args.id, port=args.port, to_change=True)
    client = client_of(home, entry, port=args.port)
    try:
        before = client.get("experiments", entry.id) if "filename" in args else None
        profile = client.call("PATCH", "experiments", entry.id, body=changes)
    except ApiError as error:
        faults = _faults_of(source) if source is not None and error.problems else []
        problems = [fault.plain() for fault in faults] or [placed(told) for told in error.problems]
        lines = [problem_line(problem) for problem in problems] or error.lines
        mend = error.mend
        if error.problems and "filename" in args:
            mend = f"Correct {wrong_files(problems, args.filename)}, then repeat: {{command}}"
        failed = () if terminal.for_people else (f"Update {title} failed!",)  # as NNI ends this
        raise ClientError(*lines, *failed, problems=problems, mend=mend) from error
    same = before is not None and all(before[part] == profile[part] for part in ("searchSpace", "config"))
    done = _confirmation(title, changes, same=same)
    terminal.info(done if terminal.for_people else f"Update {title} success!")  # as NNI ends this
    sentence = None if before is None else _other_parameters(before["searchSpace"], profile["searchSpace"])
    if sentence is not None:
        terminal.info(sentence)
    follows = after_update(profile, title, was_done=entry.status == "DONE")
    if follows is not None:
        terminal.info(follows)
    if terminal.as_json:
        terminal.json({"id": entry.id, "changes": changes})
    return 0


def _other_parameters(before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """Return which parameters a new search space adds and drops; None if it has the same ones."""
    dropped = [name for name in before if name not in after]
    parts = [
        f"{what}: {', '.join(names)}"
        for what, names in (("added", [name for name in after if name not in before]), ("dropped", dropped))
        if names
    ]
    if not parts:
        return None
    which = dropped[0] if len(dropped) == 1 else "one of these"
    asked = f" New trials fail if their code asks for {which}." if dropped else ""
    return f"Parameters {'; '.join(parts)}. Trials that exist keep their parameters.{asked}"


def _confirmation(title: str, changes: Mapping[str, Any], *, same: bool) -> str:
    """Return a sentence for people that confirms a change. ``same``: nothing is other than before."""
    field, value = next(iter(changes.items()))
    if len(changes) == 1 and isinstance(value, int):
        return f"{field} is now {duration_text(value) if field == 'maxExperimentDuration' else value}."
    subject = title if title == "stopWhen" else f"The {title}"
    now, before = ("are", "were") if title == "constraints" else ("is", "was")
    if same:
        return f"{subject} {before} the same already: nothing has changed."
    return f"{subject} {now} changed."

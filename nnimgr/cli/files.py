"""``nnictl trial files`` and ``nnictl trial get``: list and fetch files of trials from any machine."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from nnimgr.cli.selection import client_of, select
from nnimgr.cli.table import Column, show_table
from nnimgr.cli.terminal import Terminal, shown_time
from nnimgr.cli.times import when
from nnimgr.cli.trials import file_sentence, trial_named
from nnimgr.cli.written import written
from nnimgr.client.errors import ClientError
from nnimgr.client.waits import awaited
from nnimgr.home import Home

__all__ = ["get", "list_all"]

_COLUMNS = (Column("BYTES", "right"), Column("CHANGED"), Column("FILE", gives_way=True, least=20))


def list_all(args: argparse.Namespace, terminal: Terminal) -> int:
    """List the files of a trial with their size, the time of their last change and their path."""
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    client = client_of(home, entry, port=args.port)
    query = _part_of(args)
    trial = trial_named(client, entry.id, args.trial_id)
    page = f"nnictl trial show {entry.id} -T {trial['sequence']}"
    client.mends = {**client.mends, 404: f"See the trial's attempts: {page}"}
    found = client.get("experiments", entry.id, "trials", trial["id"], "files", **query)
    if terminal.as_json:
        terminal.json(found)
        return 0
    if terminal.for_people:
        rows = [
            (f"{file['size']:,}", when(file["modifiedAt"]), _shown(file["path"])) for file in found["files"]
        ]
        show_table(terminal, _COLUMNS, rows)
    else:
        width = max((len(f"{file['size']:,}") for file in found["files"]), default=0)
        for file in found["files"]:
            size, written = f"{file['size']:,}".rjust(width), shown_time(file["modifiedAt"])
            terminal.say(f"{size}  {written}  {_shown(file['path'])}")
    if not found["complete"]:
        terminal.warn(f"There are more files; these are the first {len(found['files'])} that were found.")
    return 0


def _part_of(args: argparse.Namespace) -> dict[str, int]:
    """Return which attempt, and which member of it, the options name."""
    named = {"attempt": args.attempt, "member": args.member}
    return {name: number for name, number in named.items() if number is not None}


def get(args: argparse.Namespace, terminal: Terminal) -> int:
    """Fetch one file of a trial. If the transfer fails, remove the incomplete file."""
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    client = client_of(home, entry, port=args.port)
    query = _part_of(args)
    trial = trial_named(client, entry.id, args.trial_id)
    of_part = "".join(f" --{name} {number}" for name, number in query.items())
    files = f"nnictl trial files {entry.id} -T {trial['sequence']}{of_part}"
    client.mends = {**client.mends, 404: f"See: {files}"}
    path = ("experiments", entry.id, "trials", trial["id"], "files", *args.path.split("/"))
    chunks = awaited(client.stream(*path, **query), file_sentence(entry, trial, args.path))
    if args.output == "-":
        if terminal.as_json:
            raise ClientError(
                "With --json the file cannot go to standard output.",
                mend="Name a file: {command} --output FILE",
            )
        _copy(chunks, terminal.out.buffer)
        return 0
    target = _target(args, files)
    size = _fetch(chunks, target)
    terminal.info(
        f"{args.path} of trial {trial['sequence']} ({trial['id']}) was fetched into the file "
        f"{os.path.join(os.curdir, target)}: {size:,} bytes."
    )
    if terminal.as_json:
        found = {"trial": trial["id"], "path": args.path, "file": str(target), "size": size}
        terminal.json(found)
    return 0


def _target(args: argparse.Namespace, files: str) -> Path:
    """Return the file to write. ``files``: command that lists the trial's files. Raise ClientError."""
    if args.output is not None:
        return Path(args.output)
    name = args.path.rpartition("/")[2]
    if name in ("", ".", ".."):
        raise ClientError(f"{args.path} is not the name of a file.", mend=f"See: {files}")
    target = Path(name)
    if os.path.lexists(target):
        raise ClientError(
            f"There is a file {target} here already.", mend="Write to another file: {command} --output FILE"
        )
    return target


def _fetch(chunks: Iterator[bytes], target: Path) -> int:
    """Write a file of a trial to ``target``, completely or not at all. Return its size in bytes."""
    if target.is_dir():
        raise ClientError(
            f"{target} is a directory.",
            mend=f"Name a file in the directory: {{command}} --output {shlex.quote(str(target / 'FILE'))}",
        )
    # Get the first bytes before a file is created, so that an error of the server leaves no file.
    first = next(chunks, b"")
    try:
        with written(target) as file:
            file.write(first)
            return len(first) + _copy(chunks, file)
    except OSError as error:
        where = error.filename or target
        raise ClientError(f"{where} cannot be written: {error.strerror or error}.") from error


def _copy(chunks: Iterator[bytes], file: BinaryIO) -> int:
    size = 0
    for chunk in chunks:
        file.write(chunk)
        size += len(chunk)
    file.flush()
    return size


def _shown(path: str) -> str:
    """Return a path with control characters escaped, because a trial could control the terminal with them."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in path
    )

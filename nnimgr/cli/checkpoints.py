"""``nnictl trial checkpoint``: the verbs ls, pin, unpin and get."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nnimgr.cli.new_trials import checkpoint_name
from nnimgr.cli.selection import client_of, select
from nnimgr.cli.table import Column, show_table
from nnimgr.cli.terminal import Terminal
from nnimgr.cli.times import when
from nnimgr.cli.trials import file_sentence, to_change, trial_named
from nnimgr.client.calls import Client
from nnimgr.client.errors import ClientError
from nnimgr.client.waits import awaited
from nnimgr.home import Home
from nnimgr.index import IndexEntry
from training_services.checkpoint_storage.copies import Name, StoredCopies
from training_services.checkpoint_storage.files import StorageError
from training_services.checkpoint_storage.fsspec_files import FsspecFiles
from training_services.checkpoint_store import CheckpointStore, Damaged, Incoming
from trial_keeper.checkpoints import contents
from trial_keeper.checkpoints.incoming import FILES
from trial_keeper.machine.disk import remove
from trial_keeper.machine.untrusted_files import raw_name

__all__ = ["get", "list_all", "pin", "unpin"]

_COLUMNS = (
    Column("CHECKPOINT"),
    Column("STEP", "right"),
    Column("SAVED"),
    Column("SIZE", "right"),
    Column("ON ITS MACHINE", gives_way=True, least=8),
    Column("COPY", optional=True),
    Column("STORED", optional=True),
    Column("PINNED", optional=True),
)
_STATES = {"saved": "kept"}
_PIECE = 1 << 20


def list_all(args: argparse.Namespace, terminal: Terminal) -> int:
    """List the checkpoints of a trial, in the order in which they were saved: on request the deleted ones,
    too, and always in JSON.
    """
    client, entry = _to_read(args)
    trial = _detail(client, entry, args.trial_id)
    if terminal.as_json:
        terminal.json({"checkpoints": trial["checkpoints"]})
        return 0
    shown = trial["checkpoints"] if args.all else list(_present(trial))
    rows = [
        (
            _name(each),
            "-" if each["step"] is None else str(each["step"]),
            when(each["at"]),
            _size_text(each["size"]),
            _STATES.get(each["state"], each["state"]),
            "yes" if each["kept"] else "",
            "yes" if each["stored"] else "",
            "yes" if each["pinned"] else "",
        )
        for each in shown
    ]
    if rows:
        show_table(terminal, _COLUMNS, rows)
    elif not trial["checkpoints"]:
        terminal.say(f"Trial {trial['sequence']} ({trial['id']}) has saved no checkpoint.")
    if deleted := len(trial["checkpoints"]) - len(shown):
        which = f"{entry.id} -T {trial['sequence']}"
        are = "1 deleted checkpoint is" if deleted == 1 else f"{deleted} deleted checkpoints are"
        terminal.say(f"{are} not listed. List all: nnictl trial checkpoint ls {which} --all")
    return 0


def pin(args: argparse.Namespace, terminal: Terminal) -> int:
    """Pin a checkpoint, so that it is not deleted."""
    return _pin(args, terminal, "POST", "is pinned: it is not deleted.")


def unpin(args: argparse.Namespace, terminal: Terminal) -> int:
    """Take back the pin of a checkpoint."""
    return _pin(args, terminal, "DELETE", "is no longer pinned.")


def _pin(args: argparse.Namespace, terminal: Terminal, method: str, done: str) -> int:
    client, entry = to_change(args)
    trial = _detail(client, entry, args.trial_id)
    found = _chosen(trial, args.checkpoint, entry)
    name = f"{found['attempt']}-{found['number']}"
    client.call(method, "experiments", entry.id, "trials", trial["id"], "checkpoints", name, "pin")
    terminal.info(f"Checkpoint {_name(found)} of trial {trial['sequence']} ({trial['id']}) {done}")
    if terminal.as_json:
        terminal.json({"id": trial["id"], "attempt": found["attempt"], "number": found["number"]})
    return 0


def get(args: argparse.Namespace, terminal: Terminal) -> int:
    """Fetch the files of a checkpoint into a new folder: completely, or not at all.

    They come from the server's copy if there is one, and else from the machine that has saved them. If the
    server's copy is missing or damaged, they come from the storage.
    """
    client, entry = _to_read(args)
    trial = _detail(client, entry, args.trial_id)
    found = _chosen(trial, args.checkpoint, entry)
    target = Path(args.output or f"{trial['id']}-{_name(found)}")
    if os.path.lexists(target):
        raise ClientError(
            f"{target} exists already.", mend="Write to another folder: {command} --output FOLDER"
        )
    part = target.with_name(f".{target.name}.part{os.getpid()}")
    try:
        if found["kept"]:
            place = _copy(client, entry, trial["id"], found, part)
        else:
            _fetch(client, entry, trial, found, part)
            place = "the machine that has saved it"
        (part / FILES).rename(target)
    except (Damaged, StorageError) as error:
        raise ClientError(f"Checkpoint {_name(found)} was not fetched: {error}.", mend="") from error
    except OSError as error:
        where = error.filename or part
        raise ClientError(f"{where} cannot be read or written: {error.strerror or error}.") from error
    finally:
        with contextlib.suppress(OSError):
            remove(str(part))
    terminal.info(
        f"Checkpoint {_name(found)} of trial {trial['sequence']} ({trial['id']}) was fetched into the folder "
        f"{os.path.join(os.curdir, target)}: {found['files']} {'file' if found['files'] == 1 else 'files'}, "
        f"{found['size']:,} {'byte' if found['size'] == 1 else 'bytes'}, from {place}."
    )
    if terminal.as_json:
        terminal.json({"trial": trial["id"], "checkpoint": found, "folder": str(target)})
    return 0


def _copy(client: Client, entry: IndexEntry, trial_id: str, found: Mapping[str, Any], part: Path) -> str:
    """Copy the files of a copy, and compare them with the hashes in its manifest. Return where it was."""
    store = CheckpointStore(entry.directory)
    name = f"{entry.id}-{trial_id}-{found['attempt']}", int(found["number"])
    try:
        _copy_from_server(store, name, part)
        return "the server's copy"
    except (FileNotFoundError, Damaged):
        if not found["stored"]:
            raise
    url = client.get("experiments", entry.id)["config"]["checkpoints"]["storage"]
    stored = StoredCopies(entry.id, FsspecFiles(url, entry.id), store)
    remove(str(part))
    entries, hashes = stored.manifest(name)
    with contextlib.closing(Incoming(str(part), entries)) as incoming:
        for piece in stored.content(name, entries):
            incoming.write(piece)
        incoming.finish(hashes, durable=False)
    return str(url)


def _copy_from_server(store: CheckpointStore, name: Name, part: Path) -> None:
    try:
        entries, hashes = contents.read_manifest(store.manifest(*name))
        content = store.content(*name)
    except ValueError as error:
        raise Damaged(str(error)) from error
    with contextlib.closing(Incoming(str(part), entries)) as incoming, contextlib.closing(content):
        while piece := content.read(_PIECE):
            incoming.write(piece)
        incoming.finish(hashes, durable=False)


def _fetch(
    client: Client, entry: IndexEntry, trial: Mapping[str, Any], found: Mapping[str, Any], part: Path
) -> None:
    """Fetch the files of a checkpoint from the machine that has saved them."""
    attempt, folder = found["attempt"], f"checkpoints/{found['number']}/"
    path = ("experiments", entry.id, "trials", trial["id"], "files")
    listed = client.get(*path, attempt=attempt)["files"]
    items = [
        [raw_name(file["path"].removeprefix(folder)), file["size"]]
        for file in listed
        if file["path"].startswith(folder)
    ]
    try:
        entries = contents.checked(sorted(items))
    except ValueError as error:
        raise Damaged(str(error)) from error
    if (len(entries), contents.size_of(entries)) != (found["files"], found["size"]):
        raise Damaged(
            f"its machine has {len(entries)} of its {found['files']} files, with "
            f"{contents.size_of(entries):,} of {found['size']:,} bytes"
        )
    with contextlib.closing(Incoming(str(part), entries)) as incoming:
        for each in entries:
            name = f"{folder}{each.name}"
            pieces = client.stream(*path, *name.split("/"), attempt=attempt)
            before = incoming.offset
            for piece in awaited(pieces, file_sentence(entry, trial, name)):
                incoming.write(piece)
            if incoming.offset - before != each.size:
                raise Damaged(f"{each.name} has changed while it was read")
        incoming.finish(incoming.hashes, durable=False)


def _to_read(args: argparse.Namespace) -> tuple[Client, IndexEntry]:
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    return client_of(home, entry, port=args.port), entry


def _detail(client: Client, entry: IndexEntry, word: str) -> dict[str, Any]:
    """Return the trial that is meant, with its checkpoints."""
    trial_id = trial_named(client, entry.id, word)["id"]
    detail: dict[str, Any] = client.get("experiments", entry.id, "trials", trial_id)
    return detail


def _chosen(trial: Mapping[str, Any], text: str | None, entry: IndexEntry) -> dict[str, Any]:
    """Return the checkpoint with this name; None: the newest one that was not deleted. Raise ClientError."""
    there = list(_present(trial))
    mend = f"See: nnictl trial checkpoint ls {entry.id} -T {trial['sequence']}"
    if text is None:
        if not there:
            raise ClientError(f"Trial {trial['sequence']} has no checkpoint.", mend=mend)
        return there[-1]
    wanted = checkpoint_name(text)
    for each in trial["checkpoints"]:
        if (each["attempt"], each["number"]) == (wanted["attempt"], wanted["number"]):
            if each in there:
                return dict(each)
            raise ClientError(f"Checkpoint {text} of trial {trial['sequence']} was deleted.", mend=mend)
    raise ClientError(f"Trial {trial['sequence']} has no checkpoint {text}.", mend=mend)


def _present(trial: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the checkpoints whose files are somewhere."""
    return (each for each in trial["checkpoints"] if each["kept"] or each["state"] in ("saved", "unusable"))


def _name(checkpoint: Mapping[str, Any]) -> str:
    return f"{checkpoint['attempt']}.{checkpoint['number']}"


def _size_text(size: float) -> str:
    """Return a number of bytes with its largest unit, such as "1.5 GiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"

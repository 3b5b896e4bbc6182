"""Data from an experiment's own folder, without a server: its configuration, or the folder as a whole."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from nnimgr.cli.selection import convert_folder, converted, entries_of, named, select, unnamed
from nnimgr.cli.terminal import Terminal
from nnimgr.client.errors import ClientError
from nnimgr.client.experiments import RESUMABLE, runs
from nnimgr.home import Home, ServerInfo
from nnimgr.index import Index, IndexEntry, check_experiment_id
from nnimgr.spelling import capital
from nnimgr.store.errors import StoreError
from nnimgr.store.location import database_path
from nnimgr.store.overview import StoredExperiment, is_detached, stored_experiment

__all__ = ["named_or_brought", "show_config", "to_resume"]


def show_config(args: argparse.Namespace, terminal: Terminal) -> int:
    """Show the experiment's configuration with all later changes, without asking a server.

    A terminal gets YAML, and a pipe gets NNI's JSON.
    """
    home = Home.find()
    entry = converted(home, select(home, args.id, port=args.port))
    stored = _read(entry.directory)
    config = {**stored.config, "searchSpace": stored.search_space}
    if terminal.as_json:
        terminal.json(config)
    elif terminal.for_people:
        import yaml

        terminal.out.write(yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
    else:
        terminal.nni_json(config)
    return 0


def named_or_brought(
    home: Home, word: str | None, folder: str | None, *, able: Collection[str] = ()
) -> IndexEntry:
    """Return the experiment that ``word`` names, or the experiment in ``folder``.

    The experiment in ``folder`` is added to the index first. Raise ClientError or HomeError. The command
    works for experiments whose status is in ``able``, and errors suggest these.
    """
    if folder is not None:
        return _bring(home, word, Path(os.path.abspath(os.path.expanduser(folder))))
    if word is None:
        entries = entries_of(home).values()
        raise _unnamed([entry for entry in entries if entry.status in able], able, there_are=bool(entries))
    return converted(home, named(entries_of(home), word, able=able))


def to_resume(home: Home, word: str | None, folder: str | None) -> IndexEntry:
    """Return the experiment that ``word`` names, or the experiment in ``folder``.

    Without both arguments, return the only experiment that has trials without a server: its server has ended
    while the experiment ran, or a user has stopped the experiment with ``--detach``. Raise ClientError or
    HomeError.
    """
    if word is not None or folder is not None:
        return named_or_brought(home, word, folder, able=RESUMABLE)
    entries = entries_of(home).values()
    left = [
        entry
        for entry in entries
        if (runs(entry) and _server_of(home, entry) is None)
        or (entry.status == "STOPPED" and is_detached(entry.directory))
    ]
    if len(left) == 1:
        return converted(home, left[0])
    if left:
        raise unnamed(left, "Several experiments continue without a server.")
    able = [entry for entry in entries if entry.status in RESUMABLE]
    raise _unnamed(able, RESUMABLE, there_are=bool(entries), to_resume=True)


def _unnamed(
    fitting: Collection[IndexEntry], able: Collection[str], *, there_are: bool, to_resume: bool = False
) -> ClientError:
    """Return the error for a command that names no experiment. ``there_are``: other experiments exist."""
    if there_are and not fitting:
        return ClientError(
            f"No experiment is named, and none is {' or '.join(able)}.",
            mend="See all: nnictl experiment list --all",
        )
    return unnamed(
        list(fitting),
        "Which experiment is meant? None is named." if fitting else "There is no experiment yet.",
        to_resume=to_resume,
    )


def _server_of(home: Home, entry: IndexEntry) -> ServerInfo | None:
    """Return the server that has the experiment open. Return None if it has ended."""
    return None if entry.port is None else home.server_running(entry.port)


def _bring(home: Home, experiment_id: str | None, directory: Path) -> IndexEntry:
    from nnimgr.config.model import platform_of

    convert_folder(directory)
    stored = _read(directory)
    held = stored.experiment_id
    if held != directory.name or experiment_id not in (None, held):
        raise ClientError(
            f"{directory} contains experiment {held}: the folder must have this name.",
            mend=f"Rename the folder: mv {directory} {directory.parent / held}",
        )
    try:
        check_experiment_id(held)
    except ValueError as error:
        raise ClientError(str(error)) from error
    known = Index(home).get(held)
    if known is not None:
        return _moved(home, known, directory)
    entry = IndexEntry(
        id=held,
        port=None,
        started_at=stored.created_at,
        ended_at=stored.ended_at,
        status="STOPPED",
        platform=platform_of(stored.config),
        name=str(stored.config.get("experimentName") or ""),
        log_dir=str(directory.parent),
    )
    Index(home).put(entry)
    return entry


def _moved(home: Home, known: IndexEntry, directory: Path) -> IndexEntry:
    """Return the index entry of a known experiment. If its folder has been moved, update the entry first."""
    if known.directory.resolve() == directory.resolve():
        return known
    served = known.status != "STOPPED" and known.port is not None and home.server_running(known.port)
    if served or (known.directory / "db").exists():
        raise ClientError(
            f"There is another experiment {known.id} in {known.directory}.",
            mend=f"Open that experiment: nnictl view {known.id}",
        )
    Index(home).update(known.id, log_dir=str(directory.parent))
    return replace(known, log_dir=str(directory.parent))


def _read(directory: Path) -> StoredExperiment:
    try:
        stored = stored_experiment(directory)
    except FileNotFoundError as error:
        name = database_path(directory).relative_to(directory)
        raise ClientError(
            f"There is no experiment in {directory}: it has no {name}.",
            mend="See the experiments here: nnictl experiment list --all",
        ) from error
    except StoreError as error:
        sentence = str(error)
        raise ClientError(f"{capital(sentence)}.") from error
    if stored is None:
        raise ClientError(
            f"No experiment was created in {directory}.",
            mend="See the experiments here: nnictl experiment list --all",
        )
    return stored

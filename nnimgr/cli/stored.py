"""What an experiment's own folder says of it, without a server: its configuration; folders from elsewhere."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sqlite3
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nnimgr.cli.selection import refuse_nnis_own, select
from nnimgr.cli.terminal import CliError, Terminal
from nnimgr.home import Home
from nnimgr.index import Index, IndexEntry, check_experiment_id

__all__ = ["named_or_brought", "show_config"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """An experiment as its database has it."""

    id: str
    config: dict[str, Any]  # with the search space
    created_at: datetime
    ended_at: datetime | None


def show_config(args: argparse.Namespace, terminal: Terminal) -> int:
    """The configuration with all changes, running or not. Asks no server."""
    entry = select(Home.find(), args.id, port=args.port)
    config = _read(entry.directory).config
    if terminal.as_json:
        terminal.json(config)
    else:
        terminal.nni_json(config)
    return 0


def named_or_brought(home: Home, experiment_id: str | None, folder: str | None) -> IndexEntry:
    """The experiment of this id; with a ``folder`` from elsewhere, that one, which is noted in the index.

    Raises CliError, HomeError.
    """
    if folder is not None:
        return _bring(home, experiment_id, Path(os.path.abspath(os.path.expanduser(folder))))
    if experiment_id is None:
        raise CliError("Please set correct experiment id.")
    entry = Index(home).get(experiment_id)
    if entry is None:
        raise CliError(f"Id {experiment_id} not exist.")
    refuse_nnis_own(entry.directory)
    return entry


def _bring(home: Home, experiment_id: str | None, directory: Path) -> IndexEntry:
    from nnimgr.config.model import platform_of

    stored = _read(directory)
    if stored.id != directory.name or experiment_id not in (None, stored.id):
        raise CliError(f"{directory} holds experiment {stored.id}: its folder and the id must be named so.")
    try:
        check_experiment_id(stored.id)
    except ValueError as error:
        raise CliError(str(error)) from error
    known = Index(home).get(stored.id)
    if known is not None:
        return _moved(home, known, directory)
    entry = IndexEntry(
        id=stored.id,
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
    """The entry of an experiment that the index knows, perhaps from where it was before it was moved."""
    if known.directory.resolve() == directory.resolve():
        return known
    served = known.status != "STOPPED" and known.port is not None and home.server_running(known.port)
    if served or (known.directory / "db").exists():
        raise CliError(f"There is another experiment {known.id} in {known.directory}.")
    Index(home).update(known.id, log_dir=str(directory.parent))
    return replace(known, log_dir=str(directory.parent))


def _read(directory: Path) -> _Stored:
    path = directory / "db" / "nnimgr.sqlite"
    refuse_nnis_own(directory)
    if not path.is_file():
        raise CliError(f"There is no experiment in {directory}: it has no {path.relative_to(directory)}.")
    query = "SELECT experiment_id, config, search_space, created_at, ended_at FROM experiments"
    try:
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            row = database.execute(query).fetchone()
    except sqlite3.Error as error:
        raise CliError(f"The database {path} cannot be read: {error}.") from error
    if row is None:
        raise CliError(f"No experiment was created in {directory}.")
    experiment_id, config, space, created_at, ended_at = row
    return _Stored(
        id=experiment_id,
        config={**json.loads(config), "searchSpace": json.loads(space)},
        created_at=_instant(created_at),
        ended_at=None if ended_at is None else _instant(ended_at),
    )


def _instant(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / 1e6, tz=UTC)

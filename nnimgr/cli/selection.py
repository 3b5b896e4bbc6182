"""Selection of a command's experiment, by NNI's rules for an id that may be left out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from nnimgr.cli.client import Client
from nnimgr.cli.discovery import DEFAULT_PORT, connect
from nnimgr.cli.terminal import CliError, shown_time
from nnimgr.home import Home, HomeError
from nnimgr.index import Index, IndexEntry, nnis_own

__all__ = [
    "LINE",
    "client_of",
    "entries_of",
    "experiment_line",
    "refuse_nnis_own",
    "running_entries",
    "select",
]

LINE = "Id: %s    Name: %s    Status: %s    Port: %s    Platform: %s    StartTime: %s    EndTime: %s"


def entries_of(home: Home) -> dict[str, IndexEntry]:
    """Return the index. Show experiments of a dead manager of NNI itself as stopped."""
    try:
        entries = Index(home).entries()
    except HomeError as error:
        raise CliError(str(error)) from error
    return {key: _refreshed(entry) for key, entry in entries.items()}


def select(home: Home, experiment_id: str | None, *, port: int | None = None) -> IndexEntry:
    """Return the experiment with this id, or else the only one that is not stopped.

    ``port`` limits the choice to the experiments of that port. Raise CliError.
    """
    entries = entries_of(home)
    if experiment_id is not None:
        if experiment_id not in entries:
            raise CliError("Id not correct.")
        entry = entries[experiment_id]
        if port is not None and entry.port not in (None, port):
            raise CliError("Experiment id and port do not match, please check them.")
        return entry
    running = _running(entries, port)
    if len(running) == 1:
        return running[0]
    if not running and port is not None:
        raise CliError(f"There is no experiment running on port {port}.")
    if not running:
        raise CliError("There is no experiment running.", "Please set correct experiment id.")
    lines = [experiment_line(entry) for entry in running]
    raise CliError("There are multiple experiments, please set the experiment id...", plain="\n".join(lines))


def running_entries(home: Home, *, port: int | None = None) -> list[IndexEntry]:
    """Return the experiments (of this port) that are not stopped."""
    return _running(entries_of(home), port)


def _running(entries: Mapping[str, IndexEntry], port: int | None) -> list[IndexEntry]:
    running = [entry for entry in entries.values() if entry.status != "STOPPED"]
    return running if port is None else [entry for entry in running if entry.port == port]


def experiment_line(entry: IndexEntry) -> str:
    return LINE % (
        entry.id,
        _on_one_line(entry.name) or "N/A",
        entry.status,
        "N/A" if entry.port is None or entry.status == "STOPPED" else entry.port,
        entry.platform,
        shown_time(entry.started_at),
        shown_time(entry.ended_at),
    )


def _on_one_line(name: str) -> str:
    """Replace unprintable characters of a name, such as line ends and direction marks."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def client_of(home: Home, entry: IndexEntry, *, port: int | None = None) -> Client:
    """Return a client of the experiment's server, which is started if necessary. Raise CliError."""
    refuse_nnis_own(entry.directory)
    return connect(home, port or entry.port or DEFAULT_PORT)


def refuse_nnis_own(directory: Path) -> None:
    """Raise CliError for the folder of an experiment that NNI itself has run."""
    why = nnis_own(directory)
    if why is not None:
        raise CliError(f"{why[0].upper()}{why[1:]}.")


def _refreshed(entry: IndexEntry) -> IndexEntry:
    import dataclasses

    ours = (entry.directory / "db" / "nnimgr.sqlite").exists()
    if ours or entry.pid is None or entry.status == "STOPPED" or _alive(entry.pid):
        return entry
    return dataclasses.replace(entry, status="STOPPED", port=None)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True

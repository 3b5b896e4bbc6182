"""Reads summaries of experiments without a runner from the databases, for lists of experiments."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nnimgr.config import ConfigError, read_canonical
from nnimgr.core.managing.experiments import ExperimentSummary
from nnimgr.goal import optimize_mode
from nnimgr.store.errors import StoreError
from nnimgr.store.location import database_path
from nnimgr.store.overview import stored_experiment

__all__ = ["StoredSummaries"]


@dataclass(slots=True)
class StoredSummaries:
    """Cache of experiments' summaries that were read from their databases.

    A database is read again when its files have changed. The methods block and are thread-safe.
    """

    _known: dict[Path, tuple[Any, Mapping[str, Any]]] = field(default_factory=dict)

    def fill(self, summary: ExperimentSummary) -> ExperimentSummary:
        """Add the owner to the summary and, if no runner has the experiment, the values from its database."""
        owner = _owner(summary.directory)
        if not summary.stored:
            return replace(summary, owner=owner)
        said = self._look(summary.directory)
        if summary.reason:  # the reason why the experiment has no runner
            said = {**said, "reason": summary.reason}
        return replace(summary, owner=owner, **said)

    def _look(self, directory: Path) -> Mapping[str, Any]:
        path = database_path(directory)
        stamp = [_stamp(file) for file in (path, path.with_name(f"{path.name}-wal"))]
        known = self._known.get(directory)
        if known is None or known[0] != stamp:
            known = self._known[directory] = stamp, _read(directory)
        return known[1]


def _read(directory: Path) -> dict[str, Any]:
    """Return fields of an ExperimentSummary from the database in this folder; none if it is unreadable."""
    try:
        stored = stored_experiment(directory)
        if stored is None:
            return {}
        limits = read_canonical({**stored.config, "searchSpace": {}}).limits()
    except (FileNotFoundError, StoreError, ValueError, ConfigError):
        return {}
    return {
        "drain": stored.drain,
        "reason": stored.reason,
        "counts": stored.counts,
        "best_trial_id": stored.best_trial_id,
        "best_value": stored.best_value,
        "active_s": stored.active_s,
        "max_trial_number": limits.max_trial_number,
        "trial_concurrency": limits.trial_concurrency,
        "optimize_mode": optimize_mode(stored.config),
        "objectives": stored.config.get("objectives") or {},
    }


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _owner(directory: Path) -> str | None:
    """Return the name of the user who owns the folder. For a user without a name, return the user id as
    text.
    """
    try:
        uid = os.stat(directory).st_uid
    except OSError:
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)

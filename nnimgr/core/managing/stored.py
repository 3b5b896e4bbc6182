"""What databases say of experiments that no runner of this server has, for lists of them."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nnimgr.config import ConfigError, read_canonical
from nnimgr.core.managing.experiments import ExperimentSummary
from nnimgr.goal import optimize_mode
from nnimgr.store.writer import database_path

__all__ = ["StoredSummaries"]

_QUERY = "SELECT config, drain, reason, counts, best_trial_id, best_value, active_us FROM experiments"


@dataclass(slots=True)
class StoredSummaries:
    """Remembers what it has read for as long as a database's files stay as they were. Blocks; thread-safe."""

    _known: dict[Path, tuple[Any, Mapping[str, Any]]] = field(default_factory=dict)

    def fill(self, summary: ExperimentSummary) -> ExperimentSummary:
        """The summary with its owner and, if no runner has it, with what its database says."""
        owner = _owner(summary.directory)
        if not summary.stored:
            return replace(summary, owner=owner)
        said = self._look(database_path(summary.directory))
        if summary.reason:  # why it has no runner
            said = {**said, "reason": summary.reason}
        return replace(summary, owner=owner, **said)

    def _look(self, path: Path) -> Mapping[str, Any]:
        stamp = [_stamp(file) for file in (path, path.with_name(f"{path.name}-wal"))]
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            known = self._known[path] = stamp, _read(path)
        return known[1]


def _read(path: Path) -> dict[str, Any]:
    """Fields of an ExperimentSummary; none if there is no database that can be read."""
    if not path.is_file():  # to open a pipe would never end
        return {}
    try:
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
            row = db.execute(_QUERY).fetchone()
        if row is None:
            return {}
        config, drain, reason, counts, best_trial_id, best_value, active_us = row
        config = json.loads(config)
        limits = read_canonical({**config, "searchSpace": {}}).limits()
    except (sqlite3.Error, ValueError, ConfigError):
        return {}
    return {
        "drain": drain,
        "reason": reason,
        "counts": json.loads(counts),
        "best_trial_id": best_trial_id,
        "best_value": best_value,
        "active_s": active_us / 1e6,
        "max_trial_number": limits.max_trial_number,
        "trial_concurrency": limits.trial_concurrency,
        "optimize_mode": optimize_mode(config),
        "objectives": config.get("objectives") or {},
    }


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _owner(directory: Path) -> str | None:
    """The name of the user to whom the folder belongs; his number if he has none."""
    try:
        uid = os.stat(directory).st_uid
    except OSError:
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)

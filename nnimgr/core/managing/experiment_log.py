"""Writes log files in an experiment's folder, under the names by which NNI's users and scripts know them."""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime
from pathlib import Path

from nnimgr.core.managing.index_notes import nni_status
from nnimgr.rules.facts import ExperimentStatus
from nnimgr.rules.state import ExperimentState
from training_services.private import open_private

__all__ = ["LOG_NAMES", "note_status"]

LOG_NAMES = ("nnimanager.log", "experiment.log", "dispatcher.log", "nnictl_stdout.log", "nnictl_stderr.log")
_LAST_LINES = {
    ExperimentStatus.DONE: "Experiment done.",
    ExperimentStatus.STOPPED: "Experiment stopped.",
    ExperimentStatus.ERROR: "Experiment failed.",
}


def note_status(directory: Path, state: ExperimentState, *, server_log: Path) -> None:
    """Append the experiment's new status to its log file ``nnimanager.log``.

    Also create the links ``experiment.log``, ``nnictl_stdout.log`` (the server's log) and
    ``nnictl_stderr.log`` (the tuner's log). Ignore errors of the files, for example a full disk: the database
    has the status too.
    """
    folder = directory / "log"
    now = (state.last_at or datetime.now(UTC)).astimezone()
    stamp = f"[{now:%Y-%m-%d %H:%M:%S}] INFO (NNIManager)"
    reason = f" ({state.reason})" if state.reason else ""
    lines = [f"{stamp} Change NNIManager status to: {nni_status(state.status, state.drain)}{reason}"]
    if state.status in _LAST_LINES:
        lines.append(f"{stamp} {_LAST_LINES[state.status]}")
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True)
        log = open_private(folder / LOG_NAMES[0], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)
        try:
            os.write(log, "".join(f"{line}\n" for line in lines).encode())
        finally:
            os.close(log)
        _link(folder / "experiment.log", LOG_NAMES[0])
        _link(folder / "nnictl_stderr.log", "dispatcher.log")
        _link(folder / "nnictl_stdout.log", str(server_log))


def _link(place: Path, target: str) -> None:
    """Create a symbolic link at ``place``. Replace a link to another target, but keep a file, which NNI
    may have written.
    """
    if place.is_symlink() and os.readlink(place) != target:
        place.unlink()
    if not os.path.lexists(place):
        place.symlink_to(target)

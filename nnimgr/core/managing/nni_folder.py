"""Converts the folder of an experiment that NNI has run, so that nnimgr can show and resume the experiment.

The conversion happens once, when the experiment is needed for the first time. NNI's own files stay unchanged.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from nnimgr.core.managing.folder import flush_folder
from nnimgr.core.managing.nni_history import NniHistory
from nnimgr.core.running.requests import RequestRefused
from nnimgr.index import Index, IndexEntry
from nnimgr.rules import facts as f
from nnimgr.store.errors import StoreError
from nnimgr.store.location import database_path, is_nnis_own
from nnimgr.store.nni_database import NniDatabase
from nnimgr.store.writer import ExperimentWriter
from training_services.keepers.host import attempt_folder

__all__ = ["adopt", "convert_nnis"]

_LOG_NAMES = {"trial.stdout": "stdout", "trial.stderr": "stderr", "trial.log": "trial.log"}


def adopt(index: Index, entry: IndexEntry) -> IndexEntry:
    """Convert the experiment of an index entry if NNI has run it. Return the entry; a converted experiment is
    stopped.

    Raise HomeError, and the errors of ``convert_nnis``.
    """
    if not convert_nnis(entry.directory, pid=entry.pid):
        return entry
    index.update(entry.id, status=f.ExperimentStatus.STOPPED.value, port=None)
    return replace(entry, status=f.ExperimentStatus.STOPPED.value, port=None)


def convert_nnis(directory: Path, *, pid: int | None = None) -> bool:
    """Convert the experiment in this folder if NNI has run it; return whether it was converted now.

    ``pid``: process that ran the experiment, according to the index file. Raise OSError, or RequestRefused
    with a sentence if the experiment cannot be converted. With tens of thousands of trials, this blocks for
    seconds.
    """
    if not is_nnis_own(directory):
        return False
    if pid is not None and _is_nnis_manager(pid, directory.name):
        raise RequestRefused(
            f"NNI itself runs experiment {directory.name} (process {pid}): stop it with NNI's nnictl first"
        )
    with _locked(directory):
        if not is_nnis_own(directory):
            return False
        try:
            with NniDatabase.opened(directory) as database, _without_collections():
                asyncio.run(_convert(directory, database))
        except (StoreError, ValueError, TypeError, KeyError) as error:
            sentence = str(error) if isinstance(error, StoreError) else f"its database is damaged: {error!r}"
            raise RequestRefused(
                f"experiment {directory.name}, which NNI has run, cannot be converted: {sentence}"
            ) from error
    return True


async def _convert(directory: Path, database: NniDatabase) -> None:
    """Write nnimgr's database in a temporary folder, and move the complete database to its place."""
    profile = database.profile()
    if profile is None:
        raise StoreError("NNI has not created the experiment")
    work = directory / "db" / "conversion"
    shutil.rmtree(work, ignore_errors=True)  # the rest of a conversion that was killed
    writer = ExperimentWriter(work)
    try:
        history = NniHistory(writer=writer, state=await writer.open(), profile=profile)
        await history.write(directory, database)
        await writer.close(history.state)
        _link_logs(directory, history.trial_ids)
        database_path(work).replace(database_path(directory))
        flush_folder(directory / "db")
    finally:
        await writer.close()
        shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Suspend the garbage collector inside the ``with`` block, because it would visit the many new objects
    repeatedly.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _is_nnis_manager(pid: int, experiment_id: str) -> bool:
    """Return whether the process is NNI's manager of this experiment. NNI passes the experiment's id as an
    argument.
    """
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return experiment_id.encode() in arguments


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold the lock of nnimgr's database, so that only one process converts the folder."""
    lock = database_path(directory).with_suffix(".lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _link_logs(directory: Path, trial_ids: Sequence[str]) -> None:
    """Link the logs that NNI 3 has written on this machine under the names that nnimgr expects."""
    theirs = directory / "environments" / "local-env" / "trials"
    if not theirs.is_dir():
        return
    for trial_id in trial_ids:
        ours = directory.joinpath(*attempt_folder(trial_id, 1))
        with contextlib.suppress(OSError):  # for example, the trial has written no log
            ours.mkdir(parents=True, exist_ok=True)
        for name, own in _LOG_NAMES.items():
            with contextlib.suppress(OSError):
                os.link(theirs / trial_id / name, ours / own, follow_symlinks=False)

"""Stopped experiments with a database, which shows how they have ended."""

from __future__ import annotations

from pathlib import Path

from nnimgr.index import Index
from nnimgr.rules import facts as f
from nnimgr.store.writer import ExperimentWriter
from tests.cli.fake import FakeServer
from tests.store.test_store import StoredLife

__all__ = ["add_ended"]


async def add_ended(server: FakeServer, experiment_id: str, log_dir: Path, how: str) -> None:
    """Add a stopped experiment to the server and to the index, with its folder in ``log_dir``.

    ``how``: "done", "failures", "error", "user", or "detached": its trial continues.
    """
    server.add(experiment_id, status="STOPPED")
    Index(server.home).update(experiment_id, log_dir=log_dir)
    directory = log_dir / experiment_id
    directory.mkdir()
    writer = ExperimentWriter(directory)
    await writer.open()
    await _ended(how).store(writer)
    await writer.close()


def _ended(how: str) -> StoredLife:
    """Return an experiment that has ended in one of these ways."""
    life = StoredLife(trial_concurrency=1, max_trial_number=1 if how == "done" else 2, fail_fast=1)
    life.start(0)
    if how == "done":
        life.end(0)
    elif how == "failures":
        life.end(0, 1)
    elif how == "error":
        crash = f.AlgorithmFailed(role=f.Role.TUNER, call="process", sentence="boom " * 30, fatal=True)
        life.take(*[crash] * 4)
    life.take(f.ExperimentStopRequested(detach=how == "detached"))
    if how in ("user", "error"):
        life.end(0, None, reason=f.EndReason.STOPPED, signal=15)
    return life

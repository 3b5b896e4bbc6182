"""Stopped experiments with a database, which shows how they have ended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nnimgr.home import Home
from nnimgr.index import Index
from nnimgr.rules import facts as f
from nnimgr.store.writer import ExperimentWriter
from tests.cli.fake import FakeServer
from tests.store.test_store import StoredLife

__all__ = ["add_ended", "store_ended"]


async def add_ended(server: FakeServer, experiment_id: str, log_dir: Path, how: str) -> None:
    """Add a stopped experiment to the server and to the index, with its folder in ``log_dir``.

    ``how``: "done", "failures", "error", "user", "again": a user has continued it after its end and stopped
    it, or "detached": its trial continues.
    """
    server.add(experiment_id, status="STOPPED")
    await store_ended(server.home, experiment_id, log_dir, how)


async def store_ended(home: Home, experiment_id: str, log_dir: Path, how: str) -> None:
    """Write the folder of an experiment that is in the index, as that of one which has ended like this."""
    Index(home).update(experiment_id, log_dir=log_dir)
    directory = log_dir / experiment_id
    directory.mkdir()
    writer = ExperimentWriter(directory)
    await writer.open()
    await _ended(how).store(writer)
    await writer.close()


def _ended(how: str) -> StoredLife:
    """Return an experiment that has ended in one of these ways."""
    most = 1 if how in ("done", "again") else 2
    life = StoredLife(trial_concurrency=1, max_trial_number=most, fail_fast=1)
    life.start(0)
    if how == "done":
        life.end(0)
    elif how == "again":
        life.end(0)
        limits = replace(life.state.limits, max_trial_number=2)
        life.take(f.ConfigChanged(changes={"maxTrialNumber": 2}, limits=limits))
        life.start(1)
    elif how == "failures":
        life.end(0, 1)
    elif how == "error":
        crash = f.AlgorithmFailed(role=f.Role.TUNER, call="process", sentence="boom " * 30, fatal=True)
        life.take(*[crash] * 4)
    life.take(f.ExperimentStopRequested(detach=how == "detached"))
    if how in ("user", "error", "again"):
        life.end(int(how == "again"), None, reason=f.EndReason.STOPPED, signal=15)
    return life

"""The time limit of an allocation, over restarts of the server."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from pathlib import Path

import pytest

from training_services.slurm.time_limit import TimeLimit

LIMIT = timedelta(minutes=20)


def limit(folder: Path) -> TimeLimit:
    return TimeLimit(folder, lambda: LIMIT)


def minutes(found: TimeLimit) -> float:
    return round(found.left / timedelta(minutes=1), 1)


async def test_it_goes_on_after_a_restart_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(tmp_path).begin()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 480)
    assert minutes(limit(tmp_path)) == 12
    limit(tmp_path).correct(asyncio.get_running_loop().time(), timedelta(minutes=5))
    assert minutes(limit(tmp_path)) == 5
    monkeypatch.setattr(time, "time", lambda: now - 3600)  # a clock that was set back
    assert minutes(limit(tmp_path)) == 20


async def test_without_a_note_it_counts_from_now(tmp_path: Path) -> None:
    assert minutes(limit(tmp_path / "missing")) == 20
    limit(tmp_path / "missing").begin()  # cannot be noted
    (tmp_path / "ends").write_text("damaged")
    assert minutes(limit(tmp_path)) == 20

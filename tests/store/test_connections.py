"""Connections of readers to an experiment's database."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from nnimgr.store import connections
from nnimgr.store.errors import StoreError
from nnimgr.store.location import database_path
from nnimgr.store.reader import ExperimentReader
from nnimgr.store.writer import ExperimentWriter
from tests.store.test_store import StoredLife


async def test_too_many_readers_at_a_time_get_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "POOL_S", 0.0)
    writer = ExperimentWriter(tmp_path)
    await writer.open()
    await StoredLife(trial_concurrency=1).store(writer)
    await writer.close()
    with contextlib.closing(ExperimentReader(tmp_path)) as reader:
        with contextlib.ExitStack() as others:
            for _ in range(connections.CONNECTIONS):
                others.enter_context(reader._connect())
            with pytest.raises(StoreError) as refusal:
                reader.experiment()
        assert str(refusal.value) == (
            f"10 requests have been reading the database {database_path(tmp_path)} for 0 s, and no other "
            "request can read it meanwhile; try again"
        )
        assert reader.experiment().experiment_id

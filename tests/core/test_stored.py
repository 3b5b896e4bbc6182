"""Lists show values from the databases of experiments that have no runner."""

from __future__ import annotations

import os
from pathlib import Path

from nnimgr.core.managing.experiments import ExperimentSummary, summary_of
from nnimgr.core.managing.stored import StoredSummaries
from nnimgr.index import IndexEntry
from nnimgr.store.location import database_path
from tests.rules.driver import T0, Life


def test_a_pipe_in_place_of_a_database_keeps_no_list_waiting(tmp_path: Path) -> None:
    path = database_path(tmp_path)
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    summary = ExperimentSummary(
        id="exp",
        name="",
        status="DONE",
        drain=None,
        reason="done",
        platform="local",
        port=None,
        served=False,
        created_at=None,
        ended_at=None,
        counts={},
        best_trial_id=None,
        best_value=None,
        active_s=0.0,
        directory=tmp_path,
        stored=True,
    )
    filled = StoredSummaries().fill(summary)
    assert (filled.counts, filled.reason, filled.owner is not None) == ({}, "done", True)


def test_a_summary_says_what_the_best_is_of(tmp_path: Path) -> None:
    entry = IndexEntry(
        id="exp",
        port=8080,
        started_at=T0,
        ended_at=None,
        status="RUNNING",
        platform="local",
        name="",
        log_dir=str(tmp_path),
    )
    state = Life().state
    assert not summary_of(entry, state, reason="", served=True, active_s=0).objectives
    state.config["objectives"] = {"latency": "minimize", "accuracy": "maximize"}
    summary = summary_of(entry, state, reason="", served=True, active_s=0)
    assert list(summary.objectives.items()) == [("latency", "minimize"), ("accuracy", "maximize")]

"""Experiments as sinks know them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from nnimgr.sink import Experiment

__all__ = ["experiment"]


def experiment(experiment_id: str, *, later: timedelta = timedelta(0)) -> Experiment:
    """Return an experiment without results. ``later``: the time of its creation after that of the others."""
    return Experiment(
        id=experiment_id,
        created_at=datetime(2026, 1, 1, tzinfo=UTC) + later,
        name="",
        directory=Path("/nowhere"),
        search_space={},
        curve=lambda trial_id: [],
    )

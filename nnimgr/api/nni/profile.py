"""Profile of an experiment in NNI's format."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from nnimgr.store.reader import ExperimentRow

__all__ = ["millis", "profile"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

# Fields of NNI's experiment configuration, in NNI's order.
_PARAMS = (
    "experimentName",
    "experimentType",
    "searchSpaceFile",
    "searchSpace",
    "trialCommand",
    "trialCodeDirectory",
    "trialConcurrency",
    "trialGpuNumber",
    "maxExperimentDuration",
    "maxTrialNumber",
    "maxTrialDuration",
    "nniManagerIp",
    "useAnnotation",
    "debug",
    "logLevel",
    "experimentWorkingDirectory",
    "tunerGpuIndices",
    "tuner",
    "assessor",
    "trainingService",
    "sharedStorage",
)


def millis(instant: datetime) -> int:
    """Convert a time with a zone to milliseconds since 1970."""
    return (instant - _EPOCH) // _MILLISECOND


def profile(row: ExperimentRow, *, directory: Path, active: timedelta | None) -> dict[str, Any]:
    """Return the experiment's profile in NNI's format.

    ``active``: time that the experiment has been running, from its runner. Without a runner it is None, and
    the time in ``row`` is used.
    """
    seconds = row.active_us // 1_000_000 if active is None else int(active.total_seconds())
    shown: dict[str, Any] = {
        "params": _params({**row.config, "searchSpace": row.search_space}),
        "id": row.experiment_id,
        "execDuration": seconds,
        "logDir": str(directory),
        "startTime": millis(row.created_at),
    }
    if row.ended_at is not None:
        shown["endTime"] = millis(row.ended_at)
    return shown | {"nextSequenceId": row.next_sequence, "revision": row.last_number}


def _params(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: config[name] for name in _PARAMS if name in config}

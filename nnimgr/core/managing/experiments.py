"""Requests to create experiments, summaries of experiments, and errors of requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from nnimgr.core.managing.folder import Surroundings
from nnimgr.core.running.requests import RequestRefused
from nnimgr.goal import optimize_mode
from nnimgr.index import IndexEntry
from nnimgr.rules.state import ExperimentState

__all__ = ["ExperimentConflict", "ExperimentSummary", "NewExperiment", "UnknownExperiment", "summary_of"]


class UnknownExperiment(RequestRefused):
    """Error: neither this server nor the index file has an experiment with this id."""

    def __init__(self, experiment_id: str) -> None:
        super().__init__(f"there is no experiment {experiment_id}")


class ExperimentConflict(RequestRefused):
    """Error: another experiment has this id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewExperiment:
    """Request of ``nnictl create`` to create an experiment.

    ``environ`` may hold secrets, and is stored only in a file of mode 0600.
    """

    config: Mapping[str, Any]  # configuration in canonical form
    search_space: Mapping[str, Any]
    id: str | None = None
    environ: Mapping[str, str] | None = field(default=None, repr=False)
    cwd: str | None = None
    python: str | None = None

    def surroundings(self) -> Surroundings:
        return Surroundings.of_creator(environ=self.environ, cwd=self.cwd, python=self.python)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentSummary:
    """Summary of an experiment in the index file. ``served``: this server runs or shows the experiment.

    ``stored``: this server has no runner for the experiment, so values from the experiment's database are
    still missing.
    """

    id: str
    name: str
    status: str
    drain: str | None
    reason: str
    platform: str
    port: int | None
    served: bool
    created_at: datetime | None
    ended_at: datetime | None
    counts: Mapping[str, int]
    best_trial_id: str | None
    best_value: float | None
    active_s: float
    directory: Path
    owner: str | None = None  # the user who owns the folder
    tags: tuple[str, ...] = ()
    archived: bool = False
    max_trial_number: int | None = None
    trial_concurrency: int | None = None
    optimize_mode: str | None = None
    objectives: Mapping[str, str] = field(default_factory=dict)  # modes by name, the main objective first
    stored: bool = False


def summary_of(
    entry: IndexEntry, state: ExperimentState | None, *, reason: str, served: bool, active_s: float
) -> ExperimentSummary:
    """Build the summary of an experiment from its index entry and its state.

    ``state``: the state in the experiment's runner; None without a runner. ``reason``: why the experiment has
    no runner.
    """
    common: dict[str, Any] = {
        "id": entry.id,
        "name": entry.name,
        "platform": entry.platform,
        "port": entry.port,
        "served": served,
        "active_s": active_s,
        "directory": entry.directory,
        "tags": entry.tag,
        "archived": entry.archived,
    }
    if state is None:
        return ExperimentSummary(
            **common,
            status=entry.status,
            drain=None,
            reason=reason,
            created_at=entry.started_at,
            ended_at=entry.ended_at,
            counts={},
            best_trial_id=None,
            best_value=None,
            stored=True,
        )
    best = state.best
    return ExperimentSummary(
        **common,
        status=state.status,
        drain=state.drain,
        reason=state.reason,
        created_at=state.created_at,
        ended_at=state.ended_at,
        counts={status.value: count for status, count in state.counts.items()},
        best_trial_id=best.trial_id if best else None,
        best_value=best.value if best else None,
        max_trial_number=state.limits.max_trial_number,
        trial_concurrency=state.limits.trial_concurrency,
        optimize_mode=optimize_mode(state.config),
        objectives=state.objectives,
    )

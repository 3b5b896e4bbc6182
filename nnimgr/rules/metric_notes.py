"""Notes on trials about metrics that are recorded but not used as the trial's author may expect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nnimgr.objectives import DEFAULT
from nnimgr.rules import facts as f
from nnimgr.rules.phrases import shortened
from nnimgr.rules.state import ExperimentState, TrialState

__all__ = ["note_on_final", "note_on_intermediate"]

_ANOTHER = "the trial reported another final result"


def note_on_final(trial: TrialState, metric: f.MetricReported, *, first: str) -> None:
    """Note once that the trial has reported another final result after its first one, which counts.

    ``first``: JSON text of the first final result. A note that the trial has already is kept.
    """
    if trial.note is not None and _ANOTHER in trial.note:
        return
    unused, used = shortened(metric.text), shortened(first)
    note = f"{_ANOTHER}, {unused}, which is not used: the first one, {used}, counts"
    trial.note = note if trial.note is None else f"{trial.note}; {note}"


def note_on_intermediate(state: ExperimentState, trial: TrialState, metric: f.MetricReported) -> None:
    """Note that an intermediate result came more than once, or has no number."""
    if trial.note is not None:
        return
    if metric.sequence < trial.intermediates and not state.limits.multi_phase:
        trial.note = (
            f"intermediate result number {metric.sequence + 1} came more than once: several programs or "
            "processes of this trial report results"
        )
    elif metric.value is None and (fault := _fault_of(json.loads(metric.text))) is not None:
        trial.note = (
            f"intermediate result number {metric.sequence + 1} is {shortened(metric.text)}, {fault}: charts "
            "and built-in algorithms cannot use it; pass a number to nni.report_intermediate_result()"
        )


def _fault_of(value: Any) -> str | None:
    """Return why the value of a metric has no number, or None for a mapping of which charts show numbers."""
    if not isinstance(value, Mapping):
        return "which is not a finite number"
    if DEFAULT in value:
        return f'whose "{DEFAULT}" is not a finite number'
    numbers = any(isinstance(item, int | float) for item in value.values())
    return None if numbers else "which has no number"

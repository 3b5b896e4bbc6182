"""Trials that have the result of an earlier one with the same parameters (``duplicates: reuse``). Pure."""

from __future__ import annotations

from collections.abc import Iterator

from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState, TrialState, job_id_of

__all__ = ["reuse_result"]


def reuse_result(state: ExperimentState, trial: TrialState, reuse: f.Reuse) -> Iterator[f.Fact]:
    """The end of such a trial: a final metric of an attempt that never was, so that it is found as others."""
    yield f.MetricReported(
        job_id_of(state.id, trial.id, trial.attempt),
        position=0,
        type="FINAL",
        sequence=0,
        parameter_id=str(trial.parameter_id),
        value=reuse.value,
        text=reuse.text,
    )
    yield f.TrialEnded(
        trial_id=trial.id,
        status=f.TrialStatus.SUCCEEDED,
        reason=f"was not run: it has the result of trial {reuse.trial_id}, whose parameters are the same",
    )
